// Shared by quantised operators of ONNX and of com.microsoft: integers and the numbers that they represent.
#pragma once
#include <optional>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

// round(x / scale) + zero, saturated to the range of `to`.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, DType to);
// round(steps) + zero, saturated to the range of zero's dtype.
Tensor stepped(const Tensor& steps, const Tensor& zero);
// (x - zero) * scale, in the scale's dtype.
Tensor restored(const Tensor& x, const Tensor& scale, const Tensor& zero);
// As DynamicQuantizeLinear: `x` in u8, over its range extended to 0. `axis` is unused: there is one scale.
Bytes bytes_of(const Tensor& x);
// (values - zero) * scale, in the scale's dtype.
Tensor restored(const Bytes& b);

// --- Exact products of integers (integer_products.cpp) ----------------------------------------------------------------

// Integers and their zero point.
struct Centred {
  Tensor x, zero;   // which broadcasts to x
  double most = 0;  // for bytes, the largest magnitude that they can have after subtracting the zero point
  bool constant = false;

  bool is_byte() const { return x.dtype() == u8 || x.dtype() == i8; }
  Tensor values() const;  // x - zero: f32 for bytes, f64 for others
};
// Operand i of a call, whose zero points are operand `zero_at`, shaped by meet(zero, x); 0 if there are none.
Centred centred(const Call& c, size_t i, size_t zero_at, Tensor (*meet)(const Tensor& zero, const Tensor& x));
Centred transposed(Centred v);
// Whether the kernels of bytes support these: one zero point on the left, one or `columns` (for a convolution, one for
// each output channel) on the right. GPUs have none.
bool by_bytes(const Centred& a, const Centred& b, Dim columns);
bool by_bytes(const Centred& x, const Centred& w, const ConvOptions& options);
// Exact integers, in i32, f32 or f64. For a convolution, options.layout is nchw.
Tensor exact_matmul(const Centred& a, const Centred& b);
Tensor exact_conv(const Centred& x, const Centred& w, const ConvOptions& options);

// --- Numbers that are restored from bytes (byte_numbers.cpp)
// ----------------------------------------------------------

// A product, or a convolution, of operands that DequantizeLinear has restored, computed on their integers if kernels of
// bytes support them, with one scale on the left and one, or one for each column or channel, on the right; else
// nothing.
std::optional<Tensor> matmul_of_bytes(const Value& a, const Value& b, bool transposed);
std::optional<Tensor> conv_of_bytes(const Value& x, const Value& w, const ConvOptions& options);
// Whether they have a single scale, a positive number that is known now, and one zero point.
bool has_one_scale(const Bytes& b);
// The value that is restored from these.
Value from_bytes(const Bytes& b);
// The bytes that `x` was restored from, if QuantizeLinear by this scale and zero point returns exactly these.
std::optional<Tensor> same_bytes(const Value& x, const Tensor& scale, const Tensor& zero);

}  // namespace rill::onnx_import
