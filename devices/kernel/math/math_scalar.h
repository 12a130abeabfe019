// Functions of one number that patch() calls lane by lane: for arguments too rare, or functions too long, to be
// worth vector code. They are the same for every instruction set, so they are compiled once and without any of its
// flags. Each is a struct with `call` for float and for double, as lanes.h requires; float goes
// through double.
#pragma once

#include <cmath>
#include <limits>

namespace rill::scalar_math {

// sin, cos and tan of arguments beyond the vector code's reduction.
struct Sin {
  static double call(double x) { return std::sin(x); }
  static float call(float x) { return static_cast<float>(call(static_cast<double>(x))); }
};
struct Cos {
  static double call(double x) { return std::cos(x); }
  static float call(float x) { return static_cast<float>(call(static_cast<double>(x))); }
};
struct Tan {
  static double call(double x) { return std::tan(x); }
  static float call(float x) { return static_cast<float>(call(static_cast<double>(x))); }
};

// log |gamma(x)|. Infinity at 0, -1, -2, ...
struct Lgamma {
  static double call(double x) {
#if defined(__GLIBC__) || defined(__APPLE__)
    int sign;
    return ::lgamma_r(x, &sign);  // std::lgamma writes a global variable
#else
    return std::lgamma(x);
#endif
  }
  static float call(float x) { return static_cast<float>(call(static_cast<double>(x))); }
};

// The logarithmic derivative of gamma. NaN at -1, -2, ..., infinity of the other sign at +-0.
struct Digamma {
  static double call(double x) {
    if (std::isnan(x)) return x;
    if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
    if (x > 0) return static_cast<double>(positive<long double, 16>(x));
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    // Reflection; the tangent has period 1 in x, and x - round(x) is exact, also just below 0.
    constexpr long double pi = 3.14159265358979323846264338328L;
    const long double y = x;
    return static_cast<double>(positive<long double, 16>(1 - y) - pi / std::tan(pi * (y - std::round(y))));
  }
  static float call(float x) {
    return static_cast<float>(x > 0 ? positive<double, 8>(x) : call(static_cast<double>(x)));
  }

  // Recurrence up to `far`, then the asymptotic series (Abramowitz & Stegun 6.3.18); near its root, where the two
  // cancel, the Taylor series about the root.
  template <class Real, int far>
  static Real positive(Real x) {
    const Real d = (x - Real(0x1.762d86356be3fp+0L)) - Real(9.549995429965697715184199e-17L);  // the root: their sum
    if (std::fabs(d) < Real(0.02L)) {
      constexpr Real c[] = {Real(0.01053879161661217538812405L), Real(-0.01542476490594895913880032L),
                            Real(0.02259764823221810465962483L), Real(-0.0331611264748473592922584L),
                            Real(0.04880428816414310722509253L), Real(-0.07219956125645471092612178L),
                            Real(0.1078240506912623657571829L),  Real(-0.1639427054424065275042513L),
                            Real(0.2584997609556510106244014L),  Real(-0.4427631689835921060928653L),
                            Real(0.9676722454476211704274448L)};
      Real y = 0;
      for (const Real k : c) y = y * d + k;
      return y * d;
    }
    Real sum = 0;
    for (; x < far; x += 1) sum -= 1 / x;
    const Real z = 1 / (x * x);
    const Real series =
        z * (Real(1 / 12.0L) - z * (Real(1 / 120.0L) -
                                    z * (Real(1 / 252.0L) -
                                         z * (Real(1 / 240.0L) - z * (Real(1 / 132.0L) - z * (Real(691 / 32760.0L) -
                                                                                              z * Real(1 / 12.0L)))))));
    return sum + (std::log(x) - 1 / (2 * x) - series);
  }
};

}  // namespace rill::scalar_math
