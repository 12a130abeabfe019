// Records that move elements: views, joining, padding, creation.
#include "rill/devices/params/attr_list.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;

// By the attributes: there may be no other expression of the output's own sizes than this node.
Values write_reshape(Call& c) {
  Dims shape = c.attrs<ShapeAttrs>().shape;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is_open() && shape[i].plain() == -1 && !c.out().shape[i].is_open()) shape[i] = c.out().shape[i];
  return {c.e.reshaped(c.in[0], shape)};
}
Values write_broadcast(Call& c) { return {c.e.op("Expand", {c.in[0], c.e.sizes(c.attrs<ShapeAttrs>().shape)})}; }
Values write_transpose(Call& c) {
  const Dims& axes = c.attrs<TransposeAttrs>().axes;
  return {c.e.transposed(c.in[0], {axes.begin(), axes.end()})};
}

// Only the axes that are not taken in full.
Value sliced(Call& c, const Value& x, const SliceAttrs& a) {
  Dims starts, stops, steps;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < a.starts.size(); ++i) {
    const bool from_first = !a.starts[i].is_open() && a.starts[i].plain() == 0;
    const bool to_last = !a.stops[i].is_open() && a.stops[i].plain() == slice_max;
    if (from_first && to_last && a.steps[i] == 1) continue;
    starts.push_back(a.starts[i]);
    stops.push_back(a.stops[i]);
    steps.push_back(a.steps[i]);
    axes.push_back(int64_t(i));
  }
  if (axes.empty()) return x;
  return c.e.op("Slice", {x, c.e.sizes(starts), c.e.sizes(stops), c.e.ints(axes), c.e.sizes(steps)});
}
Values write_slice(Call& c) {
  const SliceAttrs& a = c.attrs<SliceAttrs>();
  Value y = sliced(c, c.in[0], a);
  if (!a.drop.empty()) y = c.e.op("Squeeze", {y, c.e.ints({a.drop.begin(), a.drop.end()})});
  return {y};
}

// The row-major index of each element of a tensor, i64.
Value flat_indices(Call& c, const Value& x) {
  Exporter& e = c.e;
  const Value n = e.op("Size", {x}, {}, DType::i64);
  const Value counts = e.op("Range", {e.number(0, DType::i64), n, e.number(1, DType::i64)});
  return e.op("Reshape", {counts, e.op("Shape", {x}, {}, DType::i64)}, {{"allowzero", int64_t(1)}});
}
// The indices of the slice's elements in the flattened tensor.
Values write_update_slice(Call& c) {
  Exporter& e = c.e;
  const Value all = e.ints({-1});
  const Value at = e.op("Reshape", {sliced(c, flat_indices(c, c.in[0]), c.attrs<SliceAttrs>()), all});
  const Value flat = e.op("Reshape", {c.in[0], all}), value = e.op("Reshape", {c.in[1], all});
  const Value y = e.op("ScatterElements", {flat, at, value}, {{"axis", int64_t(0)}});
  return {e.reshaped(y, c.specs[0].shape)};
}

int64_t field(Call& c, std::string_view name) {
  for (const auto& [key, value] : list_of(c.node.attrs))
    if (key == name) return std::get<int64_t>(value);
  return 0;
}
// Every (columns + 1)th element of the last two axes, flattened.
Values write_diagonal(Call& c) {
  Exporter& e = c.e;
  const int64_t axis1 = field(c, "axis1"), axis2 = field(c, "axis2"), offset = field(c, "offset");
  return e.composed(c.in, c.specs, [&](In in) {
    const Tensor x = moveaxis(in[0], {axis1, axis2}, {-2, -1});
    Shape shape = x.shape();
    const Dim rows = x.dim(-2), columns = x.dim(-1);
    const Dim count = larger(smaller(rows - (offset < 0 ? -offset : 0), columns - (offset > 0 ? offset : 0)), 0);
    shape.pop_back();
    shape.back() = rows * columns;
    const Tensor at = iota({count}) * (columns + 1) + (offset > 0 ? Dim(offset) : -offset * columns);
    return Tensors{take(reshape(x, shape), at, -1)};
  });
}

