// Convolution and pooling over 1, 2 or 3 spatial axes. Included by ops.h.
//
// Activations are [batch, space..., channels] with weights [space..., in / groups, out] (Layout::nhwc, the default and
// the faster one on CPUs), or [batch, channels, space...] with weights [out, in / groups, space...] (Layout::nchw).
// A convolution does not flip its kernel (it is what signal processing calls cross-correlation), as usual in deep
// learning. Sizes: out = floor((in + pads - ((window - 1) * dilation + 1)) / stride) + 1.
#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "rill/devices/params/conv_params.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// The number of zeros before and after each spatial axis.
class SpacePadding {
 public:
  // "VALID": none. "SAME": as many as make out = ceil(in / stride), the odd one at the end, as TensorFlow does. Throws
  // rill::Error for any other text.
  SpacePadding(const char* kind, Where where = Where::current());
  SpacePadding(std::string_view kind, Where where = Where::current());
  SpacePadding(const std::string& kind, Where where = Where::current()) : SpacePadding(std::string_view(kind), where) {}
  SpacePadding(std::nullptr_t) = delete;
  // The same number at both ends of every axis.
  SpacePadding(int both) : lo{both}, hi{both}, kind(Kind::all) {}
  // {{lo, hi}, ...}, one pair an axis of space.
  SpacePadding(std::initializer_list<std::pair<int64_t, int64_t>> pairs);

  enum class Kind : uint8_t { valid, same, all, each };
  Dims lo, hi;
  Kind kind = Kind::valid;
};

struct ConvOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // one an axis of space, or one for all; empty: 1
  SpacePadding padding = "VALID";
  Dims dilation = {};  // steps between the kernel's elements; empty: 1
  int64_t groups = 1;  // channels in groups that do not see each other
  Layout layout = Layout::nhwc;
};

// out[n, p, o] = sum over k and c of x[n, p * stride - pad + k * dilation, c] w[k, c, o]. Floating dtypes, which are
// promoted to one; f16 and bf16 are summed in f32. Throws where sizes do not fit.
Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options = {}, Where where = Where::current());
// The same, and throws unless there is this number of axes of space.
Tensor conv1d(const Tensor& x, const Tensor& w, const ConvOptions& options = {}, Where where = Where::current());
Tensor conv2d(const Tensor& x, const Tensor& w, const ConvOptions& options = {}, Where where = Where::current());
Tensor conv3d(const Tensor& x, const Tensor& w, const ConvOptions& options = {}, Where where = Where::current());
// Each channel with kernels of its own: nhwc weights [space..., 1, in * multiplier]; options.groups is set here.
Tensor depthwise_conv(const Tensor& x, const Tensor& w, const ConvOptions& options = {},
                      Where where = Where::current());

struct ConvTransposeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};
  SpacePadding padding = "VALID";
  Dims dilation = {};
  int64_t groups = 1;
  Layout layout = Layout::nhwc;
  Dims output_padding = {};  // added to the size of each axis of space of the result, less than its stride
};
// The gradient of conv towards its input, as a layer of its own (a "deconvolution"): space grows by `strides`.
// nhwc weights are [space..., out / groups, in], where `in` is x's channels: those of the convolution that it reverses.
// "SAME" gives out = in * stride; "VALID" and numbers (in - 1) * stride + (window - 1) * dilation + 1 - pads.
Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& options = {},
                      Where where = Where::current());

// The two gradients of a convolution with these parameters; they have records and can be differentiated again. With
// respect to the input, whose spatial sizes are p.sizes, from the result's cotangent `g`;
Tensor conv_grad_input(const Tensor& g, const Tensor& w, const ConvParams& p, Where where = Where::current());
// with respect to the weights, whose kernel has p.sizes.
Tensor conv_grad_weight(const Tensor& x, const Tensor& g, const ConvParams& p, Where where = Where::current());

struct PoolOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // one an axis of space, or one for all; empty: the window's
  SpacePadding padding = "VALID";
  Layout layout = Layout::nhwc;
  bool count_include_pad = false;  // averages: divide by the whole window even where it hangs over the edge
  bool ceil_mode = false;  // one more window where elements are left over, that begins before the padding at the end
  Dims dilation = {};      // of max_pool: steps between a window's elements; empty: 1
  std::optional<int64_t> divisor = {};  // averages: what sums are divided by, instead of the number of elements
};
// The largest element of each window; padding is ignored, NaN propagates. `window` has one entry an axis of space, or
// one for all. Real numbers. The gradient goes to the first of equal elements.
Tensor max_pool(const Tensor& x, const Dims& window, const PoolOptions& options = {}, Where where = Where::current());
// The mean of each window. Floating dtypes. Of windows that ceil_mode adds, what lies beyond the padding is not counted.
Tensor avg_pool(const Tensor& x, const Dims& window, const PoolOptions& options = {}, Where where = Where::current());

// One size for all axes of space: max_pool(x, 2).
template <is_axis I>
Tensor max_pool(const Tensor& x, I window, const PoolOptions& options = {}, Where where = Where::current()) {
  return max_pool(x, Dims{Dim(window)}, options, where);
}
template <is_axis I>
Tensor avg_pool(const Tensor& x, I window, const PoolOptions& options = {}, Where where = Where::current()) {
  return avg_pool(x, Dims{Dim(window)}, options, where);
}

// Over all of space: [batch, channels], or with the axes of space kept as size 1.
Tensor global_max_pool(const Tensor& x, Layout layout = Layout::nhwc, bool keepdims = false,
                       Where where = Where::current());
Tensor global_avg_pool(const Tensor& x, Layout layout = Layout::nhwc, bool keepdims = false,
                       Where where = Where::current());
// Windows from floor(i * in / out) to ceil((i + 1) * in / out), so that space has the sizes `out` (one an axis of
// space, or one for all) whatever it had before.
Tensor adaptive_max_pool(const Tensor& x, const Dims& out, Layout layout = Layout::nhwc,
                         Where where = Where::current());
Tensor adaptive_avg_pool(const Tensor& x, const Dims& out, Layout layout = Layout::nhwc,
                         Where where = Where::current());
// One size for all axes of space.
template <is_axis I>
Tensor adaptive_max_pool(const Tensor& x, I out, Layout layout = Layout::nhwc, Where where = Where::current()) {
  return adaptive_max_pool(x, Dims{Dim(out)}, layout, where);
}
template <is_axis I>
Tensor adaptive_avg_pool(const Tensor& x, I out, Layout layout = Layout::nhwc, Where where = Where::current()) {
  return adaptive_avg_pool(x, Dims{Dim(out)}, layout, where);
}

}  // namespace rill

#pragma GCC visibility pop
