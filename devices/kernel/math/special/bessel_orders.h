// Bessel functions of any order, the spherical ones, and Airy functions.
//
// J by its power series, by downward recurrence, normalised by Neumann's series (DLMF 10.23.15), and for large x by
// Hankel's expansion (DLMF 10.17.3); I by its power series; K by its integral (DLMF 10.32.9). Airy functions by power
// series about 0 and, for negative x, about one point after another (their equation is y'' = x y); for positive x by K
// of the orders 1/3 and 2/3, and for large |x| by their expansions (DLMF 9.7).
#pragma once
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

// (x/2)^v / Gamma(v + 1), for v >= 0.
template <class T>
T first_term(T v, T x) {
  if (v == 0) return 1;
  if (v < 100) return std::pow(x / 2, v) / std::tgamma(v + 1);
  return std::exp(v * std::log(x / 2) - std::lgamma(v + 1));
}
// (x/2)^v times the sum of (sign x^2/4)^k / (k! Gamma(v + k + 1)).
template <class T>
T power_series(T v, T x, int sign) {
  const T q = T(sign) * x * x / 4;
  T term = first_term(v, x), sum = term;
  for (int k = 1; k < 20000 && term != 0; ++k) {
    term *= q / (T(k) * (v + T(k)));
    sum += term;
    if (std::abs(term) < std::abs(sum) * std::numeric_limits<T>::epsilon() / 16 && T(k) * (v + T(k)) > std::abs(q))
      break;
  }
  return sum;
}

// --- K ---------------------------------------------------------------------------------------------------------------

// e^x K_v(x): the integral of e^(-x (cosh t - 1)) cosh(v t) over t >= 0, by the trapezoidal rule, as in bessel.cpp;
// here the integrand is a Gaussian of width (x^2 + v^2)^(-1/4) about asinh(v / x).
template <class T>
T scaled_k_of(T v, T x) {
  const T step = std::min(T(0.18L), T(0.55L) / std::sqrt(std::hypot(x, v))), peak = std::asinh(v / x);
  T sum = T(0.5L), largest = 1;
  for (int k = 1; k < 20000; ++k) {
    const T t = T(k) * step, s = std::sinh(t / 2);
    const T falls = -2 * x * s * s, term = (std::exp(falls + v * t) + std::exp(falls - v * t)) / 2;
    sum += term;
    if (std::isinf(term)) return term;
    largest = std::max(largest, term);
    if (t > peak && term < largest * std::numeric_limits<T>::epsilon() / 64) break;
  }
  return step * sum;
}

struct Kv {
  template <class T>
  static T call(T v, T x) {
    if (std::isnan(v) || !(x >= 0)) return nan<T>;
    if (x == 0) return infinity<T>;
    if (std::isinf(x)) return 0;
    if (std::isinf(v)) return infinity<T>;
    // In long double, which can represent both factors if their product is a number.
    const long double wide = x, order = std::abs(v);
    // The logarithm of the result up to a factor of at most 1e154 (DLMF 10.41.4): no sum if it is 0 or infinite.
    const long double exponent = order * std::asinh(order / wide) - std::hypot(order, wide);
    if (std::abs(exponent) > 2000) return exponent > 0 ? infinity<T> : 0;
    return T(std::exp(-wide) * scaled_k_of<long double>(order, wide));
  }
};

// --- I ---------------------------------------------------------------------------------------------------------------

struct Iv {
  template <class T>
  static T call(T v, T x) {
    if (std::isnan(v) || std::isnan(x) || (x < 0 && !is_whole(v))) return nan<T>;
    const T a = std::abs(x), order = std::abs(v), sign = x < 0 && is_odd(v) ? -1 : 1;
    if (a == 0) {
      if (v == 0) return 1;
      if (v > 0 || is_whole(v)) return 0;
      return is_odd(std::floor(v)) ? infinity<T> : -infinity<T>;
    }
    if (a > 12000) return sign * infinity<T>;
    const T y = power_series(order, a, 1);
    if (v >= 0 || is_whole(v)) return sign * y;
    return y + 2 / T(pi) * std::sin(order * T(pi)) * Kv::call(order, a);
  }
};

// --- J ---------------------------------------------------------------------------------------------------------------

