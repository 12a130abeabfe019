// Bessel functions J and Y, which the C library has, and the modified ones of the second kind.
#pragma once
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

// On a GPU. CUDA's own are accurate to some ulp for |x| < 8, and beyond that only to 5e-12, which is no better than
// f32. So beyond 8 they are computed here, to some ulp of sqrt(2 / (pi x)).
#if defined(RILL_KERNEL)
struct BesselPair {
  double j, y;  // of the order 0 or 1
};
// From 8 to 25: J of all orders by downward recurrence, normalised by J_0 + 2 J_2 + 2 J_4 + ... = 1, and Y by
// Neumann's series of them (DLMF 10.23.17; Y_1 is the derivative of -Y_0).
inline BesselPair recurrent_bessel(int order, double x) {
  constexpr int highest = 60;
  double above = 0, here = 1e-300, norm = 0, y = 0, j1 = 0;
  for (int n = highest; n > 0; --n) {
    const int k = n / 2;
    const double signed_here = k % 2 == 0 ? here : -here;
    if (n % 2 == 0) norm += 2 * here;
    if (n == 1) j1 = here;
    else if (n % 2 == 0 && order == 0) y += signed_here / k;
    else if (n % 2 == 1 && order == 1) y += signed_here * (2 * k + 1) / (k * (k + 1));
    const double below = 2 * n / x * here - above;
    above = here, here = below;
  }
  norm += here;
  const double j0 = here / norm, log_half = std::log(x / 2) + double(euler), two_by_pi = double(2 / pi);
  j1 /= norm, y /= norm;
  if (order == 0) return {j0, two_by_pi * (log_half * j0 - 2 * y)};
  return {j1, two_by_pi * ((log_half - 1) * j1 - j0 / x - y)};
}
// From 25 on: Hankel's expansion (DLMF 10.17.3 and 10.17.4), whose least term is below 1e-21.
inline BesselPair far_bessel(int order, double x) {
  if (std::isinf(x)) return {0, 0};
  double p = 0, q = 0, term = 1;
  for (int k = 0; k < 50 && std::abs(term) > 1e-17; ++k) {
    (k % 2 == 0 ? p : q) += k % 4 < 2 ? term : -term;
    const double odd = 2 * k + 1;
    term *= (4 * order * order - odd * odd) / ((k + 1) * 8 * x);
  }
  // sqrt(2) times the cosine and sine of x - (order / 2 + 1 / 4) pi.
  const double c = std::cos(x), s = std::sin(x), cosine = order == 0 ? c + s : s - c,
               sine = order == 0 ? s - c : -(c + s);
  const double size = 1 / (std::sqrt(double(pi)) * std::sqrt(x));
  return {size * (p * cosine - q * sine), size * (p * sine + q * cosine)};
}
inline BesselPair bessel_beyond_8(int order, double x) {
  return x < 25 ? recurrent_bessel(order, x) : far_bessel(order, x);
}
#define RILL_DEVICE_BESSEL(Name, fn, beyond)                                       \
  struct Name {                                                                    \
    template <class T>                                                             \
    static T call(T x) {                                                           \
      return std::abs(double(x)) >= 8 ? T(beyond(double(x))) : T(::fn(double(x))); \
    }                                                                              \
  };
