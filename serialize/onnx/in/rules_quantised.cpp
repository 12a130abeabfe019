// Quantised operators, as the arithmetic that they represent: integers are converted to numbers, and back.
#include <cmath>

#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/quantised.h"
#include "rill/serialize/onnx/in/windows.h"

namespace rill::onnx_import {
namespace {

// A scale or zero point shaped to broadcast with `x`: one number, one for each index along `axis`, or one for each
// block.
Tensor broadcastable(const Call& c, const Tensor& v, const Tensor& x, int64_t axis, int64_t block) {
  if (v.ndim() == 0 || (v.ndim() == 1 && v.size() == 1)) return reshape(v, {});
  if (v.ndim() == 1) return along_channels(v, x.ndim(), axis_of(c, axis, x.ndim()));
  axis = axis_of(c, axis, x.ndim());
  if (v.ndim() != x.ndim() || block < 1) c.reject("its scales do not fit its operand");
  return slice_axis(repeat(v, block, Axis(axis)), axis, 0, x.dim(axis));
}

struct Limits {
  double low, high;
};
Limits limits_of(DType d) {
  const double steps = std::ldexp(1.0, int(8 * size_of(d)));
  return is_unsigned(d) ? Limits{0, steps - 1} : Limits{-steps / 2, steps / 2 - 1};
}

Limits limits_of(const NarrowFormat& f) {
  const double steps = std::ldexp(1.0, f.bits);
  return is_unsigned(f.held) ? Limits{0, steps - 1} : Limits{-steps / 2, steps / 2 - 1};
}

// round(steps) + zero, within limits.
Tensor stepped_within(const Tensor& steps, const Tensor& zero, DType to, const Limits& l) {
  // f32 holds everything that does not end at a limit of 16 bits.
  const DType d = size_of(to) <= 2 ? f32 : f64;
  return clip(round(steps).astype(d) + zero.astype(d), l.low, l.high).astype(to);
}
Tensor quantised_within(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to, const Limits& l) {
  return stepped_within(x / scale.astype(x.dtype()), zero, to, l);
}

Values quantize_rule(const Call& c) {
  if (c.has(2) && c.in[2].narrow == 0)
    if (const auto bytes = same_bytes(c.in[0], c.x(1), c.x(2))) return {*bytes};
  const Tensor x = c.x(0);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const NarrowFormat* narrow = c.has(2) ? find_narrow(c.in[2].narrow) : c.narrow("output_dtype");
  const DType to = c.has(2) ? c.x(2).dtype() : c.dtype("output_dtype", u8);
  if (!is_integer(to) && !narrow) c.reject("gives integers, or floating numbers of 8 bits or less");
  const DType precision = c.dtype("precision", promote(x.dtype(), c.x(1).dtype()));
  const Tensor zero = c.has(2) ? broadcastable(c, c.x(2), x, axis, block) : full({}, 0, to);
  const Tensor wide = is_floating(x.dtype()) ? x.astype(precision) : x.astype(f32);
  const Tensor scale = broadcastable(c, c.x(1), x, axis, block);
  if (!narrow) return {quantised(wide, scale, zero, to)};
  Value y(is_integer(to) ? quantised_within(wide, scale, zero, to, limits_of(*narrow))
                         : narrowed(wide / scale.astype(wide.dtype()) + zero.astype(wide.dtype()), *narrow,
                                    c.flag("saturate", true)));
  y.narrow = narrow->number;
  return {y};
}
// The operands of DequantizeLinear, if they are bytes with one scale, or one for each index along an axis.
std::shared_ptr<const Bytes> operand_bytes(const Call& c) {
  const Tensor x = c.x(0), scale = c.x(1);
  if ((x.dtype() != u8 && x.dtype() != i8) || scale.dtype() != f32 || scale.ndim() > 1 || c.in[0].narrow != 0 ||
      x.ndim() == 0)
    return nullptr;
  const auto given = [](const Tensor& v) { return v.ndim() == 1 && v.size() == 1 ? reshape(v, {}) : v; };
  Bytes b{x, given(scale), c.has(2) ? given(c.x(2)) : full({}, 0, x.dtype())};
  b.axis = b.scale.ndim() == 0 ? 0 : axis_of(c, c.integer("axis", 1), x.ndim());
  if (b.zero.ndim() > 1 || (b.zero.ndim() == 1 && b.scale.ndim() == 0)) return nullptr;
  return std::make_shared<const Bytes>(b);
}
Values dequantize_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const DType to = c.dtype("output_dtype", c.x(1).dtype());
  if (const auto bytes = operand_bytes(c); bytes && to == f32) {
    Value y(imported::all_constant(c.in) && x.ndim() > 1 ? Tensor() : restored(*bytes));
    y.bytes = bytes;
    return {y};
  }
  const Tensor scale = broadcastable(c, c.x(1), x, axis, block);
  const Tensor y = restored(x, scale, c.has(2) ? broadcastable(c, c.x(2), x, axis, block) : full({}, 0, x.dtype()));
  return {y.astype(to)};
}

Values dynamic_quantize_rule(const Call& c) {
  const Bytes b = bytes_of(c.x());
  return {b.values, b.scale, b.zero};
}

// Zero points of a left operand are one for each row, of a right one one for each column.
Tensor for_rows(const Tensor& v) { return v.ndim() == 1 && v.size() != 1 ? expand_dims(v, -1) : v; }
Centred left(const Call& c, size_t i, size_t zero) {
  return centred(c, i, zero, [](const Tensor& z, const Tensor&) { return for_rows(z); });
}
Centred right(const Call& c, size_t i, size_t zero) {
  return centred(c, i, zero, [](const Tensor& z, const Tensor&) { return z; });
}

Values matmul_integer_rule(const Call& c) { return {exact_matmul(left(c, 0, 2), right(c, 1, 3)).astype(i32)}; }

Values qlinear_matmul_rule(const Call& c) {
  const Tensor factor = for_rows(c.x(1)).astype(f64) * c.x(4).astype(f64) / c.x(6).astype(f64);
  const Tensor y = exact_matmul(left(c, 0, 2), right(c, 3, 5)).astype(f64);
  return {stepped(y * factor, c.x(7))};
}

// One number, or one for each of the weights' output channels.
Tensor for_outputs(const Tensor& v, int ndim, int64_t axis) {
  return v.size() == 1 ? reshape(v, {}) : along_channels(v, ndim, axis);
}
// Operand 0 and operand `weights`, with their zero points.
Tensor integer_conv(const Call& c, size_t weights, size_t x_zero, size_t w_zero) {
  const Tensor x = c.x(0), w = c.x(weights);
  if (x.ndim() < 3 || x.ndim() > 5 || w.ndim() != x.ndim()) c.reject("convolves over one to three axes of space");
  const Windows windows = windows_of(c, x.shape(), Dims(w.shape().begin() + 2, w.shape().end()));
  const auto one = [](const Tensor& z, const Tensor&) { return reshape(z, {}); };
  const auto by_output = [](const Tensor& z, const Tensor& of) { return for_outputs(z, of.ndim(), 0); };
  return exact_conv(centred(c, 0, x_zero, one), centred(c, weights, w_zero, by_output),
                    {.strides = windows.strides,
                     .padding = windows.padding(),
                     .dilation = windows.dilation,
                     .groups = c.integer("group", 1),
                     .layout = Layout::nchw});
}
Values conv_integer_rule(const Call& c) { return {integer_conv(c, 1, 2, 3).astype(i32)}; }
Values qlinear_conv_rule(const Call& c) {
  Tensor y = integer_conv(c, 3, 2, 5).astype(f64);
  if (c.has(8)) y = y + along_channels(c.x(8).astype(f64), y.ndim());
  // If the scales are known: one factor, computed once, and no quotient for each number.
  const Tensor factor =
      reshape(c.x(1), {}).astype(f64) * for_outputs(c.x(4), y.ndim(), 1).astype(f64) / reshape(c.x(6), {}).astype(f64);
  return {stepped(y * factor, reshape(c.x(7), {}))};
}

}  // namespace

