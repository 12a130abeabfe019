// Logarithms and functions based on them: log log2 log10 log1p, asinh acosh atanh, pow. Part of math.h.
//
// All share one reduction: x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), f exact. float32 then takes
// log(1 + f) = f - f^2/2 + f^3 P(f) as Cephes' logf does; float64 s = f / (2 + f) and 2 atanh(s), as fdlibm's
// e_log.c does, because that needs half as many terms. The coefficients are minimax (Remez), relative error 2^-27 and
// 2^-59.

#if defined(RILL_DEVICES_KERNEL_MATH_LOG_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_LOG_H_
#undef RILL_DEVICES_KERNEL_MATH_LOG_H_
#else
#define RILL_DEVICES_KERNEL_MATH_LOG_H_
#endif

#include "rill/devices/kernel/math/math_common.h"
#include "rill/devices/kernel/math/math_exp.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// x = 2^e m, sqrt(1/2) <= m < sqrt(2), or from another least m (given as bits), for finite x > 0.
template <class V>
struct LogParts {
  V e, m;
};
template <class V>
HWY_INLINE LogParts<V> log_parts(V x, scalar_t<int_t<V>> least = FloatFormat<V>::kSqrtHalfBits) {
  using C = FloatFormat<V>;
  using I = int_t<V>;
  const auto denormal = x < V(C::kMinNormal);
  const auto i = as_unsigned(bits(select(denormal, x * V(C::kDenormalScale), x)));
  const I one = I(scalar_t<I>(C::kBias) << C::kMantissaBits);
  // The biased exponent, as an integer and (in the low bits of 2^23 or 2^52) as a float.
  const auto k = shr<C::kMantissaBits>(i + as_unsigned(one - I(least)));
  const V e = from_bits(as_signed(k) | bits(V(C::kShiftOne))) - V(C::kShiftOne + C::kBias);
  const V m = from_bits(as_signed(i - shl<C::kMantissaBits>(k) + as_unsigned(one)));
  return {e - select(denormal, V(C::kDenormalExponent), V(0)), m};
}

// log(1 + f) - f, for the f above.
template <class V>
HWY_INLINE V log1p_tail(V f) {
  const V ff = f * f;
  if constexpr (F64<V>) {
    const V s = f / (V(2) + f);
    const V z = s * s;
    const V r =
        z * polynomial(z, 1.4795743431972661e-1, 1.5314074998678273e-1, 1.8183563186110163e-1, 2.2222198599699644e-1,
                       2.8571428742067784e-1, 3.9999999999416536e-1, 6.666666666666734e-1);
    const V h = V(0.5) * ff;
    return fma(s, h + r, -h);
  } else {
    const V p = polynomial(f, -7.63454735e-2, 1.27616212e-1, -1.3160184e-1, 1.42017514e-1, -1.66233569e-1,
                           2.00012267e-1, -2.50008225e-1, 3.33333313e-1);
    return fma(ff, V(-0.5), ff * f * p);
  }
}

// The cases that the reduction does not cover: log of 0, of negative numbers, infinity, NaN.
template <class V>
HWY_INLINE V log_edges(V x, V y) {
  y = select(x < V(kInfinity<V>), y, x);
  y = select(x < V(0), V(kNaN<V>), y);
  return select(x == V(0), V(-kInfinity<V>), y);
}

// Natural logarithm. NaN below 0, -infinity at 0.
template <Floating V>
HWY_INLINE V log(V x) {
  using C = FloatFormat<V>;
  const auto p = log_parts(x);
  const V f = p.m - V(1);
  const V y = f + fma(p.e, V(C::kLn2Low), log1p_tail(f));
  return log_edges(x, fma(p.e, V(C::kLn2), y));
}

// log(1 + f) times a constant c + c_low in extra precision, plus e times another such constant.
template <class V>
HWY_INLINE V log_base(V x, V c, V c_low, V d, V d_low) {
  const auto p = log_parts(x);
  const V f = p.m - V(1);
  const V t = log1p_tail(f);
  const auto l = fast_two_sum(f, t);
  const auto h = two_product(l.high, c);
  const V low = fma(p.e, d_low, fma(l.high, c_low, fma(l.low, c, h.low)));
  const V ed = p.e * d;
  const auto s = fast_two_sum(ed, h.high);
  return log_edges(x, s.high + (s.low + (fma(p.e, d, -ed) + low)));
}

