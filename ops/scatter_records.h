// The records that write into a copy of a tensor, for indexing.cpp, which runs them in place where nobody can see it.
#pragma once
#include <vector>

#include "rill/devices/shape_params.h"
#include "rill/ops/op.h"

namespace rill {

extern const Op scatter_op, scatter_reduce_op, update_slice_op;

namespace detail {
inline const Op& scatter_record(ScatterMode mode) {
  return mode == ScatterMode::set || mode == ScatterMode::add ? scatter_op : scatter_reduce_op;
}
// `updates` cast to x's dtype and broadcast to the shape that gather would give.
Tensor scatter_updates(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& updates,
                       const GatherAttrs& attrs);
}  // namespace detail

}  // namespace rill
