// Convolution and its two gradients as products of matrices, one read through the window (products.cuh). By groups,
// with p an index in the result's space, w in the kernel's, i in the input's:
//   result [batch p, out]        = input [batch p, w in] weights [w in, out]
//   gradient of input [batch i, in]  = cotangent [batch i, w out] weights [w out, in]
//   gradient of weights [w in, out]  = input [w in, batch p] cotangent [batch p, out]
// cuDNN is tried first; the products then recompute its results where padding was multiplied by an infinity.
#include <algorithm>

#include "rill/devices/cuda/families/cudnn_convolution.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/products.h"
#include "rill/devices/params/conv_params.h"

namespace rill::cuda {

namespace {

constexpr size_t space_axes = 3;

// The spatial digits of one operand: for each axis its size, and its steps in elements.
struct SpaceDigits {
  const int64_t* size;
  int64_t stride[space_axes] = {}, step[space_axes] = {};
};
void add_space(IndexLayout& w, const SpaceDigits& s) {
  for (size_t a = 0; a < space_axes; ++a) {
    std::array<int64_t, 3> step{};
    step[a] = s.step[a];
    add_digit(w, s.size[a], s.stride[a], step);
  }
}
// [batch, space]
void add_batch_and_space(IndexLayout& w, int64_t batch, int64_t stride, const SpaceDigits& s) {
  add_digit(w, batch, stride);
  add_space(w, s);
}
// [space, channels], or vice versa if the channels come first in memory.
void add_window(IndexLayout& w, Layout layout, int64_t channels, int64_t stride, const SpaceDigits& s) {
  if (layout == Layout::nchw) add_digit(w, channels, stride);
  add_space(w, s);
  if (layout == Layout::nhwc) add_digit(w, channels, stride);
}

SpaceDigits along(const int64_t* size, const SpaceStrides& strides) {
  SpaceDigits s{size, {}, {}};
  std::copy_n(strides.space, space_axes, s.stride);
  return s;
}

// What the three convolutions share.
struct Conv {
  const ConvParams& params;
  const Sliding s;
  const SpaceStrides input, weights, result;
  const int64_t in, out, window, pixels;  // channels of a group, elements of the kernel and of the result in space

  Conv(const KernelArgs& args, const Tensor& x, const Tensor& w, const Tensor& y)
      : params(args.attrs.as<ConvParams>()),
        s(sliding(params, x.shape(), w.shape())),
        input(activation_strides(x, params.layout)),
        weights(weight_strides(w, params.layout)),
        result(activation_strides(y, params.layout)),
        in(s.in_channels / s.groups),
        out(s.out_channels / s.groups),
        window(s.window[0] * s.window[1] * s.window[2]),
        pixels(s.batch * s.out[0] * s.out[1] * s.out[2]) {}

