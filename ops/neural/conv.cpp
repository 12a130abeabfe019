// Convolution: the records of conv and of its two gradients, which are each other's gradients, and the public
// functions. The three are one trilinear form, sum x w g, differentiated by one of its factors: start at the vjps.
// Pooling is in pool.cpp.
#include "rill/ops/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/params/contraction_tail.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/samples.h"
#include "rill/ops/shape/pads.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// Checks that the parameters match tensors with `ndim` axes.
void check_params(const InferArgs& args, const ConvParams& p, bool with_sizes) {
  const size_t n = p.strides.size();
  if (n < 1 || n > 3) args.reject("there must be 1, 2 or 3 axes of space");
  for (const Dims* list : {&p.pads_lo, &p.pads_hi, &p.dilation})
    if (list->size() != n) args.reject(fmt::format("parameters for {} and for {} axes of space", n, list->size()));
  if (p.sizes.size() != (with_sizes ? n : 0)) args.reject(fmt::format("`sizes` needs an entry for each of {} axes", n));
  for (size_t i = 0; i < n; ++i) {
    if (p.strides[i] < 1 || p.dilation[i] < 1) args.reject("strides and dilation must be at least 1");
    if (p.pads_lo[i] < 0 || p.pads_hi[i] < 0) args.reject("padding must not be negative");
    for (Dim step : {p.strides[i], p.dilation[i], p.pads_lo[i], p.pads_hi[i]})
      if (step.hint() > largest_step)
        args.reject(fmt::format("strides, dilation and padding are at most {}, not {}", largest_step, step));
    if (with_sizes && (p.sizes[i] < 0 || p.sizes[i] > max_tensor_bytes))
      args.reject(fmt::format("a size is {}", p.sizes[i]));
  }
  if (p.groups < 1) args.reject("groups must be at least 1");
  if (p.layout > Layout::nchw) args.reject(fmt::format("Layout({}) does not exist", int(p.layout)));
  for (int i = 0; i < 2; ++i)
    if (size_t(args[i].shape.ndim()) != n + 2)
      args.reject(fmt::format("operand {} has {} axes; {} axes of space need {}", i, args[i].shape.ndim(), n, n + 2));
  if (args[0].dtype != args[1].dtype) args.reject("operands differ in dtype; convert one with astype()");
}

Dim channels(const ConvParams& p, const Shape& x) { return x[p.layout == Layout::nhwc ? x.size() - 1 : 1]; }
Dim weight_in(const ConvParams& p, const Shape& w) { return w[p.layout == Layout::nhwc ? w.size() - 2 : 1]; }
Dim weight_out(const ConvParams& p, const Shape& w) { return w[p.layout == Layout::nhwc ? w.size() - 1 : 0]; }

Shape activation(const ConvParams& p, Dim batch, Dim channels, const Dims& space) {
  Shape s{batch};
  if (p.layout == Layout::nchw) s.push_back(channels);
  for (Dim d : space) s.push_back(d);
  if (p.layout == Layout::nhwc) s.push_back(channels);
  return s;
}

// The spatial axes of the result of a convolution of an input and kernel with these.
Dims out_space(const InferArgs& args, const ConvParams& p, const Dims& in, const Dims& kernel) {
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (kernel[i] < 1) args.reject(fmt::format("the kernel has size {} along axis {} of space", kernel[i], i));
    const Dim n = window_count(in[i], kernel[i], p.strides[i], p.pads_lo[i], p.pads_hi[i], p.dilation[i]);
    if (n.hint() < 1)
      args.reject(
          fmt::format("a kernel of {} (dilation {}) does not fit axis {} of space: {} elements with {} of padding; "
                      "pad more",
                      kernel[i], p.dilation[i], i, in[i], p.pads_lo[i] + p.pads_hi[i]));
    out.push_back(n);
  }
  return out;
}
Dims space_of(const ConvParams& p, const Shape& x) {
  Dims out;
  for (size_t i = 0; i < p.strides.size(); ++i) out.push_back(x[space_axis(p.layout, i)]);
  return out;
}
Dims kernel_of(const ConvParams& p, const Shape& w) {
  Dims out;
  for (size_t i = 0; i < p.strides.size(); ++i) out.push_back(w[weight_space_axis(p.layout, i)]);
  return out;
}

