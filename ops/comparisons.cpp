// Comparisons, maximum and minimum. Laid out as unary.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/comparisons.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/scalar_loops-inl.h"
#include "rill/devices/kernel/targets.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR2(maximum, any_kind, max(x, y))
RILL_SCALAR2(minimum, any_kind, min(x, y))
RILL_SCALAR2(equal, any_kind, x == y)
RILL_SCALAR2(not_equal, any_kind, x != y)
RILL_SCALAR2(less, any_kind, x < y)
RILL_SCALAR2(less_equal, any_kind, x <= y)

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/binary_records.h"

namespace rill {

using namespace elementwise;

#define RILL_COMPARE(fn, sign, set, kinds, onnx_name, tf_name)      \
  extern const Op fn##_op;                                          \
  const Op fn##_op(spec_of({.name = #fn,                            \
                            .doc = "x " #sign " y, as bool",        \
                            .dtypes = set,                          \
                            .cpu = cpu::scalar_kernel<#fn>,         \
                            .ref = REF2(kinds, x sign y),           \
                            .samples = REAL_SAMPLES,                \
                            .max_ulp = 0,                           \
                            .exported = {onnx_name, tf_name},       \
                            .infer = infer_bool,                    \
                            .no_gradient = "the result is bool"})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary(fn##_op, x, y, false, where); }
RILL_COMPARE(equal, ==, plain_set, ref::any_kind, "Equal", "Equal")
RILL_COMPARE(not_equal, !=, plain_set, ref::any_kind, "", "NotEqual")
RILL_COMPARE(less, <, plain_set & ~complex_set, (ref::reals | ref::bools), "Less", "Less")
RILL_COMPARE(less_equal, <=, plain_set & ~complex_set, (ref::reals | ref::bools), "LessOrEqual", "LessEqual")
#undef RILL_COMPARE
Tensor greater(const Tensor& x, const Tensor& y, Where where) { return less(y, x, where); }
Tensor greater_equal(const Tensor& x, const Tensor& y, Where where) { return less_equal(y, x, where); }

// --- Choices ---------------------------------------------------------------------------------------------------------

namespace {
// Where x and y tie, each gets half (as TensorFlow and JAX).
Tensor chosen(const Tensor& g, const Tensor& wins, const Tensor& ties) {
  return where(ties, 0.5 * g, where(wins, g, 0));
}

}  // namespace

RILL_BINARY(maximum, false, .doc = "the larger; NaN if either is", .dtypes = real_set | bool_set,
            .cpu = cpu::scalar_kernel<"maximum">,
            .ref = REF2(ref::any_kind & ~ref::complexes, x != x             ? x
                                                         : y != y || x <= y ? y
                                                                            : x),
            .vjp = VJP2(chosen(g, x > y, x == y), chosen(g, y > x, x == y)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0, .exported = {"Max", "Maximum"})
RILL_BINARY(minimum, false, .doc = "the smaller; NaN if either is", .dtypes = real_set | bool_set,
            .cpu = cpu::scalar_kernel<"minimum">,
            .ref = REF2(ref::any_kind & ~ref::complexes, x != x             ? x
                                                         : y != y || x >= y ? y
                                                                            : x),
            .vjp = VJP2(chosen(g, x < y, x == y), chosen(g, y < x, x == y)), .saves_in = save_both,
            .samples = REAL_SAMPLES, .max_ulp = 0, .exported = {"Min", "Minimum"})

}  // namespace rill
#endif  // HWY_ONCE
