// Error functions and gamma functions: erf erfc erfinv gelu, lgamma digamma; sinc. Part of math.h.
//
// erfc x = e^(-x^2) E(x) for x >= 0, where E(x) (1 + 2x) is smooth in t = (x - k)/(x + k): the form of Shepherd &
// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36 (1981), with minimax coefficients
// (Remez; relative error 2^-29 and 2^-56) for x >= 0.8, and k = 2.75 and 4.75.

#if defined(RILL_DEVICES_KERNEL_MATH_SPECIAL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#undef RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#else
#define RILL_DEVICES_KERNEL_MATH_SPECIAL_H_
#endif

#include "rill/devices/kernel/math/math_exp.h"
#include "rill/devices/kernel/math/math_log.h"
#include "rill/devices/kernel/math/math_scalar.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// erfc(a) for a >= 0.8 or NaN. The quotient is a pair, y + y_low, so that only its factor rounds.
template <class V>
HWY_INLINE V erfc_kernel(V a) {
  a = clamp(a, V(0), V(F64<V> ? 28 : 10.6));  // 0 above
  const V s = a * a;
  const auto e = exp_reduction(-s);
  const V rr = e.r * e.r, tail = rr * expm1_tail<true>(e.r, rr);  // e^r = 1 + r + tail
  const V s_low = fma(a, a, -s);
  constexpr double k = F64<V> ? 4.75 : 2.75;
  const V t = (a - V(k)) / (a + V(k));
  V c, more;  // the polynomial is c + more
  if constexpr (F64<V>) {
    c = V(1.2211784257075968);
    more = fma(
        t,
        polynomial(t, 6.83237291140266884e-8, 4.96699772314310638e-8, -8.81140854330996867e-7, 1.13556617720584579e-6,
                   5.05853859998388980e-6, -2.49797145203825821e-5, 3.67129719704812166e-5, 1.07167500017259419e-4,
                   -8.65201159018516318e-4, 3.22868686466604732e-3, -8.79067133642765563e-3, 1.93607415642614238e-2,
                   -3.58934072912940326e-2, 5.68723495980293505e-2, -7.68835717177799640e-2, 8.65398707489945783e-2,
                   -7.46963169948136543e-2, 3.28221230523788427e-2, 4.00993677568905856e-2, -1.34717560672074986e-1),
        V(-9.84e-17));
  } else {
    c = V(1.2588036);
    more = fma(t,
               polynomial(t, 1.7215401e-3, -2.59345563e-3, -1.04424274e-2, 5.23131844e-2, -1.14499767e-1, 1.4490685e-1,
                          -7.1305943e-2, -1.30462494e-1),
               V(1.80508748e-8));
  }
  const auto den = fast_two_sum(a + a, V(1));
  const V inverse = V(1) / den.high;
  const V y = (c + more) * inverse;
  const V y_low = fma(-y, den.low, fma(-y, den.high, c) + more) * inverse;
  const V low = fma(-s_low, fma(y, e.r + tail, y), y_low);
  return scale_small(y + fma(y, e.r, fma(y, tail, low)), e.n);
}

// v log2(e), v = 2 sqrt(2/pi) (x + 0.044715 x^3), as an integer and a rest, for 2^(v log2(e)) = e^v. x is multiplied by
// a pair, because v may be large and the exponential amplifies its error. For |x| < 22 (f64) and 11.
template <class V>
HWY_INLINE ExpReduction<V> gelu_exponent(V x) {
  using C = FloatFormat<V>;
  constexpr bool wide = F64<V>;
  const V linear(wide ? 2.302208198144328 : 2.30220795f);  // of so few bits that its difference from `high` is exact
  const V linear_low(wide ? -2.977296208542741e-15 : 2.5136697e-7f);
  const V cubic(wide ? 1.029432395800235e-1 : 1.02943242e-1f);
  const V cubic_low(wide ? -5.978177400718744e-18 : -2.01619854e-9f);
  const auto q = two_product(x, x);
  const V high = fma(q.high, cubic, linear), rest = fma(q.high, cubic, linear - high);
  const V low = fma(q.high, cubic_low, fma(q.low, cubic, rest + linear_low));
  const V t = fma(x, high, V(C::kExponentShifter)), n = t - V(C::kExponentShifter);
  return {t, n, fma(x, low, fma(x, high, -n))};
}