void check_out_groups(const InferArgs& args, const ConvParams& p, Dim out) {
  if (out.hint() % p.groups != 0)
    args.reject(fmt::format("{} output channels do not divide into {} groups", out, p.groups));
}

OutSpecs one(const InferArgs& args, Shape shape) { return {Spec{shape, args[0].dtype, false, args[0].device}}; }

OutSpecs infer_conv(const InferArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  check_params(args, p, false);
  const Shape &x = args[0].shape, &w = args[1].shape;
  const int64_t expected = multiply_sizes(weight_in(p, w).hint(), p.groups);  // a file may contain any number of groups
  if (channels(p, x).hint() != expected)
    args.reject(fmt::format("the input has {} channels, the weights take {} in each of {} group(s): {} != {}{}",
                            channels(p, x), weight_in(p, w), p.groups, channels(p, x), expected,
                            layout_hint(x, p.layout == Layout::nhwc ? x.size() - 1 : 1, expected)));
  check_out_groups(args, p, weight_out(p, w));
  return one(args, activation(p, x[0], weight_out(p, w), out_space(args, p, space_of(p, x), kernel_of(p, w))));
}

OutSpecs infer_grad_input(const InferArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  check_params(args, p, true);
  const Shape &g = args[0].shape, &w = args[1].shape;
  check_out_groups(args, p, weight_out(p, w));
  if (channels(p, g) != weight_out(p, w))
    args.reject(fmt::format("the cotangent has {} channels, the weights make {}{}", channels(p, g), weight_out(p, w),
                            layout_hint(g, p.layout == Layout::nhwc ? g.size() - 1 : 1, weight_out(p, w))));
  const Dims out = out_space(args, p, p.sizes, kernel_of(p, w));
  if (!(out == space_of(p, g)))
    args.reject(fmt::format("an input of {} gives space {}, not the cotangent's {}", to_string(Shape(p.sizes)),
                            to_string(Shape(out)), to_string(Shape(space_of(p, g)))));
  const ExactDims exact;
  return one(args, activation(p, g[0], multiply_sizes(weight_in(p, w), Dim(p.groups)), p.sizes));
}

OutSpecs infer_grad_weight(const InferArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  check_params(args, p, true);
  const Shape &x = args[0].shape, &g = args[1].shape;
  if (x[0] != g[0]) args.reject(fmt::format("batches differ: {} != {}", x[0], g[0]));
  if (channels(p, x).hint() % p.groups != 0)
    args.reject(fmt::format("{} input channels do not divide into {} groups", channels(p, x), p.groups));
  check_out_groups(args, p, channels(p, g));
  const Dims out = out_space(args, p, space_of(p, x), p.sizes);
  if (!(out == space_of(p, g)))
    args.reject(fmt::format("a kernel of {} gives space {}, not the cotangent's {}", to_string(Shape(p.sizes)),
                            to_string(Shape(out)), to_string(Shape(space_of(p, g)))));
  const ExactDims exact;
  Shape w;
  if (p.layout == Layout::nchw) w = {channels(p, g), channels(p, x) / p.groups};
  for (Dim k : p.sizes) w.push_back(k);
  if (p.layout == Layout::nhwc) {
    w.push_back(channels(p, x) / p.groups);
    w.push_back(channels(p, g));
  }
  return one(args, w);
}

ConvParams with_sizes(ConvParams p, const Dims& sizes) {
  p.sizes = sizes;
  return p;
}

// --- Gradients. With L = sum x w g, each record is the derivative of L by one factor, linear in the other two. -------

Tensor run_conv(const Tensor& x, const Tensor& w, const ConvParams& p);

