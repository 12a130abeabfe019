// Operators that read and write by indices.
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

Values gather_rule(const Call& c) { return {take(c.x(0), c.x(1), Axis(c.integer("axis", 0)))}; }

// The indices of every element of `indices` along all axes of `x` except `axis`, whose index is the element itself.
struct ElementIndices {
  std::vector<Tensor> indices;
  GatherAttrs attrs;
};
ElementIndices element_indices(const Tensor& x, const Tensor& indices, int64_t axis) {
  ElementIndices p;
  for (int64_t i = 0; i < x.ndim(); ++i) {
    p.attrs.axes.push_back(i);
    p.indices.push_back(i == axis ? indices : iota(indices.shape(), i));
  }
  return p;
}
Values gather_elements_rule(const Call& c) {
  const Tensor x = c.x(0), indices = c.x(1);
  const ElementIndices p = element_indices(x, indices, axis_of(c, c.integer("axis", 0), x.ndim()));
  return {gather(x, p.indices, p.attrs)};
}

ScatterMode mode_of(const Call& c) {
  const std::string mode = c.text("reduction", "none");
  if (mode == "none") return ScatterMode::set;
  if (mode == "add") return ScatterMode::add;
  if (mode == "mul") return ScatterMode::multiply;
  if (mode == "max") return ScatterMode::max;
  if (mode == "min") return ScatterMode::min;
  c.reject("an unknown reduction, '" + mode + "'");
}
Values scatter_elements_rule(const Call& c) {
  const Tensor x = c.x(0), indices = c.x(1);
  const ElementIndices p = element_indices(x, indices, axis_of(c, c.integer("axis", 0), x.ndim()));
  return {scatter(x, p.indices, c.x(2), p.attrs, mode_of(c))};
}

// The first batch_dims axes of both are paired; the last axis of the indices has indices along the axes after them.
ElementIndices nd_indices(const Call& c, const Tensor& x, const Tensor& indices, int64_t batch) {
  const int64_t last = indices.ndim() - 1, depth = int64_t(indices.dim(-1));
  if (batch < 0 || batch > last || batch + depth > x.ndim()) c.reject("the indices do not fit the operand's axes");
  ElementIndices p;
  const std::vector<Tensor> columns = unstack(indices, -1);
  for (int64_t i = 0; i < batch; ++i) {
    p.attrs.axes.push_back(i);
    p.indices.push_back(iota(Shape(columns.empty() ? Shape() : columns[0].shape()), i));
  }
  for (int64_t i = 0; i < depth; ++i) {
    p.attrs.axes.push_back(batch + i);
    p.indices.push_back(columns[size_t(i)]);
  }
  return p;
}
Values gather_nd_rule(const Call& c) {
  const Tensor x = c.x(0), indices = c.x(1);
  const ElementIndices p = nd_indices(c, x, indices, c.integer("batch_dims", 0));
  return {gather(x, p.indices, p.attrs)};
}
Values scatter_nd_rule(const Call& c) {
  const Tensor x = c.x(0), indices = c.x(1);
  const ElementIndices p = nd_indices(c, x, indices, 0);
  return {scatter(x, p.indices, c.x(2), p.attrs, mode_of(c))};
}

// Element i of `values` {off, on} as a scalar of their dtype. Negative indices count from the end.
Values one_hot_rule(const Call& c) {
  const Tensor indices = c.x(0).astype(i64), values = c.x(2);
  const Dim depth = c.dim(1);
  const int64_t axis = c.integer("axis", -1);
  const Tensor hot =
      one_hot(where(less(indices, 0), indices + Tensor(depth), indices), depth, {.axis = axis, .dtype = boolean});
  return {where(hot, values(1), values(0))};
}

// Each row of the batch, its first lengths[b] steps reversed.
Values reverse_sequence_rule(const Call& c) {
  const Tensor x = c.x(0), lengths = c.x(1);
  const int64_t batch = c.integer("batch_axis", 1), time = c.integer("time_axis", 0);
  if (x.ndim() < 2 || batch + time != 1 || batch * time != 0) c.reject("batch and time are the first two axes");
  const Tensor rows = time == 0 ? swapaxes(x, 0, 1) : x;
  const Shape steps = {rows.dim(0), rows.dim(1)};
  const Tensor at = iota(steps, 1), n = expand_dims(lengths.astype(i64), 1);
  const Tensor from = where(less(at, n), n - 1 - at, at);
  GatherAttrs attrs;
  attrs.axes = {0, 1};
  const Tensor y = gather(rows, {iota(steps, 0), from}, attrs);
  return {time == 0 ? swapaxes(y, 0, 1) : y};
}

// Writes `update` into `past` from each row's index on, wrapping around if `circular`.
Values tensor_scatter_rule(const Call& c) {
  const Tensor past = c.x(0), update = c.x(1);
  const int64_t axis = axis_of(c, c.integer("axis", -2), past.ndim());
  const bool circular = c.text("mode", "linear") == "circular";
  Shape rows(size_t(past.ndim()), 1);
  rows[0] = past.dim(0);
  const Tensor start = c.has(2) ? reshape(c.x(2).astype(i64), rows) : zeros(rows, i64);
  Tensor positions = iota(update.shape(), axis) + start;
  if (circular) positions = remainder(positions, Tensor(past.dim(axis)));
  const ElementIndices p = element_indices(past, positions, axis);
  return {scatter(past, p.indices, update, p.attrs, ScatterMode::set)};
}

Values nonzero_rule(const Call& c) {
  const Tensor x = c.known(0);
  return {transpose(argwhere(x.ndim() == 0 ? reshape(x, {1}) : x))};
}

Values compress_rule(const Call& c) {
  Tensor x = c.x(0);
  std::vector<int64_t> positions;
  const std::vector<bool> keep = c.known(1).to_vector<bool>();
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) positions.push_back(int64_t(i));
  if (!c.has_attribute("axis")) return {take(ravel(x), tensor(positions), Axis(0))};
  return {take(x, tensor(positions, Shape{int64_t(positions.size())}), Axis(c.integer("axis", 0)))};
}

}  // namespace

const RuleTable& index_rules() {
  static const RuleTable table = {
      {"Compress", {compress_rule}},
      {"Gather", {gather_rule}},
      {"GatherElements", {gather_elements_rule}},
      {"GatherND", {gather_nd_rule}},
      {"NonZero", {nonzero_rule}},
      {"OneHot", {one_hot_rule, 0b10}},
      {"ReverseSequence", {reverse_sequence_rule}},
      {"Scatter", {scatter_elements_rule}},
      {"ScatterElements", {scatter_elements_rule}},
      {"ScatterND", {scatter_nd_rule}},
      {"TensorScatter", {tensor_scatter_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