// For x well beyond v^2: sqrt(2 / pi x) (P cos(w) - Q sin(w)), w = x - (v / 2 + 1/4) pi.
template <class T>
T hankel_j(T v, T x) {
  T p = 0, q = 0, term = 1;
  for (int k = 0; k < 200; ++k) {
    const T before = std::abs(term);
    (k % 2 == 0 ? p : q) += k % 4 < 2 ? term : -term;
    const T odd = T(2 * k + 1);
    term *= (4 * v * v - odd * odd) / (T(k + 1) * 8 * x);
    if (std::abs(term) < std::numeric_limits<T>::epsilon() / 16 || std::abs(term) > before) break;
  }
  const T shift = (v / 2 + T(0.25L)) * T(pi), c = std::cos(shift), s = std::sin(shift), cx = std::cos(x),
          sx = std::sin(x);
  const T cos_w = cx * c + sx * s, sin_w = sx * c - cx * s;
  return std::sqrt(2 / (T(pi) * x)) * (p * cos_w - q * sin_w);
}

// J_(v + n), n = 2 m, ..., 1, 0, up to a factor, from 2 (v + n) / x J_(v + n) = J_(v + n - 1) + J_(v + n + 1); and the
// factor from (x/2)^v = the sum over k of (v + 2 k) Gamma(v + k) / k! J_(v + 2 k). For 0 <= v < 1.
template <class T>
T recurrent_j(T fraction, long long whole, T x) {
  long long m = (long long)(x) / 2 + whole / 2 + 20 + (long long)(6 * std::cbrt(x));
  const T small = std::numeric_limits<T>::min() * 1e10L, large = 1 / small;
  T above = 0, here = small, sum = 0, wanted = 0;
  // (v + 2 k) Gamma(v + k) / (k! Gamma(v + 1)), which is 1 for k = 0
  T weight = 1;
  for (long long k = 1; k <= m; ++k) weight *= k == 1 ? T(1) : (fraction + T(k) - 1) / T(k);
  for (long long n = 2 * m; n >= 0; --n) {
    if (n == whole) wanted = here;
    if (n % 2 == 0) {
      const long long k = n / 2;
      sum += k == 0 ? here : (fraction + 2 * T(k)) * weight * here;
      if (k > 1) weight *= T(k) / (fraction + T(k) - 1);
    }
    const T below = 2 * (fraction + T(n)) / x * here - above;
    above = here, here = below;
    if (std::abs(here) > large * small * 1e30L) here *= 1e-30L, above *= 1e-30L, sum *= 1e-30L, wanted *= 1e-30L;
  }
  return wanted / sum * std::pow(x / 2, fraction) / std::tgamma(fraction + 1);
}

template <class T>
T bessel_j(T v, T x) {  // v >= 0, x > 0
  if (x * x < 8 * (v + 1)) return power_series(v, x, -1);
  if (x > 40 && x > v * v) return hankel_j(v, x);
  if (v + x > 1e6) return nan<T>;
  const T whole = std::floor(v);
  return recurrent_j(v - whole, (long long)(whole), x);
}

struct Jv {
  template <class T>
  static T call(T v, T x) {
    const T order = std::abs(v), a = std::abs(x);
    if (std::isnan(v) || std::isnan(x) || ((x < 0 || v < 0) && !is_whole(v))) return nan<T>;
    if (std::isinf(x)) return 0;
    if (x == 0) return v == 0 ? 1 : 0;
    const bool turned = is_odd(order) && (x < 0) != (v < 0);
    return turned ? -bessel_j(order, a) : bessel_j(order, a);
  }
};

struct SphericalJ {
  template <class T>
  static T call(T n, T x) {
    if (std::isnan(x) || !(n >= 0) || !is_whole(n)) return nan<T>;
    const T a = std::abs(x);
    if (std::isinf(x)) return 0;
    if (a == 0) return n == 0 ? 1 : 0;
    const T sign = x < 0 && is_odd(n) ? -1 : 1;
    if (n == 0) return std::sin(a) / a;
    return sign * std::sqrt(T(pi) / (2 * a)) * bessel_j(n + T(0.5L), a);
  }
};

// --- Airy ------------------------------------------------------------------------------------------------------------

