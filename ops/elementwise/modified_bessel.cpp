// Modified Bessel functions of the first kind, and erfcx.
//
// For |x| <= 8, I0 = 1 + q P(q) and I1 = x/2 (1 + q P(q)) with q = (x/2)^2, whose coefficients are all positive;
// beyond, sqrt(x) e^-x I is a polynomial in t = 16/x - 1. erfcx(x) (1 + 2x) is one in t = (x - k)/(x + k), as in
// math_special.h. Interpolated at Chebyshev points with sixty digits, to a relative error of 2^-56 and 2^-28. The
// layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/modified_bessel.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

template <class V>
HWY_INLINE V i0_series(V q) {
  if constexpr (F64<V>)
    return polynomial(q, 9.32095798265739435e-25, 1.11405786265776489e-22, 2.6460556344031165e-20,
                      4.3438267385385564e-18, 6.2782656962334053e-16, 7.59382545786869431e-14, 7.59407627814254194e-12,
                      6.1511863472134668e-10, 3.93675992705662236e-8, 1.9290123446740302e-6, 6.94444444461812957e-5,
                      1.73611111110930483e-3, 2.77777777777787609e-2, 2.49999999999999789e-1, 1.00000000000000001);
  else
    return polynomial(q, 1.461669356e-13, 4.955253563e-12, 6.672989396e-10, 3.87562391e-8, 1.933402289e-6,
                      6.942536162e-5, 1.736158589e-3, 2.777771793e-2, 2.500000292e-1, 9.999999977e-1);
}
template <class V>
HWY_INLINE V i1_series(V q) {
  if constexpr (F64<V>)
    return polynomial(q, 5.67062342771273592e-26, 7.60558397650668476e-24, 1.8808297774933083e-21,
                      3.3442128592875253e-19, 5.23132598350007954e-17, 6.9035553605147699e-15, 7.59406870010154162e-13,
                      6.83465202178980873e-11, 4.92094988323258756e-9, 2.75573192182071391e-7, 1.15740740741739273e-5,
                      3.47222222222118393e-4, 6.94444444444450095e-3, 8.33333333333333212e-2, 5.0e-1);
  else
    return polynomial(q, 1.260308732e-14, 5.467495866e-13, 7.253729195e-11, 4.871949916e-9, 2.759245598e-7,
                      1.157254821e-5, 3.472260157e-4, 6.944439666e-3, 8.333333566e-2, 4.999999998e-1);
}
template <class V, class F>
HWY_INLINE auto with_i0_tail(F f) {
  if constexpr (F64<V>)
    return f(-6.06764220985480304e-11, -2.02574376612858193e-11, 4.57709086499227742e-10, 1.52773686184176916e-10,
             -1.61898059470870458e-9, -5.7153816635020497e-10, 3.63795288566036182e-9, 1.52001524623012588e-9,
             -5.95356598207502561e-9, -3.50590648802696415e-9, 7.43046115550380763e-9, 7.55254764915251134e-9,
             -5.40476944340463318e-9, -1.34089038309035946e-8, -6.74765876129257179e-9, 7.55468846753697134e-9,
             2.15483781624978562e-8, 3.9325843865857056e-8, 8.87221973536421204e-8, 2.97359858812573306e-7,
             1.48384756582968861e-6, 1.1143033790933773e-5, 1.3621607439193046e-4, 3.36055198366786153e-3,
             4.02176509445008077e-1);
  else
    return f(1.086797306e-7, 3.626669775e-7, 1.476115262e-6, 1.111214836e-5, 1.362171644e-4, 3.3605557e-3,
             4.021765094e-1);
}
template <class V, class F>
HWY_INLINE auto with_i1_tail(F f) {
  if constexpr (F64<V>)
    return f(6.30601374233851375e-11, 1.85118640499926474e-11, -4.75884491909359208e-10, -1.40097398593319661e-10,
             1.68490438607097457e-9, 5.29515027375990246e-10, -3.79467828334758873e-9, -1.43865673135601069e-9,
             6.2427465527503871e-9, 3.42617240504862631e-9, -7.88835359997964223e-9, -7.64235771205383724e-9,
             5.974437854346291e-9, 1.40342246794178956e-8, 6.73446495798623285e-9, -8.42776258124535114e-9,
             -2.33739282783918488e-8, -4.31291778273139885e-8, -1.00012882935546071e-7, -3.48385576058957798e-7,
             -1.83491013269919303e-6, -1.50385472005690039e-5, -2.1923576383388925e-4, -9.74957719323573618e-3,
             3.89398459025872328e-1);
  else
    return f(-1.227325058e-7, -4.210349545e-7, -1.825690217e-6, -1.500396554e-5, -2.192371256e-4, -9.74958137e-3,
             3.893984591e-1);
}
template <class V, class F>
HWY_INLINE auto with_erfcx(F f) {
  if constexpr (F64<V>)
    return f(-9.02990177193939183e-11, -1.1656687990646772e-9, 6.02198008555988295e-10, 1.3624442837249237e-8,
             -7.57020097700422274e-10, -9.64004254614127598e-8, -6.46696988398212941e-9, 6.01482385205438354e-7,
             -4.51431493527874415e-8, -3.81401258467990214e-6, 2.32862618033280395e-6, 2.42603009850289941e-5,
             -4.27822856336920062e-5, -1.21512120919843728e-4, 5.64384418191914376e-4, -3.02267953433313292e-4,
             -4.21501990637365207e-3, 1.90993309532711631e-2, -4.88233258281255556e-2, 8.79831538240367818e-2,
             -1.15089598160178529e-1, 9.75190951532870599e-2, -1.05555963322185694e-2, -1.40009180137619704e-1,
             1.24234924487115438);
  else
    return f(-1.88227328e-5, -2.025598614e-5, 1.2454334e-4, 2.215715401e-4, -4.343877998e-4, -1.464070899e-3,
             1.263291003e-3, 8.724607634e-3, -8.032344865e-3, -5.422026661e-2, 1.640511269e-1, -1.660303835e-1,
             -9.276382251e-2, 1.276978381);
}

