// Circular functions: sin cos tan. Part of math.h.
//
// x = n pi/2 + r, |r| <= pi/4, by Cody & Waite's reduction with pi/2 as a sum of three numbers and fma, good for |x| <=
// 1e5 (float32) and 1e9 (float64). Larger arguments are rare: they go lane by lane to the C library, which reduces by
// as many bits of 2/pi as it takes (Payne & Hanek). float32 takes r rounded once; float64 as a pair, high + low, good
// to its last bit. The polynomials on |r| <= pi/4 have the form of fdlibm's k_sin.c and k_cos.c with minimax
// coefficients (Remez): relative error 2^-28 and 2^-33 (float32), 2^-58 and 2^-64 (float64).

#if defined(RILL_DEVICES_KERNEL_MATH_TRIG_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_TRIG_H_
#undef RILL_DEVICES_KERNEL_MATH_TRIG_H_
#else
#define RILL_DEVICES_KERNEL_MATH_TRIG_H_
#endif

#include "rill/devices/kernel/math/math_common.h"
#include "rill/devices/kernel/math/math_scalar.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// The quadrant n in the low bits of an integer, and sin and cos of r.
template <class V>
struct SinCosParts {
  int_t<V> n;
  V sin, cos;
};

template <F32 V>
HWY_INLINE SinCosParts<V> sin_cos_parts(V x) {
  using C = FloatFormat<V>;
  const V t = fma(x, V(6.3661977236758138e-1), V(C::kShifter));
  const V n = t - V(C::kShifter);
  V r = fma(n, V(-C::kHalfPi), x);  // exact
  r = fma(n, V(-C::kHalfPiLow), r);
  r = fma(n, V(-C::kHalfPiLower), r);
  const V z = r * r;
  const V s = polynomial(z, -1.95182845e-4, 8.33218917e-3, -1.66666552e-1);
  const V c = polynomial(z, 2.44323273e-5, -1.38873095e-3, 4.16666456e-2, -0.5, 1);
  return {bits(t), fma(z * r, s, r), c};
}

template <F64 V>
HWY_INLINE SinCosParts<V> sin_cos_parts(V x) {
  using C = FloatFormat<V>;
  const V t = fma(x, V(6.3661977236758138e-1), V(C::kShifter));
  const V n = t - V(C::kShifter);
  const V a = fma(n, V(-C::kHalfPi), x);  // exact
  const auto p = two_product(n, V(-C::kHalfPiLow));
  const auto r = two_sum(a, p.high);
  const V low = r.low + fma(n, V(-C::kHalfPiLower), p.low);

  const V z = r.high * r.high;
  const V s = polynomial(z, 1.5895433214897693e-10, -2.5050734388180636e-8, 2.7557313538509084e-6,
                         -1.984126982935852e-4, 8.3333333333218407e-3, -1.666666666666663e-1);
  const V c = polynomial(z, -1.1358732904537177e-11, 2.0875705116956938e-9, -2.7557314215309092e-7,
                         2.4801587288997499e-5, -1.3888888888873338e-3, 4.1666666666666595e-2);
  const V h = V(0.5) * z;
  const V w = V(1) - h;
  return {bits(t), r.high + fma(z * r.high, s, low), w + (((V(1) - w) - h) + fma(z * z, c, -r.high * low))};
}

// The bit of n that says whether sin and cos change places, and a sign for bit 1 of n.
template <class V>
HWY_INLINE auto odd_quadrant(int_t<V> n) {
  using I = int_t<V>;
  return mask_cast<V>((n & I(1)) != I(0));
}
template <class V>
HWY_INLINE V flip_by_bit_one(V y, int_t<V> n) {
  using I = int_t<V>;
  return from_bits(bits(y) ^ shl<8 * sizeof(scalar_t<V>) - 2>(n & I(2)));
}

// Sine. NaN at infinity.
template <Floating V>
HWY_INLINE V sin(V x) {
  const auto p = sin_cos_parts(x);
  const V y = flip_by_bit_one(select(odd_quadrant<V>(p.n), p.cos, p.sin), p.n);
  return patch(abs(x) > V(FloatFormat<V>::kTrigMax), select(x == V(0), x, y), scalar_math::Sin(), x);
}

// Cosine. NaN at infinity.
template <Floating V>
HWY_INLINE V cos(V x) {
  const auto p = sin_cos_parts(x);
  const V y = flip_by_bit_one(select(odd_quadrant<V>(p.n), p.sin, p.cos), p.n ^ shl<1>(p.n));
  return patch(abs(x) > V(FloatFormat<V>::kTrigMax), y, scalar_math::Cos(), x);
}

// Tangent, as a quotient of the two. NaN at infinity.
template <Floating V>
HWY_INLINE V tan(V x) {
  const auto p = sin_cos_parts(x);
  const auto odd = odd_quadrant<V>(p.n);
  const V y = select(odd, -p.cos, p.sin) / select(odd, p.sin, p.cos);
  return patch(abs(x) > V(FloatFormat<V>::kTrigMax), select(x == V(0), x, y), scalar_math::Tan(), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
