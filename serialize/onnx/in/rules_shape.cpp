// Operators that move elements without reading them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

using imported::shape_from;

Values reshape_rule(const Call& c) {
  const Tensor x = c.x();
  Shape to = shape_from(c.either(1, "shape"));
  const bool zero_is_zero = c.flag("allowzero");
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_open() || to[i] != 0 || zero_is_zero) continue;
    if (i >= size_t(x.ndim())) c.reject("the new shape copies a size (0) that the operand does not have");
    to[i] = x.shape()[i];
  }
  return {reshape(x, to)};
}

Values flatten_rule(const Call& c) {
  const Tensor x = c.x();
  int64_t axis = c.integer("axis", 1);
  if (axis < 0) axis += x.ndim();
  if (axis < 0 || axis > x.ndim()) c.reject("there is no such axis");
  Dim rows = 1, columns = 1;
  for (int64_t i = 0; i < x.ndim(); ++i) (i < axis ? rows : columns) *= x.shape()[size_t(i)];
  return {reshape(x, {rows, columns})};
}

Values transpose_rule(const Call& c) { return {transpose(c.x(), c.integers("perm"))}; }

Values squeeze_rule(const Call& c) { return {squeeze(c.x(), c.either(1, "axes"))}; }
Values unsqueeze_rule(const Call& c) { return {expand_dims(c.x(), c.either(1, "axes"))}; }

Values concat_rule(const Call& c) { return {concat(c.tensors(), c.integer("axis", 1))}; }

// `parts` of equal size, except the last if the axis does not divide.
Dims equal_parts(Dim size, int64_t parts) {
  const Dim each = (size + (parts - 1)) / parts;
  Dims sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(larger(smaller(each, size - each * i), 0));
  return sizes;
}
Values split_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.ndim());
  const bool given = c.has(1) || c.has_attribute("split");
  const int64_t parts = c.integer("num_outputs", int64_t(c.outputs()));
  if (!given && parts <= 0) c.reject("cuts into no parts");
  const std::vector<Tensor> out =
      imported::cut(c, x, axis, given ? c.either(1, "split") : equal_parts(x.dim(axis), parts));
  return {out.begin(), out.end()};
}

// An index that may be negative, counted from the front. By arithmetic instead of a comparison, for an open index may
// be negative for some sizes and not for others, and one trace must be right for both. Plain ones are clamped near the
// range of sizes: arithmetic on open sizes cannot hold INT64_MIN, and would add a guard instead.
Dim from_front(Dim index, Dim size) {
  constexpr int64_t far = int64_t(1) << 40;
  if (!index.is_open()) {
    const int64_t n = std::clamp(index.plain(), -far, far);
    return n < 0 ? Dim(n + size) : Dim(n);
  }
  const Dim negative = larger(smaller(Dim(0) - index, 1), 0);  // 1 or 0
  return index + size * negative;
}

// Ends beyond the axis are clamped; INT64_MAX and INT32_MIN stand for the end of the axis in many files.
Values slice_rule(const Call& c) {
  const Tensor x = c.x();
  const Dims starts = c.either(1, "starts"), stops = c.either(2, "ends");
  const Dims axes = c.opset < 10 ? c.integers("axes") : c.has(3) ? c.dims(3) : Dims();
  const Dims steps = c.has(4) ? c.dims(4) : Dims(starts.size(), 1);
  if (stops.size() != starts.size() || steps.size() != starts.size())
    c.reject("starts, ends and steps differ in number");
  if (!axes.empty() && axes.size() != starts.size()) c.reject("starts and axes differ in number");
  const size_t n = size_t(x.ndim());
  Dims from(n, 0), to(n, std::numeric_limits<int32_t>::max()), by(n, 1);
  for (size_t i = 0; i < n; ++i) to[i] = x.shape()[i];
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = size_t(axis_of(c, axes.empty() ? int64_t(i) : int64_t(axes[i]), x.ndim()));
    const Dim size = x.shape()[axis], step = steps[i];
    if (step == 0) c.reject("a step of 0");
    Dim start = from_front(starts[i], size), stop = from_front(stops[i], size);
    const bool back = step < 0;
    start = smaller(larger(start, 0), back ? Dim(size - 1) : size);
    stop = back ? smaller(larger(stop, -1), size) : smaller(larger(stop, 0), size);
    // Without a guard: for all sizes.
    if (back && stop.is_open()) stop = stop - smaller(larger(Dim(0) - stop, 0), 1) * size;
    else if (back && stop == -1) stop = Dim(0) - size - 1;
    from[axis] = start, to[axis] = stop, by[axis] = step;
  }
  return {strided_slice(x, from, to, by)};
}

Values expand_rule(const Call& c) {
  const Tensor x = c.x();
  return {broadcast_to(x, broadcast_shapes(x.shape(), shape_from(c.dims(1))))};
}

