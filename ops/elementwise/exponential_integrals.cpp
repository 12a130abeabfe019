// Integrals of exponentials and waves: E1, Ei, the sine and cosine integrals, Dawson's and Fresnel's. The arithmetic
// is in devices/kernel/math/special/exponential_integrals.h.
#include <numbers>

#include "rill/devices/kernel/math/special/derivatives.h"
#include "rill/ops/elementwise/derivative_records.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

extern const Op fresnel_sine_slope_op, fresnel_cosine_slope_op;

namespace {

// sin(x) / x: sinc(x / pi) has accurate derivatives near 0, but for large x its argument is rounded.
Tensor sine_over(const Tensor& x) {
  const Tensor is_near = abs(x) < 1;
  const Tensor near = where(is_near, x, 0), far = where(is_near, 1, x);
  return where(is_near, sinc(near / std::numbers::pi), sin(far) / far);
}

// e^x / x, which is finite a little further than e^x.
Tensor exp_over(const Tensor& x) {
  const Tensor root = exp(0.5 * x);
  return root / x * root;
}

}  // namespace

RILL_LONG_UNARY(exp1, E1, long double, "the exponential integral E1: that of e^-t / t from x to infinity", -exp(-x) / x,
                (unary_samples<10, 2000>), 2, "")
RILL_LONG_UNARY(expi, Ei, long double, "the exponential integral Ei: the principal value of that of e^t / t up to x",
                exp_over(x), (unary_samples<50, 2000>), 2, "Expint")
RILL_LONG_UNARY(sine_integral, SineIntegral, long double, "the integral of sin(t) / t from 0 to x", sine_over(x),
                (unary_samples<-2000, 2000>), 2, "")
RILL_LONG_UNARY(cosine_integral, CosineIntegral, long double,
                "gamma + log |x| + the integral of (cos(t) - 1) / t from 0 to x", cos(x) / x, (unary_samples<20, 2000>),
                2, "")
RILL_LONG_UNARY(dawsn, Dawson, long double, "Dawson's integral: e^(-x^2) times the integral of e^(t^2) from 0 to x",
                dawsn_derivative(1, x), (unary_samples<-800, 800>), 2, "Dawsn")
RILL_LONG_UNARY(fresnel_sine_slope, FresnelSineSlope, long double, "sin(pi x^2 / 2)",
                std::numbers::pi* x* slope_at(fresnel_cosine_slope_op, x), (unary_samples<-500, 500>), 2, "")
RILL_LONG_UNARY(fresnel_cosine_slope, FresnelCosineSlope, long double, "cos(pi x^2 / 2)",
                -std::numbers::pi* x* slope_at(fresnel_sine_slope_op, x), (unary_samples<-500, 500>), 2, "")
RILL_LONG_UNARY(fresnel_sine, FresnelSine, long double, "Fresnel's integral of sin(pi t^2 / 2) from 0 to x",
                slope_at(fresnel_sine_slope_op, x), (unary_samples<-500, 500>), 2, "FresnelSin")
RILL_LONG_UNARY(fresnel_cosine, FresnelCosine, long double, "Fresnel's integral of cos(pi t^2 / 2) from 0 to x",
                slope_at(fresnel_cosine_slope_op, x), (unary_samples<-500, 500>), 2, "FresnelCos")

Tensor exp1(const Tensor& x, Where where) { return long_call(exp1_op, {&x}, where); }
Tensor expi(const Tensor& x, Where where) { return long_call(expi_op, {&x}, where); }
Tensor dawsn(const Tensor& x, Where where) { return long_call(dawsn_op, {&x}, where); }
SineCosine sici(const Tensor& x, Where where) {
  return {long_call(sine_integral_op, {&x}, where), long_call(cosine_integral_op, {&x}, where)};
}
SineCosine fresnel(const Tensor& x, Where where) {
  return {long_call(fresnel_sine_op, {&x}, where), long_call(fresnel_cosine_op, {&x}, where)};
}

}  // namespace rill
