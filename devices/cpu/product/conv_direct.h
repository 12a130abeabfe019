// Small convolutions of f32, for which rill's own kernels take less time than oneDNN: of one pixel, which are products
// of a vector and a matrix, pointwise ones (1x1), and depthwise ones.
#pragma once
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/kernel.h"
#include "rill/devices/params/conv_params.h"

namespace rill::cpu {

// Whether a convolution of f32 is of one of these kinds.
bool is_direct(const Sliding& s);
// Such a convolution of the first two operands, followed by `steps` with the later operands. Returns false, having done
// nothing, if there is no kernel for the tail. Every element is summed in one order, so its bits depend neither on the
// number of threads nor on the layout and the tail.
bool conv_direct(const KernelArgs& args, std::span<const TailStep> steps = {});

// A depthwise convolution: x [batch, in, channels], w [window, channels], y [batch, out, channels], all dense. Its rows
// are those of `out`, of all images.
struct ConvChannels {
  int64_t channels, in[2], window[2], out[2], stride[2], lo[2], dilation[2];
  const float *x, *w;
  float* y;
  GemmTail tail;
};

}  // namespace rill::cpu
