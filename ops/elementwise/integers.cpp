// Bits, shifts and common divisors. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/integers.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/elementwise/scalar_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR2(bitwise_and, ints | bools | same_signed, V(x& y))
RILL_SCALAR2(bitwise_or, ints | bools | same_signed, V(x | y))
RILL_SCALAR2(bitwise_xor, ints | bools | same_signed, V(x ^ y))
RILL_SCALAR2(left_shift, ints | same_signed, shift_left(x, y))
RILL_SCALAR2(right_shift, ints, shift_right(x, y))

// Greatest common divisors of a block of numbers, in loops that compilers vectorise. Stein's binary algorithm (1967),
// without counting zeros: with k the lowest bit that is set in either number, both are multiples of k, and v / k is
// odd. An even u / k is halved; an odd one gives half its distance to v, and v becomes the smaller of the two. Each
// step removes a bit from one of them.
constexpr size_t divisor_block = 64;
template <class U>
HWY_ATTR void divide_block(U* HWY_RESTRICT u, U* HWY_RESTRICT v) {
  U k[divisor_block];
  for (size_t j = 0; j < divisor_block; ++j) {
    const U either = u[j] | v[j];
    k[j] = either & U(U(0) - either);
    const U x = u[j], y = v[j];
    u[j] = (y & k[j]) == 0 ? y : x;
    v[j] = (y & k[j]) == 0 ? x : y;
  }
  for (U left = 1; left != 0;) {
    left = 0;
    for (int step = 0; step < 4; ++step)
      for (size_t j = 0; j < divisor_block; ++j) {
        const U x = u[j], y = v[j], low = x < y ? x : y, high = x < y ? y : x;
        const bool even = (x & k[j]) == 0;
        u[j] = U((even ? x : U(high - low)) >> 1);
        v[j] = even ? y : low;
      }
    for (size_t j = 0; j < divisor_block; ++j) left |= u[j];
  }
}

// Unsigned, because the magnitude of the least signed number does not fit; results wrap around.
template <class T, bool multiple>
HWY_ATTR void divisor_loop(const cpu::Run& run) {
  using U = std::make_unsigned_t<T>;
  const T *x = static_cast<const T*>(run.in[0]), *y = static_cast<const T*>(run.in[1]);
  T* out = static_cast<T*>(run.out);
  const bool x_stays = run.uniform & 1, y_stays = run.uniform & 2;
  for (size_t i = 0; i < run.n; i += divisor_block) {
    const size_t n = std::min(divisor_block, run.n - i);
    U a[divisor_block] = {}, b[divisor_block] = {}, u[divisor_block], v[divisor_block];
    for (size_t j = 0; j < n; ++j) a[j] = U(x[x_stays ? 0 : i + j]), b[j] = U(y[y_stays ? 0 : i + j]);
    for (size_t j = 0; j < divisor_block; ++j) {
      if (T(a[j]) < T(0)) a[j] = U(U(0) - a[j]);
      if (T(b[j]) < T(0)) b[j] = U(U(0) - b[j]);
      u[j] = a[j], v[j] = b[j];
    }
    divide_block(u, v);
    for (size_t j = 0; j < n; ++j)
      out[i + j] = T(!multiple ? v[j] : v[j] == 0 ? U(0) : U(a[j] / v[j] * uint64_t(b[j])));
  }
}
template <bool multiple>
constexpr cpu::LoopTable divisor_table() {
  cpu::LoopTable t;
  t.loop[int(DType::i8)] = divisor_loop<int8_t, multiple>, t.loop[int(DType::u8)] = divisor_loop<uint8_t, multiple>;
  t.loop[int(DType::i16)] = divisor_loop<int16_t, multiple>, t.loop[int(DType::u16)] = divisor_loop<uint16_t, multiple>;
  t.loop[int(DType::i32)] = divisor_loop<int32_t, multiple>, t.loop[int(DType::u32)] = divisor_loop<uint32_t, multiple>;
  t.loop[int(DType::i64)] = divisor_loop<int64_t, multiple>, t.loop[int(DType::u64)] = divisor_loop<uint64_t, multiple>;
  return t;
}
static constexpr cpu::LoopTable gcd_table = divisor_table<false>(), lcm_table = divisor_table<true>();
static const Offer gcd_offer(cpu::scalar_loops<"gcd">, &gcd_table, nullptr);
static const Offer lcm_offer(cpu::scalar_loops<"lcm">, &lcm_table, nullptr);

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

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
          // The width matters, so this is computed in the operands' own dtype.
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
// Unsigned, because the magnitude of the least signed number does not fit; results wrap around.
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

RILL_COUNTED(gcd, .doc = "greatest common divisor", .dtypes = int_set, .cpu = cpu::scalar_kernel<"gcd">,
             .ref = REF2(ref::ints, common_divisor(x, y)), .samples = integer_binary_samples, .max_ulp = 0,
             .no_gradient = "integers")
RILL_COUNTED(lcm, .doc = "least common multiple; wraps where it does not fit", .dtypes = int_set,
             .cpu = cpu::scalar_kernel<"lcm">, .ref = REF2(ref::ints, common_multiple(x, y)),
             .samples = integer_binary_samples, .max_ulp = 0, .no_gradient = "integers")

}  // namespace rill
#endif  // HWY_ONCE