Values tile_rule(const Call& c) {
  if (c.opset < 6) c.reject("Tile is known from opset 6 on");
  return {tile(c.x(), c.dims(1))};
}

Shape shape_of(const Call& c) {
  if (!c.has(0) || c.in[0].kind != Value::Kind::sizes) return c.x().shape();
  return c.in[0].scalar ? Shape() : Shape{int64_t(c.in[0].dims.size())};
}
Values shape_rule(const Call& c) {
  const Shape s = shape_of(c);
  const int64_t n = int64_t(s.size());
  auto index = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  Dims out;
  for (int64_t i = index(c.integer("start", 0)); i < index(c.integer("end", n)); ++i) out.push_back(s[size_t(i)]);
  return {Value::sizes(out)};
}
Values size_rule(const Call& c) {
  Dim size = 1;
  for (const Dim d : shape_of(c)) size *= d;
  return {Value::sizes({size}, true)};
}

Values constant_of_shape_rule(const Call& c) {
  const Shape shape = c.knows(0) ? shape_from(c.dims(0)) : (c.needs_values("its shape"), Shape());
  if (!c.has_attribute("value")) return {zeros(shape)};
  const Tensor value = c.tensor("value");
  return {full(shape, reshape(value, {}), value.dtype())};
}

Values constant_rule(const Call& c) {
  if (c.has_attribute("value")) return {c.program.weights->at(c.attribute("value")->t())};
  const EagerScope eager;
  if (c.has_attribute("value_int")) return {Value(tensor(c.integer("value_int", 0)), true)};
  if (c.has_attribute("value_float")) return {Value(tensor(float(c.real("value_float", 0))), true)};
  if (c.has_attribute("value_string")) return {Value(tensor(c.text("value_string", "")), true)};
  if (c.has_attribute("value_ints")) return {Value::sizes(c.integers("value_ints"))};
  if (c.has_attribute("value_strings")) return {Value(tensor(c.strings("value_strings")), true)};
  if (c.has_attribute("sparse_value")) return {c.program.weights->at(c.attribute("sparse_value")->sparse_tensor())};
  if (!c.has_attribute("value_floats")) c.reject("a constant without a value");
  const std::vector<double> numbers = c.reals("value_floats");
  return {Value(tensor(std::vector<float>(numbers.begin(), numbers.end())), true)};
}

Values eye_like_rule(const Call& c) {
  const Tensor x = c.x();
  if (x.ndim() != 2) c.reject("takes a matrix");
  return {eye(x.dim(0), x.dim(1), c.integer("k", 0), c.dtype("dtype", x.dtype()))};
}

Values trilu_rule(const Call& c) {
  const int64_t k = c.has(1) ? int64_t(c.dim(1)) : 0;
  return {c.flag("upper", true) ? triu(c.x(), k) : tril(c.x(), k)};
}

Tensor padded(const Call& c, const Tensor& x, const std::vector<Padding>& widths, const std::string& mode,
              const Tensor& value) {
  if (mode == "constant") return pad(x, widths, value);
  constexpr int64_t most = int64_t(1) << 47;
  std::vector<Padding> grow = widths;
  Dims from, to;
  for (size_t i = 0; i < widths.size(); ++i) {  // elements that are cut off first are not reflected
    for (const Dim d : {widths[i].lo, widths[i].hi})
      if (!d.is_open() && (d > most || d < -most)) c.reject("a padding of more than a tensor has elements");
    grow[i].lo = larger(widths[i].lo, 0), grow[i].hi = larger(widths[i].hi, 0);
    from.push_back(larger(Dim(0) - widths[i].lo, 0));
    to.push_back(x.shape()[i] - larger(Dim(0) - widths[i].hi, 0));
    if (!from[i].is_open() && !to[i].is_open() && from[i] > to[i]) c.reject("more is cut off than there is");
  }
  const Tensor kept = strided_slice(x, from, to);
  if (mode == "edge") return pad(kept, grow, PadMode::edge);
  if (mode == "reflect") return pad(kept, grow, PadMode::reflect);
  if (mode == "wrap") return pad(kept, grow, PadMode::wrap);
  c.reject("pads in an unknown mode, '" + mode + "'");
}
Values pad_rule(const Call& c) {
  const Tensor x = c.x();
  const Dims pads = c.either(1, "pads");
  Dims axes = c.has(3) ? c.dims(3) : Dims();
  if (!c.has(3))
    for (int64_t i = 0; i < x.ndim(); ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size()) c.reject("needs two paddings for each axis");
  std::vector<Padding> widths(size_t(x.ndim()));
  for (size_t i = 0; i < axes.size(); ++i)
    widths[size_t(axis_of(c, axes[i], x.ndim()))] = {pads[i], pads[i + axes.size()]};
  if (x.ndim() == 0) return {x};
  const Tensor value = c.has(2) ? reshape(c.x(2), {}) : full({}, Tensor(c.real("value", 0)), x.dtype());
  return {padded(c, x, widths, c.text("mode", "constant"), value)};
}

