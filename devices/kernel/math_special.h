// Special functions: erf. Part of math.h.

#if defined(RILL_DEVICES_KERNEL_MATH_SPECIAL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#undef RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#else
#define RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#endif

#include "rill/devices/kernel/math_exp.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

struct LibraryErf {
  static float call(float x) { return static_cast<float>(std::erf(static_cast<double>(x))); }
  static double call(double x) { return std::erf(x); }
};

// Error function. float32, |x| < 0.9: x + x P(x^2), minimax, relative error 2^-30; above: 1 - e^-Q(x), where
// Q = -log erfc is smooth (2^-29); both kinds of form as in N. Juffa's published erff.
template <F32 V>
HWY_INLINE V erf(V x) {
  const V a = clamp(abs(x), V(0), V(4));
  const V z = a * a;
  const V p = polynomial(z, 8.18443077e-5, -8.08797951e-4, 5.19509334e-3, -2.6856482e-2, 1.12836324e-1, -3.76126289e-1,
                         1.28379166e-1);
  const V q = polynomial(a, -1.9821983e-4, 3.06549226e-3, -2.23152265e-2, 1.04113705e-1, 6.36976063e-1, 1.12779725,
                         1.66449041e-4);
  const auto e = exp_parts<false>(-q);
  const V s = power_of_two<V>(e.n, 0);
  return copysign(select(a < V(0.9), fma(a, p, a), V(1) - fma(s, e.p, s)), x);
}
template <F64 V>
HWY_INLINE V erf(V x) {
  return patch(x == x, x, LibraryErf(), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
