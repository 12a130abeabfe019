// The sizes and strides of windows, from parameters and shapes; see conv_params.h.
#include "rill/devices/params/conv_params.h"

#include "rill/tensor/dim_table.h"

namespace rill {

Dim window_count(Dim in, Dim window, Dim stride, Dim lo, Dim hi, Dim dilation) {
  bool open = false;
  for (Dim d : {in, window, stride, lo, hi, dilation}) open |= d.is_open();
  if (!open) return window_count(in.plain(), window.plain(), stride.plain(), lo.plain(), hi.plain(), dilation.plain());
  const ExactDims exact;
  return larger(in + lo + hi - 1 - (window - 1) * dilation + stride, 0) / stride;
}

Sliding sliding(const ConvParams& p, const Shape& x, const Shape& w) {
  const size_t n = p.strides.size();
  Sliding s{};
  s.batch = x[0];
  s.groups = p.groups;
  s.in_channels = x[p.layout == Layout::nhwc ? n + 1 : 1];
  s.out_channels = w[p.layout == Layout::nhwc ? n + 1 : 0];
  for (size_t i = 0; i < 3; ++i) {
    s.in[i] = s.window[i] = s.out[i] = s.stride[i] = s.dilation[i] = 1;
    if (i + n < 3) continue;
    const size_t a = i + n - 3;
    s.in[i] = x[space_axis(p.layout, a)];
    s.window[i] = w[weight_space_axis(p.layout, a)];
    s.stride[i] = p.strides[a];
    s.lo[i] = p.pads_lo[a];
    s.dilation[i] = s.window[i] == 1 ? 1 : int64_t(p.dilation[a]);  // of one element it says nothing
    s.out[i] = window_count(s.in[i], s.window[i], s.stride[i], s.lo[i], int64_t(p.pads_hi[a]), s.dilation[i]);
  }
  return s;
}

Sliding sliding(const PoolParams& p, const Shape& x) {
  const size_t n = p.window.size();
  Sliding s{};
  s.batch = x[0];
  s.groups = 1;
  s.in_channels = s.out_channels = x[p.layout == Layout::nhwc ? n + 1 : 1];
  for (size_t i = 0; i < 3; ++i) {
    s.in[i] = s.window[i] = s.out[i] = s.stride[i] = s.dilation[i] = 1;
    if (i + n < 3) continue;
    const size_t a = i + n - 3;
    s.in[i] = x[space_axis(p.layout, a)];
    s.window[i] = p.window[a];
    s.stride[i] = p.strides[a];
    s.lo[i] = p.pads_lo[a];
    s.out[i] = window_count(s.in[i], s.window[i], s.stride[i], s.lo[i], int64_t(p.pads_hi[a]), 1);
  }
  return s;
}

SpaceStrides activation_strides(const Tensor& x, Layout l) {
  const Strides& s = x.strides();
  const size_t n = s.size() - 2;
  SpaceStrides out{s[0], s[l == Layout::nhwc ? n + 1 : 1], {0, 0, 0}};
  for (size_t a = 0; a < n; ++a) out.space[a + 3 - n] = s[space_axis(l, a)];
  return out;
}

SpaceStrides weight_strides(const Tensor& w, Layout l) {
  const Strides& s = w.strides();
  const size_t n = s.size() - 2;
  SpaceStrides out{s[l == Layout::nhwc ? n + 1 : 0], s[l == Layout::nhwc ? n : 1], {0, 0, 0}};
  for (size_t a = 0; a < n; ++a) out.space[a + 3 - n] = s[weight_space_axis(l, a)];
  return out;
}

}  // namespace rill
