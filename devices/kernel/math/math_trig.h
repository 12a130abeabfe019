// Circular functions: sin cos tan. Part of math.h.
//
// x = n pi/2 + r, |r| <= pi/4, by Cody & Waite's reduction with pi/2 as a sum of three numbers and fma, good for |x| <=
// 1e5 (float32) and 1e9 (float64). Larger arguments are rare: they go lane by lane to the C library, which reduces by
// as many bits of 2/pi as necessary (Payne & Hanek). r is a pair, high + low, accurate to its last bit; rounding it
// would cost half an ulp of the sine. The polynomials on |r| <= pi/4 have the form of fdlibm's k_sin.c and k_cos.c with
// minimax coefficients (Remez): relative error 2^-28 and 2^-33 (float32), 2^-58 and 2^-64 (float64).

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

// x = n pi/2 + r + low; n in the low bits of an integer.
template <class V>
struct ReducedAngle {
  int_t<V> n;
  V r, low;
};
template <class V>
HWY_INLINE ReducedAngle<V> reduced_angle(V x) {
  using C = FloatFormat<V>;
  const V t = fma(x, V(6.3661977236758138e-1), V(C::kShifter));
  const V n = t - V(C::kShifter);
  const V a = fma(n, V(-C::kHalfPi), x);  // exact
  const auto p = two_product(n, V(-C::kHalfPiLow));
  const auto r = fast_two_sum(a, p.high);  // even a small a is a multiple of p.high's last bit
  return {bits(t), r.high, r.low + fma(n, V(-C::kHalfPiLower), p.low)};
}

template <F32 V>
HWY_INLINE SinCosParts<V> sin_cos_parts(V x) {
  const auto a = reduced_angle(x);
  const V z = a.r * a.r;
  const V s = polynomial(z, -1.95182845e-4, 8.33218917e-3, -1.66666552e-1);
  const V c = polynomial(z, 2.44323273e-5, -1.38873095e-3, 4.16666456e-2, -0.5);
  return {a.n, a.r + fma(z * a.r, s, a.low), fma(a.r, fma(a.r, c, -a.low), V(1))};
}

template <F64 V>
HWY_INLINE SinCosParts<V> sin_cos_parts(V x) {
  const auto a = reduced_angle(x);
  const V z = a.r * a.r;
  const V s = polynomial(z, 1.5895433214897693e-10, -2.5050734388180636e-8, 2.7557313538509084e-6,
                         -1.984126982935852e-4, 8.3333333333218407e-3, -1.666666666666663e-1);
  const V c = polynomial(z, -1.1358732904537177e-11, 2.0875705116956938e-9, -2.7557314215309092e-7,
                         2.4801587288997499e-5, -1.3888888888873338e-3, 4.1666666666666595e-2);
  const V h = V(0.5) * z;
  const V w = V(1) - h;
  return {a.n, a.r + fma(z * a.r, s, a.low), w + (((V(1) - w) - h) + fma(z * z, c, -a.r * a.low))};
}

// The bit of n that says whether sin and cos are exchanged, and a sign for bit 1 of n.
template <class V>
HWY_INLINE auto odd_quadrant(int_t<V> n) {
  using I = int_t<V>;
  return mask_cast<V>((n & I(1)) != I(0));
}
template <class V>
HWY_INLINE V flip_by_bit_one(V y, int_t<V> n) {
  using I = int_t<V>;
  constexpr auto sign = std::numeric_limits<scalar_t<I>>::min();
  return from_bits(bits(y) ^ (shl<8 * sizeof(scalar_t<V>) - 2>(n) & I(sign)));
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
  const V y = flip_by_bit_one(select(odd_quadrant<V>(p.n), p.sin, p.cos), p.n + int_t<V>(1));
  return patch(abs(x) > V(FloatFormat<V>::kTrigMax), y, scalar_math::Cos(), x);
}

// Tangent. NaN at infinity. tan r = r + r^3 P(r^2) / Q(r^2) = A / Q on |r| <= pi/4, minimax, relative error 2^-35 and
// 2^-65; in odd quadrants -Q / A. Both need one quotient, and in even quadrants r is added.
template <Floating V>
HWY_INLINE V tan(V x) {
  const auto p = reduced_angle(x);
  const V z = p.r * p.r;
  V num, den;
  if constexpr (F64<V>) {
    num = polynomial(z, -1.7896881024392093178e-8, 2.448919295519140116e-4, -2.1442822023160398742e-2,
                     3.3333333333333333585e-1);
    den = polynomial(z, -2.560496791744129145e-4, 2.4561300311682252718e-2, -4.6432846606948089882e-1, 1);
  } else {
    num = polynomial(z, -1.4896284331863e-2, 3.3333333213522749e-1);
    den = polynomial(z, 1.5971031844790e-2, -4.4468890538605841e-1, 1);
  }
  const auto odd = odd_quadrant<V>(p.n);
  const V rest = fma(z * p.r, num, p.low);
  const V q = select(odd, -den, rest) / select(odd, fma(p.r, den, rest), den);
  const V y = select(odd, V(0), p.r) + q;
  return patch(abs(x) > V(FloatFormat<V>::kTrigMax), select(x == V(0), x, y), scalar_math::Tan(), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
