// What quantised operators of ONNX and of com.microsoft compute with: integers as the numbers that they stand for.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill::onnx_import {

// round(x / scale) + zero, within what `to` holds.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);
// (x - zero) * scale, in the scale's dtype.
Tensor restored(const Tensor& x, const Tensor& scale, const Tensor& zero);
// As DynamicQuantizeLinear and back: `x` as numbers of which a byte holds each, over the range of `x` with 0 in it.
Tensor rounded_to_bytes(const Tensor& x);

}  // namespace rill::onnx_import