// Evaluates the coefficients above, from the highest power down: a polynomial in t, or the polynomial and its
// derivative.
template <class V>
struct Jet {
  V value, slope;
};
template <class V>
struct JetAt {
  V t;
  template <class... C>
  HWY_INLINE Jet<V> operator()(double first, C... more) const {
    Jet<V> p{V(scalar_t<V>(first)), V(0)};
    ((p.slope = fma(p.slope, t, p.value), p.value = fma(p.value, t, V(scalar_t<V>(more)))), ...);
    return p;
  }
};
template <class V>
struct PolynomialAt {
  V t;
  template <class... C>
  HWY_INLINE V operator()(C... c) const {
    return polynomial(t, c...);
  }
};
template <class V>
HWY_INLINE V i0_tail(V t) {
  return with_i0_tail<V>(PolynomialAt<V>{t});
}
template <class V>
HWY_INLINE V i1_tail(V t) {
  return with_i1_tail<V>(PolynomialAt<V>{t});
}

// For a >= 0: I0 and I1 up to 8, and e^-a times them from there.
template <class V>
HWY_INLINE V i0_near(V a) {
  const V q = a * a * V(scalar_t<V>(0.25));
  return fma(q, i0_series(q), V(1));
}
template <class V>
HWY_INLINE V i1_near(V a) {
  const V q = a * a * V(scalar_t<V>(0.25)), half = a * V(scalar_t<V>(0.5));
  return fma(half * q, i1_series(q), half);
}
template <class V>
HWY_INLINE V i0_far(V a) {
  return i0_tail(V(16) / a - V(1)) / sqrt(a);
}
template <class V>
HWY_INLINE V i1_far(V a) {
  return i1_tail(V(16) / a - V(1)) / sqrt(a);
}
// y e^a in two factors, the first of which does not overflow unless the result does.
template <class V>
HWY_INLINE V grown(V y, V a) {
  const V e = exp(a * V(scalar_t<V>(0.5)));
  return (y * e) * e;
}

template <class V>
HWY_INLINE V i0(V x) {
  const V a = clamp(abs(x), V(0), V(10000));
  return select(a <= V(8), i0_near(a), grown(i0_far(a), a));
}
template <class V>
HWY_INLINE V i1(V x) {
  const V a = clamp(abs(x), V(0), V(10000));
  return copysign(select(a <= V(8), i1_near(a), grown(i1_far(a), a)), x);
}
template <class V>
HWY_INLINE V i0e(V x) {
  const V a = abs(x);
  return select(a <= V(8), exp(-a) * i0_near(a), i0_far(a));
}
template <class V>
HWY_INLINE V i1e(V x) {
  const V a = abs(x);
  return copysign(select(a <= V(8), exp(-a) * i1_near(a), i1_far(a)), x);
}