// The value and slope of a solution of y'' = x y.
template <class T>
struct Wave {
  T y, slope;
};
// The solution with this value and slope at x, at x + h: by its Taylor series.
template <class T>
Wave<T> moved(Wave<T> w, T x, T h) {
  T before = 0, c = w.y, next = w.slope;  // coefficients times h^k, of k - 1, k and k + 1
  T y = c + next * h, slope = next, power = h;
  // a[k + 2] = (x a[k] + a[k - 1]) / ((k + 1)(k + 2))
  for (int k = 0; k < 120; ++k) {
    const T after = (x * c + before) / (T(k + 1) * T(k + 2));
    slope += after * T(k + 2) * power;
    power *= h;
    y += after * power;
    before = c, c = next, next = after;
    if (std::abs(power) * (std::abs(after) + std::abs(c)) <
            (std::abs(y) + std::abs(slope)) * std::numeric_limits<T>::epsilon() / 256 &&
        k > 4)
      break;
  }
  return {y, slope};
}
template <class T>
Wave<T> at_zero(bool second) {
  const T third = T(1) / 3, y = 1 / (std::pow(T(3), 2 * third) * std::tgamma(2 * third)),
          slope = -1 / (std::pow(T(3), third) * std::tgamma(third)), root = std::sqrt(T(3));
  return second ? Wave<T>{y * root, -slope * root} : Wave<T>{y, slope};
}

// The sums of u_k and v_k (+-1/z)^k (DLMF 9.7.2), over all k, or over even and odd ones with alternating signs.
template <class T>
struct AirySums {
  T u[2] = {0, 0}, v[2] = {0, 0};
};
template <class T>
AirySums<T> airy_sums(T z, bool alternates, int sign) {
  AirySums<T> s;
  T u = 1;
  for (int k = 0; k < 60; ++k) {
    const T v = k == 0 ? T(1) : -T(6 * k + 1) / T(6 * k - 1) * u;
    const int at = alternates ? k % 2 : 0;
    const T turn = alternates ? (k % 4 < 2 ? T(1) : T(-1)) : (sign < 0 && k % 2 == 1 ? T(-1) : T(1));
    s.u[at] += turn * u, s.v[at] += turn * v;
    const T next = u * T(6 * k + 5) * T(6 * k + 3) * T(6 * k + 1) / (T(216) * T(k + 1) * T(2 * k + 1) * z);
    if (next < std::numeric_limits<T>::epsilon() / 64 || next > u) break;
    u = next;
  }
  return s;
}

template <class T>
Wave<T> airy_wave(T x, bool second) {
  if (std::isnan(x)) return {x, x};
  if (x <= 1 && x >= -20) {
    Wave<T> w = at_zero<T>(second);
    const int steps = int(std::ceil(std::abs(x) / T(0.75L)));
    for (int i = 0; i < steps; ++i) w = moved(w, x * T(i) / T(steps), x / T(steps));
    return w;
  }
  const T z = 2 * std::pow(std::abs(x), T(1.5L)) / 3, root = std::sqrt(std::sqrt(std::abs(x))), rpi = std::sqrt(T(pi));
  if (x < 0) {
    if (std::isinf(x)) return {0, nan<T>};
    const AirySums<T> s = airy_sums(z, true, 1);
    const T angle = z - T(pi) / 4, c = std::cos(angle), n = std::sin(angle);
    if (second) return {(-n * s.u[0] + c * s.u[1]) / (rpi * root), root / rpi * (c * s.v[0] + n * s.v[1])};
    return {(c * s.u[0] + n * s.u[1]) / (rpi * root), root / rpi * (n * s.v[0] - c * s.v[1])};
  }
  if (!second) {
    if (std::isinf(x)) return {0, -T(0)};
    const T falls = std::exp(-z);
    return {falls * std::sqrt(x / 3) / T(pi) * scaled_k_of(T(1) / 3, z),
            -falls * x / (T(pi) * std::sqrt(T(3))) * scaled_k_of(T(2) / 3, z)};
  }
  if (std::isinf(x)) return {x, x};
  if (x < 10) return moved(at_zero<T>(true), T(0), x);
  const AirySums<T> s = airy_sums(z, false, 1);
  const T grows = std::exp(z / 2);
  return {grows * (s.u[0] / (rpi * root)) * grows, grows * (root / rpi * s.v[0]) * grows};
}
template <bool second, bool slope>
struct Airy {
  template <class T>
  static T call(T x) {
    const Wave<long double> w =
        airy_wave<long double>(x, second);  // for f32 too: for large -x the angle needs all digits
    return T(slope ? w.slope : w.y);
  }
};

}  // namespace rill::special