inline double j0_beyond_8(double x) { return bessel_beyond_8(0, std::abs(x)).j; }
inline double j1_beyond_8(double x) { return std::copysign(1., x) * bessel_beyond_8(1, std::abs(x)).j; }
inline double y0_beyond_8(double x) { return x < 0 ? nan<double> : bessel_beyond_8(0, x).y; }
inline double y1_beyond_8(double x) { return x < 0 ? nan<double> : bessel_beyond_8(1, x).y; }
RILL_DEVICE_BESSEL(J0, j0, j0_beyond_8)
RILL_DEVICE_BESSEL(J1, j1, j1_beyond_8)
RILL_DEVICE_BESSEL(Y0, y0, y0_beyond_8)
RILL_DEVICE_BESSEL(Y1, y1, y1_beyond_8)
#undef RILL_DEVICE_BESSEL
#else
// Only glibc has them for long double.
#if defined(__GLIBC__)
#define RILL_C_BESSEL(Name, fn)                                   \
  struct Name {                                                   \
    static double call(double x) { return ::fn(x); }              \
    static long double call(long double x) { return ::fn##l(x); } \
    template <class T>                                            \
    static T call(T x) {                                          \
      return call(x);                                             \
    }                                                             \
  };
#else
#define RILL_C_BESSEL(Name, fn)  \
  struct Name {                  \
    template <class T>           \
    static T call(T x) {         \
      return T(::fn(double(x))); \
    }                            \
  };
#endif
RILL_C_BESSEL(J0, j0)
RILL_C_BESSEL(J1, j1)
RILL_C_BESSEL(Y0, y0)
RILL_C_BESSEL(Y1, y1)
#undef RILL_C_BESSEL
#endif

// e^x K_n(x) is the integral of e^(-2 x sinh(t/2)^2) cosh(n t) over t >= 0 (DLMF 10.32.9), by the trapezoidal
// rule, which converges exponentially: the step is a fraction of the strip where the integrand is analytic, or of the
// Gaussian that it resembles for large x, whichever is narrower.
// Its d-th derivative by x has an extra factor (-2 sinh(t/2)^2)^d.
template <class T>
T scaled_k_integral(int n, T x, int d = 0) {
  const T step = std::min(T(0.19L), T(0.6L) / std::sqrt(x));
  T sum = d == 0 ? T(0.5L) : T(0);
  for (int k = 1; k < 1000; ++k) {
    const T s = std::sinh(T(k) * step / 2), exponent = 2 * x * s * s;
    if (exponent > 50) break;
    T term = std::exp(-exponent) * (n == 0 ? T(1) : 1 + 2 * s * s);
    for (int j = 0; j < d; ++j) term *= -2 * s * s;
    sum += term;
  }
  return step * sum;
}
// The series for small x: DLMF 10.31.1 and 10.31.2.
template <class T>
T bessel_k_series(int n, T x) {
  const T q = x * x / 4, log_half = std::log(x / 2) + T(0.577215664901532860606512090082L);
  T term = 1, harmonic = 0, sum = 0;
  for (int k = 0; k < 40; ++k) {
    if (k > 0) term *= q / (T(k) * T(k + n)), harmonic += T(1) / T(k);
    sum += term * (n == 0 ? harmonic - log_half : log_half - harmonic - T(1) / T(2 * (k + 1)));
  }
  return n == 0 ? sum : 1 / x + x / 2 * sum;
}
// Hankel's expansion (Abramowitz & Stegun 9.7.2); at 25 its least term is below 1e-21.
template <class T>
T scaled_k_far(int n, T x) {
  T term = 1, sum = 1;
  for (int k = 1; k < 50 && std::abs(term) > std::numeric_limits<T>::epsilon() / 4; ++k) {
    term *= T(4 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * x * T(k));
    sum += term;
  }
  return std::sqrt(T(pi) / (2 * x)) * sum;
}
// e^x K_n(x) for x >= 1.
template <class T>
T scaled_k(int n, T x) {
  return x < 25 ? scaled_k_integral(n, x) : scaled_k_far(n, x);
}
template <class T>
T bessel_k(int n, T x) {
  if (!(x >= 0)) return nan<T>;
  if (x == 0) return infinity<T>;
  if (x > 20000) return 0;
  return x < 1 ? bessel_k_series(n, x) : std::exp(-x) * scaled_k(n, x);
}
// e^x K_n(x).
template <class T>
T scaled_bessel_k(int n, T x) {
  if (!(x >= 0)) return nan<T>;
  if (x == 0) return infinity<T>;
  if (std::isinf(x)) return 0;
  return x < 1 ? std::exp(x) * bessel_k_series(n, x) : scaled_k(n, x);
}
template <int n>
struct K {
  template <class T>
  static T call(T x) {
    return bessel_k(n, x);
  }
};
template <int n>
struct ScaledK {
  template <class T>
  static T call(T x) {
    return scaled_bessel_k(n, x);
  }
};

}  // namespace rill::special
