// Shared by the kernels of gather and scatter: how the axes of the operand, the indices and the output correspond, and
// reading and checking an index.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "rill/devices/kernel.h"
#include "rill/devices/params/shape_params.h"

#pragma GCC visibility push(default)

namespace rill {

// Stands for an index that is out of bounds and skipped.
inline constexpr int64_t skipped_index = std::numeric_limits<int64_t>::min();

// Negative indices that may not count from the back (labels, row ids) are shifted out of the range of every axis, by a
// fixed distance, so that errors can name the index as given. No axis has `most_from_back` elements, so shifted indices
// stay out of range; and no user's index is in that range by chance.
inline constexpr int64_t out_of_range_shift = -0x6123456789ABCDEF, most_from_back = int64_t(1) << 60;
inline int64_t index_as_given(int64_t i) {
  return i < out_of_range_shift && i >= out_of_range_shift - most_from_back ? i - out_of_range_shift : i;
}

// numpy's rule: negative indices count from the back. If out of bounds: numpy's error, or skipped_index.
inline int64_t checked_index(int64_t i, int64_t axis, int64_t size, bool skips) {
  if (i < -size || i >= size) {
    if (skips) return skipped_index;
    fail("index", fmt::format("index {} is out of bounds for axis {} of size {}", index_as_given(i), axis, size));
  }
  return i < 0 ? i + size : i;
}

// Element `offset` of an integer tensor, as such an index. A u64 may be larger than any axis.
inline int64_t index_at(const Tensor& t, int64_t offset, int64_t axis, int64_t size, bool skips) {
  const char* p = t.rep()->data;
  switch (t.dtype()) {
    case DType::i8: return checked_index(reinterpret_cast<const int8_t*>(p)[offset], axis, size, skips);
    case DType::i16: return checked_index(reinterpret_cast<const int16_t*>(p)[offset], axis, size, skips);
    case DType::i32: return checked_index(reinterpret_cast<const int32_t*>(p)[offset], axis, size, skips);
    case DType::u8: return checked_index(reinterpret_cast<const uint8_t*>(p)[offset], axis, size, skips);
    case DType::u16: return checked_index(reinterpret_cast<const uint16_t*>(p)[offset], axis, size, skips);
    case DType::u32: return checked_index(reinterpret_cast<const uint32_t*>(p)[offset], axis, size, skips);
    case DType::i64: return checked_index(reinterpret_cast<const int64_t*>(p)[offset], axis, size, skips);
    default: break;
  }
  const uint64_t i = reinterpret_cast<const uint64_t*>(p)[offset];
  if (i >= uint64_t(size) && skips) return skipped_index;
  if (i >= uint64_t(size))
    fail("index", fmt::format("index {} is out of bounds for axis {} of size {}", i, axis, size));
  return int64_t(i);
}

// The axes of `x` that are copied in full, in order.
inline Dims gather_slice_axes(const GatherAttrs& a, size_t ndim) {
  Dims out;
  for (int64_t i = 0; i < int64_t(ndim); ++i)
    if (std::find(a.axes.begin(), a.axes.end(), i) == a.axes.end() &&
        std::find(a.batch_axes.begin(), a.batch_axes.end(), i) == a.batch_axes.end())
      out.push_back(i);
  return out;
}

// Whether a scatter accumulates numbers of 16 bits. They are accumulated in f32, as in sum(): rounded after each
// addition, a sum of ones in bf16 would stop at 256.
inline bool scatters_wide(const KernelArgs& a) {
  const ScatterMode mode = a.attrs.as<ScatterAttrs>().mode;
  return is_half(a.input(0).dtype()) && (mode == ScatterMode::add || mode == ScatterMode::multiply);
}

struct GatherLayout {
  GatherLayout(const Tensor& x, Operands indices, const GatherAttrs& attrs)
      : attrs(attrs), indices(indices), slice_axes(gather_slice_axes(attrs, size_t(x.ndim()))), at(size_t(attrs.at)) {
    for (const Tensor* t : indices) {  // infer has checked that they broadcast
      for (size_t i = index_shape.size(); i < t->shape().size(); ++i) index_shape.insert(0, 1);
      for (size_t i = 1; i <= t->shape().size(); ++i) {
        int64_t n = t->shape()[t->shape().size() - i];
        if (n != 1) index_shape[index_shape.size() - i] = n;
      }
    }
    for (const Tensor* t : indices) {
      Strides s(index_shape.size(), 0);
      for (size_t i = 1; i <= t->shape().size(); ++i)
        if (t->shape()[t->shape().size() - i] != 1) s[s.size() - i] = t->strides()[t->strides().size() - i];
      index_strides.push_back(s);
    }
  }

  const GatherAttrs& attrs;
  Operands indices;
  Shape index_shape;                   // the shape that all index tensors broadcast to
  SmallVec<Strides, 2> index_strides;  // of each index tensor, for that shape
  Dims slice_axes;                     // of x
  size_t at;                           // the number of slice axes before the index dimensions in the output
};

}  // namespace rill

#pragma GCC visibility pop