// Base-2 logarithm; exact at powers of two.
template <Floating V>
HWY_INLINE V log2(V x) {
  using C = FloatFormat<V>;
  return log_base(x, V(C::kLog2e), V(C::kLog2eLow), V(1), V(0));
}

// Base-10 logarithm.
template <Floating V>
HWY_INLINE V log10(V x) {
  using C = FloatFormat<V>;
  return log_base(x, V(C::kLog10e), V(C::kLog10eLow), V(C::kLog10Of2), V(C::kLog10Of2Low));
}

// log(1 + x + low), for |low| of at most an ulp or two of x, except for special values. The exponent e is that of the
// rounded u = 1 + x, and f = 2^-e x + (2^-e - 1) has a negligible error: for e = 0 it is x, and in float32, whose m
// starts at 3/4, it is exact. The contribution of `low` is divided by 1 + f by a series.
template <class V>
HWY_INLINE LogParts<V> log1p_parts(V u) {
  if constexpr (F64<V>) return log_parts(u);
  else return log_parts(u, bits(0.75f));
}
template <bool paired, class V>
HWY_INLINE V log1p_kernel(V x, V low, LogParts<V> u) {
  using C = FloatFormat<V>;
  const V s = power_of_two<V>(-u.e);
  const V f = select(x < V(C::kDenormalScale), fma(x, s, s - V(1)), u.m - V(1));
  V tail;
  if constexpr (F64<V>) {
    tail = log1p_tail(f);
  } else {
    const V ff = f * f;
    const V p = polynomial(f, -4.50746939e-2, 1.04629979e-1, -1.31611764e-1, 1.44783929e-1, -1.66473135e-1,
                           1.99908614e-1, -2.50000954e-1, 3.33334506e-1);
    tail = fma(ff, V(-0.5), ff * f * p);
  }
  if constexpr (paired) {
    const V more = low * s;
    tail = tail + fma(more * f, f - V(1), more);
  }
  return fma(u.e, V(C::kLn2), f + fma(u.e, V(C::kLn2Low), tail));
}

// log(1 + x). NaN below -1, -infinity at -1.
template <Floating V>
HWY_INLINE V log1p(V x) {
  const V u = V(1) + x;
  const V y = log1p_kernel<false>(x, V(0), log1p_parts(u));
  return log_edges(u, select(abs(x) < V(FloatFormat<V>::kMinNormal), x, copysign(y, x)));
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|). All x.
template <Floating V>
HWY_INLINE V softplus(V x) {
  using C = FloatFormat<V>;
  const auto e = exp_reduction(clamp(-abs(x), V(C::kExpLow), V(C::kExpHigh)));
  const V p = expm1_kernel<false>(e.r), y = V(1) + p;
  const V most = V(C::kBias - 1), t = power_of_two<V>(select(e.n < -most, -most, e.n));
  const V z = scale_small(y, e.n);
  const V l = log1p_kernel<true>(z, (p - (y - V(1))) * t, log1p_parts(V(1) + z));
  return max(x, V(0)) + select(z < V(C::kMinNormal), z, l);
}

// asinh x = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))), and log |x| + log 2 for large |x|; as fdlibm's s_asinh.c. All x.
template <Floating V>
HWY_INLINE V asinh(V x) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  const auto big = a > V(C::kInverseHyperbolicBig);
  const V t = select(big, a - V(1), a + a * a / (V(1) + sqrt(fma(a, a, V(1)))));
  return copysign(log1p(t) + select(big, V(C::kLn2), V(0)), x);
}

// acosh x = log1p(t + sqrt(t^2 + 2 t)), t = x - 1, and log x + log 2 for large x; as fdlibm's e_acosh.c. NaN below 1.
template <Floating V>
HWY_INLINE V acosh(V x) {
  using C = FloatFormat<V>;
  const V t = x - V(1);
  const auto big = x > V(C::kInverseHyperbolicBig);
  const V y = log1p(select(big, t, t + sqrt(fma(t, t, t + t)))) + select(big, V(C::kLn2), V(0));
  return select(x < V(1), V(kNaN<V>), y);
}

