// Roots: rsqrt cbrt. Part of math.h (sqrt is one instruction and lives in lanes.h).

#if defined(RILL_DEVICES_KERNEL_MATH_ROOT_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_ROOT_H_
#undef RILL_DEVICES_KERNEL_MATH_ROOT_H_
#else
#define RILL_DEVICES_KERNEL_MATH_ROOT_H_
#endif

#include "rill/devices/kernel/math/math_log.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// 1 / sqrt(x). NaN below 0, infinity at 0 with the sign of the zero.
template <Floating V>
HWY_INLINE V rsqrt(V x) {
  return V(1) / sqrt(x);
}

// Cube root. All x. |x| = 2^(3q + k) m with k in {-1, 0, 1}; cbrt m from a minimax polynomial (relative error 2^-17),
// times cbrt 2^k; then Halley's step for float64, and Newton's for both, towards cbrt(2^k m).
template <Floating V>
HWY_INLINE V cbrt(V x) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  const auto p = log_parts(a);
  const V q = round_even(p.e * V(0.333333333));
  const V k = fma(q, V(-3), p.e);
  const auto up = k > V(0);
  const auto down = k < V(0);
  const V y = p.m * select(up, V(2), select(down, V(0.5), V(1)));
  V t = polynomial(p.m, -3.77880782e-2, 2.16936976e-1, -5.35629511e-1, 9.048177e-1, 4.5166716e-1) *
        select(up, V(1.2599210498948732), select(down, V(7.937005259840998e-1), V(1)));
  if constexpr (F64<V>) {
    const V ttt = t * t * t;
    t = t * ((ttt + (y + y)) / ((ttt + ttt) + y));
  }
  const V tt = t * t;
  t = t + fma(-tt, t, y) / (V(3) * tt);
  t = t * from_bits(shl<C::kMantissaBits>(bits(V(C::kShifter + C::kBias) + q)));
  return select((a < V(kInfinity<V>)) & (a > V(0)), copysign(t, x), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