template <class V>
HWY_INLINE V erfcx(V x) {
  const V a = abs(x), near = clamp(a, V(0), V(scalar_t<V>(1e18))), k(scalar_t<V>(F64<V> ? 3.5 : 2));
  const V y = V(scalar_t<V>(0.5)) * with_erfcx<V>(PolynomialAt<V>{(near - k) / (near + k)}) / (a + V(scalar_t<V>(0.5)));
  const V s = a * a, e = exp(s);  // e^(x^2), corrected for the rounding error of s
  const V grown = fma(e, fma(a, a, -s), e) * V(2) - y;
  const V below = select(s >= V(scalar_t<V>(F64<V> ? 709.5 : 88.5)), V(kInfinity<V>), grown);
  return select(x < V(0), below, y);
}

// Derivatives. That of q(16/a - 1) / sqrt(a), for a >= 8:
template <class V>
HWY_INLINE V slope_of_tail(Jet<V> q, V a) {
  return (V(scalar_t<V>(-16)) / a * q.slope - V(scalar_t<V>(0.5)) * q.value) / sqrt(a) / a;
}
// I1(a) / a for a <= 8.
template <class V>
HWY_INLINE V i1_over(V a) {
  const V half(scalar_t<V>(0.5));
  return fma(half * (a * a * V(scalar_t<V>(0.25))), i1_series(a * a * V(scalar_t<V>(0.25))), half);
}
template <class V>
HWY_INLINE V i1_slope(V x) {
  const V a = clamp(abs(x), V(0), V(10000));
  return select(a <= V(8), i0_near(a) - i1_over(a), grown(i0_far(a) - i1_far(a) / a, a));
}
// 0 at 0, where it jumps.
template <class V>
HWY_INLINE V i0e_slope(V x) {
  const V a = abs(x), far = slope_of_tail(with_i0_tail<V>(JetAt<V>{V(16) / a - V(1)}), a);
  const V slope = select(a <= V(8), exp(-a) * (i1_near(a) - i0_near(a)), far);
  return select(a == V(0), V(0), select(x < V(0), -slope, slope));
}
template <class V>
HWY_INLINE V i1e_slope(V x) {
  const V a = abs(x), far = slope_of_tail(with_i1_tail<V>(JetAt<V>{V(16) / a - V(1)}), a);
  return select(a <= V(8), exp(-a) * (i0_near(a) - i1_over(a) - i1_near(a)), far);
}
// The derivative of y = P(t) / (1 + 2x) for x > 0, and 2 x y - 2 / sqrt(pi) for x < 0, where nothing cancels.
template <class V>
HWY_INLINE V erfcx_slope(V x) {
  const V a = abs(x), near = clamp(a, V(0), V(scalar_t<V>(1e18))), k(scalar_t<V>(F64<V> ? 3.5 : 2));
  const V half(scalar_t<V>(0.5));
  const auto p = with_erfcx<V>(JetAt<V>{(near - k) / (near + k)});
  const V y = half * p.value / (a + half);
  const V above = (half * (p.slope * ((k + k) / (a + k) / (a + k))) - y) / (a + half);
  return select(x < V(0), fma(x + x, erfcx(x), V(scalar_t<V>(-1.12837916709551257389615890312))), above);
}

RILL_SCALAR(i0, floats, i0(x))
RILL_SCALAR(i1, floats, i1(x))
RILL_SCALAR(i0e, floats, i0e(x))
RILL_SCALAR(i1e, floats, i1e(x))
RILL_SCALAR(erfcx, floats, erfcx(x))
RILL_SCALAR(i1_slope, floats, i1_slope(x))
RILL_SCALAR(i0e_slope, floats, i0e_slope(x))
RILL_SCALAR(i1e_slope, floats, i1e_slope(x))
RILL_SCALAR(erfcx_slope, floats, erfcx_slope(x))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "rill/devices/kernel/math/special/derivatives.h"
#include "rill/ops/elementwise/derivative_records.h"
#include "rill/ops/elementwise/unary_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;

