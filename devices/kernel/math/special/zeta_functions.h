// zeta and polygamma. The series are in ../gamma_scalar.h.
#pragma once
#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

struct Zeta {
  template <class T>
  static T call(T s, T q) {
    return scalar_math::hurwitz_zeta(s, q);
  }
};
struct ZetaByS {
  template <class T>
  static T call(T s, T q) {
    const T slope = s == 1 ? -infinity<T> : scalar_math::hurwitz_zeta(scalar_math::Dual<T>(s, 1), q).d;
    return slope == 0 ? -T(0) : slope;
  }
};
struct Polygamma {
  template <class T>
  static T call(T n, T x) {
    return scalar_math::polygamma_of(n, x);
  }
};

}  // namespace rill::special
