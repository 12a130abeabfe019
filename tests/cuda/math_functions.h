// The functions of the C library that kernels call, each with the greatest error that CUDA's documentation states for
// its own: by how many units in the last place (ulps) a result may differ from the correctly rounded one. Source: CUDA
// C++ Programming Guide 13.0, section 17.1 "Standard Functions", tables 17 (f32) and 18 (f64); those of Toolkit 12 are
// the same. 0: none may. host_math.cpp has such functions, and nvrtc.cpp links kernels with them in place of the C
// library's.
#pragma once

// name, ulps in f64, ulps in f32
// clang-format off
#define RILL_MATH_OF_ONE(F)                                                                                        \
  F(sin, 2, 2) F(cos, 2, 2) F(tan, 2, 4) F(asin, 2, 2) F(acos, 2, 2) F(atan, 2, 2)                                 \
  F(sinh, 2, 3) F(cosh, 1, 2) F(tanh, 1, 2) F(asinh, 3, 3) F(acosh, 3, 4) F(atanh, 2, 3)                           \
  F(exp, 1, 2) F(exp2, 1, 2) F(expm1, 1, 1) F(log, 1, 1) F(log2, 1, 1) F(log10, 1, 2) F(log1p, 1, 1)               \
  F(cbrt, 1, 1) F(erf, 2, 2) F(erfc, 5, 4) F(tgamma, 10, 5)
// clang-format on
#define RILL_MATH_OF_TWO(F) F(pow, 2, 4) F(hypot, 2, 3) F(atan2, 2, 3)
// Outside of (-23.0001, -2.2637), and in f32 of (-10.001, -2.264); inside, where lgamma has its zeros, the errors are
// "larger", and are assumed to be as many ulps of 1.
#define RILL_MATH_OF_LGAMMA(F) F(lgamma, 4, 6)
// For |x| < 8; beyond, the error is up to 5e-12 in f64 and 2.2e-6 in f32.
#define RILL_MATH_OF_BESSEL(F) F(j0, 7, 9) F(j1, 7, 9) F(y0, 7, 9) F(y1, 7, 9)
// Exact ones: wrapped because a long double is a double on a GPU.
#define RILL_EXACT_OF_ONE(F) F(floor) F(ceil) F(round) F(rint) F(nearbyint) F(trunc) F(sqrt) F(fabs) F(logb)
#define RILL_EXACT_OF_TWO(F) F(fmod) F(remainder) F(copysign) F(nextafter) F(fmax) F(fmin) F(fdim)
