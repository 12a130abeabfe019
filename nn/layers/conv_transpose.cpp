// Transposed, depthwise and separable convolutions.
#include "rill/nn/layers/conv_transpose.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/windows.h"

namespace rill::nn {
namespace impl {

namespace {

// Strides and dilation of a layer, checked.
template <class Options, class Layer>
Options steps_of(const Layer& o, const std::string& type, const Where& where) {
  Options options;
  options.strides = checked_steps(o.strides, type, "a stride", where);
  options.padding = o.padding;
  options.dilation = checked_steps(o.dilation, type, "a dilation", where);
  return options;
}

// The channels of an input of `rank` axes of space.
int64_t channels_of(const Tensor& x, size_t rank, const std::string& type, const Where& where, const Param& made = {}) {
  if (x.ndim() != int64_t(rank) + 2)
    fail(type,
         fmt::format("the input must have {} axes, [batch, space..., channels], not {}. operands: {}", rank + 2,
                     x.ndim(), to_string(x.spec())),
         where);
  return size_for(made, -1, 1, x, -1, type, where);
}

Shape with_channels(const Dims& window, int64_t in, int64_t out) {
  Shape shape(window);
  shape.push_back(in);
  shape.push_back(out);
  return shape;
}

}  // namespace

// --- Transposed ------------------------------------------------------------------------------------------------------

ConvTransposeLayer::ConvTransposeLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window,
                                       const ConvTransposeLayerOptions& o, const Where& where)
    : name(o.name),
      out(checked_count("ConvTranspose", "out", out, where)),
      window(checked_window(window, size_t(rank), fmt::format("ConvTranspose{}D", rank), where)),
      options(steps_of<ConvTransposeOptions>(o, fmt::format("ConvTranspose{}D", rank), where)),
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation),
      type_(fmt::format("ConvTranspose{}D", rank)) {
  options.groups = checked_count(type_, "groups", o.groups, where);
  options.output_padding = o.output_padding;
  if (!in) return;
  CallerScope caller(where);
  kernel.make(kernel_shape(*in, where), window_fans(this->window, *in, out, options.groups));
  if (bias) bias.make({out});
}

Shape ConvTransposeLayer::kernel_shape(int64_t in, const Where& where) const {
  if (in % options.groups != 0 || out % options.groups != 0)
    fail(type_, fmt::format("{} channels in and {} out do not both divide into {} groups", in, out, options.groups),
         where);
  return with_channels(window, out / options.groups, in);
}

Tensor ConvTransposeLayer::convolve(const Tensor& x, const Call& call, const Where& where) const {
  const Tensor in = call.in(x);
  const int64_t channels = channels_of(in, window.size(), type_, where, kernel);
  const Tensor w = kernel(kernel_shape(channels, where), call, window_fans(window, channels, out, options.groups));
  return finish(conv_transpose(in, w, options), bias, activation, call, where);
}

// --- Depthwise -------------------------------------------------------------------------------------------------------

DepthwiseConvLayer::DepthwiseConvLayer(int rank, const Dims& window, const DepthwiseConvOptions& o, const Where& where)
    : name(o.name),
      multiplier(checked_count("DepthwiseConv", "multiplier", o.multiplier, where)),
      window(checked_window(window, size_t(rank), fmt::format("DepthwiseConv{}D", rank), where)),
      options(steps_of<ConvOptions>(o, fmt::format("DepthwiseConv{}D", rank), where)),
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation),
      type_(fmt::format("DepthwiseConv{}D", rank)) {}

Tensor DepthwiseConvLayer::convolve(const Tensor& x, const Call& call, const Where& where) const {
  const Tensor in = call.in(x);
  const int64_t channels = channels_of(in, window.size(), type_, where), between = channels * multiplier;
  const Tensor w = kernel(with_channels(window, 1, between), call, window_fans(window, channels, between, channels));
  return finish(depthwise_conv(in, w, options), bias, activation, call, where);
}

// --- Separable -------------------------------------------------------------------------------------------------------

SeparableConvLayer::SeparableConvLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window,
                                       const SeparableConvOptions& o, const Where& where)
    : name(o.name),
      out(checked_count("SeparableConv", "out", out, where)),
      multiplier(checked_count("SeparableConv", "multiplier", o.multiplier, where)),
      window(checked_window(window, size_t(rank), fmt::format("SeparableConv{}D", rank), where)),
      options(steps_of<ConvOptions>(o, fmt::format("SeparableConv{}D", rank), where)),
      depthwise(param(name, "depthwise", o.depthwise_initializer, where)),
      pointwise(param(name, "pointwise", o.pointwise_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation),
      type_(fmt::format("SeparableConv{}D", rank)) {
  if (!in) return;
  CallerScope caller(where);
  const int64_t between = *in * multiplier;
  depthwise.make(with_channels(this->window, 1, between), window_fans(this->window, *in, between, *in));
  pointwise.make(with_channels(Dims(size_t(rank), 1), between, out));
  if (bias) bias.make({out});
}

Tensor SeparableConvLayer::convolve(const Tensor& x, const Call& call, const Where& where) const {
  const Tensor in = call.in(x);
  const int64_t channels = channels_of(in, window.size(), type_, where), between = channels * multiplier;
  const Tensor each =
      depthwise(with_channels(window, 1, between), call, window_fans(window, channels, between, channels));
  const Tensor across = pointwise(with_channels(Dims(window.size(), 1), between, out), call);
  return finish(conv(depthwise_conv(in, each, options), across), bias, activation, call, where);
}

}  // namespace impl

#define RILL_CONVOLVES(Type)                                                      \
  Tensor Type::operator()(const Tensor& x, const Call& call, Where where) const { \
    const LayerRun run(this, scope_of(*this, name), where);                       \
    return run.give(convolve(x, call, where));                                    \
  }
RILL_CONVOLVES(ConvTranspose1D)
RILL_CONVOLVES(ConvTranspose2D)
RILL_CONVOLVES(ConvTranspose3D)
RILL_CONVOLVES(DepthwiseConv1D)
RILL_CONVOLVES(DepthwiseConv2D)
RILL_CONVOLVES(DepthwiseConv3D)
RILL_CONVOLVES(SeparableConv1D)
RILL_CONVOLVES(SeparableConv2D)
#undef RILL_CONVOLVES

}  // namespace rill::nn