Tensors vjp_conv(const VjpArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &x = args.in[0], &w = args.in[1], &g = args.cotangent[0];
  Tensors out(2);
  if (args.needs(0)) out[0] = conv_grad_input(g, w, with_sizes(p, space_of(p, x.shape())));
  if (args.needs(1)) out[1] = conv_grad_weight(x, g, with_sizes(p, kernel_of(p, w.shape())));
  return out;
}

Tensors vjp_grad_input(const VjpArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &g = args.in[0], &w = args.in[1], &x = args.cotangent[0];
  Tensors out(2);
  if (args.needs(0)) out[0] = run_conv(x, w, p);
  if (args.needs(1)) out[1] = conv_grad_weight(x, g, with_sizes(p, kernel_of(p, w.shape())));
  return out;
}

Tensors vjp_grad_weight(const VjpArgs& args) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor &x = args.in[0], &g = args.in[1], &w = args.cotangent[0];
  Tensors out(2);
  if (args.needs(0)) out[0] = conv_grad_input(g, w, with_sizes(p, space_of(p, x.shape())));
  if (args.needs(1)) out[1] = run_conv(x, w, p);
  return out;
}

// --- Rules of vmap ---------------------------------------------------------------------------------------------------

// A batch of inputs is a larger batch; if weights differ between rows, each row is a group.

size_t channel_axis(const ConvParams& p) { return p.layout == Layout::nhwc ? p.strides.size() + 1 : 1; }
size_t weight_in_axis(const ConvParams& p) { return p.layout == Layout::nhwc ? p.strides.size() : 1; }
size_t weight_out_axis(const ConvParams& p) { return p.layout == Layout::nhwc ? p.strides.size() + 1 : 0; }

// The call with the batch axes of the operands merged into these axes of theirs (-1: there is none), and the result's
// split off again.
Tensors merged_call(const BatchArgs& a, int64_t first, int64_t second, int64_t result, bool groups) {
  ConvParams p = a.attrs.as<ConvParams>();
  const Dim size = row_outputs(a)[0].shape[size_t(result)];
  const Tensor x = first < 0 ? a.in[0] : merge_batch(with_batch(a, 0), first),
               y = second < 0 ? a.in[1] : merge_batch(with_batch(a, 1), second);
  if (groups) p.groups *= int64_t(a.size);
  return {split_batch(apply1(a.op, {&x, &y}, p, a.where), result, a.size, size)};
}

Tensors batch_conv(const BatchArgs& a) {
  const ConvParams& p = a.attrs.as<ConvParams>();
  const auto channel = int64_t(channel_axis(p)), out = int64_t(weight_out_axis(p));
  if (a.size == 0) return batch_by_loop(a);
  if (!a.batched[1]) return merged_call(a, 0, -1, 0, false);
  if (!a.batched[0] && p.groups == 1) return merged_call(a, -1, out, channel, false);
  return merged_call(a, channel, out, channel, true);
}

Tensors batch_grad_input(const BatchArgs& a) {
  const ConvParams& p = a.attrs.as<ConvParams>();
  const auto channel = int64_t(channel_axis(p)), out = int64_t(weight_out_axis(p));
  if (a.size == 0) return batch_by_loop(a);
  if (!a.batched[1]) return merged_call(a, 0, -1, 0, false);
  return merged_call(a, channel, out, channel, true);
}

Tensors batch_grad_weight(const BatchArgs& a) {
  const ConvParams& p = a.attrs.as<ConvParams>();
  const auto channel = int64_t(channel_axis(p)), in = int64_t(weight_in_axis(p)), out = int64_t(weight_out_axis(p));
  if (a.size == 0) return batch_by_loop(a);
  if (!a.batched[0] && p.groups == 1) return merged_call(a, -1, channel, out, false);
  if (!a.batched[1] && p.groups == 1) return merged_call(a, channel, -1, in, false);
  return merged_call(a, channel, channel, out, true);
}

// --- Samples: the convolutions to test; the gradients' samples are made from them. -----------------------------------

