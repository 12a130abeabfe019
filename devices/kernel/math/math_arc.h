// Inverse circular functions: asin acos atan atan2. Part of math.h.
//
// asin t = t + t^3 P(t^2) for |t| <= 1/2 and by sqrt((1 - |x|)/2) above, as fdlibm's e_asin.c reduces; atan t = t + t^3
// P(t^2) for |t| <= tan(pi/8), by (x - 1)/(x + 1) and -1/x above, as Cephes' atan.c does. The polynomials are minimax
// (Remez): relative errors 2^-31 and 2^-60 (asin), 2^-30 and 2^-64 (atan).

#if defined(RILL_DEVICES_KERNEL_MATH_ARC_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_ARC_H_
#undef RILL_DEVICES_KERNEL_MATH_ARC_H_
#else
#define RILL_DEVICES_KERNEL_MATH_ARC_H_
#endif

#include "rill/devices/kernel/math/math_common.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// asin(t) - t for |t| <= 1/2, with z = t^2.
template <class V>
HWY_INLINE V asin_tail(V t, V z) {
  if constexpr (F64<V>) {
    return t * z *
           polynomial(z, 3.2628731523870878e-2, -2.0998909941229469e-2, 2.1707086040336096e-2, 3.7066731700110605e-3,
                      1.0780148104720132e-2, 1.1398937989835406e-2, 1.3980816385281855e-2, 1.7351612462715948e-2,
                      2.2372214955524765e-2, 3.0381942709258734e-2, 4.4642857174571157e-2, 7.4999999999708591e-2,
                      1.666666666666676e-1);
  } else {
    return t * z *
           polynomial(z, 3.76726873e-2, 1.43251549e-2, 3.18379514e-2, 4.45133857e-2, 7.50052184e-2, 1.66666597e-1);
  }
}

// |x| as an angle: asin |x| = tail + t for small |x|, else pi/2 - 2 (tail + t). The root's rounding error is in tail.
template <class V>
struct ArcParts {
  mask_t<V> small;
  V t, tail;
};
template <class V>
HWY_INLINE ArcParts<V> arc_parts(V x) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  const auto small = a <= V(0.5);
  const V z = select(small, a * a, V(0.5) - V(0.5) * a);
  const V s = sqrt(z);
  const V t = select(small, a, s);
  const V correction = fma(-s, s, z) / (s + (s + V(C::kMinNormal)));
  const V tail = asin_tail(t, z) + select(small, V(0), correction);
  return {small, t, tail};
}

// Arc sine. NaN if |x| > 1.
template <Floating V>
HWY_INLINE V asin(V x) {
  using C = FloatFormat<V>;
  const auto p = arc_parts(x);
  const V big = V(C::kHalfPi) - (V(2) * p.t - (V(C::kHalfPiLow) - V(2) * p.tail));
  return copysign(select(p.small, p.t + p.tail, big), x);
}

// Arc cosine. NaN if |x| > 1.
template <Floating V>
HWY_INLINE V acos(V x) {
  using C = FloatFormat<V>;
  const auto p = arc_parts(x);
  const V t = copysign(p.t, x);
  const V tail = copysign(p.tail, x);  // of the same sign as t if small, and otherwise far below it
  const V small = V(C::kHalfPi) - (t - (V(C::kHalfPiLow) - tail));
  const V twice = V(2) * (p.t + p.tail);
  const V other = V(2 * C::kHalfPi) - (V(2) * p.t - (V(2 * C::kHalfPiLow) - V(2) * p.tail));
  return select(p.small, small, select(x < V(0), other, twice));
}

// The angle of the point (b, a), a and b not negative, b = 1 for atan: between 0 and pi/2.
template <class V>
HWY_INLINE V atan_kernel(V a, V b) {
  using C = FloatFormat<V>;
  const auto over = a > b * V(2.414213562373095);
  const auto middle = a > b * V(0.4142135623730950);
  const V num = select(over, -b, select(middle, a - b, a));
  const V den = select(over, a, select(middle, a + b, b));
  const V t = num / den;
  const V z = t * t;
  V p;
  if constexpr (F64<V>) {
    p = polynomial(z, 1.4901565121990782e-2, -3.3182622148327873e-2, 4.4908906020372841e-2, -5.2152595640634694e-2,
                   5.8765281376541002e-2, -6.6661758009997213e-2, 7.692279269900569e-2, -9.0909079885067828e-2,
                   1.1111111083804902e-1, -1.4285714285317072e-1, 1.9999999999997098e-1, -3.3333333333333326e-1);
  } else {
    p = polynomial(z, -6.09004684e-2, 1.05991676e-1, -1.4244391e-1, 1.99985281e-1, -3.33333164e-1);
  }
  const V high = select(over, V(C::kHalfPi), select(middle, V(C::kHalfPi / 2), V(0)));
  const V low = select(over, V(C::kHalfPiLow), select(middle, V(C::kHalfPiLow / 2), V(0)));
  return high + (t + fma(t * z, p, low));
}

// Arc tangent. All x.
template <Floating V>
HWY_INLINE V atan(V x) {
  return copysign(atan_kernel(abs(x), V(1)), x);
}

// The angle of the point (x, y), in [-pi, pi], with the special cases of C99 (F.9.1.4).
template <Floating V>
HWY_INLINE V atan2(V y, V x) {
  using C = FloatFormat<V>;
  using I = int_t<V>;
  V a = abs(y), b = abs(x);
  const auto infinite = (a == V(kInfinity<V>)) & (b == V(kInfinity<V>));
  const auto zero = (a == V(0)) & (b == V(0));
  const V s = select(max(a, b) > V(C::kHuge), V(0.25), V(1));  // so that a + b does not overflow
  a = select(infinite, V(1), a * s);
  b = select(infinite | zero, V(1), b * s);
  const V angle = atan_kernel(a, b);
  const auto left = mask_cast<V>(bits(x) < I(0));
  return copysign(select(left, V(2 * C::kHalfPi) - (angle - V(2 * C::kHalfPiLow)), angle), y);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