// atanh x = log1p(2 |x| + 2 |x| |x| / (1 - |x|)) / 2. NaN if |x| > 1.
template <Floating V>
HWY_INLINE V atanh(V x) {
  const V a = abs(x);
  const V y = V(0.5) * log1p(fma(a + a, a / (V(1) - a), a + a));
  return copysign(select(a > V(1), V(kNaN<V>), y), x);
}

// log2 |x| as a sum of two, relative error about 2^-36 and 2^-65: 2 atanh(s) log2(e) + e, s = f / (2 + f), where s, s^2
// and the first terms are kept as pairs.
template <class V>
HWY_INLINE Pair<V> log2_pair(V x) {
  using C = FloatFormat<V>;
  const auto p = log_parts(x);
  const V f = p.m - V(1);
  const auto den = fast_two_sum(V(2), f);
  const V s = f / den.high;
  const V s_low = fma(-s, den.low, fma(-s, den.high, f)) / den.high;
  const auto z = two_product(s, s);
  const V z_low = fma(s + s, s_low, z.low);
  // log(1 + f) = 2 s (1 + z/3 + z^2 T(z))
  V t;
  if constexpr (F64<V>) {
    t = polynomial(z.high, 5.9908985586903912e-2, 5.8378880881595777e-2, 6.6681323416368871e-2, 7.6922792124412276e-2,
                   9.090909422014147e-2, 1.1111111108894803e-1, 1.428571428572192e-1, 1.999999999999999e-1);
  } else {
    t = polynomial(z.high, 1.17098227e-1, 1.42735451e-1, 2.00000763e-1);
  }
  constexpr bool wide = F64<V>;
  const V third = V(wide ? 3.3333333333333331e-1 : 3.33333343e-1);
  const V third_low = V(wide ? 1.8503717077085941e-17 : -9.93410776e-9);
  const auto z3 = two_product(z.high, third);
  const V tail_low = fma(z.high, third_low, fma(z_low, third, z3.low));
  const auto tail = fast_two_sum(z3.high, fma(z.high * z.high, t, tail_low));
  // s (1 + tail)
  const auto st = two_product(s, tail.high);
  const auto sum = fast_two_sum(s, st.high);
  const V sum_low = sum.low + (st.low + fma(s, tail.low, s_low));
  // times 2 log2(e), plus e
  const auto h = two_product(sum.high, V(2 * C::kLog2e));
  const V low = fma(sum.high, V(2 * C::kLog2eLow), fma(sum_low, V(2 * C::kLog2e), h.low));
  const auto l = fast_two_sum(p.e, h.high);
  return fast_two_sum(l.high, l.low + low);
}

// x^y with the special cases of C99 (F.9.4.4). 2^(y log2 |x|) with the logarithm and the product in extra precision.
template <Floating V>
HWY_INLINE V pow(V x, V y) {
  using C = FloatFormat<V>;
  const V a = abs(x);
  auto l = log2_pair(a);
  l.high = select(a == V(0), V(-kInfinity<V>), select(a < V(kInfinity<V>), l.high, a));
  const V t = y * l.high;
  const V high = clamp(t, V(C::kExp2Low), V(C::kExp2High));
  const auto in_range = high == t;
  const V low = select(in_range, fma(y, l.low, fma(y, l.high, -t)), V(0));
  const V n = (high + V(C::kShifter)) - V(C::kShifter);
  const V r = (high - n) + low;
  V z = scale(fma(r, exp2_kernel(r), V(1)), n);

  const V half = V(0.5) * y;
  const auto integer = round_even(y) == y;
  const auto odd = integer & (round_even(half) != half);
  z = select((a == V(1)) & !isnan(y), V(1), z);
  z = select(odd, copysign(z, x), z);
  z = select((x < V(0)) & (a < V(kInfinity<V>)) & !integer, V(kNaN<V>), z);
  return select((y == V(0)) | (x == V(1)), V(1), z);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