Values center_crop_pad_rule(const Call& c) {
  const Tensor x = c.x();
  const Dims target = c.dims(1);
  Dims axes = c.integers("axes");
  if (axes.empty())
    for (int64_t i = 0; i < x.ndim(); ++i) axes.push_back(i);
  if (axes.size() != target.size()) c.reject("axes and shape differ in number");
  std::vector<Padding> widths(size_t(x.ndim()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = size_t(axis_of(c, axes[i], x.ndim()));
    const Dim more = target[i] - x.shape()[axis];
    const Dim lo = more < 0 ? Dim(0) - (Dim(0) - more) / 2 : Dim(more / 2);
    widths[axis] = {lo, more - lo};
  }
  return {pad(x, widths, full({}, 0, x.dtype()))};
}

Values depth_to_space_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t b = c.integer("blocksize", 1);
  if (x.ndim() != 4 || b < 1) c.reject("takes [n, c, h, w] and a positive block");
  const Dim n = x.dim(0), channels = x.dim(1) / (b * b), h = x.dim(2), w = x.dim(3);
  const bool columns_first = c.text("mode", "DCR") == "CRD";
  const Tensor parts = columns_first ? transpose(reshape(x, {n, channels, b, b, h, w}), {0, 1, 4, 2, 5, 3})
                                     : transpose(reshape(x, {n, b, b, channels, h, w}), {0, 3, 4, 1, 5, 2});
  return {reshape(parts, {n, channels, h * b, w * b})};
}
Values space_to_depth_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t b = c.integer("blocksize", 1);
  if (x.ndim() != 4 || b < 1) c.reject("takes [n, c, h, w] and a positive block");
  const Dim n = x.dim(0), channels = x.dim(1), h = x.dim(2) / b, w = x.dim(3) / b;
  const bool columns_first = c.text("mode", "DCR") == "CRD";
  const Tensor parts =
      transpose(reshape(x, {n, channels, h, b, w, b}), columns_first ? Axes(0, 1, 3, 5, 2, 4) : Axes(0, 3, 5, 1, 2, 4));
  return {reshape(parts, {n, channels * (b * b), h, w})};
}

// Whether a known operand is an integer, in any dtype.
bool is_integral(const Call& c, size_t i) {
  if (c.in[i].kind == Value::Kind::sizes) return true;
  const double n = c.number(i);
  return n == std::floor(n) && std::abs(n) < 1e15;
}
Values range_rule(const Call& c) {
  const DType dtype = c.x(0).dtype();
  if (c.knows(0) && c.knows(1) && c.knows(2) &&
      (is_integer(dtype) || (is_integral(c, 0) && is_integral(c, 1) && is_integral(c, 2)))) {
    const Dim start = c.dim(0), stop = c.dim(1), step = c.dim(2);
    if (step == 0) c.reject("a step of 0");
    if (const auto all = imported::known_range(start, stop, step)) return {all->astype(dtype)};
    const Dim count = larger((stop - start + step + (step > 0 ? -1 : 1)) / step, 0);
    return {(iota({count}, 0, i64) * Tensor(step) + Tensor(start)).astype(dtype)};
  }
  const double start = c.number(0), stop = c.number(1), step = c.number(2);
  if (step == 0) c.reject("a step of 0");
  const double count = std::max(0.0, std::ceil((stop - start) / step));
  if (!(count < 1e12)) c.reject("the range has no end");
  return {(iota({int64_t(count)}, 0, f64) * step + start).astype(dtype)};
}

}  // namespace

const RuleTable& shape_rules() {
  static const RuleTable table = {
      {"CenterCropPad", {center_crop_pad_rule, 0b10}},
      {"Concat", {concat_rule}},
      {"Constant", {constant_rule}},
      {"ConstantOfShape", {constant_of_shape_rule, 0b1}},
      {"DepthToSpace", {depth_to_space_rule}},
      {"Expand", {expand_rule, 0b10}},
      {"EyeLike", {eye_like_rule}},
      {"Flatten", {flatten_rule}},
      {"Pad", {pad_rule, 0b1010}},
      {"Range", {range_rule, 0b111}},
      {"Reshape", {reshape_rule, 0b10}},
      {"Shape", {shape_rule}},
      {"Size", {size_rule}},
      {"Slice", {slice_rule, 0b11110}},
      {"SpaceToDepth", {space_to_depth_rule}},
      {"Split", {split_rule, 0b10}},
      {"Squeeze", {squeeze_rule, 0b10}},
      {"Tile", {tile_rule, 0b10}},
      {"Transpose", {transpose_rule}},
      {"Trilu", {trilu_rule, 0b10}},
      {"Unsqueeze", {unsqueeze_rule, 0b10}},
  };
  return table;
}

}  // namespace rill::onnx_import
