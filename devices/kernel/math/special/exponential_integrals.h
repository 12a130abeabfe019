// Integrals of exponentials and waves: E1, Ei, the sine and cosine integrals, Dawson's and Fresnel's.
//
// Small arguments by their power series, large ones by the continued fraction of E1 (DLMF 6.9.1) at real or imaginary
// arguments, or an asymptotic series. Series that lose digits are only used while T still has more than the
// result needs: f64 is computed in long double.
#pragma once
#include "rill/devices/kernel/math/complex_number.h"
#include "rill/devices/kernel/math/dual.h"
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

using scalar_math::Complex, scalar_math::size;

// e^z E1(z) = 1/(z + 1 - 1/(z + 3 - 4/(z + 5 - ...))), by Lentz's method. Z: real or complex.
template <class T, class Z>
Z scaled_e1(Z z) {
  Z b = z + T(1), c = T(1) / std::numeric_limits<T>::min(), d = T(1) / b, h = d;
  for (int i = 1; i < 1000; ++i) {
    const T a = -T(i) * T(i);
    b += T(2);
    d = T(1) / (a * d + b);
    c = b + a / c;
    const Z step = c * d;
    h *= step;
    if (size(step - T(1)) < std::numeric_limits<T>::epsilon()) break;
  }
  return h;
}

// The sum of x^k / (k k!) over k >= 1.
template <class T>
T exponential_series(T x) {
  T term = 1, sum = 0;
  for (int k = 1; k < 500; ++k) {
    term *= x / T(k);
    sum += term / T(k);
    if (std::abs(term) < std::abs(sum) * std::numeric_limits<T>::epsilon()) break;
  }
  return sum;
}

struct E1 {
  template <class T>
  static T call(T x) {
    if (!(x >= 0)) return nan<T>;
    if (x == 0) return infinity<T>;
    if (std::isinf(x)) return 0;
    return x <= 1 ? -T(euler) - std::log(x) - exponential_series(-x) : std::exp(-x) * scaled_e1<T>(x);
  }
};
struct Ei {
  template <class T>
  static T call(T x) {
    if (std::isnan(x)) return x;
    if (x == 0) return -infinity<T>;
    if (x < 0) return -E1::call(-x);
    if (std::isinf(x)) return x;
    if (x < 50) return T(euler) + std::log(x) + exponential_series(x);
    T term = 1, sum = 1;
    for (int k = 1; k < 100 && T(k) < x; ++k) {
      term *= T(k) / x;
      sum += term;
      if (term < std::numeric_limits<T>::epsilon()) break;
    }
    return std::exp(x) / x * sum;
  }
};

// The sums of (-1)^k x^n / (n n!) over odd and over positive even n: Si(x), and Ci(x) without gamma + log(x).
template <class T>
T wave_series(T x, int first) {
  T term = first == 1 ? x : -x * x / 2, sum = 0;
  for (int n = first; n < 200; n += 2) {
    sum += term / T(n);
    term *= -x * x / (T(n + 1) * T(n + 2));
    if (std::abs(term) < std::abs(sum) * std::numeric_limits<T>::epsilon() / 16) break;
  }
  return sum;
}
struct SineIntegral {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isnan(x)) return x;
    if (a <= 4) return wave_series(x, 1);
    if (std::isinf(x)) return std::copysign(T(pi) / 2, x);
    const Complex<T> z(0, a), e = exp(-z) * scaled_e1<T>(z);  // -Ci(a) + i (Si(a) - pi / 2)
    return std::copysign(T(pi) / 2 + e.im, x);
  }
};
struct CosineIntegral {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isnan(x)) return x;
    if (a == 0) return -infinity<T>;
    if (a <= 4) return T(euler) + std::log(a) + wave_series(a, 2);
    if (std::isinf(x)) return 0;
    const Complex<T> z(0, a), e = exp(-z) * scaled_e1<T>(z);
    return -e.re;
  }
};

// Dawson's integral by Rybicki (1989): the sum over odd k of e^(-u^2) / k, over sqrt(pi), where u = x - k h, up to an
// error of e^(-(pi / 2 h)^2). Its derivative of order n is (-1)^n times the sum of H_n(u) e^(-u^2) / k, whose terms cancel
// far out. Less e^(-u^2) times a polynomial of degree below n, to which H_n is orthogonal, 1 / (x - u) becomes
// (u / x)^n / (x - u), and what is left cancels little.
template <class T>
T dawson_sum(int n, T x) {
  const T h = T(0.2L), middle = 2 * std::round(x / (2 * h)), beyond = x - middle * h;
  T sum = 0;
  for (int k = -39; k <= 39; k += 2) {
    const T u = beyond - T(k) * h;
    T before = 0, hermite = 1, power = 1;
    for (int j = 0; j < n; ++j) {
      const T next = 2 * u * hermite - 2 * T(j) * before;
      before = hermite, hermite = next;
      power *= -u / x;
    }
    sum += hermite * power * std::exp(-u * u) / (middle + T(k));
  }
  return sum / std::sqrt(T(pi));
}
struct Dawson {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isinf(x)) return std::copysign(T(0), x);
    if (a < T(0.2L)) {
      T term = x, sum = x;
      for (int k = 1; k < 30; ++k) sum += term *= -2 * x * x / T(2 * k + 1);
      return sum;
    }
    if (a > 1e4) return (1 + (1 + 3 / (2 * x * x)) / (2 * x * x)) / (2 * x);
    return std::copysign(dawson_sum(0, a), x);
  }
};

// The integrals of sin and cos of pi t^2 / 2: by power series, and for large x by the error function of a complex
// argument and its continued fraction, C + i S = (1 + i)/2 erf(z), z = sqrt(pi)/2 (1 - i) x.
template <class T>
Complex<T> fresnel_integrals(T x) {
  const T a = std::abs(x);
  if (std::isinf(x)) return {std::copysign(T(0.5L), x), std::copysign(T(0.5L), x)};
  if (a <= T(1.5L)) {
    const T t = T(pi) / 2 * x * x;
    T term = x, sums[2] = {0, 0};
    for (int k = 0; k < 80; ++k) {
      sums[k % 2] += (k % 4 < 2 ? term : -term) / T(2 * k + 1);
      term *= t / T(k + 1);
    }
    return {sums[0], sums[1]};
  }
  const T t = T(pi) * a * a;
  Complex<T> b(1, -t), c(1 / std::numeric_limits<T>::min()), d = T(1) / b, h = d;
  for (int k = 1; k < 2000; ++k) {
    const T n = T(-(2 * k - 1)) * T(2 * k);
    b += T(4);
    d = T(1) / (n * d + b);
    c = b + n / c;
    const Complex<T> step = c * d;
    h *= step;
    if (size(step - T(1)) < std::numeric_limits<T>::epsilon()) break;
  }
  const T angle = T(pi) / 2 * std::fmod(a * a, T(4));
  const Complex<T> wave(std::cos(angle), std::sin(angle));
  const Complex<T> y = Complex<T>(T(0.5L), T(0.5L)) * (T(1) - wave * Complex<T>(a, -a) * h);
  return {std::copysign(y.re, x), std::copysign(y.im, x)};
}
struct FresnelSine {
  template <class T>
  static T call(T x) {
    return std::isnan(x) ? x : fresnel_integrals(x).im;
  }
};
struct FresnelCosine {
  template <class T>
  static T call(T x) {
    return std::isnan(x) ? x : fresnel_integrals(x).re;
  }
};

}  // namespace rill::special
