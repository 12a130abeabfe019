// Gather and scatter: reading elements by index tensors, and writing them. Included by ops.h; a(...) and a.at(...) are
// Tensor's members.
//
// Index tensors are of any integer dtype; negative indices count from the back, and one that is out of bounds throws
// when the op runs. Places that are written by several updates: `set` keeps the last in row-major order of the indices,
// the other modes take every one, in that order, so that results do not depend on the number of threads.
#pragma once
#include <optional>
#include <vector>

#include "rill/devices/params/gather_params.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// The general form (devices/params/shape_params.h has the attributes): `indices` broadcast to one shape.
Tensor gather(const Tensor& x, const std::vector<Tensor>& indices, const GatherAttrs& attrs,
              Where where = Where::current());
// A copy of `x` in which the elements that gather would read are set to, increased by, ... `updates`, which broadcasts
// to what gather would give and is cast to x's dtype.
Tensor scatter(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& updates, const GatherAttrs& attrs,
               ScatterMode mode, Where where = Where::current());

// x's slices along `axis`, in the order and shape of `indices`: shape x[:axis] + indices + x[axis+1:]. Of the flattened
// `x` where there is no axis.
Tensor take(const Tensor& x, const Tensor& indices, std::optional<Axis> axis = {}, Where where = Where::current());
// out[.., i, ..] = x[.., indices[.., i, ..], ..]: what argsort and argmax(keepdims) give indices for. `indices` has as
// many axes as `x`; sizes off the axis are equal or 1.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, Axis axis, Where where = Where::current());
// A copy of `x` with `values` in place of the elements that take_along_axis would read.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, Axis axis,
                      ScatterMode mode = ScatterMode::set, Where where = Where::current());
// x[indices[..., 0], indices[..., 1], ...]: the last axis of `indices` [.., k] indexes the first k axes.
Tensor gather_nd(const Tensor& x, const Tensor& indices, Where where = Where::current());
// `updates` [n, ...] added up into `segments` rows: row s is the sum of those i with ids[i] == s. Ids may be in any
// order; each must be in [0, segments).
Tensor segment_sum(const Tensor& updates, const Tensor& ids, Dim segments, Where where = Where::current());

// Where `x` is not zero: one i64 vector an axis. Not inside `function`: the size depends on values.
std::vector<Tensor> nonzero(const Tensor& x, Where where = Where::current());
// The same as indices into the flattened `x`: one i64 vector. Not inside `function` either.
Tensor flatnonzero(const Tensor& x, Where where = Where::current());
// nonzero(x) as one i64 [count, ndim] tensor.
Tensor argwhere(const Tensor& x, Where where = Where::current());
// The elements (or slices) of `x` where `mask` is true; the mask's shape is that of x's axes from `axis` on.
Tensor boolean_mask(const Tensor& x, const Tensor& mask, Axis axis = 0, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
