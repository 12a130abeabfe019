// Convolutions of [batch, space..., channels], over one, two or three axes of space: one implementation, whose number
// of axes is a field.
#pragma once
#include <optional>

#include "rill/nn/layer.h"
#include "rill/nn/layers/windows.h"
#include "rill/nn/param.h"
#include "rill/ops/conv.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct ConvLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {1};
  SpacePadding padding = "VALID";
  std::optional<PadMode> pad_mode =
      {};  // what padding is filled with: reflect, edge (torch: replicate), wrap; empty: 0
  bool causal =
      false;  // Conv1D: as many zeros before as a window reaches back, so that no output depends on later inputs
  Dims dilation = {1};
  int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "conv";
};
using Conv1DOptions = ConvLayerOptions;
using Conv2DOptions = ConvLayerOptions;
using Conv3DOptions = ConvLayerOptions;

namespace impl {

// The fields of all convolutions.
class ConvLayer {
 public:
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out;
  Dims window;
  ConvOptions options;
  std::optional<PadMode> pad_mode;
  Param kernel;  // [space..., in / groups, out]
  Param bias;    // [out]
  Activation activation;

 protected:
  // Of `rank` axes of space, for `in` channels or those of the first call.
  ConvLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window, const ConvLayerOptions& options,
            const Where& where);
  Tensor convolve(const Tensor& x, const Call& call, const Where& where) const;

 private:
  Shape kernel_shape(int64_t in, const Where& where) const;
  Fans fans(int64_t in) const;
  std::string type_;  // "Conv2D"
};

// How layers of `rank` axes of space and `out` channels are made: Base(rank, in, out, window, options, where).
template <class Base, class Options, int rank>
class WithWindow : public Base {
 public:
  // `window` has a size for each axis of space, or one for all. Without `in`, the number of input channels is found in
  // the first call. Throws if sizes do not fit, and if the groups do not divide the channels.
  WithWindow(int64_t out, const Window& window, const Options& options = {}, Where where = Where::current())
      : Base(rank, std::nullopt, out, window, options, where) {}
  // `out` is a template, which braces never mean: gcc would take (32, {3}, {.strides = {2}}) for in, out and a window.
  template <is_axis O>
  WithWindow(int64_t in, O out, const Window& window, const Options& options = {}, Where where = Where::current())
      : Base(rank, in, out, window, options, where) {}
  template <is_axis I>
  WithWindow(int64_t out, I window, const Options& options = {}, Where where = Where::current())
      : Base(rank, std::nullopt, out, Dims{Dim(window)}, options, where) {}
  template <is_axis O, is_axis I>
  WithWindow(int64_t in, O out, I window, const Options& options = {}, Where where = Where::current())
      : Base(rank, in, out, Dims{Dim(window)}, options, where) {}
};

}  // namespace impl

// activation(conv(x, kernel) + bias), with `out` channels; see conv1d(). Initial values depend on the number of inputs
// of each output: window * in / groups, and window * out / groups (Keras and torch only divide the first).
class Conv1D : public impl::WithWindow<impl::ConvLayer, ConvLayerOptions, 1> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Conv1D, kernel, bias)
};
// See conv2d().
class Conv2D : public impl::WithWindow<impl::ConvLayer, ConvLayerOptions, 2> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Conv2D, kernel, bias)
};
// See conv3d().
class Conv3D : public impl::WithWindow<impl::ConvLayer, ConvLayerOptions, 3> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Conv3D, kernel, bias)
};

}  // namespace rill::nn

#pragma GCC visibility pop
