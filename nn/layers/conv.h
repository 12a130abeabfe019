// Convolutions of [batch, space..., channels].
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"
#include "rill/ops/conv.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct ConvLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {1};
  SpacePadding padding = "VALID";
  Dims dilation = {1};
  int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "conv";
};
using Conv2DOptions = ConvLayerOptions;

// activation(conv(x, kernel) + bias), with `out` channels; see conv2d(). `window` is {height, width}, or one number for
// both. Without `in`, the channels that come in are found at the first call.
class Conv2D {
 public:
  Conv2D(int64_t out, const Dims& window, const Conv2DOptions& options = {}, Where where = Where::current());
  Conv2D(int64_t in, int64_t out, const Dims& window, const Conv2DOptions& options = {},
         Where where = Where::current());
  template <is_axis I>
  Conv2D(int64_t out, I window, const Conv2DOptions& options = {}, Where where = Where::current())
      : Conv2D(out, Dims{Dim(window)}, options, where) {}
  template <is_axis I>
  Conv2D(int64_t in, int64_t out, I window, const Conv2DOptions& options = {}, Where where = Where::current())
      : Conv2D(in, out, Dims{Dim(window)}, options, where) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Conv2D, kernel, bias)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out;
  Dims window;
  ConvOptions options;
  Param kernel;  // [height, width, in / groups, out]
  Param bias;    // [out]
  Activation activation;

 private:
  Shape kernel_shape(int64_t in, const Where& where) const;
};

}  // namespace rill::nn

#pragma GCC visibility pop
