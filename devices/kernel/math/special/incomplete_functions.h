// The incomplete Gamma and Beta functions, the densities that are their derivatives by x, and their derivatives by the
// parameters. The series are in ../gamma_scalar.h and ../incomplete_beta.h.
#pragma once
#include "rill/devices/kernel/math/incomplete_beta.h"
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

using scalar_math::Dual;

struct LowerGamma {
  template <class T>
  static T call(T a, T x) {
    return scalar_math::regularized_gamma(a, x, false);
  }
};
struct UpperGamma {
  template <class T>
  static T call(T a, T x) {
    return scalar_math::regularized_gamma(a, x, true);
  }
};
struct LowerGammaByA {
  template <class T>
  static T call(T a, T x) {
    return scalar_math::regularized_gamma(Dual<T>(a, 1), x, false).d;
  }
};
struct UpperGammaByA {
  template <class T>
  static T call(T a, T x) {
    return scalar_math::regularized_gamma(Dual<T>(a, 1), x, true).d;
  }
};
struct GammaDensity {
  template <class T>
  static T call(T a, T x) {
    if (!(a > 0) || !(x >= 0)) return nan<T>;
    if (x == 0) return a < 1 ? infinity<T> : T(a == 1);
    if (std::isinf(x) || std::isinf(a)) return std::isinf(x) && std::isinf(a) ? x - a : T(0);
    return std::exp(scalar_math::log_gamma_density(a, x, std::log(x))) * (a / x);
  }
};
struct LowerBeta {
  template <class T>
  static T call(T a, T b, T x) {
    return scalar_math::regularized_beta(a, b, x);
  }
};
struct LowerBetaByA {
  template <class T>
  static T call(T a, T b, T x) {
    return scalar_math::regularized_beta(Dual<T>(a, 1), Dual<T>(b), x).d;
  }
};
struct LowerBetaByB {
  template <class T>
  static T call(T a, T b, T x) {
    return scalar_math::regularized_beta(Dual<T>(a), Dual<T>(b, 1), x).d;
  }
};
struct BetaDensity {
  template <class T>
  static T call(T a, T b, T x) {
    if (!(a > 0 && b > 0 && x >= 0 && x <= 1) || std::isinf(a) || std::isinf(b)) return nan<T>;
    const auto at_end = [](T n, T other) { return n < 1 ? infinity<T> : n == 1 ? other : T(0); };
    if (x == 0) return at_end(a, b);
    if (x == 1) return at_end(b, a);
    return std::exp(scalar_math::log_beta_prefix(a, b, x, 1 - x)) * a / x / (1 - x);
  }
};

struct LogGammaSlope {
  template <class T>
  static T call(T a, T x, T log_x) {
    return scalar_math::log_gamma_sample_slope(a, x, log_x);
  }
};

}  // namespace rill::special
