// What quantised operators of ONNX and of com.microsoft compute with: integers as the numbers that they stand for.
#pragma once
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

// round(x / scale) + zero, within what `to` holds.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);
// (x - zero) * scale, in the scale's dtype.
Tensor restored(const Tensor& x, const Tensor& scale, const Tensor& zero);
// As DynamicQuantizeLinear and back: `x` as numbers of which a byte holds each, over the range of `x` with 0 in it.
Tensor rounded_to_bytes(const Tensor& x);

// --- Exact products of integers (integer_products.cpp) ----------------------------------------------------------------

// Integers less their zero point: f32 of bytes, f64 of others.
struct Centred {
  Tensor values;
  double most = 0;  // of bytes, the largest magnitude that they can have
  bool constant = false;
};
// Operand i of a call, whose zero points are operand `zero_at`, shaped by meet(zero, x); 0 where there are none.
Centred centred(const Call& c, size_t i, size_t zero_at, Tensor (*meet)(const Tensor& zero, const Tensor& x));
Centred transposed(Centred v);
// Whole numbers, exactly, in f32 or f64. Of a convolution, options.layout is nchw.
Tensor exact_matmul(const Centred& a, const Centred& b);
Tensor exact_conv(const Centred& x, const Centred& w, const ConvOptions& options);

}  // namespace rill::onnx_import
