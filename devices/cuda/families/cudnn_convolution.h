// Convolutions by cuDNN, as their launchers use it.
#pragma once
#include "rill/devices/params/conv_params.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Which of the three is made of the two others.
enum class ConvResult { x, w, y };

// Computes it by cuDNN: x is the convolution's input, or its gradient, w the weights, y the result. False, and nothing
// is done, where cuDNN is not there, has no plan for it, or would be slower than a plain product, or where there is no
// memory for what it needs besides.
bool convolve_by_cudnn(ConvResult wanted, const ConvParams& params, const Tensor& x, const Tensor& w, const Tensor& y);

}  // namespace rill::cuda
