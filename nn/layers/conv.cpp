// Convolutions.
#include "rill/nn/layers/conv.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/windows.h"

namespace rill::nn {
namespace impl {

namespace {
SpacePadding padding_of(const std::string& type, int rank, const ConvLayerOptions& o, const Dims& window,
                        const Where& where) {
  if (!o.causal) return o.padding;
  if (rank != 1) fail(type, "causal is for Conv1D: other axes of space are not time", where);
  if (o.padding.kind != SpacePadding::Kind::valid) fail(type, "causal says what the padding is: give no other", where);
  const int64_t dilation = o.dilation.empty() ? 1 : int64_t(o.dilation[0]);
  return {{(int64_t(window[0]) - 1) * dilation, 0}};
}
}  // namespace

ConvLayer::ConvLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window, const ConvLayerOptions& o,
                     const Where& where)
    : name(o.name),
      out(checked_count(fmt::format("Conv{}D", rank), "out", out, where)),
      window(checked_window(window, size_t(rank), fmt::format("Conv{}D", rank), where)),
      options{.strides = checked_steps(o.strides, fmt::format("Conv{}D", rank), "a stride", where),
              .padding = padding_of(fmt::format("Conv{}D", rank), rank, o, this->window, where),
              .dilation = checked_steps(o.dilation, fmt::format("Conv{}D", rank), "a dilation", where),
              .groups = checked_count(fmt::format("Conv{}D", rank), "groups", o.groups, where)},
      pad_mode(o.pad_mode),
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation),
      type_(fmt::format("Conv{}D", rank)) {
  if (!in) return;
  CallerScope caller(where);
  kernel.make(kernel_shape(*in, where), fans(*in));
  if (bias) bias.make({out});
}

Shape ConvLayer::kernel_shape(int64_t in, const Where& where) const {
  if (in % options.groups != 0 || out % options.groups != 0)
    fail(type_, fmt::format("{} channels in and {} out do not both divide into {} groups", in, out, options.groups),
         where);
  Shape shape(window);
  shape.push_back(in / options.groups);
  shape.push_back(out);
  return shape;
}

Fans ConvLayer::fans(int64_t in) const { return window_fans(window, in, out, options.groups); }

Tensor ConvLayer::convolve(const Tensor& x, const Call& call, const Where& where) const {
  const Tensor in = call.in(x);
  if (in.ndim() != int64_t(window.size()) + 2)
    fail(type_,
         fmt::format("the input must have {} axes, [batch, space..., channels], not {}. operands: {}",
                     window.size() + 2, in.ndim(), to_string(in.spec())),
         where);
  const int64_t channels = size_for(kernel, -2, options.groups, in, -1, type_, where);
  const Tensor w = kernel(kernel_shape(channels, where), call, fans(channels));
  ConvOptions how = options;
  Tensor padded = in;
  if (pad_mode) {
    padded = padded_space(in, *pad_mode, options.padding, window, options.strides, options.dilation, where);
    how.padding = "VALID";
  }
  return finish(conv(padded, w, how), bias, activation, call, where);
}

}  // namespace impl

Tensor Conv1D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  return run.give(convolve(x, call, where));
}
Tensor Conv2D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  return run.give(convolve(x, call, where));
}
Tensor Conv3D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  return run.give(convolve(x, call, where));
}

}  // namespace rill::nn