// x (1 + tanh(v/2)) / 2 as x / (1 + e^-v), v as above: fewer operations, and without the cancellation in 1 + tanh. All
// x.
template <Floating V>
HWY_INLINE V gelu(V x) {
  constexpr bool wide = F64<V>;
  const V one(wide ? 8 : 6);  // above it, the result is x
  const V a = clamp(x, V(wide ? -22 : -11), one);
  const auto v = gelu_exponent(a);
  return select(x > one, x, over_one_plus_power(a, v, exp2m1_of_negative(v.r)));
}

// The derivative of gelu: s + x v' s (1 - s) with s = 1 / (1 + e) and 1 - s = e s, e = e^-v. All x; outside the bounds
// it is 0 or 1, and inside them e is finite.
template <Floating V>
HWY_INLINE V gelu_slope(V x) {
  constexpr auto linear = scalar_t<V>(1.5957691216057307117597842397375274738);  // of v: 2 sqrt(2/pi)
  constexpr auto cubic = scalar_t<V>(0.0713548162726002487363783522798635);      // that times 0.044715
  constexpr auto bound = scalar_t<V>(F64<V> ? 21 : 10);
  const V a = clamp(x, V(-bound), V(bound));
  const auto v = gelu_exponent(a);
  const V e = scale(V(1) + exp2m1_of_negative(v.r), -v.n), s = V(1) / (V(1) + e);
  return fma(a * fma(a * a, V(3 * cubic), V(linear)), (e * s) * s, s);
}

// P(a^2) in erf a = a + a P(a^2), for 0 <= a < 0.9 in float32 and 1 in float64: minimax, relative error 2^-30 and
// 2^-56.
template <class V>
HWY_INLINE V erf_tail(V a) {
  const V z = a * a;
  V p;
  if constexpr (F64<V>) {
    p = polynomial(z, -7.7809590732680435e-10, 1.3711842704723686e-8, -1.6206530730931339e-7, 1.6447162703521237e-6,
                   -1.4924715108186029e-5, 1.2055293741906236e-4, -8.5483259356786048e-4, 5.2239776062762318e-3,
                   -2.686617064313538e-2, 1.1283791670944386e-1, -3.7612638903183526e-1, 1.2837916709551256e-1);
  } else {
    p = polynomial(z, 8.18443077e-5, -8.08797951e-4, 5.19509334e-3, -2.6856482e-2, 1.12836324e-1, -3.76126289e-1,
                   1.28379166e-1);
  }
  return p;
}

// Error function. All x. Above erf_tail's range: float32 1 - e^-Q(x), Q = -log erfc, which is smooth (minimax, 2^-29;
// the form of N. Juffa's published erff); float64 1 - erfc.
template <F32 V>
HWY_INLINE V erf(V x) {
  const V a = clamp(abs(x), V(0), V(4));
  const V q = polynomial(a, -1.9821983e-4, 3.06549226e-3, -2.23152265e-2, 1.04113705e-1, 6.36976063e-1, 1.12779725,
                         1.66449041e-4);
  const auto e = exp_parts<false>(-q);
  const V s = power_of_two<V>(e.n, 0);
  return copysign(select(a < V(0.9), fma(a, erf_tail(a), a), V(1) - fma(s, e.p, s)), x);
}
template <F64 V>
HWY_INLINE V erf(V x) {
  const V a = abs(x);
  return copysign(select(a < V(1), fma(a, erf_tail(a), a), V(1) - erfc_kernel(a)), x);
}

// 1 - erf x. All x. Near 0, where erfc_kernel is least accurate, it is computed as that difference.
template <Floating V>
HWY_INLINE V erfc(V x) {
  const V a = abs(x);
  const auto rest = fast_two_sum(V(1), -a);
  const V near = rest.high + fma(-a, erf_tail(a), rest.low);
  const V y = select(a < V(0.8), near, erfc_kernel(a));
  return select(x < V(0), V(2) - y, y);
}

