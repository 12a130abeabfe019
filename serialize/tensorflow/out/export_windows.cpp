// Convolution and pooling. TensorFlow's kernels for CPUs only support [batch, space..., channels], weights [space...,
// in / groups, out] and two or three axes of space: others are transposed, and a single axis of space gets one of size
// 1 before it. Padding is "SAME" if it equals TensorFlow's, else an operator before a "VALID" one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "rill/devices/params/conv_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

namespace {

using onnx_out::inverse, onnx_out::is_empty, onnx_out::Order, onnx_out::permuted, onnx_out::zeros_of;
namespace whole_pool = onnx_out::whole_pool;

// The axes of an activation, of weights, in TensorFlow's order.
Order activation_order(Layout l, size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (l == Layout::nchw) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}
Order weight_order(Layout l, size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (l == Layout::nchw) {
    order.erase(order.begin(), order.begin() + 2);
    order.insert(order.end(), {1, 0});
  }
  return order;
}

// A window's rule with its operands in TensorFlow's order, with two or three axes of space.
struct Windows {
  Call& c;
  GraphWriter& w;
  size_t space;          // axes of space of the record
  Dims strides, lo, hi;  // by axis of space
  Layout layout;

  template <class P>
  Windows(Call& call, const P& p)
      : c(call),
        w(writer(call)),
        space(p.strides.size()),
        strides(p.strides),
        lo(p.pads_lo),
        hi(p.pads_hi),
        layout(p.layout) {}

  Value activation(const Value& v) const {
    const Value x = c.e.transposed(v, activation_order(layout, space + 2));
    return space == 1 ? w.node("ExpandDims", {x, w.scalar(w.i32s({1}))}) : x;
  }
  Value weights(const Value& v) const {
    const Value x = c.e.transposed(v, weight_order(layout, space + 2));
    return space == 1 ? w.node("ExpandDims", {x, w.scalar(w.i32s({0}))}) : x;
  }
  Value activation_back(const Value& v) const {
    const Value y = space == 1 ? w.node("Squeeze", {v}, {{"squeeze_dims", numbers_attr({1})}}) : v;
    return c.e.transposed(y, inverse(activation_order(layout, space + 2)));
  }
  Value weights_back(const Value& v) const {
    const Value y = space == 1 ? w.node("Squeeze", {v}, {{"squeeze_dims", numbers_attr({0})}}) : v;
    return c.e.transposed(y, inverse(weight_order(layout, space + 2)));
  }
  // A number for each axis of space as an attribute for all four or five axes.
  proto::AttrValue attribute(const Dims& d) const {
    std::vector<int64_t> all{1};
    if (space == 1) all.push_back(1);
    for (Dim n : d) {
      if (n.is_open()) c.e.refuse(c.node, "its window depends on an open size");
      all.push_back(n.plain());
    }
    all.push_back(1);
    return numbers_attr(all);
  }
  // The sizes of an activation's axes of space.
  Dims space_of(const Shape& activation) const {
    Dims out;
    for (size_t i = 0; i < space; ++i) out.push_back(activation[space_axis(layout, i)]);
    return out;
  }
  std::string op(const char* two, const char* three) const { return space == 3 ? three : two; }

  // [batch, 1?, space..., channels], with `first` and `last` for batch and channels.
  Dims all_axes(const Dims& d, Dim first, Dim last, Dim one) const {
    Dims all{first};
    if (space == 1) all.push_back(one);
    for (Dim n : d) all.push_back(n);
    all.push_back(last);
    return all;
  }
  // `x`, an activation, padded; no padding is negative.
  Value padded(const Value& x, double fill) const {
    if (!pads()) return x;
    Dims widths = all_axes(lo, 0, 0, 0);
    for (Dim d : all_axes(hi, 0, 0, 0)) widths.push_back(d);
    return c.e.op("Pad", {x, c.e.sizes(widths), std::isinf(fill) ? lowest(x.dtype) : c.e.number(fill, x.dtype)});
  }
  // `y`, an activation whose padded axes of space are around these sizes, without the padding.
  Value cropped(const Value& y, const Dims& sizes) const {
    if (!pads()) return y;
    return w.node("Slice", {y, c.e.sizes(all_axes(lo, 0, 0, 0)), c.e.sizes(all_axes(sizes, -1, -1, 1))});
  }
  Value lowest(DType d) const {
    const EagerScope eager;
    if (is_floating(d)) return c.e.number(-std::numeric_limits<double>::infinity(), d);
    const int64_t least = d == DType::i32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    return c.e.constant(tensor(least).astype(d));
  }
  bool pads() const {
    for (size_t i = 0; i < lo.size(); ++i)
      if (lo[i].is_open() || hi[i].is_open() || lo[i] != 0 || hi[i] != 0) return true;
    return false;
  }
  // Whether the padding equals TensorFlow's "SAME" for an input of these sizes and windows of this reach.
  bool is_same(const Shape& x, const Dims& reach) const {
    for (size_t i = 0; i < space; ++i) {
      const Dim n = x[i + 1];
      if (lo[i].is_open() || hi[i].is_open() || reach[i].is_open()) return false;
      const int64_t stride = strides[i].plain();
      int64_t all = reach[i].plain() - 1;
      if (stride != 1) {
        if (n.is_open()) return false;
        all = std::max<int64_t>(((n.plain() + stride - 1) / stride - 1) * stride + reach[i].plain() - n.plain(), 0);
      }
      if (lo[i].plain() != all / 2 || hi[i].plain() != all - all / 2) return false;
    }
    return true;
  }
};

// --- Convolution -----------------------------------------------------------------------------------------------------

// A convolution without dilation: the elements between the kernel's are zeros.
struct Convolution : Windows {
  const ConvParams& p;
  Shape window;  // [space..., in / groups, out]
  Dims reach;    // sizes of the kernel with the zeros

