// Signals: Fourier transforms as products with a matrix of cosines and sines, and windows.
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/serialize/onnx/interpreter.h"

namespace rill::onnx_import {
namespace {

constexpr double pi = 3.14159265358979323846;

// [in, out] cosines and sines of 2 pi i k / n, for the DFT of `n` points.
struct Waves {
  Tensor cosine, sine;
};
Waves waves(int64_t in, int64_t out, int64_t n, DType d) {
  const EagerScope eager;
  std::vector<double> c, s;
  for (int64_t i = 0; i < in; ++i)
    for (int64_t k = 0; k < out; ++k) {
      const double angle = 2 * pi * double(i * k % n) / double(n);
      c.push_back(std::cos(angle)), s.push_back(std::sin(angle));
    }
  return {tensor(c, Shape{in, out}).astype(d), tensor(s, Shape{in, out}).astype(d)};
}

// The DFT of `n` points along the last axis of re + i im, of which `out` are kept. Waves cancel: they are added up in
// f64.
std::pair<Tensor, Tensor> transformed(const Tensor& re, const Tensor& im, int64_t n, int64_t out, bool inverse) {
  auto fitted = [&](const Tensor& given) {
    const Tensor x = given.astype(f64);
    std::vector<Padding> widths(size_t(x.ndim()));
    widths.back() = {0, n - x.dim(-1)};
    return pad(x, widths, full({}, 0, x.dtype()));
  };
  const Waves w = waves(n, out, n, f64);
  const double sign = inverse ? 1 : -1, factor = inverse ? 1 / double(n) : 1;
  const Tensor a = fitted(re);
  Tensor y_re = matmul(a, w.cosine), y_im = sign * matmul(a, w.sine);
  if (im.defined()) {
    const Tensor b = fitted(im);
    y_re = y_re - sign * matmul(b, w.sine), y_im = y_im + matmul(b, w.cosine);
  }
  return {(y_re * factor).astype(re.dtype()), (y_im * factor).astype(re.dtype())};
}

// The last axis holds the real part, or the real and the imaginary one.
Values dft_rule(const Call& c) {
  const Tensor x = c.x(0);
  if (x.ndim() < 2) c.reject("takes [batch, ..., 1 or 2]");
  const int64_t axis = axis_of(c, c.opset < 20 ? c.integer("axis", 1) : c.has(2) ? int64_t(c.dim(2)) : -2, x.ndim());
  const bool one_sided = c.flag("onesided"), inverse = c.flag("inverse");
  const bool to_real = one_sided && inverse;
  const int64_t in = x.dim(axis);
  const int64_t n = c.has(1) ? int64_t(c.dim(1)) : to_real ? 2 * (in - 1) : in;
  if (n < 1) c.reject("a transform of no points");
  const bool is_complex = x.dim(-1) == 2;
  Tensor re = moveaxis(x(ellipsis, 0), axis, -1), im = is_complex ? moveaxis(x(ellipsis, 1), axis, -1) : Tensor();
  if (to_real) {  // the other half is the conjugate of this one
    const int64_t half = n / 2 + 1, rest = n - half;
    auto all_of = [&](const Tensor& t, double sign) {
      const Tensor first = slice_axis(t, -1, 0, half);
      return concat({first, sign * flip(slice_axis(first, -1, 1, 1 + rest), -1)}, -1);
    };
    re = all_of(re, 1), im = is_complex ? all_of(im, -1) : Tensor();
  }
  const auto [y_re, y_im] = transformed(re, im, n, one_sided && !inverse ? n / 2 + 1 : n, inverse);
  auto back = [&](const Tensor& t) { return moveaxis(t, -1, axis); };
  return {to_real ? expand_dims(back(y_re), -1) : stack({back(y_re), back(y_im)}, -1)};
}

// Frames of [batch, length, 1 or 2], each times the window, transformed: [batch, frames, bins, 2].
Values stft_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t step = c.dim(1);
  const Tensor window = c.has(2) ? c.x(2) : Tensor();
  const int64_t n = c.has(3) ? int64_t(c.dim(3)) : window.defined() ? int64_t(window.dim(0)) : 0;
  if (x.ndim() != 3 || step < 1 || n < 1) c.reject("takes [batch, length, 1 or 2], and steps and frames of 1 or more");
  const int64_t length = x.dim(1), frames = length < n ? 0 : (length - n) / step + 1;
  const Tensor starts = expand_dims(iota({frames}) * step, 1) + expand_dims(iota({n}), 0);
  auto framed = [&](int64_t part) {
    const Tensor f = take(x(ellipsis, part), starts, Axis(1));
    return window.defined() ? f * window : f;
  };
  const bool is_complex = x.dim(2) == 2;
  const int64_t bins = c.flag("onesided", true) && !is_complex ? n / 2 + 1 : n;
  const auto [re, im] = transformed(framed(0), is_complex ? framed(1) : Tensor(), n, bins, false);
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

// [spectrum bins, mel bins]: triangles that are as wide as neighbours on the mel scale are far apart.
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
