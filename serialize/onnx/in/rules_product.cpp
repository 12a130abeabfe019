// Products: matrices, Einstein's sums, convolutions.
#include "rill/ops/linear_algebra.h"
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/quantised.h"
#include "rill/serialize/onnx/in/windows.h"

namespace rill::onnx_import {
namespace {

Values gemm_rule(const Call& c) {
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  const auto with_rest = [&](Tensor y) {
    if (alpha != 1) y = (y * alpha).astype(y.dtype());
    if (c.has(2) && beta != 0) y = y + (beta == 1 ? c.x(2) : (c.x(2) * beta).astype(y.dtype()));
    return y;
  };
  if (!c.flag("transA"))
    if (const auto y = matmul_of_bytes(c.in[0], c.in[1], c.flag("transB"))) return {with_rest(*y)};
  const Tensor a = c.flag("transA") ? matrix_transpose(c.x(0)) : c.x(0);
  const Tensor b = c.flag("transB") ? matrix_transpose(c.x(1)) : c.x(1);
  return {with_rest(matmul(a, b))};
}
Values matmul_rule(const Call& c) {
  if (const auto y = matmul_of_bytes(c.in[0], c.in[1], false)) return {*y};
  return {matmul(c.x(0), c.x(1))};
}

// A last axis of one element, under a kernel of one, as some exporters write convolutions over time, is removed:
// kernels run along the last axis, and are several times as fast if that is the long one.
Tensor over_fewer_axes(const Tensor& x, const Tensor& w, const Windows& windows, ConvOptions o) {
  const auto is = [](Dim d, int64_t n) { return !d.is_open() && d.plain() == n; };
  if (x.ndim() < 4 || !is(x.dim(-1), 1) || !is(w.dim(-1), 1) || !is(windows.lo.back(), 0) || !is(windows.hi.back(), 0))
    return conv(x, w, o);
  const auto without_last = [](const Tensor& t) { return reshape(t, Shape(t.shape().begin(), t.shape().end() - 1)); };
  o.strides = Dims(windows.strides.begin(), windows.strides.end() - 1);
  o.dilation = Dims(windows.dilation.begin(), windows.dilation.end() - 1);
  o.padding.lo.pop_back();
  o.padding.hi.pop_back();
  return expand_dims(conv(without_last(x), without_last(w), o), -1);
}

Values conv_rule(const Call& c) {
  const Shape x = c.shape(0), w = c.shape(1);
  if (x.ndim() < 3 || x.ndim() > 5 || w.ndim() != x.ndim()) c.reject("convolves over one to three axes of space");
  const Windows windows = windows_of(c, x, Dims(w.begin() + 2, w.end()));
  const ConvOptions options{.strides = windows.strides,
                            .padding = windows.padding(),
                            .dilation = windows.dilation,
                            .groups = c.integer("group", 1),
                            .layout = Layout::nchw};
  const std::optional<Tensor> by_bytes = conv_of_bytes(c.in[0], c.in[1], options);
  const Tensor y = by_bytes ? *by_bytes : over_fewer_axes(c.x(0), c.x(1), windows, options);
  return {c.has(2) ? y + along_channels(c.x(2), y.ndim()) : y};
}

// ONNX gives either the paddings, which are cut off, or the sizes of the result.
SpacePadding transposed_padding(const Call& c, const Shape& x, const ConvTransposeOptions& o, const Shape& kernel) {
  const size_t n = x.size() - 2;
  const Dims pads = c.integers("pads", Dims(2 * n, 0)), sizes = c.integers("output_shape");
  const std::string kind = c.text("auto_pad", "NOTSET");
  const bool same = kind == "SAME_UPPER" || kind == "SAME_LOWER";
  if (pads.size() != 2 * n || (!sizes.empty() && sizes.size() != n)) c.reject("pads or output_shape do not fit");
  SpacePadding p(0);
  p.kind = SpacePadding::Kind::each;
  p.lo = p.hi = {};
  for (size_t i = 0; i < n; ++i) {
    if (sizes.empty() && !same) {
      p.lo.push_back(kind == "VALID" ? Dim(0) : pads[i]), p.hi.push_back(kind == "VALID" ? Dim(0) : pads[i + n]);
      continue;
    }
    const Dim out = sizes.empty() ? Dim(x[i + 2] * o.strides[i]) : sizes[i];
    const Dim all = o.strides[i] * (x[i + 2] - 1) + o.output_padding[i] + (kernel[i + 2] - 1) * o.dilation[i] + 1 - out;
    const Dim half = all < 0 ? (all - 1) / 2 : all / 2;  // rounded down
    p.lo.push_back(kind == "SAME_UPPER" ? half : Dim(all - half));
    p.hi.push_back(all - p.lo.back());
  }
  return p;
}
Values conv_transpose_rule(const Call& c) {
  const Tensor x = c.x(0), w = c.x(1);
  if (x.ndim() < 3 || x.ndim() > 5 || w.ndim() != x.ndim()) c.reject("convolves over one to three axes of space");
  const size_t n = size_t(x.ndim()) - 2;
  ConvTransposeOptions o{.strides = c.integers("strides", Dims(n, 1)),
                         .dilation = c.integers("dilations", Dims(n, 1)),
                         .groups = c.integer("group", 1),
                         .layout = Layout::nchw,
                         .output_padding = c.integers("output_padding", Dims(n, 0))};
  if (o.strides.size() != n || o.dilation.size() != n || o.output_padding.size() != n)
    c.reject("an attribute does not have an entry for each axis of space");
  check_kernel_shape(c, Dims(w.shape().begin() + 2, w.shape().end()));
  const SpacePadding p = transposed_padding(c, x.shape(), o, w.shape());
  // The uncropped result first, for a padding beyond the stride may be cut off or added at either end.
  Dims grow = o.output_padding;
  o.output_padding = {};
  Tensor y = conv_transpose(x, w, o);
  std::vector<Padding> widths(2);
  for (size_t i = 0; i < n; ++i) widths.push_back({Dim(0) - p.lo[i], grow[i] - p.hi[i]});
  y = pad(y, widths, full({}, 0, y.dtype()));
  return {c.has(2) ? y + along_channels(c.x(2), y.ndim()) : y};
}

Values einsum_rule(const Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  return {einsum(equation, c.tensors())};
}

Values det_rule(const Call& c) {
  const Tensor x = c.x();
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {astype(linalg::det(astype(x, wide)), x.dtype())};
}

}  // namespace

const RuleTable& product_rules() {
  static const RuleTable table = {
      {"Conv", {conv_rule}}, {"ConvTranspose", {conv_transpose_rule}},
      {"Det", {det_rule}},   {"Einsum", {einsum_rule}},
      {"Gemm", {gemm_rule}}, {"MatMul", {matmul_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