namespace {

// e^-a I_n(a) for a >= 0, n = 0 or 1: the power series (DLMF 10.25.2), and for large a the asymptotic one (10.40.1).
long double scaled_bessel_i(int n, long double a) {
  if (std::isnan(a)) return a;
  if (a <= 35) {
    long double term = n == 0 ? 1 : a / 2, sum = term;
    for (int k = 1; k < 200; ++k) sum += term *= a / 2 * (a / 2) / (k * (k + n));
    return std::exp(-a) * sum;
  }
  long double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) sum += term *= -(4 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * k * a);
  return sum / std::sqrt(2 * scalar_math::wide_pi * a);
}
long double bessel_i(int n, long double x) {
  const long double a = std::fabs(x), y = a > 10000 ? INFINITY : scaled_bessel_i(n, a) * std::exp(a);
  return n == 1 && std::signbit(x) ? -y : y;
}
long double bessel_ie(int n, long double x) {
  const long double y = scaled_bessel_i(n, std::fabs(x));
  return n == 1 && std::signbit(x) ? -y : y;
}

long double bessel_i1_slope(long double x) {
  const long double i0 = bessel_i(0, x);
  return x == 0 ? 0.5L : std::isinf(i0) ? i0 : i0 - bessel_i(1, x) / x;
}

}  // namespace

// First derivatives, which are ops so that they, and theirs, are computed by formulas that do not cancel.
#define RILL_SLOPE(fn, reference, derivative, lo, hi, ulp)                                                  \
  extern const Op fn##_slope_op;                                                                            \
  const Op fn##_slope_op(spec_of({.name = #fn "_slope",                                                     \
                                  .doc = "the derivative of " #fn,                                          \
                                  .dtypes = float_set,                                                      \
                                  .cpu = cpu::scalar_kernel<#fn "_slope">,                                  \
                                  .ref = ref::scalar_kernel<[](auto x) { return reference; }, ref::floats>, \
                                  .vjp =                                                                    \
                                      [](const VjpArgs& a) {                                                \
                                        const Tensor& x = a.in[0];                                          \
                                        return Tensors{chain(a, derivative)};                               \
                                      },                                                                    \
                                  IN,                                                                       \
                                  .samples = SAMPLES(lo, hi),                                               \
                                  .max_ulp = ulp}));
RILL_SLOPE(i1, bessel_i1_slope(x), 0.25 * (iv(3, x) + 3 * i1(x)), -1200, 1200, 8)
RILL_SLOPE(i0e, special::scaled_i_derivative<long double>(1, 0, x), i0e_derivative(2, x), -1200, 1200, 40)
RILL_SLOPE(i1e, special::scaled_i_derivative<long double>(1, 1, x), i1e_derivative(2, x), 200, 1200, 40)
RILL_SLOPE(erfcx, special::scaled_erfc_derivative<long double>(1, x), erfcx_derivative(2, x), -300, 900, 24)
#undef RILL_SLOPE

RILL_FLOAT_UNARY(i0, "modified Bessel function I0", float_set, ref::floats, bessel_i(0, x), chain(a, i1(x)), IN,
                 SAMPLES(-1200, 1200), 6, "", "BesselI0")
RILL_FLOAT_UNARY(i1, "modified Bessel function I1", float_set, ref::floats, bessel_i(1, x),
                 chain(a, slope_at(i1_slope_op, x)), IN, SAMPLES(-1200, 1200), 6, "", "BesselI1")
RILL_FLOAT_UNARY(i0e, "e^-|x| times the modified Bessel function I0", float_set, ref::floats, bessel_ie(0, x),
                 chain(a, slope_at(i0e_slope_op, x)), IN, SAMPLES(-1200, 1200), 6, "", "BesselI0e")
RILL_FLOAT_UNARY(i1e, "e^-|x| times the modified Bessel function I1", float_set, ref::floats, bessel_ie(1, x),
                 chain(a, slope_at(i1e_slope_op, x)), IN, SAMPLES(-1200, 1200), 6, "", "BesselI1e")
RILL_FLOAT_UNARY(erfcx, "e^(x^2) erfc(x)", float_set, ref::floats, scalar_math::scaled_erfc((long double)x),
                 chain(a, slope_at(erfcx_slope_op, x)), IN, SAMPLES(-300, 900), 6, "", "")

}  // namespace rill
#endif  // HWY_ONCE
