// Trigonometric and hyperbolic functions and their inverses. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/trigonometry.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR(sin, floats, sin(x))
RILL_SCALAR(cos, floats, cos(x))
RILL_SCALAR(tan, floats, tan(x))
RILL_SCALAR(asin, floats, asin(x))
RILL_SCALAR(acos, floats, acos(x))
RILL_SCALAR(atan, floats, atan(x))
RILL_SCALAR(sinh, floats, sinh(x))
RILL_SCALAR(cosh, floats, cosh(x))
RILL_SCALAR(tanh, floats, tanh(x))
RILL_SCALAR(asinh, floats, asinh(x))
RILL_SCALAR(acosh, floats, acosh(x))
RILL_SCALAR(atanh, floats, atanh(x))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/elementwise/unary_records.h"

namespace rill {

using namespace elementwise;

extern const Op tanh_derivative_op;  // arithmetic.cpp

namespace {
// 1 - x^2 as (1 - x) (1 + x), which does not cancel near 1, with the gradient of the square, -2 x: that of the product
// is (1 - x) - (1 + x), which cancels near 0. Where the square would be infinite, the gradient is 0.
Tensor one_less_square(const Tensor& x) {
  const Tensor same = stop_gradient(x), zero = same - x;
  return stop_gradient((1 - x) * (1 + x)) + (zero * same + zero * x);
}
// 4 e / (1 + e)^2 with e = e^(-2 x), for x or -x, whichever has the smaller e.
Tensor slope_of_complex_tanh(const Tensor& x) {
  const Tensor e = exp(-2 * where(real(x) < 0, -x, x));
  return 4 * e / square(1 + e);
}
Tensor times_i(const Tensor& x) { return complex(-imag(x), real(x)); }
// 1 / sqrt(1 - x^2), and 1 / sqrt(x^2 + 1), without the square where it may overflow.
Tensor slope_of_asin(const Tensor& x) {
  return is_complex(x.dtype()) ? rsqrt(1 - x) * rsqrt(1 + x) : rsqrt(one_less_square(x));
}
Tensor slope_of_asinh(const Tensor& x) {
  return is_complex(x.dtype()) ? slope_of_asin(times_i(x)) : reciprocal(hypot(x, ones_like(x)));
}
// 1 / cos^2: 1 + tan^2 cancels where the imaginary part is large.
Tensor slope_of_tan(const Tensor& x) {
  return is_complex(x.dtype()) ? slope_of_complex_tanh(times_i(x)) : square(reciprocal(cos(x)));
}
}  // namespace

RILL_FLOAT_UNARY(sin, "sine of radians", analytic_set, analytic, std::sin(x), chain(a, cos(x)), IN, SAMPLES(-300, 300),
                 2, "Sin", "Sin")
RILL_FLOAT_UNARY(cos, "cosine of radians", analytic_set, analytic, std::cos(x), chain(a, -sin(x)), IN,
                 SAMPLES(-300, 300), 2, "Cos", "Cos")
RILL_FLOAT_UNARY(tan, "tangent of radians", analytic_set, analytic, std::tan(x), chain(a, slope_of_tan(x)), IN,
                 SAMPLES(-130, 130), 4, "Tan", "Tan")
RILL_FLOAT_UNARY(asin, "inverse sine", analytic_set, analytic, std::asin(x), chain(a, slope_of_asin(x)), IN,
                 SAMPLES(-90, 90), 2, "Asin", "Asin")
RILL_FLOAT_UNARY(acos, "inverse cosine", analytic_set, analytic, std::acos(x), chain(a, -slope_of_asin(x)), IN,
                 SAMPLES(-90, 90), 2, "Acos", "Acos")
RILL_FLOAT_UNARY(atan, "inverse tangent", analytic_set, analytic, std::atan(x), chain(a, 1 / (1 + x * x)), IN,
                 SAMPLES(-300, 300), 3, "Atan", "Atan")
RILL_FLOAT_UNARY(sinh, "hyperbolic sine", analytic_set, analytic, std::sinh(x), chain(a, cosh(x)), IN,
                 SAMPLES(-200, 200), 4, "Sinh", "Sinh")
RILL_FLOAT_UNARY(cosh, "hyperbolic cosine", analytic_set, analytic, std::cosh(x), chain(a, sinh(x)), IN,
                 SAMPLES(-200, 200), 3, "Cosh", "Cosh")
RILL_FLOAT_UNARY(tanh, "hyperbolic tangent", analytic_set, analytic, std::tanh(x),
                 is_complex(x.dtype()) ? chain(a, slope_of_complex_tanh(x))
                                       : apply1(tanh_derivative_op, {&x, &a.cotangent[0]}, {}, Where::current()),
                 IN, SAMPLES(-300, 300), 4, "Tanh", "Tanh")
RILL_FLOAT_UNARY(asinh, "inverse hyperbolic sine", analytic_set, analytic, std::asinh(x), chain(a, slope_of_asinh(x)),
                 IN, SAMPLES(-300, 300), 3, "Asinh", "Asinh")
RILL_FLOAT_UNARY(acosh, "inverse hyperbolic cosine", analytic_set, analytic, std::acosh(x),
                 chain(a, rsqrt(x - 1) * rsqrt(x + 1)), IN, SAMPLES(120, 500), 4, "Acosh", "Acosh")
RILL_FLOAT_UNARY(atanh, "inverse hyperbolic tangent", analytic_set, analytic, std::atanh(x),
                 chain(a, 1 / one_less_square(x)), IN, SAMPLES(-90, 90), 3, "Atanh", "Atanh")

}  // namespace rill
#endif  // HWY_ONCE
