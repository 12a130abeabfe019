// Convolutions by cuDNN, for their launchers.
#pragma once
#include "rill/devices/params/conv_params.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Which of the three is computed from the two others.
enum class ConvResult { x, w, y };

// Computes it by cuDNN: x is the convolution's input, or its gradient, w the weights, y the result. Returns false,
// having done nothing, if cuDNN is not there, has no plan for it, or would be slower than a plain product, or if there
// is no memory for its workspace.
bool convolve_by_cudnn(ConvResult wanted, const ConvParams& params, const Tensor& x, const Tensor& w, const Tensor& y);

}  // namespace rill::cuda