struct Case {
  Shape x, w;
  ConvParams p;
};
std::vector<Case> cases() {
  const Layout nhwc = Layout::nhwc, nchw = Layout::nchw;
  return {
      {{2, 5, 6, 3}, {3, 2, 3, 4}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, nhwc, {}}},
      {{2, 7, 6, 3}, {3, 3, 3, 5}, {{2, 1}, {1, 0}, {1, 2}, {1, 2}, 1, nhwc, {}}},
      {{2, 3, 7, 6}, {5, 3, 3, 3}, {{2, 1}, {1, 0}, {1, 2}, {1, 2}, 1, nchw, {}}},
      {{1, 5, 5, 4}, {3, 3, 2, 6}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, nhwc, {}}},
      {{1, 4, 5, 5}, {4, 1, 3, 3}, {{1, 2}, {1, 1}, {1, 1}, {1, 1}, 4, nchw, {}}},
      {{2, 9, 2}, {4, 2, 3}, {{3}, {2}, {1}, {1}, 1, nhwc, {}}},
      {{1, 2, 4, 3, 5}, {2, 2, 2, 3, 2}, {{1, 2, 1}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}, 1, nchw, {}}},
      {{1, 4, 3, 5, 2}, {2, 2, 2, 2, 3}, {{1, 1, 2}, {0, 0, 1}, {0, 0, 1}, {2, 1, 1}, 1, nhwc, {}}},
      {{0, 4, 4, 2}, {3, 3, 2, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, nhwc, {}}},
      {{2, 4, 4, 1}, {5, 5, 1, 32}, {{1, 1}, {2, 2}, {2, 2}, {1, 1}, 1, nhwc, {}}},
  };
}
Shape result_shape(const Case& c) {
  Dims space;
  const Dims in = space_of(c.p, c.x), kernel = kernel_of(c.p, c.w);
  for (size_t i = 0; i < in.size(); ++i)
    space.push_back(window_count(in[i], kernel[i], c.p.strides[i], c.p.pads_lo[i], c.p.pads_hi[i], c.p.dilation[i]));
  return activation(c.p, c.x[0], weight_out(c.p, c.w), space);
}
std::vector<Sample> samples_conv() {
  std::vector<Sample> out;
  for (const Case& c : cases()) out.push_back({{samples::uniform(c.x), samples::uniform(c.w, -1, 1, 2)}, c.p});
  return out;
}
std::vector<Sample> samples_grad_input() {
  std::vector<Sample> out;
  for (const Case& c : cases())
    out.push_back(
        {{samples::uniform(result_shape(c)), samples::uniform(c.w, -1, 1, 2)}, with_sizes(c.p, space_of(c.p, c.x))});
  return out;
}
std::vector<Sample> samples_grad_weight() {
  std::vector<Sample> out;
  for (const Case& c : cases())
    out.push_back(
        {{samples::uniform(c.x), samples::uniform(result_shape(c), -1, 1, 2)}, with_sizes(c.p, kernel_of(c.p, c.w))});
  return out;
}

// Of the three tensors of the form one is the convolution's result (or its cotangent) and one the weights: each element
// of that result is a sum over the weights of its channel.
enum Factor { lhs, rhs, result };
template <Factor weights, Factor convolved>
double flops_of_conv(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) {
  const auto shape = [&](Factor p) -> const Shape& { return p == result ? out.shape : in[size_t(p)]->shape; };
  const int64_t channels = weight_out(attrs.as<ConvParams>(), shape(weights));
  if (channels == 0) return 0;
  return 2.0 * double(shape(convolved).numel()) * double(shape(weights).numel()) / double(channels);
}

int tail_axes_of_conv(std::span<const Spec* const>, const Spec& out, AttrsView attrs) {
  const bool channels_last = attrs.as<ConvParams>().layout == Layout::nhwc;
  return channels_last && out.shape.numel() >= min_tail_result ? 1 : -1;
}

}  // namespace

