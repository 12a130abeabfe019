// What quantised operators of ONNX and of com.microsoft compute with: integers as the numbers that they stand for.
#pragma once
#include <optional>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

// round(x / scale) + zero, within what `to` holds.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);
// round(steps) + zero, within what zero's dtype holds.
Tensor stepped(const Tensor& steps, const Tensor& zero);
// (x - zero) * scale, in the scale's dtype.
Tensor restored(const Tensor& x, const Tensor& scale, const Tensor& zero);
// As DynamicQuantizeLinear: `x` in u8, over its range with 0 in it. `axis` says nothing: there is one scale.
Bytes bytes_of(const Tensor& x);
// (values - zero) * scale, in the scale's dtype.
Tensor restored(const Bytes& b);

// --- Exact products of integers (integer_products.cpp) ----------------------------------------------------------------

// Integers and their zero point.
struct Centred {
  Tensor x, zero;   // which broadcasts to x
  double most = 0;  // of bytes, the largest magnitude that they can have less the zero point
  bool constant = false;

  bool is_byte() const { return x.dtype() == u8 || x.dtype() == i8; }
  Tensor values() const;  // x - zero: f32 of bytes, f64 of others
};
// Operand i of a call, whose zero points are operand `zero_at`, shaped by meet(zero, x); 0 where there are none.
Centred centred(const Call& c, size_t i, size_t zero_at, Tensor (*meet)(const Tensor& zero, const Tensor& x));
Centred transposed(Centred v);
// Whether the kernels of bytes take these: one zero point on the left, one or `columns` (of a convolution, one for each
// output channel) on the right. GPUs have none.
bool by_bytes(const Centred& a, const Centred& b, Dim columns);
bool by_bytes(const Centred& x, const Centred& w, const ConvOptions& options);
// Whole numbers, exactly, in i32, f32 or f64. Of a convolution, options.layout is nchw.
Tensor exact_matmul(const Centred& a, const Centred& b);
Tensor exact_conv(const Centred& x, const Centred& w, const ConvOptions& options);

// --- Numbers that are restored from bytes (byte_numbers.cpp) ----------------------------------------------------------

// A product, or a convolution, of operands that DequantizeLinear has restored, by the integers that they were, where kernels
// of bytes take them, with one scale on the left and one, or one a column or channel, on the right; else nothing.
std::optional<Tensor> matmul_of_bytes(const Value& a, const Value& b, bool transposed);
std::optional<Tensor> conv_of_bytes(const Value& x, const Value& w, const ConvOptions& options);
// Whether all have one scale, a positive number that is known now, and one zero point.
bool has_one_scale(const Bytes& b);
// The value that is restored from these.
Value from_bytes(const Bytes& b);
// The bytes behind `x`, where QuantizeLinear by this scale and zero point gives just these again.
std::optional<Tensor> same_bytes(const Value& x, const Tensor& scale, const Tensor& zero);

}  // namespace rill::onnx_import
