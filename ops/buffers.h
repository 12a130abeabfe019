// Tensors and C++ memory: tensors over memory of yours without a copy, tensors from spans and ranges, and a tensor's
// elements as a strided span. Start at from_buffer(); dlpack.h does the same between libraries.
#pragma once
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/tensor/lent_memory.h"
#include "rill/tensor/strided_span.h"

#pragma GCC visibility push(default)

namespace rill {

// --- In, without a copy ----------------------------------------------------------------------------------------------

struct BufferOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Strides strides =
      {};  // between neighbours along each axis, in elements, as Tensor::strides(); none: row-major, dense
  // Whose memory it is. A GPU's must be written when the tensor is made: rill's kernels do not wait for streams of
  // others.
  Device device = {};
};

// A tensor on options.device, cpu:0 unless told, of this shape and dtype whose elements are those at `data`, not
// copied. The element [0, ..., 0] is at `data`; strides may be 0 or negative. `owner` keeps the memory alive until the
// last tensor that reads it is gone (MemoryOwner says how); without one the memory has to outlive them all, and traced
// functions that capture one. rill never writes there, and what others write there meanwhile is not seen by all:
// compiled functions keep converted copies of what they capture. Throws where `data` is null and there are elements, or
// not aligned to the elements' type, for dtype string, for bools that are neither 0 nor 1, where strides and shape
// differ in length, and where there is no such device.
Tensor from_buffer(const void* data, const Shape& shape, DType dtype, MemoryOwner owner = {},
                   const BufferOptions& options = {}, Where where = Where::current());
// The same, of the dtype that T is.
template <Scalar T>
Tensor from_buffer(const T* data, const Shape& shape, MemoryOwner owner = {}, const BufferOptions& options = {},
                   Where where = Where::current()) {
  return from_buffer(static_cast<const void*>(data), shape, dtype_of<T>(), std::move(owner), options, where);
}
// A tensor over the elements of `v`, which is moved in and lives as long as the tensor: a vector, or with `shape` of
// any other one. Throws where their number does not fit.
template <Scalar T>
  requires(!std::same_as<T, bool>)
Tensor from_buffer(std::vector<T>&& v, const Shape& shape, Where where = Where::current()) {
  if (int64_t(v.size()) != shape.numel()) detail::fail_count(v.size(), shape, where);
  const T* data = v.data();
  return from_buffer(static_cast<const void*>(data), shape, dtype_of<T>(), MemoryOwner(std::move(v)), {}, where);
}
template <Scalar T>
  requires(!std::same_as<T, bool>)
Tensor from_buffer(std::vector<T>&& v, Where where = Where::current()) {
  const Shape shape = {int64_t(v.size())};
  return from_buffer(std::move(v), shape, where);
}
// A vector that is not moved in owns its memory itself: move it, or say from_buffer(v.data(), shape).
template <Scalar T>
Tensor from_buffer(const std::vector<T>& v, const Shape& shape = {}, Where where = Where::current()) = delete;

// --- In, by a copy ---------------------------------------------------------------------------------------------------

namespace detail {
// What `for` walks over and whose elements a tensor can hold: std::span, std::array, std::deque, a view, an array of
// C's. Not those that tensor() takes already, and not text, which is one element.
template <class R>
concept ElementRange = !Element<std::remove_cvref_t<R>> && !std::convertible_to<R, Tensor> && requires(R& r) {
  std::begin(r) != std::end(r);
  requires Element<std::remove_cvref_t<decltype(*std::begin(r))>>;
} && !requires(const std::remove_cvref_t<R>& r) {
  []<class T>(const std::vector<T>&) {}(r);
} && !requires(const std::remove_cvref_t<R>& r) { []<class T>(std::initializer_list<T>) {}(r); };
}  // namespace detail

// The elements of a range (std::span, std::array, std::deque, a view, float a[3]) in its order, copied: a vector, or
// under `shape`, row-major. Throws where their number does not fit.
template <detail::ElementRange R>
Tensor tensor(R&& range, const Shape& shape, const TensorOptions& options = {}, Where where = Where::current()) {
  using T = std::remove_cvref_t<decltype(*std::begin(range))>;
  std::vector<T> elements;
  for (auto&& e : range) elements.push_back(static_cast<T>(e));
  return tensor(elements, shape, options, where);
}
template <detail::ElementRange R>
Tensor tensor(R&& range, const TensorOptions& options = {}, Where where = Where::current()) {
  using T = std::remove_cvref_t<decltype(*std::begin(range))>;
  std::vector<T> elements;
  for (auto&& e : range) elements.push_back(static_cast<T>(e));
  return tensor(elements, options, where);
}
template <detail::ElementRange R, std::same_as<DType> D>
Tensor tensor(R&& range, const Shape& shape, D dtype, Where where = Where::current()) {
  return tensor(std::forward<R>(range), shape, TensorOptions{.dtype = dtype}, where);
}
template <detail::ElementRange R, std::same_as<DType> D>
Tensor tensor(R&& range, D dtype, Where where = Where::current()) {
  return tensor(std::forward<R>(range), TensorOptions{.dtype = dtype}, where);
}

// --- Out, without a copy ---------------------------------------------------------------------------------------------

namespace detail {
const void* strided_elements(const Tensor& x, DType dtype, int rank, const Where& where);
}

// The elements of `x` where they lie, which may be strided: strided_span<float, 2>(x)(i, j). Valid while `x`, or
// another tensor that shares its memory, lives. Throws where x has not this dtype, not `rank` axes, or is not on a host
// device, and while tracing.
template <class T, int rank>
StridedSpan<const T, rank> strided_span(const Tensor& x, Where where = Where::current()) {
  const auto* data = static_cast<const T*>(detail::strided_elements(x, dtype_of<T>(), rank, where));
  std::array<int64_t, size_t(rank)> sizes{}, strides{};
  for (size_t k = 0; k < size_t(rank); ++k) sizes[k] = x.shape()[k], strides[k] = x.strides()[k];
  return {data, sizes, strides};
}
// The elements of a temporary are gone at the end of the statement: give the tensor a name first.
template <class T, int rank>
StridedSpan<const T, rank> strided_span(const Tensor&& x, Where where = Where::current()) = delete;

}  // namespace rill

#pragma GCC visibility pop
