// Exponentials and functions based on them: exp exp2 expm1, sigmoid, softplus, sinh cosh tanh. Part of math.h.
//
// All share one reduction (Cody & Waite, "Software Manual for the Elementary Functions", 1980, with fma):
//   x = n ln2 + r, |r| <= ln2/2,   e^x = 2^n (1 + p),   p = expm1(r) = r + r^2 Q(r)
// with Q a minimax polynomial (Remez; relative error of p 2^-26 or 2^-31 for float32, 2^-61 for float64).
// Keeping 1 and p separate is what makes expm1, sinh and tanh accurate near 0.

#if defined(RILL_DEVICES_KERNEL_MATH_EXP_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_EXP_H_
#undef RILL_DEVICES_KERNEL_MATH_EXP_H_
#else
#define RILL_DEVICES_KERNEL_MATH_EXP_H_
#endif

#include "rill/devices/kernel/math/math_common.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// e^x = 2^n (1 + p); n as an integer or a float.
template <class V>
struct ExpParts {
  V whole;
  int_t<V> n;
  V p;
};

// The polynomial Q(r) above, with s = r^2; `fine` adds one more term, for results that are p itself. Even and odd
// powers are summed separately: as many operations as in Horner's rule, but half the latency.
template <bool fine, class V>
HWY_INLINE V expm1_tail(V r, V s) {
  V even, odd;
  if constexpr (F64<V>) {
    even = polynomial(s, 2.0888457902208923e-9, 2.7557331446849543e-7, 2.4801587297404822e-5, 1.388888888887782e-3,
                      4.1666666666666699e-2, 0.5);
    odd = polynomial(s, 2.510812508742171e-8, 2.7557246403289458e-6, 1.9841269884679719e-4, 8.3333333333217834e-3,
                     1.6666666666666677e-1);
  } else if constexpr (fine) {
    even = polynomial(s, 1.39320444e-3, 4.16664965e-2, 0.5);
    odd = polynomial(s, 1.97762798e-4, 8.33353214e-3, 1.66666657e-1);
  } else {
    even = polynomial(s, 1.38357084e-3, 4.16677557e-2, 4.9999997e-1);
    odd = polynomial(s, 8.36712215e-3, 1.6666539e-1);
  }
  return fma(odd, r, even);
}

// The polynomial p(r).
template <bool fine, class V>
HWY_INLINE V expm1_kernel(V r) {
  const V s = r * r;
  return fma(s, expm1_tail<fine>(r, s), r);
}

// n and r, for |x| < 2000; n is also in the low bits of t, as a biased exponent. The first step is exact.
template <class V>
struct ExpReduction {
  V t, n, r;
};
template <class V>
HWY_INLINE ExpReduction<V> exp_reduction(V x) {
  using C = FloatFormat<V>;
  const V t = fma(x, V(C::kLog2e), V(C::kExponentShifter));
  const V n = t - V(C::kExponentShifter);
  return {t, n, fma(n, V(-C::kLn2Low), fma(n, V(-C::kLn2), x))};
}

// For |x| < 2000. n may exceed the range of exponents: the caller clamps x or scales in two steps.
template <bool fine, class V>
HWY_INLINE ExpParts<V> exp_parts(V x) {
  const auto e = exp_reduction(x);
  return {e.n, bits(e.t) - bits(V(FloatFormat<V>::kExponentShifter)), expm1_kernel<fine>(e.r)};
}

// e^r of a reduced x, as 1 + r (1 + r Q); only the last step has a rounding error relative to the result.
template <class V>
HWY_INLINE V exp_of_rest(V r) {
  return fma(fma(expm1_tail<false>(r, r * r), r, V(1)), r, V(1));
}

// e^x. All x.
template <Floating V>
HWY_INLINE V exp(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_reduction(clamp(x, V(C::kExpLow), V(C::kExpHigh)));
  return scale(exp_of_rest(e.r), e.n);
}

// The same for x <= 0, in fewer operations. NaN gives NaN, positive x any value.
template <Floating V>
HWY_INLINE V exp_of_negative(V x) {
  const auto e = exp_reduction(clamp(x, V(FloatFormat<V>::kExpLow), V(0)));
  return scale_small(exp_of_rest(e.r), e.n);
}

// 2^x. All x; exact if x is an integer. 2^x - 1 = r P(r) on |r| <= 1/2, minimax.
template <Floating V>
HWY_INLINE V exp2(V x) {
  using C = FloatFormat<V>;
  const V y = clamp(x, V(C::kExp2Low), V(C::kExp2High));
  const V n = (y + V(C::kShifter)) - V(C::kShifter);
  return scale(fma(y - n, exp2_kernel(y - n), V(1)), n);
}

