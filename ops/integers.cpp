// Integer division, bits and shifts. Laid out as unary.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/integers.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/scalar_loops-inl.h"
#include "rill/devices/kernel/targets.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

// Division rounds down, as numpy's; by zero it gives 0.
template <class V>
HWY_INLINE V floor_divide_numbers(V x, V y) {
  const V q = quotient(x, y);
  if constexpr (std::is_signed_v<scalar_t<V>>) {
    const V zero(0), r = minus(x, times(q, y));
    return select((r != zero) & (y != zero) & ((r < zero) ^ (y < zero)), minus(q, V(1)), q);
  } else {
    return q;
  }
}
template <class V>
HWY_INLINE V remainder_numbers(V x, V y) {
  const V zero(0), r = minus(x, times(quotient(x, y), y));
  if constexpr (std::is_signed_v<scalar_t<V>>)
    return select(y == zero, zero, select((r != zero) & ((r < zero) ^ (y < zero)), plus(r, y), r));
  else return select(y == zero, zero, r);
}

RILL_SCALAR2(floor_divide, ints, floor_divide_numbers(x, y))
RILL_SCALAR2(remainder, ints, remainder_numbers(x, y))
RILL_SCALAR2(bitwise_and, ints | bools, V(x& y))
RILL_SCALAR2(bitwise_or, ints | bools, V(x | y))
RILL_SCALAR2(bitwise_xor, ints | bools, V(x ^ y))
RILL_SCALAR2(left_shift, ints, shift_left(x, y))
RILL_SCALAR2(right_shift, ints, shift_right(x, y))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

#include "rill/ops/binary_records.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

using namespace elementwise;

// Records for integers; the public functions compute floats from other ops.
namespace {
template <class X>
X floor_quotient(X x, X y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<X>) {
    if (y == -1) return X(0 - uint64_t(x));
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
  }
  return x / y;
}
}  // namespace
extern const Op floor_divide_op, remainder_op;
const Op floor_divide_op(spec_of({.name = "floor_divide",
                                  .doc = "x / y rounded down; 0 where y is 0 (integers)",
                                  .dtypes = int_set,
                                  .cpu = cpu::scalar_kernel<"floor_divide">,
                                  .ref = REF2(ref::ints, floor_quotient(x, y)),
                                  .samples = integer_binary_samples,
                                  .max_ulp = 0,
                                  .exported = {"", "FloorDiv"},
                                  .no_gradient = "integers"}));
const Op remainder_op(spec_of(
    {.name = "remainder",
     .doc = "x - y floor(x / y), the sign of y; 0 where y is 0 (integers)",
     .dtypes = int_set,
     .cpu = cpu::scalar_kernel<"remainder">,
     .ref = REF2(ref::ints, decltype(x)(y == 0 ? 0 : uint64_t(x) - uint64_t(y) * uint64_t(floor_quotient(x, y)))),
     .samples = integer_binary_samples,
     .max_ulp = 0,
     .exported = {"Mod", "FloorMod"},
     .no_gradient = "integers"}));

namespace {
bool takes_integers(const Tensor& x, const Tensor& y) {
  return !is_floating(promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak));
}
Tensor count_bools(const Tensor& x) { return is_bool(x.dtype()) ? x.astype(i8) : x; }
}  // namespace

Tensor remainder(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  if (takes_integers(x, y)) return binary(remainder_op, count_bools(x), count_bools(y), false, where);
  // fmod is exact; only the sign is left to mend (Python's rule).
  Tensor r = fmod(x, y);
  Tensor wrong = logical_and(r != 0, (r < 0) != (y < 0));
  return rill::where(wrong, r + y, rill::where(r == 0, copysign(r, y + 0.0 * r), r));
}
Tensor floor_divide(const Tensor& x, const Tensor& y, Where where) {
  CallerScope caller(where);
  if (takes_integers(x, y)) return binary(floor_divide_op, count_bools(x), count_bools(y), false, where);
  // As Python: from the exact remainder, then to the nearest integer, since (x - r) / y may round off one.
  Tensor q = x / y, m = stop_gradient((x - remainder(x, y)) / y), f = floor(m);
  Tensor nearest = rill::where(m - f > 0.5, f + 1, f);
  return rill::where(logical_and(isfinite(q), y != 0), rill::where(nearest == 0, copysign(zeros_like(q), q), nearest),
                     rill::where(y == 0, q, floor(q)));
}

// --- Bits ------------------------------------------------------------------------------------------------------------

constexpr DTypeSet bits_set = int_set | bool_set;
constexpr unsigned bits_kinds = ref::ints | ref::bools;
RILL_BINARY(bitwise_and, false, .doc = "x & y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_and">,
            .ref = REF2(bits_kinds, decltype(x)(x& y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseAnd", "BitwiseAnd"}, .no_gradient = "integers")
RILL_BINARY(bitwise_or, false, .doc = "x | y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_or">,
            .ref = REF2(bits_kinds, decltype(x)(x | y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseOr", "BitwiseOr"}, .no_gradient = "integers")
RILL_BINARY(bitwise_xor, false, .doc = "x ^ y", .dtypes = bits_set, .cpu = cpu::scalar_kernel<"bitwise_xor">,
            .ref = REF2(bits_kinds, decltype(x)(x ^ y)), .samples = integer_binary_samples, .max_ulp = 0,
            .exported = {"BitwiseXor", "BitwiseXor"}, .no_gradient = "integers")
RILL_BINARY(
    left_shift, false, .doc = "x << y; 0 where y is not in [0, bits)", .dtypes = int_set,
    .cpu = cpu::scalar_kernel<"left_shift">,
    .ref =
        [](const KernelArgs& args) {
          // The width counts, so this one computes in the operands' own dtype.
          visit_dtype(args.output().dtype(), [&](auto zero) {
            using X = decltype(zero);
            if constexpr (std::is_integral_v<X> && !std::is_same_v<X, bool>)
              ref::detail::compute<std::conditional_t<std::is_signed_v<X>, int64_t, uint64_t>,
                                   [](auto x, auto y) {
                                     return y >= 0 && uint64_t(y) < 8 * sizeof(X)
                                                ? decltype(x)(uint64_t(x) << uint64_t(y))
                                                : decltype(x)(0);
                                   },
                                   2>(args);
          });
        },
    .samples = integer_binary_samples, .max_ulp = 0, .exported = {"BitShift", "LeftShift"}, .no_gradient = "integers")
RILL_BINARY(right_shift, false,
            .doc = "x >> y, arithmetic where signed; the sign's bit everywhere where y is not in [0, bits)",
            .dtypes = int_set, .cpu = cpu::scalar_kernel<"right_shift">,
            .ref = REF2(ref::ints, decltype(x)(y >= 0 && y < 64 ? x >> y
                                               : x < 0          ? -1
                                                                : 0)),
            .samples = integer_binary_samples, .max_ulp = 0, .exported = {"BitShift", "RightShift"},
            .no_gradient = "integers")
RILL_BINARY(gcd, false, .doc = "greatest common divisor", .dtypes = int_set, .cpu = nullptr,
            .ref = REF2(ref::ints, decltype(x)(std::gcd(x, y))), .samples = integer_binary_samples, .max_ulp = 0,
            .no_gradient = "integers")
RILL_BINARY(lcm, false, .doc = "least common multiple", .dtypes = int_set, .cpu = nullptr,
            .ref = REF2(ref::ints, decltype(x)(std::lcm(x, y))), .samples = integer_binary_samples, .max_ulp = 0,
            .no_gradient = "integers")

}  // namespace rill
#endif  // HWY_ONCE
