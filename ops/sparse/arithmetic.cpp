// Elementwise arithmetic of sparse tensors, sums and joining: composites of ops on the stored elements.
#include <fmt/format.h>

#include "rill/ops/apply.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/sparse.h"
#include "rill/ops/sparse/sparse_parts.h"

namespace rill {
namespace {

// The elements of `b`, a dense tensor that broadcasts to a's shape, at the stored elements of `a`: [nnz].
Tensor beside(const SparseTensor& a, const Tensor& b, std::string_view op, const Where& where) {
  require_defined(op, b, "an operand", where);
  if (b.ndim() == 0) return b;
  const Shape& shape = a.shape(where);
  const size_t extra_axes = shape.size() - std::min(shape.size(), b.shape().size());
  bool fits = b.shape().size() <= shape.size();
  std::vector<Tensor> columns;
  GatherAttrs everywhere;
  for (size_t i = 0; fits && i < b.shape().size(); ++i) {
    const Tensor column = SparseParts::column(a, int64_t(extra_axes + i));
    const bool repeated = b.shape()[i] == 1;
    fits = repeated || b.shape()[i] == shape[extra_axes + i];
    columns.push_back(repeated ? zeros_like(column) : column);
    everywhere.axes.push_back(int64_t(i));
  }
  if (!fits)
    fail(op,
         fmt::format("the dense operand is {} and does not broadcast to {}, the shape of the sparse one",
                     to_string(b.spec()), to_string(shape)),
         where);
  return gather(b, columns, everywhere);
}

// `dense` + `a` of one shape.
Tensor sum_with(const Tensor& dense, const SparseTensor& a, std::string_view op, const Where& where) {
  require_defined(op, dense, "an operand", where);
  SparseParts::require_one_shape(a, dense.shape(), op, where);
  const DType dtype = promote(a.dtype(), dense.dtype());
  if (a.shape().empty()) return add(astype(dense, dtype), a.to_dense());
  std::vector<Tensor> columns;
  GatherAttrs everywhere;
  for (int64_t axis = 0; axis < a.ndim(); ++axis) {
    columns.push_back(SparseParts::column(a, axis));
    everywhere.axes.push_back(axis);
  }
  return scatter(astype(dense, dtype), columns, astype(a.values(), dtype), everywhere, ScatterMode::add);
}

// The dtype of sum() for this dtype.
DType sum_dtype(DType d) { return sum(zeros({1}, d)).dtype(); }

}  // namespace

SparseTensor add(const SparseTensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  SparseParts::require_one_shape(a, b.shape(where), "add", where);
  const DType dtype = promote(a.dtype(), b.dtype());
  std::vector<Tensor> columns;
  for (int64_t axis = 0; axis < a.ndim(); ++axis)
    columns.push_back(concat({SparseParts::column(a, axis), SparseParts::column(b, axis)}));
  return SparseParts::from_columns(columns, concat({astype(a.values(), dtype), astype(b.values(), dtype)}), a.shape(),
                                   false);
}

SparseTensor subtract(const SparseTensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  SparseParts::require_one_shape(a, b.shape(where), "subtract", where);
  return add(a, negative(b.astype(promote(a.dtype(), b.dtype()))));
}

Tensor add(const SparseTensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  return sum_with(b, a, "add", where);
}
Tensor add(const Tensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  return sum_with(a, b, "add", where);
}
Tensor subtract(const SparseTensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  require_defined("subtract", b, "an operand", where);
  return sum_with(negative(astype(b, promote(a.dtype(where), b.dtype()))), a, "subtract", where);
}
Tensor subtract(const Tensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  require_defined("subtract", a, "an operand", where);
  return sum_with(a, negative(b.astype(promote(a.dtype(), b.dtype(where)))), "subtract", where);
}

SparseTensor negative(const SparseTensor& a, Where where) {
  CallerScope caller(where);
  return a.with_values(negative(a.values()));
}

SparseTensor multiply(const SparseTensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  return a.with_values(multiply(a.values(), beside(a, b, "multiply", where)));
}
SparseTensor multiply(const Tensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  return b.with_values(multiply(beside(b, a, "multiply", where), b.values()));
}
SparseTensor divide(const SparseTensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  return a.with_values(divide(a.values(), beside(a, b, "divide", where)));
}

SparseTensor multiply(const SparseTensor& a, const SparseTensor& b, Where where) {
  CallerScope caller(where);
  SparseParts::require_one_shape(a, b.shape(where), "multiply", where);
  SparseParts::require_known_indices(a, "multiply", where);
  SparseParts::require_known_indices(b, "multiply", where);
  const SparseTensor x = a.coalesce(), y = b.coalesce();
  Tensor of_x, of_y;
  {
    EagerScope eager;
    const Tensor flat = SparseParts::flat_indices(x), others = SparseParts::flat_indices(y);
    const Tensor at = searchsorted(others, flat);
    const Tensor padded = concat({others, full({1}, -1, {DType::i64, others.device()})});
    of_x = nonzero(take(padded, at, 0) == flat)[0];
    of_y = take(at, of_x, 0);
  }
  const SparseTensor both = SparseParts::take(x, of_x, true);
  return both.with_values(multiply(both.values(), take(y.values(), of_y, 0)));
}

// --- Sums ------------------------------------------------------------------------------------------------------------

SparseTensor SparseTensor::sum_sparse(const Axes& axes, Where where) const {
  CallerScope caller(where, "SparseTensor::sum_sparse");
  const Dims reduced = normal_axes(axes, ndim(where), "sum_sparse", where);
  Shape shape;
  std::vector<Tensor> columns;
  for (int64_t axis = 0; axis < ndim(); ++axis) {
    if (std::find(reduced.begin(), reduced.end(), Dim(axis)) != reduced.end()) continue;
    shape.push_back(shape_[size_t(axis)]);
    columns.push_back(SparseParts::column(*this, axis));
  }
  return SparseParts::from_columns(columns, rill::astype(values_, sum_dtype(dtype())), shape, false);
}

Tensor sum(const SparseTensor& a, const Axes& axes, bool keepdims, Where where) {
  CallerScope caller(where);
  const Dims reduced = normal_axes(axes, a.ndim(where), "sum", where);
  Shape shape(a.shape());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (reduced.empty() || std::find(reduced.begin(), reduced.end(), Dim(int64_t(axis))) != reduced.end())
      shape[axis] = 1;
  Tensor out;
  if (reduced.empty() || int(reduced.size()) == a.ndim()) {
    out = sum(a.values());
  } else {  // half precision is summed in f32, as in sum()
    const DType dtype = sum_dtype(a.dtype());
    out = (is_half(dtype) ? a.astype(f32) : a).sum_sparse(reduced).to_dense();
    if (is_half(dtype)) out = astype(out, dtype);
  }
  return keepdims ? reshape(out, shape) : out;
}

Tensor mean(const SparseTensor& a, const Axes& axes, bool keepdims, Where where) {
  CallerScope caller(where);
  const DType dtype = to_floating(a.dtype(where));
  // Integers are summed as integers, halves in f32: as in mean() of a dense tensor.
  const Tensor total = sum(is_half(dtype) ? a.astype(f32) : a, axes, keepdims);
  Dim count = 1;
  const Dims reduced = normal_axes(axes, a.ndim(), "mean", where);
  for (size_t axis = 0; axis < a.shape().size(); ++axis)
    if (reduced.empty() || std::find(reduced.begin(), reduced.end(), Dim(int64_t(axis))) != reduced.end())
      count *= a.shape()[axis];
  return astype(total / count, dtype);
}

// --- Shapes ----------------------------------------------------------------------------------------------------------

SparseTensor transpose(const SparseTensor& a, const Axes& axes, Where where) { return a.transpose(axes, where); }
SparseTensor reshape(const SparseTensor& a, const Shape& shape, Where where) { return a.reshape(shape, where); }

SparseTensor concat(const std::vector<SparseTensor>& parts, Axis axis, Where where) {
  CallerScope caller(where);
  if (parts.empty()) fail("concat", "there are no tensors to join", where);
  const int64_t along = normal_axis(axis, parts[0].ndim(where), "concat", where);
  Shape shape(parts[0].shape());
  shape[size_t(along)] = 0;
  std::vector<std::vector<Tensor>> columns(shape.size());
  std::vector<Tensor> values;
  bool coalesced = along == 0;
  for (const SparseTensor& part : parts) {
    Shape same(part.shape(where));
    if (same.size() == shape.size()) same[size_t(along)] = shape[size_t(along)];
    if (!(same == shape))
      fail("concat",
           fmt::format("the shapes {} and {} must be equal but for axis {}", to_string(parts[0].shape()),
                       to_string(part.shape()), along),
           where);
    for (int64_t i = 0; i < part.ndim(); ++i) {
      const Tensor column = SparseParts::column(part, i);
      columns[size_t(i)].push_back(i == along ? column + shape[size_t(along)] : column);
    }
    values.push_back(part.values());
    shape[size_t(along)] = shape[size_t(along)] + part.shape()[size_t(along)];
    coalesced = coalesced && part.is_coalesced();
  }
  std::vector<Tensor> joined;
  for (const std::vector<Tensor>& column : columns) joined.push_back(concat(column));
  return SparseParts::from_columns(joined, concat(values), shape, coalesced);
}

}  // namespace rill
