// Derivatives of any order n of functions whose own formulas for them cancel for large x: those of e^-|x| I, e^x K,
// Dawson's integral and erfcx are differences of nearly equal numbers, and lose a factor of about x for each order.
#pragma once
#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/devices/kernel/math/special/bessel.h"
#include "rill/devices/kernel/math/special/exponential_integrals.h"

namespace rill::special {

// The derivatives of the sum over k of a_k x^(-k - 1/2), Hankel's expansion of sqrt(2 pi) e^-x I_order (`sign` -1) and
// sqrt(2 / pi) e^x K_order (1), DLMF 10.40.1 and 10.40.2, for x >= 25.
template <class T>
T hankel_derivative(int n, int order, int sign, T x) {
  T term = 1 / std::sqrt(x);
  for (int j = 0; j < n; ++j) term *= -(T(j) + T(0.5L)) / x;
  T sum = term;
  for (int k = 1; k < 50; ++k) {
    const int odd = 2 * k - 1;
    term *= T(sign * (4 * order * order - odd * odd)) * T(odd + 2 * n) / (8 * T(k) * T(odd) * x);
    sum += term;
    if (std::abs(term) <= std::abs(sum) * std::numeric_limits<T>::epsilon() / 4) break;
  }
  return sum;
}

// The derivatives of e^-|x| I_order(x), order 0 or 1. For x >= 0 it is the mean of e^(-2 x s^2) cos(order t) over t in
// (0, pi), s = sin(t / 2) (DLMF 10.32.3): the trapezoidal rule converges exponentially, and no two terms of a
// derivative cancel. At 0, where odd derivatives of an even function jump, they are 0.
template <class T>
T scaled_i_derivative(int n, int order, T x) {
  if (std::isnan(x)) return x;
  const T a = std::abs(x);
  const bool is_even = (n + order) % 2 == 0;
  if (a == 0 && !is_even && n > 0) return 0;
  T mean = 0;
  if (std::isinf(a)) {
    mean = n % 2 == 0 ? T(0) : -T(0);
  } else if (a >= 25) {
    mean = hankel_derivative(n, order, -1, a) / std::sqrt(2 * T(pi));
  } else {
    const int steps = 8 + n + int(4 * std::sqrt(a));
    if (n == 0) mean = T(0.5L);
    for (int k = 1; k <= steps; ++k) {
      const T s = std::sin(T(pi) * T(k) / T(2 * steps)), rise = 2 * s * s;
      T term = std::exp(-a * rise) * (order == 0 ? T(1) : 1 - rise);
      for (int j = 0; j < n; ++j) term *= -rise;
      mean += k == steps ? term / 2 : term;
    }
    mean /= T(steps);
  }
  return x < 0 && !is_even ? -mean : mean;
}

// The derivatives of e^x K_order(x), order 0 or 1: for both, all terms have one sign.
template <class T>
T scaled_k_derivative(int n, int order, T x) {
  if (!(x >= 0)) return nan<T>;
  if (x == 0) return n % 2 == 0 ? infinity<T> : -infinity<T>;
  if (std::isinf(x)) return 0;
  return x < 25 ? scaled_k_integral(order, x, n) : std::sqrt(T(pi) / 2) * hankel_derivative(n, order, 1, x);
}

// The derivatives of Dawson's integral F, by F' = 1 - 2 x F and F^(k + 1) = -2 x F^(k) - 2 k F^(k - 1) where that cancels
// little; by dawson_sum() beyond, for orders up to 14, whose weights are small enough; far out by the expansion of F, the
// sum of (2 k - 1)!! / (2^(k + 1) x^(2 k + 1)), whose least term is e^-(x^2) of the first.
template <class T>
T dawson_derivative(int n, T x) {
  if (n == 0 || std::isnan(x)) return Dawson::call(x);
  const T a = std::abs(x);
  T y = 0;
  if (n <= 14 && a >= 1 + T(n) / 6 && a < 7 + T(n) / 4) {
    y = dawson_sum(n, a);
  } else if (a < 7) {
    T before = Dawson::call(a);
    y = 1 - 2 * a * before;
    for (int k = 1; k < n; ++k) {
      const T next = -2 * a * y - 2 * T(k) * before;
      before = y, y = next;
    }
  } else {
    T term = 1 / (2 * a);
    for (int j = 1; j <= n; ++j) term *= -T(j) / a;
    y = term;
    for (int k = 1; k < 45; ++k) {
      term *= T(2 * k + n - 1) * T(2 * k + n) / (4 * T(k)) / a / a;
      y += term;
      if (std::abs(term) <= std::abs(y) * std::numeric_limits<T>::epsilon() / 4) break;
    }
  }
  return x < 0 && n % 2 == 0 ? -y : y;
}

// The derivatives of y = erfcx(x), by y' = 2 x y - 2 / sqrt(pi) and y^(k + 1) = 2 x y^(k) + 2 k y^(k - 1), which cancel
// for large x: from 2 on (if T has no extra digits, from 1 on) by the ratios of consecutive i^k erfc(x), a continued
// fraction (DLMF 7.18.4 and 7.18.7).
template <class T>
T scaled_erfc_derivative(int n, T x) {
  const T two_over_root = T(1.12837916709551257389615890312154517L);
  if (std::isnan(x)) return x;
  if (x < T(sizeof(T) > 8 ? 2 : 1)) {
    T before = scalar_math::scaled_erfc(x);
    if (n == 0) return before;
    T y = 2 * x * before - two_over_root;
    for (int k = 1; k < n; ++k) {
      const T next = 2 * x * y + 2 * T(k) * before;
      before = y, y = next;
    }
    return y;
  }
  const int last = n + 10 + int(200 / (x * x));
  T ratio = 1 / (2 * x), product = 1;
  for (int k = last; k >= 0; --k) {
    ratio = 1 / (2 * x + 2 * T(k + 1) * ratio);
    if (k <= n) product *= (k == 0 ? two_over_root : -2 * T(k)) * ratio;
  }
  return product;
}

// Records of two operands, the order n (order_of) and x.
#define RILL_DERIVATIVES(Name, of_order) \
  struct Name {                          \
    template <class T>                   \
    static T call(T order, T x) {        \
      const int n = order_of(order);     \
      return n >= 0 ? of_order : nan<T>; \
    }                                    \
  };
RILL_DERIVATIVES(ScaledI0Derivative, scaled_i_derivative(n, 0, x))
RILL_DERIVATIVES(ScaledI1Derivative, scaled_i_derivative(n, 1, x))
RILL_DERIVATIVES(ScaledK0Derivative, scaled_k_derivative(n, 0, x))
RILL_DERIVATIVES(ScaledK1Derivative, scaled_k_derivative(n, 1, x))
RILL_DERIVATIVES(DawsonDerivative, dawson_derivative(n, x))
RILL_DERIVATIVES(ErfcxDerivative, scaled_erfc_derivative(n, x))
#undef RILL_DERIVATIVES

// J1' = J0 - J1 / x.
struct J1Slope {
  template <class T>
  static T call(T x) {
    return x == 0 ? T(0.5L) : J0::call(x) - J1::call(x) / x;
  }
};

// sin and cos of pi x^2 / 2: x^2 with its rounding error, reduced by full periods.
template <class T>
T quarter_turns(T x) {
  if (!(std::abs(x) < std::numeric_limits<T>::infinity())) return nan<T>;
  // x is an even integer, so its square is a multiple of 4.
  if (std::abs(x) >= 2 / std::numeric_limits<T>::epsilon()) return 0;
  const T square = x * x, low = std::fma(x, x, -square);
  return std::remainder(std::remainder(square, T(4)) + low, T(4));
}
struct FresnelSineSlope {
  template <class T>
  static T call(T x) {
    const T q = quarter_turns(x), near = std::abs(q) > 1 ? std::copysign(T(2), q) - q : q;
    return std::sin(T(pi) / 2 * near);
  }
};
struct FresnelCosineSlope {
  template <class T>
  static T call(T x) {
    return std::sin(T(pi) / 2 * (1 - std::abs(quarter_turns(x))));
  }
};

}  // namespace rill::special
