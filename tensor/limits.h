// Limits of a tensor's size. They are checked where the specs of an op's results are inferred (infer() in
// ops/apply.cpp), and where tensors are made from the user's numbers. All other code may multiply sizes, strides and
// bytes without checking for overflow.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// The largest number of bytes of a dense tensor, more than a process can address. It applies to views too (a broadcast
// one has fewer bytes than elements), and to empty tensors, whose sizes of 0 count as 1, so that offsets stay in range.
inline constexpr int64_t max_tensor_bytes = int64_t(1) << 47;
inline constexpr int max_tensor_axes = 64;
// The largest number of tensors that one call splits a tensor into.
inline constexpr int64_t max_tensors = int64_t(1) << 22;

// Whether all sizes are zero or more, and the tensor is within the limits.
inline bool has_sound_size(const Spec& s) {
  int64_t bytes = int64_t(size_of(s.dtype));
  for (Dim d : s.shape)  // in a trace, the sizes of the current call; infer() checks others
    if (const int64_t n = d.hint(); n < 0 || __builtin_mul_overflow(bytes, n > 1 ? n : 1, &bytes)) return false;
  return bytes <= max_tensor_bytes && s.shape.ndim() <= max_tensor_axes;
}
// Throws if `d` is not a dtype, but a number cast to DType.
void require_dtype(std::string_view op, DType d, const Where& where);
// Describes which limit a spec exceeds.
std::string describe_size(const Spec& s);
// Throws if a spec exceeds a limit.
void require_sound_size(std::string_view op, const Spec& s, const Where& where);
// Throws if `count` numbers exceed max_tensor_bytes or memory, or `count` tensors exceed max_tensors.
void require_few_numbers(std::string_view op, int64_t count, const Where& where);
void require_few_tensors(std::string_view op, int64_t count, const Where& where);

// Saturating, so that a product that is too large is rejected later; times 0 it is 0.
constexpr int64_t multiply_sizes(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
constexpr int64_t add_sizes(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

// For open sizes; the result is open.
template <class A, class B>
  requires(DimOrSize<A> || DimOrSize<B>)
constexpr Dim multiply_sizes(A a, B b) {
  return Dim(a).is_open() || Dim(b).is_open() ? Dim(a) * b : Dim(multiply_sizes(int64_t(a), int64_t(b)));
}
template <class A, class B>
  requires(DimOrSize<A> || DimOrSize<B>)
constexpr Dim add_sizes(A a, B b) {
  return Dim(a).is_open() || Dim(b).is_open() ? Dim(a) + b : Dim(add_sizes(int64_t(a), int64_t(b)));
}

}  // namespace rill

#pragma GCC visibility pop
