// Resizing: taps by method, and their sums. If nothing observes the ops these are loops over rows
// (devices/cpu/image/blend_rows.h); else gathers, products and sums with the same bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "rill/data/images/parts.h"
#include "rill/data/images/resample.h"
#include "rill/devices/cpu/image/blend_pixels.h"
#include "rill/devices/cpu/image/blend_rows.h"
#include "rill/devices/registry.h"
#include "rill/ops/images.h"
#include "rill/ops/listeners.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/per_thread.h"

namespace rill::images {
namespace {

// --- Kernels ---------------------------------------------------------------------------------------------------------

double cubic(double x, double b, double c) {  // Mitchell and Netravali (1988), equation 8; Keys' a is -c where b = 0
  x = std::abs(x);
  if (x < 1) return ((12 - 9 * b - 6 * c) * x * x * x + (-18 + 12 * b + 6 * c) * x * x + (6 - 2 * b)) / 6;
  if (x < 2)
    return ((-b - 6 * c) * x * x * x + (6 * b + 30 * c) * x * x + (-12 * b - 48 * c) * x + (8 * b + 24 * c)) / 6;
  return 0;
}
double lanczos(double x, double lobes) {
  if (x == 0) return 1;
  if (std::abs(x) >= lobes) return 0;
  const double p = std::numbers::pi * x;
  return lobes * std::sin(p) * std::sin(p / lobes) / (p * p);
}

double radius_of(ResizeMethod m) {
  switch (m) {
    case ResizeMethod::bilinear: return 1;
    case ResizeMethod::gaussian: return 1.5;
    case ResizeMethod::lanczos3: return 3;
    case ResizeMethod::lanczos5: return 5;
    default: return 2;
  }
}
double weight_of(ResizeMethod m, double x) {
  switch (m) {
    case ResizeMethod::bilinear: return std::max(0.0, 1 - std::abs(x));
    case ResizeMethod::gaussian: return std::abs(x) >= 1.5 ? 0 : std::exp(-2 * x * x);
    case ResizeMethod::lanczos3: return lanczos(x, 3);
    case ResizeMethod::lanczos5: return lanczos(x, 5);
    case ResizeMethod::mitchellcubic: return cubic(x, 1 / 3., 1 / 3.);
    default: return cubic(x, 0, 0.5);
  }
}

// The part of each old pixel that is within a new one.
Taps area_taps(int64_t in, int64_t out) {
  const double ratio = double(in) / double(out);
  Taps t;
  t.count = std::min(int64_t(std::ceil(ratio)) + 1, in);
  for (int64_t i = 0; i < out; ++i) {
    const double from = double(i) * ratio, to = double(i + 1) * ratio;
    const int64_t first = std::min(int64_t(std::floor(from)), in - t.count);
    t.first.push_back(first);
    for (int64_t k = 0; k < t.count; ++k) {
      const auto at = double(first + k);
      t.weights.push_back(std::max(0.0, std::min(at + 1, to) - std::max(at, from)) / ratio);
    }
  }
  return t;
}

// --- Sums ------------------------------------------------------------------------------------------------------------

cpu::BlendTaps<int32_t> bytes_of(const Taps& t) { return {t.out(), t.count, t.first.data(), t.fixed().data()}; }

// Rows of bytes, [outer, in, inner].
void blend_bytes(const uint8_t* from, int64_t outer, int64_t in, int64_t inner, const Taps& taps, uint8_t* to) {
  constexpr int64_t worth_the_tables = 8, most_channels = 4;
  const bool pixels = inner <= most_channels && outer >= worth_the_tables;
  if (const cpu::PixelTaps* const p = pixels ? taps.for_pixels(in, inner) : nullptr) return p->blend(from, outer, to);
  if (outer == 1 && cpu::blend_bytes_below(from, inner, bytes_of(taps), to)) return;
  cpu::blend_axis(from, outer, in, inner, bytes_of(taps), to);
}

// The same sums as ops, tap by tap.
Tensor resampled_by_ops(const Tensor& x, int64_t axis, const Taps& taps) {
  const bool bytes = x.dtype() == DType::u8;
  const Tensor from = bytes ? astype(x, DType::i32) : x;
  Shape along(size_t(x.ndim()), 1);
  along[size_t(axis)] = taps.out();
  Tensor sum;
  for (int64_t k = 0; k < taps.count; ++k) {
    std::vector<int64_t> places;
    std::vector<double> weights;
    for (int64_t i = 0; i < taps.out(); ++i) {
      const auto at = size_t(i * taps.count + k);
      places.push_back(taps.first[size_t(i)] + k);
      weights.push_back(bytes ? double(taps.fixed()[at]) : taps.weights[at]);
    }
    const Tensor w = tensor(weights, along, {.dtype = from.dtype(), .device = x.device()});
    const Tensor term = take(from, tensor(places, {.device = x.device()}), axis) * w;
    sum = sum.defined() ? sum + term : bytes ? term + (1 << (cpu::blend_bits - 1)) : term;
  }
  return bytes ? astype(clip(right_shift(sum, cpu::blend_bits), 0, 255), DType::u8) : sum;
}

}  // namespace

const std::vector<int32_t>& Taps::fixed() const {
  if (fixed_.empty()) {
    fixed_.reserve(weights.size());
    for (double w : weights) fixed_.push_back(int32_t((w < 0 ? -0.5 : 0.5) + w * double(1 << cpu::blend_bits)));
  }
  return fixed_;
}
const cpu::PixelTaps* Taps::for_pixels(int64_t in, int64_t channels) const {
  if (!pixels_ || in_ != in || channels_ != channels) {
    pixels_ = std::make_shared<cpu::PixelTaps>(bytes_of(*this), in, channels);
    in_ = in, channels_ = channels;
  }
  return pixels_->usable() ? pixels_.get() : nullptr;
}

Taps taps_for(int64_t in, int64_t out, ResizeMethod method, bool antialias) {
  if (method == ResizeMethod::area) return area_taps(in, out);
  const double ratio = double(in) / double(out), stretch = antialias ? std::max(ratio, 1.0) : 1;
  const double support = radius_of(method) * stretch;
  Taps t;
  t.count = std::min(int64_t(std::ceil(support)) * 2 + 1, in);
  for (int64_t i = 0; i < out; ++i) {
    const double middle = (double(i) + 0.5) * ratio, low = middle - support + 0.5, high = middle + support + 0.5;
    const int64_t begin = std::max<int64_t>(int64_t(low), 0), end = std::min<int64_t>(int64_t(high), in);
    const int64_t first = std::min(begin, in - t.count);  // those before `begin` weigh nothing
    std::vector<double> weights(size_t(t.count), 0);
    double sum = 0;
    for (int64_t k = begin; k < end; ++k)
      sum += weights[size_t(k - first)] = weight_of(method, (double(k) - middle + 0.5) * (1 / stretch));
    t.first.push_back(first);
    for (double w : weights) t.weights.push_back(sum != 0 ? w / sum : w);
  }
  return t;
}

namespace {

// The same of this thread's last few images, which mostly have a few sizes.
const Taps& known_taps(int64_t in, int64_t out, ResizeMethod method, bool antialias) {
  struct Known {
    int64_t in = -1, out = -1;
    ResizeMethod method{};
    bool antialias = false;
    Taps taps;
  };
  constexpr size_t few = 4;
  constexpr int64_t most = 1 << 16;  // weights that are worth keeping
  struct Recent {
    std::array<Known, few + 1> known;
    size_t next = 0;
  };
  thread_local constinit PerThread<Recent> of_thread;
  auto& [known, next] = *of_thread;
  for (const Known& k : known)
    if (k.in == in && k.out == out && k.method == method && k.antialias == antialias) return k.taps;
  Taps taps = taps_for(in, out, method, antialias);
  const bool keep = taps.count * out <= most;
  Known& k = known[keep ? next : few];
  if (keep) next = (next + 1) % few;
  k = {in, out, method, antialias, std::move(taps)};
  return k.taps;
}

}  // namespace

Tensor resampled(const Tensor& x, int64_t axis, const Taps& taps) {
  if ((x.dtype() != DType::u8 && x.dtype() != DType::f32) || !only_values_count(x))
    return resampled_by_ops(x, axis, taps);
  const Tensor dense = x.contiguous();
  int64_t outer = 1, inner = 1;
  Spec spec = x.spec();
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    if (int64_t(i) < axis) outer *= spec.shape[i];
    if (int64_t(i) > axis) inner *= spec.shape[i];
  }
  const int64_t in = spec.shape[size_t(axis)];
  Dims sizes(spec.shape.begin(), spec.shape.end());
  sizes[size_t(axis)] = taps.out();
  spec.shape = Shape(sizes);
  Tensor y = empty_tensor(spec);
  char* const to = y.mutable_rep()->data;
  if (x.dtype() == DType::u8) {
    blend_bytes(dense.data<uint8_t>().data(), outer, in, inner, taps, reinterpret_cast<uint8_t*>(to));
  } else {
    const std::vector<float> w(taps.weights.begin(), taps.weights.end());
    cpu::blend_axis(dense.data<float>().data(), outer, in, inner, {taps.out(), taps.count, taps.first.data(), w.data()},
                    reinterpret_cast<float*>(to));
  }
  return y;
}

