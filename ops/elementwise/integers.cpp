// Bits, shifts and common divisors. Laid out as unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/integers.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR2(bitwise_and, ints | bools, V(x& y))
RILL_SCALAR2(bitwise_or, ints | bools, V(x | y))
RILL_SCALAR2(bitwise_xor, ints | bools, V(x ^ y))
RILL_SCALAR2(left_shift, ints, shift_left(x, y))
RILL_SCALAR2(right_shift, ints, shift_right(x, y))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

#include "rill/devices/cpu/elementwise/plain_loops.h"
#include "rill/ops/elementwise/binary_records.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

using namespace elementwise;

// --- Bits ------------------------------------------------------------------------------------------------------------

// Shifts and divisors of bools are of i8, as in numpy.
#define RILL_COUNTED(fn, ...)                            \
  extern const Op fn##_op;                               \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary_counted(fn##_op, x, y, where); }

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
RILL_COUNTED(
    left_shift, .doc = "x << y; 0 where y is not in [0, bits)", .dtypes = int_set,
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
RILL_COUNTED(right_shift,
             .doc = "x >> y, arithmetic where signed; the sign's bit everywhere where y is not in [0, bits)",
             .dtypes = int_set, .cpu = cpu::scalar_kernel<"right_shift">,
             .ref = REF2(ref::ints, decltype(x)(y >= 0 && y < 64 ? x >> y
                                                : x < 0          ? -1
                                                                 : 0)),
             .samples = integer_binary_samples, .max_ulp = 0, .exported = {"BitShift", "RightShift"},
             .no_gradient = "integers")
// --- Divisors --------------------------------------------------------------------------------------------------------

namespace {
// The least number of a signed dtype has a magnitude, as an unsigned number, and what does not fit wraps.
template <class X>
uint64_t magnitude(X x) {
  if constexpr (std::is_signed_v<X>) return x < 0 ? 0 - uint64_t(x) : uint64_t(x);
  else return x;
}
template <class X>
X common_divisor(X x, X y) {
  return X(std::gcd(magnitude(x), magnitude(y)));
}
template <class X>
X common_multiple(X x, X y) {
  const uint64_t divisor = std::gcd(magnitude(x), magnitude(y));
  return divisor == 0 ? X(0) : X(magnitude(x) / divisor * magnitude(y));
}
}  // namespace

namespace {
// std::gcd of 64 bits takes twice as long as of 32.
template <class T>
std::common_type_t<uint32_t, std::make_unsigned_t<T>> divisor_of(T x, T y) {
  using U = std::common_type_t<uint32_t, std::make_unsigned_t<T>>;
  return std::gcd(U(magnitude(x)), U(magnitude(y)));
}
struct Gcd {
  template <class T>
  T operator()(T x, T y) const {
    return T(divisor_of(x, y));
  }
};
struct Lcm {
  template <class T>
  T operator()(T x, T y) const {
    const auto divisor = divisor_of(x, y);
    return divisor == 0 ? T(0) : T(magnitude(x) / divisor * magnitude(y));
  }
};
template <cpu::Name name, class F>
using IntegerLoops = cpu::PlainLoops<name, F, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
const IntegerLoops<"gcd", Gcd> gcd_loops;
const IntegerLoops<"lcm", Lcm> lcm_loops;
}  // namespace
RILL_COUNTED(gcd, .doc = "greatest common divisor", .dtypes = int_set, .cpu = cpu::scalar_kernel<"gcd">,
             .ref = REF2(ref::ints, common_divisor(x, y)), .samples = integer_binary_samples, .max_ulp = 0,
             .no_gradient = "integers")
RILL_COUNTED(lcm, .doc = "least common multiple; wraps where it does not fit", .dtypes = int_set,
             .cpu = cpu::scalar_kernel<"lcm">, .ref = REF2(ref::ints, common_multiple(x, y)),
             .samples = integer_binary_samples, .max_ulp = 0, .no_gradient = "integers")

}  // namespace rill
#endif  // HWY_ONCE