  Convolution(Call& call, const Shape& weights_shape)
      : Windows(call, call.attrs<ConvParams>()),
        p(call.attrs<ConvParams>()),
        window(permuted(weights_shape, weight_order(layout, space + 2))) {
    for (size_t i = 0; i < space; ++i) reach.push_back((window[i] - 1) * p.dilation[i] + 1);
  }
  bool dilated() const {
    for (Dim d : p.dilation)
      if (d != 1) return true;
    return false;
  }
  // The kernel with the zeros between its elements.
  Value widened(Value v) const {
    Shape shape = window;
    if (space == 1) shape.insert(0, 1);
    for (size_t i = 0; i < space; ++i) {
      if (p.dilation[i] == 1) continue;
      const size_t axis = i + size_t(space == 1);
      Shape split = shape;
      split.insert(axis + 1, 1);
      Dims pads(2 * split.size(), Dim(0));
      pads[split.size() + axis + 1] = p.dilation[i] - 1;
      v = c.e.op("Pad", {c.e.reshaped(v, split), c.e.sizes(pads)});
      shape[axis] = shape[axis] * p.dilation[i];
      v = w.cut(c.e.reshaped(v, shape), int64_t(axis), c.e.ints({0}), c.e.size(reach[i]));
      shape[axis] = reach[i];
    }
    return v;
  }
  NodeAttributes attributes(const char* padding) const {
    return {{"strides", attribute(strides)}, {"padding", text_attr(padding)}};
  }
  // Part `k` of `v`, of `n` elements along an axis.
  Value part(const Value& v, int64_t axis, int64_t n, int64_t k) const {
    return p.groups == 1 ? v : w.cut(v, axis, c.e.ints({k * n}), c.e.ints({k * n + n}));
  }
  int64_t last() const { return space == 3 ? 4 : 3; }
};

// One node for all groups: the depthwise operator if each input channel is a group, which requires equal strides for
// both axes; else Conv2D, which infers the number of groups from the shapes. (That has no gradients except by oneDNN,
// so those are written group by group.)
Value grouped(const Convolution& v, const Value& x, const Value& kernel, const NodeAttributes& attributes) {
  const int64_t in = v.window[v.space].plain(), out = v.window[v.space + 1].plain() / v.p.groups;
  const auto stride = [&](size_t i) { return v.space == 1 && i == 0 ? Dim(1) : v.p.strides[i - size_t(v.space == 1)]; };
  if (in != 1 || stride(0) != stride(1)) return v.w.node("Conv2D", {x, kernel}, attributes);
  Shape by_input(v.reach.begin(), v.reach.end());
  if (v.space == 1) by_input.insert(0, 1);
  by_input.push_back(v.p.groups);
  by_input.push_back(out);
  return v.w.node("DepthwiseConv2dNative", {x, v.c.e.reshaped(kernel, by_input)}, attributes);
}

Values write_conv(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  const Convolution v(c, c.specs[1].shape);
  const Shape x_shape = permuted(c.specs[0].shape, activation_order(v.layout, c.rank()));
  const bool same = v.is_same(x_shape, v.reach);
  Value x = v.activation(c.in[0]), kernel = v.weights(c.in[1]);
  if (!same) x = v.padded(x, 0);
  NodeAttributes attributes = v.attributes(same ? "SAME" : "VALID");
  const bool plain = v.space < 3 && v.p.groups == 1;
  if (plain) attributes.emplace_back("dilations", v.attribute(v.p.dilation));
  else kernel = v.widened(kernel);
  const int64_t in = v.window[v.space].plain(), out = v.window[v.space + 1].plain() / v.p.groups;
  if (v.space < 3 && v.p.groups > 1) return {v.activation_back(grouped(v, x, kernel, attributes))};
  Values parts;
  for (int64_t k = 0; k < v.p.groups; ++k)
    parts.push_back(
        v.w.node(v.op("Conv2D", "Conv3D"), {v.part(x, v.last(), in, k), v.part(kernel, v.last(), out, k)}, attributes));
  return {v.activation_back(v.w.joined(parts, v.last()))};
}

// The gradient by the padded input, cropped to the input.
Values write_conv_grad_input(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  const Convolution v(c, c.specs[1].shape);
  const Value g = v.activation(c.in[0]), kernel = v.widened(v.weights(c.in[1]));
  const int64_t in = v.window[v.space].plain(), out = v.window[v.space + 1].plain() / v.p.groups;
  Dims sizes;
  for (size_t i = 0; i < v.space; ++i) sizes.push_back(v.p.sizes[i] + v.lo[i] + v.hi[i]);
  const Value shape = c.e.cast(c.e.sizes(v.all_axes(sizes, c.specs[0].shape[0], in, 1)), DType::i32);
  Values parts;
  for (int64_t k = 0; k < v.p.groups; ++k)
    parts.push_back(v.w.node(v.op("Conv2DBackpropInput", "Conv3DBackpropInputV2"),
                             {shape, v.part(kernel, v.last(), out, k), v.part(g, v.last(), out, k)},
                             v.attributes("VALID"), g.dtype));
  const Value y = v.w.joined(parts, v.last());
  return {v.activation_back(v.cropped(y, v.p.sizes))};
}

Values write_conv_grad_weight(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  const Convolution v(c, c.out().shape);
  const Value x = v.padded(v.activation(c.in[0]), 0), g = v.activation(c.in[1]);
  const int64_t in = v.window[v.space].plain(), out = v.window[v.space + 1].plain() / v.p.groups;
  const Value shape = c.e.cast(c.e.sizes(v.all_axes(v.reach, 1, in, 1)), DType::i32);
  // [1?, space..., in, out]: without the batch that spread() puts first, and with the results last.
  const Value filter =
      v.w.joined({v.w.cut(shape, 0, c.e.ints({1}), c.e.ints({v.space == 3 ? 5 : 4})), v.w.i32s({out})}, 0);
  Values parts;
  for (int64_t k = 0; k < v.p.groups; ++k)
    parts.push_back(v.w.node(v.op("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"),
                             {v.part(x, v.last(), in, k), filter, v.part(g, v.last(), out, k)}, v.attributes("VALID")));
  Value y = v.w.joined(parts, v.last());
  if (v.dilated()) {
    const std::vector<int64_t> zeros(size_t(v.last()), 0);
    Dims steps(zeros.size(), Dim(1));
    for (size_t i = 0; i < v.space; ++i) steps[i + size_t(v.space == 1)] = v.p.dilation[i];
    const int64_t whole = (int64_t(1) << v.last()) - 1;
    y = v.w.node("StridedSlice", {y, c.e.ints(zeros), c.e.ints(zeros), c.e.sizes(steps)},
                 {{"begin_mask", number_attr(whole)}, {"end_mask", number_attr(whole)}});
  }
  return {v.weights_back(y)};
}

// --- Pooling ---------------------------------------------------------------------------------------------------------

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Pool : Windows {
  const PoolParams& p;
  explicit Pool(Call& call) : Windows(call, call.attrs<PoolParams>()), p(call.attrs<PoolParams>()) {
    if (space == 3 && c.in[0].dtype != DType::f32)
      c.e.refuse(c.node, "TensorFlow pools volumes in f32 alone. cast the operand, or pool one axis after the other");
  }
  NodeAttributes attributes(const char* padding) const {
    return {{"ksize", attribute(p.window)}, {"strides", attribute(strides)}, {"padding", text_attr(padding)}};
  }
  bool same() const { return is_same(permuted(c.specs[0].shape, activation_order(layout, c.rank())), p.window); }
};

Values write_max_pool(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  if (whole_pool::is(c)) return whole_pool::max(c);
  const Pool v(c);
  Value x = v.activation(c.in[0]);
  const bool same = v.same();
  if (!same) x = v.padded(x, -infinity);
  return {v.activation_back(v.w.node(v.op("MaxPool", "MaxPool3D"), {x}, v.attributes(same ? "SAME" : "VALID")))};
}
Values write_max_pool_pick(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  if (whole_pool::is(c)) return whole_pool::max_pick(c);
  const Pool v(c);
  const Value x = v.padded(v.activation(c.in[0]), -infinity);
  const Value t = v.padded(v.activation(c.in[1]), 0);
  const Value y = v.w.node(v.op("MaxPool", "MaxPool3D"), {x}, v.attributes("VALID"));
  return {v.activation_back(v.w.node(v.op("MaxPoolGradGrad", "MaxPool3DGradGrad"), {x, y, t}, v.attributes("VALID")))};
}
Values write_max_pool_grad(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  if (whole_pool::is(c)) return whole_pool::max_grad(c);
  const Pool v(c);
  const Value x = v.padded(v.activation(c.in[0]), -infinity), g = v.activation(c.in[1]);
  const Value y = v.w.node(v.op("MaxPool", "MaxPool3D"), {x}, v.attributes("VALID"));
  const Value dx = v.w.node(v.op("MaxPoolGrad", "MaxPool3DGrad"), {x, y, g}, v.attributes("VALID"));
  return {v.activation_back(v.cropped(dx, v.space_of(c.specs[0].shape)))};
}

// The fraction of each window that is not padding, for an input of this shape.
Value unpadded_fraction(const Pool& v, const Shape& x, DType dtype) {
  Dims one{1};
  if (v.space == 1) one.push_back(1);
  for (size_t i = 0; i < v.space; ++i) one.push_back(x[i + 1]);
  one.push_back(1);
  const Value ones = v.c.e.op("Expand", {v.c.e.number(1, dtype), v.c.e.sizes(one)});
  return v.w.node(v.op("AvgPool", "AvgPool3D"), {v.padded(ones, 0)}, v.attributes("VALID"));
}
Values write_avg_pool(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  if (whole_pool::is(c)) return whole_pool::avg(c);
  const Pool v(c);
  const Value x = v.activation(c.in[0]);
  const char* op = v.space == 3 ? "AvgPool3D" : "AvgPool";
  if (v.pads() && !v.p.count_include_pad && v.same())
    return {v.activation_back(v.w.node(op, {x}, v.attributes("SAME")))};
  Value y = v.w.node(op, {v.padded(x, 0)}, v.attributes("VALID"));
  if (v.pads() && !v.p.count_include_pad)
    y = v.w.node("RealDiv",
                 {y, unpadded_fraction(v, permuted(c.specs[0].shape, activation_order(v.layout, c.rank())), y.dtype)});
  return {v.activation_back(y)};
}
Values write_avg_pool_grad(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.out().dtype);
  if (whole_pool::is(c)) return whole_pool::avg_grad(c);
  const Pool v(c);
  Value g = v.activation(c.in[0]);
  const Shape given = permuted(c.specs[0].shape, activation_order(v.layout, c.rank()));
  Shape x{given[0]};
  for (Dim d : v.p.sizes) x.push_back(d);
  x.push_back(given.back());
  if (v.pads() && !v.p.count_include_pad) {
    const Value share = unpadded_fraction(v, x, g.dtype), none = v.w.bools("Equal", {share, c.e.number(0, g.dtype)});
    g = v.w.node("RealDiv", {g, v.w.select(none, c.e.number(1, g.dtype), share)});
  }
  Dims sizes;
  for (size_t i = 0; i < v.space; ++i) sizes.push_back(v.p.sizes[i] + v.lo[i] + v.hi[i]);
  const Value shape = c.e.cast(c.e.sizes(v.all_axes(sizes, given[0], given.back(), 1)), DType::i32);
  const Value dx = v.w.node(v.op("AvgPoolGrad", "AvgPool3DGrad"), {shape, g}, v.attributes("VALID"), g.dtype);
  return {v.activation_back(v.cropped(dx, v.p.sizes))};
}

