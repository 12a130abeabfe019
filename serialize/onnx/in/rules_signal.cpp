// Signals: Fourier transforms, and windows.
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/fft.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

constexpr double pi = 3.14159265358979323846;

// `x` in f64, because waves cancel, cut or padded with zeros to `n` points along the last axis.
Tensor fitted(const Tensor& given, Dim n) {
  const Tensor x = given.astype(f64);
  const Dim own = x.dim(-1);
  const bool open = own.is_open() || n.is_open();
  if (open ? own.is_open() && n.is_open() && own.number() == n.number() : own == n) return x;
  std::vector<Padding> widths(size_t(x.ndim()));
  widths.back() = {0, larger(n - own, 0)};
  return pad(slice_axis(x, -1, 0, smaller(own, n)), widths);
}
Tensor joined(const Tensor& re, const Tensor& im, Dim n) {
  const Tensor x = fitted(re, n);
  return complex(x, im.defined() ? fitted(im, n) : zeros_like(x));
}
using Parts = std::pair<Tensor, Tensor>;
Parts parts_of(const Tensor& y, DType d) { return {real(y).astype(d), imag(y).astype(d)}; }

// The DFT of `n` points along the last axis of re + i im; `half`: of real numbers, n / 2 + 1 of them.
Parts transformed(const Tensor& re, const Tensor& im, Dim n, bool half, bool inverse) {
  if (half && !im.defined()) return parts_of(fft::rfft(fitted(re, n)), re.dtype());
  const Tensor x = joined(re, im, n);
  Parts y = parts_of(inverse ? fft::ifft(x) : fft::fft(x), re.dtype());
  if (half)
    for (Tensor* part : {&y.first, &y.second}) *part = slice_axis(*part, -1, 0, n / 2 + 1);
  return y;
}

// The last axis holds the real part, or the real and the imaginary one.
Values dft_rule(const Call& c) {
  const Tensor x = c.x(0);
  if (x.ndim() < 2) c.reject("takes [batch, ..., 1 or 2]");
  const int64_t axis = axis_of(c, c.opset < 20 ? c.integer("axis", 1) : c.has(2) ? int64_t(c.dim(2)) : -2, x.ndim());
  const bool one_sided = c.flag("onesided"), inverse = c.flag("inverse");
  const bool to_real = one_sided && inverse;
  const Dim in = x.dim(axis);
  const Dim n = c.has(1) ? Dim(c.dim(1)) : to_real ? Dim(2 * (in - 1)) : in;
  if (n.hint() < 1) c.reject("a transform of no points");
  const bool is_complex = x.dim(-1) == 2;
  const Tensor re = moveaxis(x(ellipsis, 0), axis, -1), im = is_complex ? moveaxis(x(ellipsis, 1), axis, -1) : Tensor();
  const auto back = [&](const Tensor& t) { return moveaxis(t, -1, axis); };
  if (to_real) {  // the other half is the conjugate of this one
    const Tensor y = fft::irfft(joined(re, im, n / 2 + 1), {.n = n});
    return {expand_dims(back(y.astype(x.dtype())), -1)};
  }
  const auto [y_re, y_im] = transformed(re, im, n, one_sided, inverse);
  return {stack({back(y_re), back(y_im)}, -1)};
}

// Frames of [batch, length, 1 or 2], each times the window, transformed: [batch, frames, bins, 2].
Values stft_rule(const Call& c) {
  const Tensor x = c.x(0).ndim() == 2 ? expand_dims(c.x(0), -1) : c.x(0);
  const int64_t step = c.dim(1);
  const Tensor window = c.has(2) ? c.x(2) : Tensor();
  const int64_t n = c.has(3) ? int64_t(c.dim(3)) : window.defined() ? int64_t(window.dim(0)) : 0;
  if (x.ndim() != 3 || step < 1 || n < 1)
    c.reject("takes [batch, length] or [batch, length, 1 or 2], and steps and frames of 1 or more");
  const Dim frames = larger(x.dim(1) - n + step, 0) / step;
  const Tensor starts = expand_dims(iota({frames}) * step, 1) + expand_dims(iota({n}), 0);
  auto framed = [&](int64_t part) {
    const Tensor f = take(x(ellipsis, part), starts, Axis(1));
    return window.defined() ? f * window : f;
  };
  const bool is_complex = x.dim(2) == 2;
  const bool half = c.flag("onesided", true) && !is_complex;
  const auto [re, im] = transformed(framed(0), is_complex ? framed(1) : Tensor(), n, half, false);
  return {stack({re, im}, -1)};
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n).
Values window(const Call& c, double a0, double a1, double a2) {
  const int64_t size = c.dim(0);
  if (size < 0 || size > (int64_t(1) << 32)) c.reject("a window of such a size");
  const double n = double(c.flag("periodic", true) ? size : size - 1);
  const Tensor i = iota({size}, 0, f64) * (2 * pi / n);
  return {(a0 - a1 * cos(i) + a2 * cos(2.0 * i)).astype(c.dtype("output_datatype", f32))};
}

// [spectrum bins, mel bins]: triangles as wide as the distance of neighbours on the mel scale.
Values mel_rule(const Call& c) {
  const int64_t bands = c.dim(0), n = c.dim(1);
  const double rate = c.number(2), low = c.number(3), high = c.number(4);
  if (bands < 1 || n < 1 || bands > (1 << 20) || n > (1 << 24)) c.reject("takes positive sizes");
  const int64_t bins = n / 2 + 1;
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double m = mel(low) + double(i) * (mel(high) - mel(low)) / double(bands + 2);
    const double hertz = 700 * (std::pow(10, m / 2595) - 1);
    edges.push_back(int64_t(std::floor(double(n + 1) * hertz / rate)));
  }
  std::vector<double> out(size_t(bins * bands), 0.0);
  auto put = [&](int64_t bin, int64_t band, double v) {
    if (bin >= 0 && bin < bins) out[size_t(bin * bands + band)] = v;
  };
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t left = edges[size_t(b)], middle = edges[size_t(b) + 1], right = edges[size_t(b) + 2];
    if (middle == left) put(middle, b, 1);
    for (int64_t j = left; middle != left && j <= middle; ++j) put(j, b, double(j - left) / double(middle - left));
    for (int64_t j = middle; right != middle && j < right; ++j) put(j, b, double(right - j) / double(right - middle));
  }
  return {tensor(out, Shape{bins, bands}).astype(c.dtype("output_datatype", f32))};
}

}  // namespace

const RuleTable& signal_rules() {
  static const RuleTable table = {
      {"BlackmanWindow", {[](const Call& c) { return window(c, 0.42, 0.5, 0.08); }, 0b1}},
      {"DFT", {dft_rule, 0b110}},
      {"HammingWindow", {[](const Call& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }, 0b1}},
      {"HannWindow", {[](const Call& c) { return window(c, 0.5, 0.5, 0); }, 0b1}},
      {"MelWeightMatrix", {mel_rule, 0b11111}},
      {"STFT", {stft_rule, 0b1010}},
  };
  return table;
}

}  // namespace rill::onnx_import