extern const Op conv_op, conv_grad_input_op, conv_grad_weight_op;
const Op conv_op({
    .name = "conv",
    .doc =
        "out[n, p, o] = sum_kc x[n, p * stride - pad + k * dilation, c] w[k, c, o], c over the channels of o's group",
    .kind = OpKind::library,
    .dtypes = float_set,
    .inputs = 2,
    .infer = infer_conv,
    .vjp = vjp_conv,
    .saves_in = save_all,
    .saves_for = {save(1), save(0)},
    .linear_in = save(0) | save(1),
    .batch = batch_conv,
    .cpu = cpu::conv,
    .ref = ref::conv,
    .packs = true,
    .cpu_with_tail = cpu::conv_with_tail,
    .tail_axes = tail_axes_of_conv,
    .flops = flops_of_conv<rhs, result>,
    .samples = samples_conv,
    .sum_tolerance = 8,  // a few hundred terms of one sign, summed in order
    .exported = {.onnx = "Conv", .tensorflow = "Conv2D"},
});
const Op conv_grad_input_op({
    .name = "conv_grad_input",
    .doc = "x[n, i, c] = sum of g[n, p, o] w[k, c, o] over all p, k, o with p * stride - pad + k * dilation = i",
    .kind = OpKind::library,
    .dtypes = float_set,
    .inputs = 2,
    .infer = infer_grad_input,
    .vjp = vjp_grad_input,
    .saves_in = save_all,
    .saves_for = {save(1), save(0)},
    .linear_in = save(0) | save(1),
    .batch = batch_grad_input,
    .cpu = cpu::conv_grad_input,
    .ref = ref::conv_grad_input,
    .packs = true,
    .flops = flops_of_conv<rhs, lhs>,
    .samples = samples_grad_input,
    .sum_tolerance = 8,  // a few hundred terms of one sign, summed in order
    .exported = {.onnx = "ConvTranspose", .tensorflow = "Conv2DBackpropInput"},
});
const Op conv_grad_weight_op({
    .name = "conv_grad_weight",
    .doc = "w[k, c, o] = sum_np x[n, p * stride - pad + k * dilation, c] g[n, p, o]",
    .kind = OpKind::library,
    .dtypes = float_set,
    .inputs = 2,
    .infer = infer_grad_weight,
    .vjp = vjp_grad_weight,
    .saves_in = save_all,
    .saves_for = {save(1), save(0)},
    .linear_in = save(0) | save(1),
    .batch = batch_grad_weight,
    .cpu = cpu::conv_grad_weight,
    .ref = ref::conv_grad_weight,
    .flops = flops_of_conv<result, rhs>,
    .samples = samples_grad_weight,
    .sum_tolerance = 8,  // a few hundred terms of one sign, summed in order
    .exported = {.tensorflow = "Conv2DBackpropFilter"},
});

namespace {

Tensor run_conv(const Tensor& x, const Tensor& w, const ConvParams& p) {
  return apply1(conv_op, {&x, &w}, with_sizes(p, {}), Where::current());
}

Tensor conv_as(const char* op, const Tensor& x, const Tensor& w, const ConvOptions& o, const Where& where) {
  CallerScope caller(where, op);
  const size_t n = space_count(x, op, where);
  require_operand(op, w, where);
  if (w.ndim() != x.ndim())
    fail(op,
         fmt::format("weights for {} axes of space must have {} axes, not {}. operands: {}, {}", n, n + 2, w.ndim(),
                     to_string(x.spec()), to_string(w.spec())),
         where);
  ConvParams p;
  p.strides = for_each_axis(o.strides, n, 1, op, "strides", where);
  p.dilation = for_each_axis(o.dilation, n, 1, op, "dilation", where);
  p.groups = o.groups;
  p.layout = o.layout;
  resolve_padding(o.padding, space_of(p, x.shape()), kernel_of(p, w.shape()), p.strides, p.dilation, p.pads_lo,
                  p.pads_hi, op, where);
  const auto [a, b] = promoted(x, w);
  return apply1(conv_op, {&a, &b}, p, where);
}

Tensor conv_nd(int n, const Tensor& x, const Tensor& w, const ConvOptions& o, const Where& where) {
  const std::string op = fmt::format("conv{}d", n);
  require_operand(op, x, where);
  if (x.ndim() != n + 2)
    fail(op,
         fmt::format("the input must have {} axes, not {}. operands: {}, {}", n + 2, x.ndim(), to_string(x.spec()),
                     to_string(w.spec())),
         where);
  return conv_as(op.c_str(), x, w, o, where);
}

}  // namespace

Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options, Where where) {
  return conv_as("conv", x, w, options, where);
}
Tensor conv1d(const Tensor& x, const Tensor& w, const ConvOptions& options, Where where) {
  return conv_nd(1, x, w, options, where);
}
Tensor conv2d(const Tensor& x, const Tensor& w, const ConvOptions& options, Where where) {
  return conv_nd(2, x, w, options, where);
}
Tensor conv3d(const Tensor& x, const Tensor& w, const ConvOptions& options, Where where) {
  return conv_nd(3, x, w, options, where);
}