// --- Public ----------------------------------------------------------------------------------------------------------

namespace {

Tensor resized(std::string_view op, const Tensor& x, const Dims& size, const ResizeOptions& o, const Where& where) {
  require_image(op, x, where);
  require_size(op, size, where);
  const int64_t sizes[] = {size[0], size[1]}, now[] = {height_of(x), width_of(x)};
  if (now[0] < 1 || now[1] < 1) fail(op, fmt::format("there are no pixels in {}", to_string(x.spec())), where);
  for (int64_t s : sizes) require_few_numbers(op, multiply_sizes(s, 16), where);
  const auto interpolated = [&](ResizeMode mode) {
    return reshape(interpolate(as_batch(x), {.size = size, .mode = mode}, where), with_size(x, size[0], size[1]));
  };
  if (o.method == ResizeMethod::nearest || o.method == ResizeMethod::nearest_exact) {
    Tensor y = x;
    for (int64_t i = 0; i < 2; ++i) {  // not by interpolate(), which makes floats of integers
      std::vector<int64_t> places;
      const int64_t half = o.method == ResizeMethod::nearest ? 0 : 1;
      for (int64_t k = 0; k < sizes[i]; ++k)
        places.push_back(std::min(int64_t(double(2 * k + half) * double(now[i]) / double(2 * sizes[i])), now[i] - 1));
      if (sizes[i] != now[i]) y = take(y, tensor(places, {.device = x.device()}), x.ndim() - 3 + i);
    }
    return y;
  }
  if (o.method == ResizeMethod::bicubic_torch) return rounded_to(interpolated(ResizeMode::cubic), x.dtype());
  Tensor y = x.dtype() == DType::u8 || x.dtype() == DType::f64 ? x : astype(x, DType::f32);
  // These two smooth an axis that keeps its size, too, as in TensorFlow.
  const bool smooths = o.method == ResizeMethod::gaussian || o.method == ResizeMethod::mitchellcubic;
  for (int64_t i : {1, 0})  // the width first, as Pillow
    if (smooths || sizes[i] != now[i])
      y = resampled(y, x.ndim() - 3 + i, known_taps(now[i], sizes[i], o.method, o.antialias));
  return y.dtype() == x.dtype() ? y : rounded_to(y, x.dtype());
}

// The size of the same proportions that fits into, or covers, `size`.
Dims in_proportion(const Tensor& x, const Dims& size, bool covers = false) {
  const auto h = double(int64_t(height_of(x))), w = double(int64_t(width_of(x)));
  const double a = double(int64_t(size[0])) / h, b = double(int64_t(size[1])) / w;
  const double by = covers ? std::max(a, b) : std::min(a, b);
  const auto side = [&](double n) { return std::max<int64_t>(1, std::llround(n * by)); };
  return {side(h), side(w)};
}

void require_sizes(std::string_view op, const Tensor& x, const Dims& size, const Where& where) {
  require_image(op, x, where);
  require_size(op, size, where);
  if (height_of(x) < 1 || width_of(x) < 1)
    fail(op, fmt::format("there are no pixels in {}", to_string(x.spec())), where);
}

}  // namespace