// In f64, which holds the sums.
Tensors compose_byte_conv(std::span<const Tensor> in, AttrsView attrs) {
  const ConvParams& p = attrs.as<ConvParams>();
  SpacePadding padding(0);
  padding.kind = SpacePadding::Kind::each;
  padding.lo = p.pads_lo, padding.hi = p.pads_hi;
  Tensor zero = in[3];
  if (zero.ndim() == 1 && p.layout == Layout::nchw) {
    Shape by_channel(size_t(in[1].ndim()), 1);
    by_channel[0] = zero.dim(0);
    zero = reshape(zero, by_channel);
  }
  const Tensor x = astype(in[0], DType::f64) - astype(in[2], DType::f64),
               w = astype(in[1], DType::f64) - astype(zero, DType::f64);
  const ConvOptions options{
      .strides = p.strides, .padding = padding, .dilation = p.dilation, .groups = p.groups, .layout = p.layout};
  return {astype(conv(x, w, options), DType::i32)};
}

}  // namespace

std::span<const onnx_out::Rule> window_rules() {
  static const onnx_out::Rule rules[] = {
      {"conv", write_conv},
      {.op = "byte_conv", .composite = compose_byte_conv},
      {"conv_grad_input", write_conv_grad_input},
      {"conv_grad_weight", write_conv_grad_weight},
      {"max_pool", write_max_pool},
      {"max_pool_pick", write_max_pool_pick},
      {"max_pool_grad", write_max_pool_grad},
      {"avg_pool", write_avg_pool},
      {"avg_pool_grad", write_avg_pool_grad},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
