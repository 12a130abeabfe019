// Gamma, Beta (and its logarithm) and binomial coefficients; and Lambert's W.
#pragma once
#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

// The sign of Gamma(x).
template <class T>
T gamma_sign(T x) {
  return x < 0 && std::fmod(std::floor(x), T(2)) != 0 ? -1 : 1;
}

struct Gamma {
  template <class T>
  static T call(T x) {
    if (x == -infinity<T> || (x < 0 && is_whole(x))) return nan<T>;
    return std::tgamma(x);
  }
};
// If a or b is a pole of Gamma, B(a, b) is infinite, unless a + b is one too: B(a, b) = (-1)^b B(1 - a - b, b) for
// integers a <= 0 and b > 0. Replaces a and b by those of the right side; returns the sign, or an infinity if B(a, b)
// is infinite.
template <class T>
T reflect_beta(T& a, T& b) {
  const auto is_pole = [](T x) { return x <= 0 && is_whole(x) && !std::isinf(x); };
  if (std::isnan(a) || std::isnan(b)) return 1;
  if (!is_pole(a)) std::swap(a, b);
  if (!is_pole(a)) return 1;
  if (!is_whole(b) || a + b > 0) return infinity<T>;
  const T sign = is_odd(b) ? -1 : 1;
  a = 1 - a - b;
  return b > 0 ? sign : sign * infinity<T>;
}
struct Beta {
  template <class T>
  static T call(T a, T b) {
    const T reflected = reflect_beta(a, b);
    if (std::isinf(reflected)) return reflected;
    if (std::abs(a) + std::abs(b) < 100 && a > 0 && b > 0)
      return reflected * (std::tgamma(a) / std::tgamma(a + b) * std::tgamma(b));
    const T sign = reflected * gamma_sign(a) * gamma_sign(b) * gamma_sign(a + b);
    return sign * std::exp(scalar_math::log_beta(a, b));
  }
};
struct LogBeta {
  template <class T>
  static T call(T a, T b) {
    return std::isinf(reflect_beta(a, b)) ? infinity<T> : scalar_math::log_beta(a, b);
  }
};
struct Binomial {
  template <class T>
  static T call(T n, T k) {
    if (std::isnan(n) || std::isnan(k) || (n < 0 && is_whole(n))) return nan<T>;
    if (is_whole(k)) {
      if (k < 0) return 0;
      if (is_whole(n)) {
        if (k > n) return 0;
        k = std::min(k, n - k);
      }
      if (k <= 64) {  // n / 1 (n - 1) / 2 ..., each partial product of which is an integer if n is
        T y = 1;
        for (int i = 1; T(i) <= k; ++i) y = y * (n - T(i - 1)) / T(i);
        return y;
      }
    }
    const T sign = gamma_sign(n + 1) * gamma_sign(k + 1) * gamma_sign(n - k + 1);
    if (n > 0 && k > -1 && n - k > -1) return std::exp(-scalar_math::log_beta(n - k + 1, k + 1)) / (n + 1);
    if (is_whole(n - k) && n - k < 0) return 0;
    return sign * std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
  }
};
// Halley's iteration on w - x e^-w = 0 or, for large x, w + log(w) = log(x).
struct LambertW {
  template <class T>
  static T call(T x) {
    constexpr T branch = T(-0.367879441171442321595523770161460867L);  // -1/e
    if (std::isnan(x) || x < branch) return nan<T>;
    if (x == 0 || std::isinf(x)) return x;
    const T beyond = std::sqrt(std::max(T(0), 2 * (T(2.71828182845904523536028747135266250L) * x + 1)));
    // The expansion about the branch point (Corless et al. 1996, 4.22), and logarithms far out.
    T w = x < T(-0.25L) ? -1 + beyond - beyond * beyond / 3 + 11 * beyond * beyond * beyond / 72
          : x < 3       ? std::log1p(x) * (1 - std::log1p(std::log1p(x)) / (2 + std::log1p(x)))
                        : std::log(x) - std::log(std::log(x));
    if (beyond < T(1e-5L)) return w;
    for (int i = 0; i < 20; ++i) {
      const T e = std::exp(w), off = w * e - x, step = off / (e * (w + 1) - (w + 2) * off / (2 * w + 2));
      w -= step;
      if (std::abs(step) <= std::abs(w) * std::numeric_limits<T>::epsilon() * 4) break;
    }
    return w;
  }
};

}  // namespace rill::special