// Inverse of erf. Infinity at +-1, NaN beyond. x P(w), w = -log(1 - x^2), with a polynomial in w near 0 and in its
// square root towards +-1: M. Giles, "Approximating the erfinv function" (2012), whose coefficients float64 uses; those
// of float32 are minimax (2^-26).
template <F32 V>
HWY_INLINE V erfinv_by_log(V x, V w) {
  const V u = w - V(2.5);
  const V v = sqrt(w) - V(3);
  const V central = polynomial(u, -8.82061773e-9, 4.5324438e-8, 3.53219132e-7, -4.34618367e-6, 5.90068647e-6,
                               2.03594126e-4, -1.76172516e-3, 2.26924712e-4, 2.46072974e-1);
  const V tail = polynomial(v, 1.10364505e-4, -3.04898533e-4, -4.86915487e-5, 1.47919053e-3, -3.60178984e-3,
                            5.6892374e-3, -7.63633959e-3, 9.44502452e-3, 1.00167491);
  const auto near = w < V(5);
  const V first = select(near, V(0.8862269), V(2.8329768));
  return fma(x, fma(select(near, w, v), select(near, central, tail), select(near, V(3.29814e-8), V(-1.26347e-8))),
             x * first);
}
template <F64 V>
HWY_INLINE V erfinv_by_log(V x, V w) {
  const V s = sqrt(w);
  const V central = polynomial(
      w - V(3.125), -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
      1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15,
      -4.0545662729752068639e-14, -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11,
      -5.4154120542946279317e-11, 1.051212273321532285e-9, -4.1126339803469836976e-9, -2.9070369957882005086e-8,
      4.2347877827932403518e-7, -1.3654692000834678645e-6, -1.3882523362786468719e-5, 1.867342080340571352e-4,
      -7.4070253416626697512e-4, -6.0336708714301490533e-3, 0.24015818242558961693, 1.6536545626831027356);
  const V tail = polynomial(
      s - V(3.25), 2.2137376921775787049e-9, 9.0756561938885390979e-8, -2.7517406297064545428e-7,
      1.8239629214389227755e-8, 1.5027403968909827627e-6, -4.013867526981545969e-6, 2.9234449089955446044e-6,
      1.2475304481671778723e-5, -4.7318229009055733981e-5, 6.8284851459573175448e-5, 2.4031110387097893999e-5,
      -3.550375203628474796e-4, 9.5328937973738049703e-4, -1.6882755560235047313e-3, 2.4914420961078508066e-3,
      -3.7512085075692412107e-3, 5.370914553590063617e-3, 1.0052589676941592334, 3.0838856104922207635);
  const V far_tail = polynomial(s - V(5), -2.7109920616438573243e-11, -2.5556418169965252055e-10,
                                1.5076572693500548083e-9, -3.7894654401267369937e-9, 7.6157012080783393804e-9,
                                -1.4960026627149240478e-8, 2.9147953450901080826e-8, -6.7711997758452339498e-8,
                                2.2900482228026654717e-7, -9.9298272942317002539e-7, 4.5260625972231537039e-6,
                                -1.9681778105531670567e-5, 7.5995277030017761139e-5, -2.1503011930044477347e-4,
                                -1.3871931833623122026e-4, 1.0103004648645343977, 4.8499064014085844221);
  return x * select(w < V(6.25), central, select(w < V(16), tail, far_tail));
}
template <Floating V>
HWY_INLINE V erfinv(V x) {
  const V y = erfinv_by_log(x, -log(fma(-x, x, V(1))));
  return select(abs(x) == V(1), copysign(V(kInfinity<V>), x), y);
}

// sin(pi x) / (pi x), 1 at 0 and 0 at other integers. With d = x minus the nearest integer, which is exact,
// sin(pi d) / pi = d + d d^2 P(d^2), minimax, relative error 2^-35 and 2^-70.
template <Floating V>
HWY_INLINE V sinc(V x) {
  const V whole = round_even(x), half = V(0.5) * whole, d = x - whole, z = d * d, z_low = fma(d, d, -z);
  V p;
  if constexpr (F64<V>) {
    p = polynomial(z, -7.1020959860074612e-09, 2.5302014677619195e-07, -6.975845762187118e-06, 0.00014842878848264935,
                   -0.0023460810350094371, 0.026147847817629317, -0.19075182412208344, 0.81174242528335361,
                   -1.6449340668482264);
  } else {
    p = polynomial(z, -0.00224451604, 0.0261221845, -0.190748975, 0.811742306, -1.64493406);
  }
  const V r = d / x;
  const V y = fma(r, fma(z, p, z_low * p), r);
  return select(x == V(0), V(1), select(d == V(0), V(0), select(round_even(half) == half, y, -y)));
}

// log |gamma(x)|, lane by lane. Infinity at 0, -1, -2, ...
template <Floating V>
HWY_INLINE V lgamma(V x) {
  return patch(x == x, x, scalar_math::Lgamma(), x);
}

// The logarithmic derivative of gamma, lane by lane. NaN at -1, -2, ..., -infinity at +0 and infinity at -0.
template <Floating V>
HWY_INLINE V digamma(V x) {
  return patch(x == x, x, scalar_math::Digamma(), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
