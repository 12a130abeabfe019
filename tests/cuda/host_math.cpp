// CUDA's mathematical functions, for kernels on the host: results differ by as much as CUDA's documentation allows, so
// that tests see which of rill's results depend on the last bits of a library (math_functions.h). The error
// depends only on the argument.
//
// A GPU's long double is a double: kernels are compiled with -mlong-double-64, and call functions of long doubles by
// their names with an l, which are those of doubles here.
#include <math.h>
#include <string.h>

#include "math_functions.h"

namespace {

// From -1 to 1.
double noise(double x, double y) {
  unsigned long long a, b;
  memcpy(&a, &x, 8), memcpy(&b, &y, 8);
  a = (a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  a = (a ^ a >> 29) * 0x94d049bb133111eb;
  return double(a >> 11) * 0x1p-52 - 1;
}
template <class T>
long double ulp_of(long double x) {
  constexpr int digits = sizeof(T) == 8 ? 53 : 24, least = sizeof(T) == 8 ? -1074 : -149;
  const int exponent = ilogbl(x) + 1 - digits;
  return ldexpl(1, exponent < least ? least : exponent);
}
// `exact` rounded, with an error of up to `ulps`.
template <class T>
T perturbed(long double exact, int ulps, double x, double y = 0) {
  const T rounded = T(exact);
  if (rounded - rounded != 0 || rounded == 0 || rounded == 1 || rounded == -1) return rounded;
  return T(exact + (ulps - 0.5L) * noise(x, y) * ulp_of<T>(exact));
}
template <class T>
T perturbed_bessel(long double exact, int ulps, double x) {
  if (fabs(x) < 8 || isinf(x)) return perturbed<T>(exact, ulps, x);
  return T(exact + (sizeof(T) == 8 ? 5e-12L : 2.2e-6L) * noise(x, 0));
}
template <class T>
T perturbed_lgamma(long double exact, int ulps, double x) {
  const bool has_zeros = x < (sizeof(T) == 8 ? -2.2637 : -2.264) && x > (sizeof(T) == 8 ? -23.0001 : -10.001);
  if (!has_zeros || fabsl(exact) >= 1) return perturbed<T>(exact, ulps, x);
  return T(exact + ulps * noise(x, 0) * ulp_of<T>(1));
}

}  // namespace

extern "C" {

#define OF_ONE_BY(perturb, name, ulps64, ulps32)                                       \
  double __wrap_##name(double x) { return perturb<double>(name##l(x), ulps64, x); }    \
  double __wrap_##name##l(double x) { return perturb<double>(name##l(x), ulps64, x); } \
  float __wrap_##name##f(float x) { return perturb<float>(name((double)x), ulps32, x); }
#define OF_ONE(name, ulps64, ulps32) OF_ONE_BY(perturbed, name, ulps64, ulps32)
RILL_MATH_OF_ONE(OF_ONE)
#define OF_BESSEL(name, ulps64, ulps32) OF_ONE_BY(perturbed_bessel, name, ulps64, ulps32)
RILL_MATH_OF_BESSEL(OF_BESSEL)
#define OF_LGAMMA(name, ulps64, ulps32) OF_ONE_BY(perturbed_lgamma, name, ulps64, ulps32)
RILL_MATH_OF_LGAMMA(OF_LGAMMA)
#define OF_TWO(name, ulps64, ulps32)                                                                     \
  double __wrap_##name(double x, double y) { return perturbed<double>(name##l(x, y), ulps64, x, y); }    \
  double __wrap_##name##l(double x, double y) { return perturbed<double>(name##l(x, y), ulps64, x, y); } \
  float __wrap_##name##f(float x, float y) { return perturbed<float>(name((double)x, (double)y), ulps32, x, y); }
RILL_MATH_OF_TWO(OF_TWO)
#define EXACT_OF_ONE(name) \
  double __wrap_##name##l(double x) { return name(x); }
RILL_EXACT_OF_ONE(EXACT_OF_ONE)
#define EXACT_OF_TWO(name) \
  double __wrap_##name##l(double x, double y) { return name(x, y); }
RILL_EXACT_OF_TWO(EXACT_OF_TWO)

double __wrap_lgamma_r(double x, int* sign) { return perturbed_lgamma<double>(lgammal_r(x, sign), 4, x); }
double __wrap_lgammal_r(double x, int* sign) { return __wrap_lgamma_r(x, sign); }
// GCC combines a sine and a cosine of one number into this.
void __wrap_sincos(double x, double* s, double* c) { *s = __wrap_sin(x), *c = __wrap_cos(x); }
void __wrap_sincosl(double x, double* s, double* c) { __wrap_sincos(x, s, c); }
void __wrap_sincosf(float x, float* s, float* c) { *s = __wrap_sinf(x), *c = __wrap_cosf(x); }
double __wrap_ldexpl(double x, int n) { return ldexp(x, n); }
double __wrap_scalbnl(double x, int n) { return scalbn(x, n); }
double __wrap_frexpl(double x, int* n) { return frexp(x, n); }
double __wrap_modfl(double x, double* n) { return modf(x, n); }
int __wrap_ilogbl(double x) { return ilogb(x); }
}
