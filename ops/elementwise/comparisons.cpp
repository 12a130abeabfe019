// Comparisons, maximum and minimum. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/comparisons.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR2(maximum, any_cheap, max(x, y))
RILL_SCALAR2(minimum, any_cheap, min(x, y))
RILL_SCALAR2(equal, any_cheap | same_signed, x == y)
RILL_SCALAR2(not_equal, any_cheap | same_signed, x != y)
RILL_SCALAR2(less, any_cheap, x < y)
RILL_SCALAR2(less_equal, any_cheap, x <= y)

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/elementwise/binary_records.h"

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
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return compare(fn##_op, x, y, where); }
extern const Op equal_op, not_equal_op;
namespace {

// Whether x and y are integers for which no integer dtype can represent both, so that promotion would round them. C++
// integers take the dtype of the other operand; but if they do not fit, they are compared by value.
bool loses_values(const Tensor& x, const Tensor& y) {
  if (!x.defined() || !y.defined() || !is_integer(x.dtype()) || !is_integer(y.dtype())) return false;
  const auto exceeds = [](const Tensor& a, const Tensor& b) {
    return overflows(a, b.dtype()) || may_overflow(a, b.dtype());
  };
  if (x.spec().weak != y.spec().weak) return x.spec().weak ? exceeds(x, y) : exceeds(y, x);
  return is_floating(promote(x.dtype(), y.dtype()));
}
// As 64 bits of its own signedness.
Tensor widest(const Tensor& x) { return astype(x, is_unsigned(x.dtype()) ? u64 : i64); }

// An integer tensor and a C++ number with a fraction are compared in f64, which rounds few of them; f32, in which they
// would be computed, rounds many.
bool compares_in_f64(const Tensor& x, const Tensor& y) {
  return x.defined() && y.defined() && y.spec().weak && is_floating(y.dtype()) && !x.spec().weak &&
         is_integer(x.dtype());
}

Tensor compare(const Op& op, const Tensor& x, const Tensor& y, const Where& where);

// x and y as 64 bits; a negative signed one is below any unsigned number, and a nonnegative one is compared as the
// unsigned number with the same bits.
Tensor compare_mixed(const Op& op, const Tensor& x, const Tensor& y, const Where& where) {
  CallerScope caller(where);
  const Device device = x.spec().weak ? y.device() : x.device();
  const Tensor a = widest(x).to(device), b = widest(y).to(device);
  if (a.dtype() == b.dtype()) return compare(op, a, b, where);
  const bool a_is_signed = a.dtype() == i64;
  const Tensor below = less(a_is_signed ? a : b, zeros({}, {i64, device}));
  const Tensor rest = compare(op, astype(a, u64), astype(b, u64), where);
  if (&op == &not_equal_op || (&op != &equal_op && a_is_signed)) return bitwise_or(below, rest);
  return bitwise_and(bitwise_not(below), rest);
}

Tensor compare(const Op& op, const Tensor& x, const Tensor& y, const Where& where) {
  if (x.defined() && y.defined() && x.dtype() == y.dtype()) return binary(op, x, y, false, where);
  if (loses_values(x, y)) return compare_mixed(op, x, y, where);
  if (compares_in_f64(x, y)) return binary(op, astype(x, f64, where), y, false, where);
  if (compares_in_f64(y, x)) return binary(op, x, astype(y, f64, where), false, where);
  return binary(op, x, y, false, where);
}

}  // namespace
RILL_COMPARE(equal, ==, plain_set, ref::any_kind, "Equal", "Equal")
RILL_COMPARE(not_equal, !=, plain_set, ref::any_kind, "", "NotEqual")
RILL_COMPARE(less, <, plain_set & ~complex_set, (ref::reals | ref::bools), "Less", "Less")
RILL_COMPARE(less_equal, <=, plain_set & ~complex_set, (ref::reals | ref::bools), "LessOrEqual", "LessEqual")
#undef RILL_COMPARE
Tensor greater(const Tensor& x, const Tensor& y, Where where) { return less(y, x, where); }
Tensor greater_equal(const Tensor& x, const Tensor& y, Where where) { return less_equal(y, x, where); }

// --- Choices ---------------------------------------------------------------------------------------------------------

namespace {
// Where x and y tie, each gets half (as in TensorFlow and JAX).
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
