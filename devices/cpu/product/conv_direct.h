// Small convolutions of f32, which rill's own kernels do in less time than oneDNN: of one pixel, which are products of a
// vector and a matrix, of each pixel by itself (1x1), and of each channel by itself (depthwise).
#pragma once
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/kernel.h"
#include "rill/devices/params/conv_params.h"

namespace rill::cpu {

// Whether a convolution of f32 is of one of these kinds.
bool is_direct(const Sliding& s);
// Such a convolution of the first two operands, and `steps` by those after them. False, and nothing is done, for a tail
// that there is no kernel for. Every element is summed in one order, so its bits depend neither on the number
// of threads nor on the layout and the tail.
bool conv_direct(const KernelArgs& args, std::span<const TailStep> steps = {});

// Each channel by itself: x [batch, in, channels], w [window, channels], y [batch, out, channels], all dense. Rows are
// those of `out`, of all images.
struct ConvChannels {
  int64_t channels, in[2], window[2], out[2], stride[2], lo[2], dilation[2];
  const float *x, *w;
  float* y;
  GemmTail tail;
};

}  // namespace rill::cpu
