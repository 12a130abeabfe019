// Parameters of the kernels of convolution and pooling, and their declarations.
#pragma once
#include <string_view>

#include "rill/devices/kernel.h"
#include "rill/tensor/limits.h"

#pragma GCC visibility push(default)

namespace rill {

// The index of the channel axis. nhwc: [batch, space..., channels], weights [space..., in / groups, out]; nchw: [batch,
// channels, space...], weights [out, in / groups, space...]; with 1, 2 or 3 axes of space.
enum class Layout : uint8_t { nhwc, nchw };
constexpr std::string_view name(Layout l) { return l == Layout::nhwc ? "NHWC" : "NCHW"; }

// Lists have one entry for each axis of space.
struct ConvParams {
  Dims strides, pads_lo, pads_hi, dilation;
  int64_t groups = 1;
  Layout layout = Layout::nhwc;
  Dims sizes;  // of conv_grad_input: the input's axes of space; of conv_grad_weight: the kernel's; else empty
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("strides", s.strides);
    v("pads_lo", s.pads_lo);
    v("pads_hi", s.pads_hi);
    v("dilation", s.dilation);
    v("groups", s.groups);
    v("layout", s.layout);
    v("sizes", s.sizes);
  }
};

struct PoolParams {
  Dims window, strides, pads_lo, pads_hi;
  Layout layout = Layout::nhwc;
  bool count_include_pad = false;  // averages: whether padding counts as elements
  Dims sizes;                      // of avg_pool_grad: the input's axes of space; else empty
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("window", s.window);
    v("strides", s.strides);
    v("pads_lo", s.pads_lo);
    v("pads_hi", s.pads_hi);
    v("layout", s.layout);
    v("count_include_pad", s.count_include_pad);
    v("sizes", s.sizes);
  }
};

// A window sliding over three axes of space; missing axes come first and have size 1.
struct Sliding {
  int64_t batch, in_channels, out_channels, groups;
  int64_t in[3], window[3], out[3], stride[3], lo[3], dilation[3];
};
// Strides in elements: of an activation [batch, channel, space], or of weights [out, in, space].
struct SpaceStrides {
  int64_t outer, inner, space[3];
};

// The largest stride, dilation, padding and window: larger ones could overflow int64.
inline constexpr int64_t largest_step = (int64_t(1) << 31) - 1;

inline int64_t window_count(int64_t in, int64_t window, int64_t stride, int64_t lo, int64_t hi, int64_t dilation) {
  const int64_t reach = multiply_sizes(window - 1, dilation), limit = max_tensor_bytes * 4;
  const int64_t room = in + lo + hi - 1 - (reach < limit ? reach : limit);
  return room < 0 ? 0 : room / stride + 1;
}
// For open sizes: the result stays open, in infer rules too.
Dim window_count(Dim in, Dim window, Dim stride, Dim lo, Dim hi, Dim dilation);
// The index of axis `i` of space in an activation, and in weights.
inline size_t space_axis(Layout l, size_t i) { return i + (l == Layout::nhwc ? 1 : 2); }
inline size_t weight_space_axis(Layout l, size_t i) { return i + (l == Layout::nhwc ? 0 : 2); }

// `x`: the shape of the convolution's input, `w`: of its weights.
Sliding sliding(const ConvParams& p, const Shape& x, const Shape& w);
Sliding sliding(const PoolParams& p, const Shape& x);
SpaceStrides activation_strides(const Tensor& x, Layout l);
SpaceStrides weight_strides(const Tensor& w, Layout l);

#pragma GCC visibility pop  // kernels are not shown

#define RILL_CONV_KERNELS                        \
  void conv(const KernelArgs& args);             \
  void conv_grad_input(const KernelArgs& args);  \
  void conv_grad_weight(const KernelArgs& args); \
  void max_pool(const KernelArgs& args);         \
  void max_pool_grad(const KernelArgs& args);    \
  void max_pool_pick(const KernelArgs& args);    \
  void avg_pool(const KernelArgs& args);         \
  void avg_pool_grad(const KernelArgs& args);
namespace cpu {
RILL_CONV_KERNELS
}
namespace ref {
RILL_CONV_KERNELS
}
#undef RILL_CONV_KERNELS

}  // namespace rill
