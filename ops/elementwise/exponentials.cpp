// Exponentials, logarithms and roots. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/exponentials.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR(exp, floats, exp(x))
RILL_SCALAR(exp2, floats, exp2(x))
RILL_SCALAR(expm1, floats, expm1(x))
RILL_SCALAR(log, floats, log(x))
RILL_SCALAR(log2, floats, log2(x))
RILL_SCALAR(log10, floats, log10(x))
RILL_SCALAR(log1p, floats, log1p(x))
RILL_SCALAR(sqrt, cheap_floats, sqrt(x))
RILL_SCALAR(rsqrt, cheap_floats, V(1) / sqrt(x))
RILL_SCALAR(cbrt, floats, cbrt(x))
RILL_SCALAR(reciprocal, cheap_floats, V(1) / x)

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/ref/complex_math.h"
#include "rill/ops/elementwise/unary_records.h"

namespace rill {

using namespace elementwise;

namespace {
constexpr double ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;
// The cotangent times -y^2, which does not overflow or underflow where only the square does.
Tensor chain_twice(const VjpArgs& a, const Tensor& y) { return multiply_no_nan(conj(y), chain(a, -y)); }
}  // namespace

RILL_FLOAT_UNARY(exp, "e^x", analytic_set, analytic, std::exp(x), chain(a, y), OUT, SAMPLES(-300, 300), 2, "Exp", "Exp")
RILL_FLOAT_UNARY(exp2, "2^x", analytic_set, analytic, ref::math::exp2(x), chain(a, exp2(x - 1) * (2 * ln2)), IN,
                 SAMPLES(-300, 300), 2, "", "")
RILL_FLOAT_UNARY(expm1, "e^x - 1, accurate near 0", analytic_set, analytic, ref::math::expm1(x), chain(a, exp(x)), IN,
                 SAMPLES(-200, 200), 3, "", "Expm1")
RILL_FLOAT_UNARY(log, "natural logarithm", analytic_set, analytic, std::log(x), chain(a, reciprocal(x)), IN,
                 SAMPLES(10, 500), 2, "Log", "Log")
RILL_FLOAT_UNARY(log2, "base-2 logarithm", analytic_set, analytic, ref::math::log2(x), chain(a, reciprocal(x* ln2)), IN,
                 SAMPLES(10, 500), 2, "", "")
RILL_FLOAT_UNARY(log10, "base-10 logarithm", analytic_set, analytic, ref::math::log10(x), chain(a, reciprocal(x* ln10)),
                 IN, SAMPLES(10, 500), 2, "", "")
RILL_FLOAT_UNARY(log1p, "log(1 + x), accurate near 0", analytic_set, analytic, ref::math::log1p(x),
                 chain(a, reciprocal(1 + x)), IN, SAMPLES(-50, 300), 3, "", "Log1p")
RILL_FLOAT_UNARY(sqrt, "square root", analytic_set, analytic, std::sqrt(x), chain(a, 0.5 / y), OUT, SAMPLES(10, 500), 1,
                 "Sqrt", "Sqrt")
RILL_FLOAT_UNARY(rsqrt, "1 / sqrt(x)", analytic_set, analytic, ref::math::reciprocal(std::sqrt(x)),
                 chain(a, -0.5 * y * y * y), OUT, SAMPLES(10, 500), 2, "", "Rsqrt")
RILL_FLOAT_UNARY(cbrt, "cube root", float_set, ref::floats, std::cbrt(x), chain(a, square(reciprocal(y)) / 3), OUT,
                 SAMPLES(10, 500), 2, "", "")
RILL_FLOAT_UNARY(reciprocal, "1 / x", analytic_set, analytic, ref::math::reciprocal(x), chain_twice(a, y), OUT,
                 SAMPLES(10, 500), 1, "Reciprocal", "Reciprocal")

}  // namespace rill
#endif  // HWY_ONCE
