// Exponentials and what is made of them: exp exp2 expm1, sigmoid, softplus, sinh cosh tanh. Part of math.h.
//
// All share one reduction (Cody & Waite, "Software Manual for the Elementary Functions", 1980, with fma):
//   x = n ln2 + r, |r| <= ln2/2,   e^x = 2^n (1 + p),   p = expm1(r) = r + r^2 Q(r)
// with Q a minimax polynomial (Remez; relative error of p 2^-26 or 2^-31 for float32, 2^-61 for float64).
// Keeping 1 and p apart is what makes expm1, sinh and tanh accurate near 0.

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

// e^x = 2^n (1 + p); n as a number of either kind.
template <class V>
struct ExpParts {
  V whole;
  int_t<V> n;
  V p;
};

// The polynomial p(r) above; `fine` takes one more term, for where p itself is the result. Even and odd powers apart:
// as many steps as Horner's rule has for all, and half as many that wait for one another.
template <bool fine, class V>
HWY_INLINE V expm1_kernel(V r) {
  const V s = r * r;
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
  return fma(s, fma(odd, r, even), r);
}

// For |x| < 2000. n may lie outside of what an exponent holds: the caller clamps x or scales in two steps.
template <bool fine, class V>
HWY_INLINE ExpParts<V> exp_parts(V x) {
  using C = FloatFormat<V>;
  const V t = fma(x, V(C::kLog2e), V(C::kShifter));  // n sits in the low bits of t
  const V n = t - V(C::kShifter);
  V r = fma(n, V(-C::kLn2), x);
  r = fma(n, V(-C::kLn2Low), r);
  return {n, bits(t) - bits(V(C::kShifter)), expm1_kernel<fine>(r)};
}

// e^x. All x.
template <Floating V>
HWY_INLINE V exp(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_parts<false>(clamp(x, V(C::kExpLow), V(C::kExpHigh)));
  return scale(V(1) + e.p, e.whole);
}

// 2^x. All x; exact where x is an integer. 2^x - 1 = r P(r) on |r| <= 1/2, minimax.
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
  const V half = power_of_two<V>(e.n, -1);  // half of 2^n, which may be one past the largest exponent
  const V y = fma(half, e.p, half - V(0.5));
  return copysign(select(half == V(0.5), e.p, y + y), x);
}

// 1 / (1 + e^-x). All x; from e^-|x|, so that nothing overflows and small results are accurate.
template <Floating V>
HWY_INLINE V sigmoid(V x) {
  const V z = exp(-abs(x));
  return select(x < V(0), z, V(1)) / (V(1) + z);
}

// tanh x = t / (t + 2), t = expm1(2 |x|). All x. The reduction does without the low part of ln2: for n = 0 there is
// none, and for larger n the error that it would mend shrinks faster than n grows.
template <Floating V>
HWY_INLINE V tanh(V x) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  const V y = select(a > V(C::kTanhOne), V(C::kTanhOne), a);
  constexpr auto shifter = C::kShifter + C::kBias;  // so that n comes as an exponent has it
  const V t = fma(y, V(2 * C::kLog2e), V(shifter));
  const V r = fma(t - V(shifter), V(-C::kLn2), y + y);
  const V s = from_bits(shl<C::kMantissaBits>(bits(t)));  // only the low bits of t survive the shift
  const V m = fma(s, expm1_kernel<false>(r), s - V(1));
  return copysign(m / (m + V(2)), x);
}

// E = e^|x| / 2 and t = expm1(|x|), the latter only where |x| < 1.
template <class V>
struct HyperbolicParts {
  V half_exp, expm1;
};
template <class V>
HWY_INLINE HyperbolicParts<V> hyperbolic_parts(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_parts<true>(clamp(abs(x), V(0), V(C::kSinhHigh)));
  const V quarter = power_of_two<V>(e.n, -2);
  const V s = power_of_two<V>(e.n, 0);
  const V y = fma(quarter, e.p, quarter);
  return {y + y, fma(s, e.p, s - V(1))};
}

// sinh x. All x. |x| < 1: (t + t / (t + 1)) / 2 with t = expm1 |x|; else E - 1 / (4 E) with E = e^|x| / 2.
template <Floating V>
HWY_INLINE V sinh(V x) {
  const auto h = hyperbolic_parts(x);
  const auto small = abs(x) < V(1);
  const V q = select(small, h.expm1, V(-0.25)) / select(small, h.expm1 + V(1), h.half_exp);
  return copysign(select(small, V(0.5) * (h.expm1 + q), h.half_exp + q), x);
}

// cosh x = E + 1 / (4 E), E = e^|x| / 2. All x.
template <Floating V>
HWY_INLINE V cosh(V x) {
  const V e = hyperbolic_parts(x).half_exp;
  return e + V(0.25) / e;
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
