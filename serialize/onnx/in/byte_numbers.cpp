// Products of numbers that were restored from bytes, computed on these bytes: see quantised.h.
#include "rill/ops/apply.h"
#include "rill/serialize/onnx/in/quantised.h"

namespace rill::onnx_import {
namespace {

bool one_scale(const Value& v) { return v.bytes && v.bytes->scale.ndim() == 0 && v.bytes->zero.ndim() == 0; }
// Whether weights have one scale, or one for each index along `axis`.
bool scales_along(const Value& v, int64_t axis) {
  return v.bytes && (v.bytes->scale.ndim() == 0 || v.bytes->axis == axis);
}

Centred centred_bytes(const Value& v) {
  const bool known = v.constant && !v.bytes->zero.is_symbolic();
  return {.x = v.bytes->values, .zero = v.bytes->zero, .most = 255, .constant = known};
}
// In f32; for constants, computed at once.
Tensor factor(const Value& a, const Value& b) { return a.bytes->scale * b.bytes->scale; }

}  // namespace

std::optional<Tensor> matmul_of_bytes(const Value& a, const Value& b, bool transposed) {
  if (!one_scale(a) || !b.bytes || !b.constant || b.bytes->values.ndim() != 2 || a.bytes->values.ndim() < 2 ||
      !scales_along(b, transposed ? 0 : 1))
    return {};
  Centred right = centred_bytes(b);
  if (transposed) right = onnx_import::transposed(right);
  const Centred left = centred_bytes(a);
  if (!by_bytes(left, right, right.x.dim(1))) return {};
  return exact_matmul(left, right).astype(f32) * factor(a, b);
}

std::optional<Tensor> conv_of_bytes(const Value& x, const Value& w, const ConvOptions& options) {
  if (!one_scale(x) || !w.bytes || !w.constant || !scales_along(w, 0)) return {};
  const Centred left = centred_bytes(x);
  Centred right = centred_bytes(w);
  if (!by_bytes(left, right, options)) return {};
  const int ndim = right.x.ndim();
  Tensor scale = factor(x, w);
  if (scale.ndim() > 0) scale = along_channels(scale, ndim);
  if (right.zero.ndim() > 0) {
    const EagerScope eager;
    right.zero = along_channels(right.zero, ndim, 0);
  }
  return exact_conv(left, right, options).astype(f32) * scale;
}

bool has_one_scale(const Bytes& b) {
  if (b.scale.ndim() != 0 || b.zero.ndim() != 0 || b.scale.is_symbolic()) return false;
  const EagerScope now;
  const double s = b.scale.item<double>();
  return s >= 1e-30 && s <= 1e30;  // so that products and quotients by it cannot overflow or underflow
}

Value from_bytes(const Bytes& b) {
  Value y(restored(b));
  y.bytes = std::make_shared<const Bytes>(b);
  return y;
}

// (q - zero) scale / scale is off by less than a step, so it is rounded to q - zero.
std::optional<Tensor> same_bytes(const Value& x, const Tensor& scale, const Tensor& zero) {
  if (!x.bytes || !has_one_scale(*x.bytes) || x.bytes->values.dtype() != zero.dtype() || scale.size() != 1 ||
      zero.size() != 1 || scale.is_symbolic() || zero.is_symbolic() || x.bytes->zero.is_symbolic())
    return {};
  const EagerScope now;
  const bool same = scale.dtype() == f32 && reshape(scale, {}).item<float>() == x.bytes->scale.item<float>() &&
                    reshape(zero, {}).astype(i32).item<int32_t>() == x.bytes->zero.astype(i32).item<int32_t>();
  return same ? std::optional(x.bytes->values) : std::nullopt;
}

Tensor restored(const Bytes& b) {
  const bool known = !b.values.is_symbolic() && !b.scale.is_symbolic() && !b.zero.is_symbolic();
  std::optional<EagerScope> now;
  if (known) now.emplace();
  const auto along_axis = [&](const Tensor& v) {
    return v.ndim() == 0 ? v : along_channels(v, b.values.ndim(), b.axis);
  };
  return restored(b.values, along_axis(b.scale), along_axis(b.zero));
}

}  // namespace rill::onnx_import
