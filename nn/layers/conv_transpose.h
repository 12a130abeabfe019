// Transposed, depthwise and separable convolutions of [batch, space..., channels].
#pragma once
#include "rill/nn/layers/conv.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct ConvTransposeLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {1};
  SpacePadding padding = "VALID";
  Dims output_padding = {};  // added to the sizes of the result, less than the strides
  Dims dilation = {1};
  int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "conv_transpose";
};

struct DepthwiseConvOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t multiplier = 1;  // outputs of each channel
  Dims strides = {1};
  SpacePadding padding = "VALID";
  Dims dilation = {1};
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "depthwise_conv";
};

struct SeparableConvOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t multiplier = 1;  // numbers of each channel between the two
  Dims strides = {1};
  SpacePadding padding = "VALID";
  Dims dilation = {1};
  Activation activation = {};
  bool use_bias = true;
  Initializer depthwise_initializer = glorot_uniform;
  Initializer pointwise_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "separable_conv";
};

namespace impl {

class ConvTransposeLayer {
 public:
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out;
  Dims window;
  ConvTransposeOptions options;
  Param kernel;  // [space..., out / groups, in]
  Param bias;    // [out]
  Activation activation;

 protected:
  ConvTransposeLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window,
                     const ConvTransposeLayerOptions& options, const Where& where);
  Tensor convolve(const Tensor& x, const Call& call, const Where& where) const;

 private:
  Shape kernel_shape(int64_t in, const Where& where) const;
  std::string type_;
};

class DepthwiseConvLayer {
 public:
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t multiplier;
  Dims window;
  ConvOptions options;
  Param kernel;  // [space..., 1, in * multiplier]
  Param bias;    // [in * multiplier]
  Activation activation;

 protected:
  DepthwiseConvLayer(int rank, const Dims& window, const DepthwiseConvOptions& options, const Where& where);
  Tensor convolve(const Tensor& x, const Call& call, const Where& where) const;

 private:
  std::string type_;
};
template <int rank>
class DepthwiseConvOf : public DepthwiseConvLayer {
 public:
  // `window` has a size for each axis of space, or one for all, 3 or {3}.
  explicit DepthwiseConvOf(const Window& window, const DepthwiseConvOptions& options = {},
                           Where where = Where::current())
      : DepthwiseConvLayer(rank, window, options, where) {}
  template <is_axis I, size_t n>
  explicit DepthwiseConvOf(const I (&window)[n], const DepthwiseConvOptions& options = {},
                           Where where = Where::current())
      : DepthwiseConvOf(window_of(window), options, where) {}
};

class SeparableConvLayer {
 public:
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out, multiplier;
  Dims window;
  ConvOptions options;
  Param depthwise;  // [space..., 1, in * multiplier]
  Param pointwise;  // [1..., in * multiplier, out]
  Param bias;       // [out]
  Activation activation;

 protected:
  SeparableConvLayer(int rank, std::optional<int64_t> in, int64_t out, const Dims& window,
                     const SeparableConvOptions& options, const Where& where);
  Tensor convolve(const Tensor& x, const Call& call, const Where& where) const;

 private:
  std::string type_;
};

}  // namespace impl

// activation(conv_transpose(x, kernel) + bias): space grows by the strides; see conv_transpose().
class ConvTranspose1D : public impl::WithWindow<impl::ConvTransposeLayer, ConvTransposeLayerOptions, 1> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ConvTranspose1D, kernel, bias)
};
// The same of images,
class ConvTranspose2D : public impl::WithWindow<impl::ConvTransposeLayer, ConvTransposeLayerOptions, 2> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ConvTranspose2D, kernel, bias)
};
// and of volumes.
class ConvTranspose3D : public impl::WithWindow<impl::ConvTransposeLayer, ConvTransposeLayerOptions, 3> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ConvTranspose3D, kernel, bias)
};

// Each channel with kernels of its own, activation(depthwise_conv(x, kernel) + bias): `multiplier` outputs a channel.
class DepthwiseConv1D : public impl::DepthwiseConvOf<1> {
 public:
  using DepthwiseConvOf::DepthwiseConvOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(DepthwiseConv1D, kernel, bias)
};
// The same of images,
class DepthwiseConv2D : public impl::DepthwiseConvOf<2> {
 public:
  using DepthwiseConvOf::DepthwiseConvOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(DepthwiseConv2D, kernel, bias)
};

// and of volumes.
class DepthwiseConv3D : public impl::DepthwiseConvOf<3> {
 public:
  using DepthwiseConvOf::DepthwiseConvOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(DepthwiseConv3D, kernel, bias)
};

// A depthwise convolution, then one of windows of 1 across channels, whose result has the bias and the activation
// (Chollet: Xception, 2017).
class SeparableConv1D : public impl::WithWindow<impl::SeparableConvLayer, SeparableConvOptions, 1> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(SeparableConv1D, depthwise, pointwise, bias)
};
// The same of images.
class SeparableConv2D : public impl::WithWindow<impl::SeparableConvLayer, SeparableConvOptions, 2> {
 public:
  using WithWindow::WithWindow;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(SeparableConv2D, depthwise, pointwise, bias)
};

}  // namespace rill::nn

#pragma GCC visibility pop
