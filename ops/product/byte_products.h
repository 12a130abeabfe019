// Products and convolutions of bytes, as quantised models have them: integers of 8 bits less a zero point, multiplied
// and added up exactly, in i32. For importers: what they stand for in numbers is scales around them.
#pragma once
#include "rill/devices/params/conv_params.h"
#include "rill/ops/creation.h"

#pragma GCC visibility push(default)

namespace rill {

// sum_k (x[..., k] - x_zero) (w[k, n] - w_zero): x u8 or i8 of [..., k], w u8 or i8 of [k, n], or a batch of matrices
// with the same leading axes as x. Zero points have the dtype of what they belong to: of x one number; of w one, or, of
// a single matrix, one a column. The result is i32, which wraps.
Tensor byte_matmul(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero,
                   Where where = Where::current());
// The same as a convolution, whose padding stands for 0. w_zero: one number, or one for each output channel.
Tensor byte_conv(const Tensor& x, const Tensor& w, const Tensor& x_zero, const Tensor& w_zero, const ConvParams& p,
                 Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