  // The position in the input, by the index of the result and by that in the kernel.
  SpaceDigits input_by_result() const {
    SpaceDigits x{s.out, {}, {}};
    for (size_t a = 0; a < space_axes; ++a) x.stride[a] = s.stride[a] * input.space[a], x.step[a] = s.stride[a];
    return x;
  }
  SpaceDigits input_by_window() const {
    SpaceDigits x{s.window, {}, {}};
    for (size_t a = 0; a < space_axes; ++a) x.stride[a] = s.dilation[a] * input.space[a], x.step[a] = s.dilation[a];
    return x;
  }
  Product product(const Tensor& left, const Tensor& right, const Tensor& to) const {
    Product p{};
    p.left = address(left), p.right = address(right), p.out = address(to);
    p.batch = s.groups;
    return p;
  }
  // A window of one element that reads every element once is a plain product.
  LeftRead read() const {
    for (size_t a = 0; a < space_axes; ++a)
      if (s.window[a] != 1 || s.stride[a] != 1 || s.lo[a] != 0 || s.in[a] != s.out[a]) return LeftRead::through_window;
    return LeftRead::plain;
  }
  // As read(), but also plain if the window stays inside the input: then there is no padding.
  LeftRead read_outside() const {
    for (size_t a = 0; a < space_axes; ++a)
      if (s.lo[a] > 0 || (s.out[a] - 1) * s.stride[a] + (s.window[a] - 1) * s.dilation[a] >= s.in[a]) return read();
    return LeftRead::plain;
  }
  // The left operand is the input, whose indices start in the padding before it.
  void read_input_through_window(Product& p, int64_t size) const {
    for (size_t a = 0; a < space_axes; ++a) {
      p.start[a] = -s.lo[a];
      p.limit[a] = s.in[a];
      p.left -= s.lo[a] * input.space[a] * size;
    }
  }
};

void run_conv(const KernelArgs& args) {
  const Tensor &x = args.input(0), &w = args.input(1), &y = args.output();
  const Conv c(args, x, w, y);
  Product p = c.product(x, w, y);
  p.m = c.pixels, p.n = c.out, p.k = c.window * c.in;
  add_digit(p.left_batch, c.s.groups, c.in * c.input.inner);
  add_digit(p.right_batch, c.s.groups, c.out * c.weights.outer);
  add_digit(p.out_batch, c.s.groups, c.out * c.result.inner);
  add_batch_and_space(p.left_m, c.s.batch, c.input.outer, c.input_by_result());
  add_batch_and_space(p.out_m, c.s.batch, c.result.outer, along(c.s.out, c.result));
  add_window(p.left_k, c.params.layout, c.in, c.input.inner, c.input_by_window());
  add_window(p.right_k, c.params.layout, c.in, c.weights.inner, along(c.s.window, c.weights));
  add_digit(p.right_n, c.out, c.weights.outer);
  add_digit(p.out_n, c.out, c.result.inner);
  c.read_input_through_window(p, int64_t(size_of(x.dtype())));
  if (convolve_by_cudnn(ConvResult::y, c.params, x, w, y)) return correct_nans(y, p, c.read_outside());
  run_product(y, p, c.read());
}

void run_conv_grad_input(const KernelArgs& args) {
  const Tensor &g = args.input(0), &w = args.input(1), &x = args.output();
  const Conv c(args, x, w, g);
  const bool divides = c.s.stride[0] * c.s.stride[1] * c.s.stride[2] != 1;
  Product p = c.product(g, w, x);
  p.m = c.s.batch * c.s.in[0] * c.s.in[1] * c.s.in[2], p.n = c.in, p.k = c.window * c.out;
  SpaceDigits by_input{c.s.in, {}, {}}, by_window{c.s.window, {}, {}};  // the cotangent's index times the stride
  for (size_t a = 0; a < space_axes; ++a) {
    by_input.step[a] = 1, by_window.step[a] = -c.s.dilation[a];
    p.start[a] = c.s.lo[a], p.limit[a] = c.s.out[a], p.divide[a] = c.s.stride[a], p.space[a] = c.result.space[a];
    if (divides) continue;
    by_input.stride[a] = c.result.space[a], by_window.stride[a] = -c.s.dilation[a] * c.result.space[a];
    p.left += c.s.lo[a] * c.result.space[a] * int64_t(size_of(g.dtype()));
  }
  add_digit(p.left_batch, c.s.groups, c.out * c.result.inner);
  add_digit(p.right_batch, c.s.groups, c.out * c.weights.outer);
  add_digit(p.out_batch, c.s.groups, c.in * c.input.inner);
  add_batch_and_space(p.left_m, c.s.batch, c.result.outer, by_input);
  add_batch_and_space(p.out_m, c.s.batch, c.input.outer, along(c.s.in, c.input));
  add_window(p.left_k, c.params.layout, c.out, c.result.inner, by_window);
  add_window(p.right_k, c.params.layout, c.out, c.weights.outer, along(c.s.window, c.weights));
  add_digit(p.right_n, c.in, c.weights.inner);
  add_digit(p.out_n, c.in, c.input.inner);
  const LeftRead read = divides ? LeftRead::through_divided_window : c.read();
  if (convolve_by_cudnn(ConvResult::x, c.params, x, w, g)) return correct_nans(x, p, read);
  run_product(x, p, read);
}

void run_conv_grad_weight(const KernelArgs& args) {
  const Tensor &x = args.input(0), &g = args.input(1), &w = args.output();
  const Conv c(args, x, w, g);
  Product p = c.product(x, g, w);
  p.m = c.window * c.in, p.n = c.out, p.k = c.pixels;
  add_digit(p.left_batch, c.s.groups, c.in * c.input.inner);
  add_digit(p.right_batch, c.s.groups, c.out * c.result.inner);
  add_digit(p.out_batch, c.s.groups, c.out * c.weights.outer);
  add_window(p.left_m, c.params.layout, c.in, c.input.inner, c.input_by_window());
  add_window(p.out_m, c.params.layout, c.in, c.weights.inner, along(c.s.window, c.weights));
  add_batch_and_space(p.left_k, c.s.batch, c.input.outer, c.input_by_result());
  add_batch_and_space(p.right_k, c.s.batch, c.result.outer, along(c.s.out, c.result));
  add_digit(p.right_n, c.out, c.result.inner);
  add_digit(p.out_n, c.out, c.weights.outer);
  c.read_input_through_window(p, int64_t(size_of(x.dtype())));
  if (convolve_by_cudnn(ConvResult::w, c.params, x, w, g)) return correct_nans(w, p, c.read_outside());
  run_product(w, p, c.read());
}

}  // namespace

std::span<const NamedKernel> convolution_kernels() {
  static const NamedKernel all[] = {
      {"conv", for_floats<run_conv>},
      {"conv_grad_input", for_floats<run_conv_grad_input>},
      {"conv_grad_weight", for_floats<run_conv_grad_weight>},
  };
  return all;
}

}  // namespace rill::cuda
