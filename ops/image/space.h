// The parts of an image's shape, for image/*.cpp.
#pragma once
#include <fmt/format.h>

#include "rill/ops/images.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"

namespace rill::image {

// The number of axes of space; throws if it is not in [least, most].
inline size_t space_axes(std::string_view op, const Tensor& x, size_t least, size_t most, const Where& where) {
  require_operand(op, x, where);
  if (x.ndim() < int64_t(least) + 2 || x.ndim() > int64_t(most) + 2)
    fail(op,
         fmt::format("the input must have a batch axis, {} to {} axes of space and channels, not {} axes. operands: {}",
                     least, most, x.ndim(), to_string(x.spec())),
         where);
  return size_t(x.ndim()) - 2;
}
inline Dims space_of(const Tensor& x, Layout l) {
  Dims out;
  for (size_t i = 0; i + 2 < x.shape().size(); ++i) out.push_back(x.shape()[space_axis(l, i)]);
  return out;
}
// x with its channels on the last axis, and back.
inline Tensor channels_last(const Tensor& x, Layout l) { return l == Layout::nhwc ? x : moveaxis(x, 1, -1); }
inline Tensor in_layout(const Tensor& x, Layout l) { return l == Layout::nhwc ? x : moveaxis(x, -1, 1); }

inline int64_t product(const Dims& d) {
  int64_t n = 1;
  for (int64_t size : d) n = multiply_sizes(n, size);
  return n;
}

}  // namespace rill::image