Tensor resize(const Tensor& x, const Dims& size, const ResizeOptions& o, Where where) {
  const CallerScope caller(where);
  require_sizes("images::resize", x, size, where);
  return resized("images::resize", x, o.preserve_aspect_ratio ? in_proportion(x, size) : size, o, where);
}

Tensor resize_shorter_side(const Tensor& x, int64_t size, const ResizeOptions& o, Where where) {
  const CallerScope caller(where);
  require_sizes("images::resize_shorter_side", x, {size, size}, where);
  const int64_t h = height_of(x), w = width_of(x);
  const Dims to = h < w ? Dims{size, int64_t(double(size) * double(w) / double(h))}
                        : Dims{int64_t(double(size) * double(h) / double(w)), size};
  return resized("images::resize_shorter_side", x, to, o, where);
}

Tensor resize_with_pad(const Tensor& x, const Dims& size, const ResizeOptions& o, Where where) {
  const CallerScope caller(where);
  require_sizes("images::resize_with_pad", x, size, where);
  // In f32, as in TensorFlow, whose borders are half of the remainder before rounding.
  const auto h = float(int64_t(height_of(x))), w = float(int64_t(width_of(x)));
  const float ratio = std::max(w / float(int64_t(size[1])), h / float(int64_t(size[0])));
  const auto side = [&](float n) { return std::max<int64_t>(1, int64_t(n / ratio)); };
  const auto before = [&](float n, int64_t all) { return std::max<int64_t>(0, int64_t((float(all) - n / ratio) / 2)); };
  const Dims part = {side(h), side(w)};
  const int64_t top = before(h, size[0]), left = before(w, size[1]);
  return pad_borders(resized("images::resize_with_pad", x, part, o, where),
                     {top, size[0] - part[0] - top, left, size[1] - part[1] - left});
}

Tensor resize_with_crop(const Tensor& x, const Dims& size, const ResizeOptions& o, Where where) {
  const CallerScope caller(where);
  require_sizes("images::resize_with_crop", x, size, where);
  return resize_with_crop_or_pad(resized("images::resize_with_crop", x, in_proportion(x, size, true), o, where), size);
}

Tensor resize_with_crop_or_pad(const Tensor& x, const Dims& size, Where where) {
  const CallerScope caller(where);
  require_sizes("images::resize_with_crop_or_pad", x, size, where);
  const int64_t h = height_of(x), w = width_of(x), rows = size[0], columns = size[1];
  const Dims part = {std::min(h, rows), std::min(w, columns)};
  const int64_t below = rows - part[0], right = columns - part[1];
  return pad_borders(central_crop(x, part), {below / 2, below - below / 2, right / 2, right - right / 2});
}

}  // namespace rill::images
