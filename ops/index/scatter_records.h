// The records that write into a copy of a tensor, and how to run them in place.
#pragma once
#include <vector>

#include "rill/devices/params/shape_params.h"
#include "rill/ops/op.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

extern const Op gather_op, scatter_op, scatter_reduce_op, update_slice_op;

namespace detail {
inline const Op& scatter_record(ScatterMode mode) {
  return mode == ScatterMode::set || mode == ScatterMode::add ? scatter_op : scatter_reduce_op;
}
// Runs one of these records, whose output may be its first operand, in place if nothing else can see the difference.
Tensor run_update(const Op& op, Tensor base, std::span<const Tensor* const> rest, AttrsView attrs, const Where& where);
// scatter into a base that the caller gives up.
Tensor scatter_into(Tensor base, const std::vector<Tensor>& indices, const Tensor& updates, const GatherAttrs& attrs,
                    ScatterMode mode, const Where& where);
// The shape [segments, ...] of the result when `op` folds the rows of `updates`. Throws unless each row has one id.
Shape segments_shape(std::string_view op, const Tensor& updates, const Tensor& ids, Dim segments, const Where& where);
// `updates` cast to x's dtype and broadcast to the shape that gather would give.
Tensor scatter_updates(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& updates,
                       const GatherAttrs& attrs);
// Variable::scatter_update and similar; `op` is the caller's name.
enum class RowUpdate : uint8_t { set, add, subtract };
void scatter_rows(const Variable& v, const Tensor& indices, const Tensor& rows, const GatherAttrs& attrs, RowUpdate how,
                  const char* op, const Where& where);
}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
