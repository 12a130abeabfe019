// The Unique ops of ONNX and TensorFlow, for operands whose values are known while the model is interpreted: the size
// of the result depends on them.
#pragma once
#include <optional>

#include "rill/ops/strings.h"
#include "rill/rill.h"

namespace rill::imported {

// unique(x), or unique(x, *axis), of numbers or strings; where not `ascending`, in the order of first occurrence,
// with `inverse` to match. Throws where the values are not known.
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