// e^x - 1. All x.
template <Floating V>
HWY_INLINE V expm1(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_parts<true>(clamp(x, V(C::kExpm1Low), V(C::kExpHigh)));
  const V half = power_of_two<V>(e.n, -1);  // half of 2^n, as n may be one past the largest exponent
  const V y = fma(half, e.p, half - V(0.5));
  return copysign(select(half == V(0.5), e.p, y + y), x);
}

// a / (1 + 2^-n (1 + p)) of a reduced x whose n is below kScaleStep, as a 2^n / (2^n + 1 + p): the denominator is rounded
// once, because 1 + 2^n is exact or, with its low part, a pair, and small results are only rounded at the end.
template <class V>
HWY_INLINE V over_one_plus_power(V a, ExpReduction<V> x, V p) {
  using C = FloatFormat<V>;
  const auto n = max(bits(x.t), bits(V(C::kShifter + 1)));
  const V t = from_bits(shl<C::kMantissaBits>(n));  // 2^n, or something as negligible
  const V sum = t + V(1), t_low = t - (sum - V(1));
  return scale_small(a / (sum + (p + t_low)), x.n);
}

// 1 / (1 + e^-x). All x.
template <Floating V>
HWY_INLINE V sigmoid(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_reduction(clamp(x, V(C::kExpLow), V(C::kSigmoidOne)));
  const V s = e.r * e.r, p = fma(s, expm1_tail<true>(-e.r, s), -e.r);  // e^-r - 1
  return over_one_plus_power(V(1), e, p);
}

// tanh x. All x. For |x| < 0.89 or 0.85, x (1 - x^2 R(x^2)), R rational (minimax, relative error 2^-31, 2^-60); above,
// 1 - 2 / (e^(2 |x|) + 1). Both use one division. The reduction omits the low part of ln2, which is negligible above 1.
template <Floating V>
HWY_INLINE V tanh(V x) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  const V y = select(a > V(C::kTanhOne), V(C::kTanhOne), a);
  const V t = fma(y, V(2 * C::kLog2e), V(C::kExponentShifter));
  const V r = fma(t - V(C::kExponentShifter), V(-C::kLn2), y + y);
  const V s = from_bits(shl<C::kMantissaBits>(bits(t)));  // only the low bits of t survive the shift
  const V big = fma(s, expm1_kernel<false>(r), s + V(1));
  const V z = y * y;
  V num, den;
  if constexpr (F64<V>) {
    num = polynomial(z, -1.7184428596065355911e-8, -2.4308387058144305855e-4, -2.1405505243436691801e-2,
                     -3.3333333333333327783e-1);
    den = polynomial(z, 2.540911096569712439e-4, 2.4511095999145408151e-2, 4.6421651573030561224e-1, 1);
  } else {
    num = polynomial(z, -1.47933057e-2, -3.33333343e-1);
    den = polynomial(z, 1.58469062e-2, 4.44380134e-1, 1);
  }
  const auto small = y < V(F64<V> ? 0.85 : 0.89);
  const V q = select(small, z * num, V(-2)) / select(small, den, big);
  const V b = select(small, y, V(1));
  return copysign(fma(b, q, b), x);
}

// h (1 + p) = e^|x| / 4 with h a power of two, and q = e^-|x| / 4.
template <class V>
struct HyperbolicParts {
  V h, p, q;
};
template <class V>
HWY_INLINE HyperbolicParts<V> hyperbolic_parts(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_parts<false>(clamp(abs(x), V(0), V(C::kSinhHigh)));
  const V h = power_of_two<V>(e.n, -2);
  return {h, e.p, V(0.0625) / fma(h, e.p, h)};
}

// sinh x. All x. |x| < 1: x + x^3 P(x^2), minimax, relative error 2^-34 and 2^-63; else (e^|x| - e^-|x|) / 2.
template <Floating V>
HWY_INLINE V sinh(V x) {
  const auto e = hyperbolic_parts(x);
  const V big = e.h + fma(e.h, e.p, -e.q);
  const V a = abs(x), z = a * a;
  V p;
  if constexpr (F64<V>) {
    p = polynomial(z, 7.7587486884000900331e-13, 1.6057259772647433362e-10, 2.5052123136670432307e-8,
                   2.7557319157072217577e-6, 1.9841269841431871386e-4, 8.333333333333147745e-3,
                   1.6666666666666667383e-1);
  } else {
    p = polynomial(z, 2.8169512322189759e-6, 1.9836159777179403e-4, 8.3333500581722596e-3, 1.6666666497561105e-1);
  }
  return copysign(select(a < V(1), fma(a * z, p, a), big + big), x);
}

// cosh x = (e^|x| + e^-|x|) / 2. All x.
template <Floating V>
HWY_INLINE V cosh(V x) {
  const auto e = hyperbolic_parts(x);
  const V half = e.h + fma(e.h, e.p, e.q);
  return half + half;
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
