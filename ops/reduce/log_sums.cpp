// Logarithms of sums and products of two operands: logaddexp, logaddexp2, xlogy. The layout of the file is that of
// unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/reduce/log_sums.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// How far the smaller is below the larger; 0 also for equal infinities.
template <class V>
HWY_INLINE V distance(V x, V y) {
  return abs(select(x == y, V(0), x - y));
}

RILL_SCALAR2(logaddexp, floats, max(x, y) + log1p(exp(-distance(x, y))))
RILL_SCALAR2(logaddexp2, floats,
             max(x, y) + log1p(exp2(-distance(x, y))) * V(scalar_t<V>(1.4426950408889634073599246810019)))
RILL_SCALAR2(xlogy, floats, select((x == V(0)) & (y == y), V(0), x* log(y)))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/elementwise/binary_records.h"

namespace rill {

using namespace elementwise;

namespace {

constexpr double ln2 = 0.69314718055994530942;

long double log_sum_reference(long double x, long double y, long double base) {
  const long double d = x == y ? 0 : std::fabs(x - y);
  return (x > y ? x : y) + std::log1p(std::exp(-d * base)) / base;
}

// The fraction of x in e^x + e^y, or in 2^x + 2^y with `scale` = log 2. Equal infinities have half each, like equal
// numbers.
Tensor fraction(const Tensor& x, const Tensor& y, double scale) {
  const Tensor d = where(logical_and(x == y, isinf(x)), 0, x - y);
  return sigmoid(scale == 1 ? d : d * scale);
}

// The derivatives of x log y. At x = 0 they are log y, but 0 if that is not finite (as in torch), and 0, also
// if y is 0: xlogy(0, y) is 0 for every y.
Tensor xlogy_by_x(const Tensor& x, const Tensor& y) {
  const Tensor none = logical_and(x == 0, y <= 0);
  return where(none, 0, log(where(none, 1, y)));
}
Tensor xlogy_by_y(const Tensor& x, const Tensor& y) { return x / where(logical_and(x == 0, y == 0), 1, y); }

}  // namespace

RILL_BINARY(logaddexp, true, .doc = "log(e^x + e^y), without overflow", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"logaddexp">, .ref = REF2(ref::floats, log_sum_reference(x, y, 1)),
            .vjp = VJP2(multiply_no_nan(fraction(x, y, 1), g), multiply_no_nan(fraction(y, x, 1), g)),
            .saves_in = save_both, .samples = REAL_SAMPLES, .max_ulp = 2, .exported = {"", ""}, .norm_tolerance = 1)
RILL_BINARY(logaddexp2, true, .doc = "log2(2^x + 2^y), without overflow", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"logaddexp2">,
            .ref = REF2(ref::floats, log_sum_reference(x, y, 0.693147180559945309417232121458L)),
            .vjp = VJP2(multiply_no_nan(fraction(x, y, ln2), g), multiply_no_nan(fraction(y, x, ln2), g)),
            .saves_in = save_both, .samples = REAL_SAMPLES, .max_ulp = 2, .norm_tolerance = 1)
RILL_BINARY(xlogy, true, .doc = "x log(y), and 0 where x is 0 but y no NaN", .dtypes = float_set,
            .cpu = cpu::scalar_kernel<"xlogy">, .ref = REF2(ref::floats, x == 0 && y == y ? 0 : x * std::log(y)),
            .vjp = VJP2(multiply_no_nan(xlogy_by_x(x, y), g), multiply_no_nan(xlogy_by_y(x, y), g)),
            .saves_in = save_both, .samples = (binary_samples<-300, 300, 10, 500>), .max_ulp = 3,
            .exported = {"", "Xlogy"})

}  // namespace rill
#endif  // HWY_ONCE
