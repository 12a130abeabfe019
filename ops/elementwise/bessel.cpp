// Bessel functions J, Y and K of the orders 0 and 1. The arithmetic is in devices/kernel/math/special/bessel.h.
#include "rill/devices/kernel/math/special/derivatives.h"
#include "rill/ops/elementwise/derivative_records.h"
#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;
using namespace special;

// The derivative of j1; its own derivative, by functions of other orders (DLMF 10.6.1), does not cancel near 0.
RILL_LONG_UNARY(j1_slope, J1Slope, double, "the derivative of j1", 0.25 * (jv(3, x) - 3 * j1(x)),
                (unary_samples<-2000, 2000>), 2, "")

RILL_LONG_UNARY(j0, J0, double, "Bessel function J0", -j1(x), (unary_samples<-2000, 2000>), 2, "BesselJ0")
RILL_LONG_UNARY(j1, J1, double, "Bessel function J1", slope_at(j1_slope_op, x), (unary_samples<-2000, 2000>), 2,
                "BesselJ1")
RILL_LONG_UNARY(y0, Y0, double, "Bessel function Y0", -y1(x), (unary_samples<20, 2000>), 2, "BesselY0")
RILL_LONG_UNARY(y1, Y1, double, "Bessel function Y1", y0(x) - y1(x) / x, (unary_samples<20, 2000>), 2, "BesselY1")
RILL_LONG_UNARY(k0, K<0>, double, "modified Bessel function K0", -k1(x), (unary_samples<20, 2000>), 0, "BesselK0")
RILL_LONG_UNARY(k1, K<1>, double, "modified Bessel function K1", -k0(x) - k1(x) / x, (unary_samples<20, 2000>), 0,
                "BesselK1")
RILL_LONG_UNARY(k0e, ScaledK<0>, double, "e^x K0(x)", k0e_derivative(1, x), (unary_samples<20, 2000>), 4, "BesselK0e")
RILL_LONG_UNARY(k1e, ScaledK<1>, double, "e^x K1(x)", k1e_derivative(1, x), (unary_samples<20, 2000>), 4, "BesselK1e")

Tensor j0(const Tensor& x, Where where) { return long_call(j0_op, {&x}, where); }
Tensor j1(const Tensor& x, Where where) { return long_call(j1_op, {&x}, where); }
Tensor y0(const Tensor& x, Where where) { return long_call(y0_op, {&x}, where); }
Tensor y1(const Tensor& x, Where where) { return long_call(y1_op, {&x}, where); }
Tensor k0(const Tensor& x, Where where) { return long_call(k0_op, {&x}, where); }
Tensor k1(const Tensor& x, Where where) { return long_call(k1_op, {&x}, where); }
Tensor k0e(const Tensor& x, Where where) { return long_call(k0e_op, {&x}, where); }
Tensor k1e(const Tensor& x, Where where) { return long_call(k1e_op, {&x}, where); }

}  // namespace rill