Values write_concat(Call& c) {
  if (c.in.size() == 1) return {c.in[0]};
  return {c.e.op("Concat", c.in, {{"axis", c.attrs<ConcatAttrs>().axis}})};
}

// The fill value as a scalar; it may be a size.
Value fill_number(Call& c, const FillValue& v, DType dtype) {
  Exporter& e = c.e;
  if (v.whole.is_open()) return e.cast(e.op("Squeeze", {e.size(v.whole)}), dtype);
  if (is_floating(dtype)) return e.number(v.real, dtype);
  const EagerScope eager;
  return e.constant(astype(full({}, int64_t(v.whole), {.dtype = i64}), dtype));
}

// Interior padding: `interior` new elements after each element, except the last.
Values write_pad(Call& c) {
  Exporter& e = c.e;
  const PadAttrs& a = c.attrs<PadAttrs>();
  const DType dtype = c.in[0].dtype;
  Values operands{c.in[0]};
  const Value fill = dtype == DType::string ? Value{} : fill_number(c, a.value, dtype);
  auto padded = [&](const Value& x, const Dims& lo, const Dims& hi) {
    Dims both = lo;
    for (Dim d : hi) both.push_back(d);
    return e.op("Pad", {x, e.sizes(both), fill});
  };
  Value x = c.in[0];
  Shape shape = c.specs[0].shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim gap = a.interior[axis];
    if (!gap.is_open() && gap == 0) continue;
    Shape split = shape;
    split.insert(axis + 1, 1);
    Dims lo(split.size(), 0), hi(split.size(), 0);
    hi[axis + 1] = gap;
    x = padded(e.reshaped(x, split), lo, hi);
    const Dim n = shape[axis];
    shape[axis] = n * (gap + 1);
    x = e.reshaped(x, shape);
    const Dim kept = larger(n * (gap + 1) - gap, 0);
    x = e.cut(x, int64_t(axis), e.ints({0}), e.size(kept));
    shape[axis] = kept;
  }
  bool moves = false;
  for (size_t i = 0; i < a.lo.size(); ++i)
    moves |= a.lo[i].is_open() || a.hi[i].is_open() || a.lo[i] != 0 || a.hi[i] != 0;
  return {moves ? padded(x, a.lo, a.hi) : x};
}

Values write_full(Call& c) {
  const FullAttrs& a = c.attrs<FullAttrs>();
  return {c.e.op("Expand", {fill_number(c, a.value, a.dtype), c.e.sizes(a.shape)})};
}

// start + step * i: integers in i64, others in f64, rounded once.
Values write_iota(Call& c) {
  Exporter& e = c.e;
  const IotaAttrs& a = c.attrs<IotaAttrs>();
  const Value n = e.op("Squeeze", {e.size(a.shape[size_t(a.axis)])});
  Value i = e.op("Range", {e.number(0, DType::i64), n, e.number(1, DType::i64)});
  const DType wide = is_integer(a.dtype) ? DType::i64 : DType::f64;
  i = e.cast(i, wide);
  i = e.op("Add", {fill_number(c, a.start, wide), e.op("Mul", {fill_number(c, a.step, wide), i})});
  Shape along(a.shape.size(), 1);
  along[size_t(a.axis)] = a.shape[size_t(a.axis)];
  return {e.op("Expand", {e.reshaped(e.cast(i, a.dtype), along), e.sizes(a.shape)})};
}

}  // namespace

std::span<const Rule> shape_rules() {
  static const Rule rules[] = {
      {"identity", pass, nullptr, "", true},
      {"named", pass, nullptr, "", true},
      {"stop_gradient", pass, nullptr, "", true},
      {"transfer", pass, nullptr, "", true},
      {"reshape", write_reshape, nullptr, "", true},
      {"broadcast_to", write_broadcast, nullptr, "", true},
      {"transpose", write_transpose, nullptr, "", true},
      {"strided_slice", write_slice, nullptr, "", true},
      {"update_slice", write_update_slice, nullptr, "", true},
      {"diagonal", write_diagonal, nullptr, "", true},
      {"concat", write_concat, nullptr, "", true},
      {"pad", write_pad},
      {"full", write_full, nullptr, "", true},
      {"iota", write_iota, nullptr, "", true},
  };
  return rules;
}

}  // namespace rill::onnx_out