Tensor depthwise_conv(const Tensor& x, const Tensor& w, const ConvOptions& options, Where where) {
  const size_t n = space_count(x, "depthwise_conv", where);
  ConvOptions o = options;
  o.groups = x.shape()[o.layout == Layout::nhwc ? n + 1 : 1];
  return conv_as("depthwise_conv", x, w, o, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& o, Where where) {
  CallerScope caller(where);
  const std::string_view op = "conv_transpose";
  const size_t n = space_count(x, op, where);
  require_operand(op, w, where);
  if (w.ndim() != x.ndim())
    fail(op, fmt::format("weights for {} axes of space must have {} axes, not {}", n, n + 2, w.ndim()), where);
  ConvParams p;
  p.strides = for_each_axis(o.strides, n, 1, op, "strides", where);
  p.dilation = for_each_axis(o.dilation, n, 1, op, "dilation", where);
  p.groups = o.groups;
  p.layout = o.layout;
  const Dims in = space_of(p, x.shape()), kernel = kernel_of(p, w.shape());
  const Dims extra = for_each_axis(o.output_padding, n, 0, op, "output_padding", where);
  // The input sizes of the convolution of which this is the transpose.
  if (o.padding.kind == SpacePadding::Kind::same) {
    for (size_t i = 0; i < n; ++i) p.sizes.push_back(multiply_sizes(in[i], p.strides[i]));
    for (Dim size : p.sizes)  // for another number of sizes, infer rules throw
      if (size.hint() > max_tensor_bytes) fail(op, fmt::format("a size of the result would be {}", size), where);
    resolve_padding(o.padding, p.sizes, kernel, p.strides, p.dilation, p.pads_lo, p.pads_hi, op, where);
  } else {
    resolve_padding(o.padding, in, kernel, p.strides, p.dilation, p.pads_lo, p.pads_hi, op, where);
    for (size_t i = 0; i < n; ++i) {
      if (extra[i] < 0 || extra[i] >= p.strides[i])
        fail(op, fmt::format("output_padding {} must be less than the stride {}", extra[i], p.strides[i]), where);
      if (std::max(p.pads_lo[i], p.pads_hi[i]) > largest_step || std::min(p.pads_lo[i], p.pads_hi[i]) < 0)
        fail(op, fmt::format("padding is between 0 and {}, not {} and {}", largest_step, p.pads_lo[i], p.pads_hi[i]),
             where);
      // Saturating, and then too large for any tensor.
      p.sizes.push_back(
          smaller(add_sizes(multiply_sizes(in[i] - 1, p.strides[i]), multiply_sizes(kernel[i] - 1, p.dilation[i])),
                  max_tensor_bytes * 4) +
          1 - p.pads_lo[i] - p.pads_hi[i] + extra[i]);
    }
  }
  const auto [a, b] = promoted(x, w);
  return conv_grad_input(a, b, p, where);
}

Tensor conv_grad_input(const Tensor& g, const Tensor& w, const ConvParams& p, Where where) {
  return apply1(conv_grad_input_op, {&g, &w}, p, where);
}
Tensor conv_grad_weight(const Tensor& x, const Tensor& g, const ConvParams& p, Where where) {
  return apply1(conv_grad_weight_op, {&x, &g}, p, where);
}

}  // namespace rill