Tensor stepped(const Tensor& steps, const Tensor& zero) {
  return stepped_within(steps, zero, zero.dtype(), limits_of(zero.dtype()));
}
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to) {
  return quantised_within(x, scale, zero, to, limits_of(to));
}
Tensor restored(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  const DType d = size_of(x.dtype()) <= 2 ? f32 : f64;  // which holds differences of two exactly
  return (x.astype(d) - zero.astype(d)).astype(scale.dtype()) * scale;
}
Bytes bytes_of(const Tensor& x) {
  const Tensor low = minimum(min(x), 0), high = maximum(max(x), 0);
  const Tensor scale = (high - low) / 255;
  const Tensor zero = clip(round(-low / where(equal(scale, 0), ones_like(scale), scale)), 0, 255).astype(u8);
  return {quantised(x, where(equal(scale, 0), ones_like(scale), scale), zero, u8), scale, zero};
}

const RuleTable& quantised_rules() {
  static const RuleTable table = {
      {"ConvInteger", {conv_integer_rule, 0b1100}},       {"DequantizeLinear", {dequantize_rule, 0b110}},
      {"DynamicQuantizeLinear", {dynamic_quantize_rule}}, {"MatMulInteger", {matmul_integer_rule, 0b1100}},
      {"QLinearConv", {qlinear_conv_rule, 0b11110110}},   {"QLinearMatMul", {qlinear_matmul_rule, 0b11110110}},
      {"QuantizeLinear", {quantize_rule, 0b110}},
  };
  return table;
}

}  // namespace rill::onnx_import
