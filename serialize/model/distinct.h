// What Unique of ONNX and TensorFlow gives: where values are known, the host finds it.
#pragma once
#include <optional>

#include "rill/ops/strings.h"
#include "rill/rill.h"

namespace rill::imported {

// Elements, or slices along an axis, each once: ascending, or in the order in which they first came.
inline Unique distinct(const Tensor& x, std::optional<int64_t> axis, bool ascending) {
  const bool text = x.dtype() == string;
  Unique u;
  if (axis) u = text ? strings::unique(x, *axis) : unique(x, *axis);
  else u = text ? strings::unique(x) : unique(x);
  if (ascending) return u;
  const Tensor order = argsort(u.indices), rank = argsort(order);
  return {take(u.values, order, axis.value_or(0)), take(u.indices, order, 0), take(rank, u.inverse, 0),
          take(u.counts, order, 0)};
}

}  // namespace rill::imported
