// Products and convolutions of bytes, as quantised models have them: integers of 8 bits minus a zero point, multiplied
// and summed exactly, in i32. For importers: the numbers that they represent follow by multiplying by scales.
#pragma once
#include "rill/devices/params/conv_params.h"
#include "rill/ops/creation.h"

#pragma GCC visibility push(default)

namespace rill {

// sum_k (x[..., k] - x_zero) (w[k, n] - w_zero): x u8 or i8 of [..., k], w u8 or i8 of [k, n], or a batch of matrices
// with the same leading axes as x. Zero points have the dtype of their operand: for x one number; for w one, or, for
// a single matrix, one for each column. The result is i32, which wraps around.
Tensor byte_matmul(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero,
                   Where where = Where::current());
// The same as a convolution, whose padding represents 0. w_zero: one number, or one for each output channel.
Tensor byte_conv(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero, const ConvParams& p,
                 Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
