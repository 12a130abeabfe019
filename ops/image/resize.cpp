// interpolate(): axis by axis, each new pixel is a weighted sum of some old ones ("taps"), whose indices and weights
// are constants, as the sizes are.
#include <algorithm>
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/image/space.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/shape/pads.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

using image::space_axes;
constexpr std::string_view op = "interpolate";

// The old pixels that each new one is a sum of, and their weights: a list for each tap, with an entry for each new
// pixel.
struct Taps {
  int64_t out;
  std::vector<std::vector<int64_t>> indices;
  std::vector<std::vector<double>> weights;
};

double keys_cubic(double x, double a) {  // Keys (1981), equation 4
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// The coordinate of pixel i of the result in the operand, in its pixels: 0 is the middle of the first one.
double coordinate_of(int64_t i, double ratio, bool align_corners) {
  return align_corners ? ratio * double(i) : ratio * (double(i) + 0.5) - 0.5;
}

// By a division, not by the ratio, which is rounded: then a pixel's edge is exactly the next one's first coordinate.
Taps nearest_taps(int64_t in, int64_t out, double scale, bool exact) {  // scale 0: not given
  Taps t{out, {{}}, {}};
  for (int64_t i = 0; i < out; ++i) {
    const int64_t halves = 2 * i + int64_t(exact);
    const double at = scale > 0 ? double(halves) / (2 * scale) : double(halves) * double(in) / double(2 * out);
    t.indices[0].push_back(std::min(int64_t(std::floor(at)), in - 1));
  }
  return t;
}

Taps smooth_taps(int64_t in, int64_t out, double ratio, const InterpolateOptions& o) {
  const bool cubic = o.mode == ResizeMode::cubic;
  const int64_t count = cubic ? 4 : 2;
  Taps t{out, std::vector<std::vector<int64_t>>(size_t(count)), std::vector<std::vector<double>>(size_t(count))};
  for (int64_t i = 0; i < out; ++i) {
    double at = coordinate_of(i, ratio, o.align_corners);
    if (!cubic) at = std::max(at, 0.0);
    const double first = std::floor(at), beyond = at - first;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t from = cubic ? k - 1 : k;
      t.indices[size_t(k)].push_back(std::clamp<int64_t>(int64_t(first) + from, 0, in - 1));
      t.weights[size_t(k)].push_back(cubic ? keys_cubic(beyond - double(from), -0.75)
                                           : triangle(beyond - double(from)));
    }
  }
  return t;
}

// The weights of all pixels within the support, which grows when downsampling; they add up to 1.
Taps wide_taps(int64_t in, int64_t out, double ratio, bool cubic) {
  const double stretch = std::max(ratio, 1.0), support = (cubic ? 2 : 1) * stretch;
  const int64_t count = std::min(int64_t(std::ceil(support)) * 2 + 1, in);
  require_few_tensors(op, count, Where::current());
  Taps t{out, std::vector<std::vector<int64_t>>(size_t(count)), std::vector<std::vector<double>>(size_t(count))};
  for (int64_t i = 0; i < out; ++i) {
    const double middle = ratio * (double(i) + 0.5);
    const int64_t first = std::max<int64_t>(int64_t(std::floor(middle - support + 0.5)), 0),
                  end = std::min<int64_t>(int64_t(std::floor(middle + support + 0.5)), in);
    std::vector<double> weights(size_t(count), 0);
    double sum = 0;
    for (int64_t k = 0; k < std::min(end - first, count); ++k) {
      const double at = (double(first + k) - middle + 0.5) / stretch;
      sum += weights[size_t(k)] = cubic ? keys_cubic(at, -0.5) : triangle(at);
    }
    for (int64_t k = 0; k < count; ++k) {
      t.indices[size_t(k)].push_back(std::min(first + k, in - 1));
      t.weights[size_t(k)].push_back(weights[size_t(k)] / sum);
    }
  }
  return t;
}

Tensor resized_axis(const Tensor& x, int64_t axis, const Taps& taps) {
  const auto part = [&](size_t k) { return take(x, tensor(taps.indices[k], {.device = x.device()}), axis); };
  if (taps.weights.empty()) return part(0);
  Shape along(size_t(x.ndim()), 1);
  along[size_t(axis)] = taps.out;
  Tensor sum;
  for (size_t k = 0; k < taps.indices.size(); ++k) {
    const Tensor term = part(k) * tensor(taps.weights[k], along, {.dtype = x.dtype(), .device = x.device()});
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

// Old pixels per new one.
double ratio_of(int64_t in, int64_t out, const InterpolateOptions& o, size_t i) {
  if (o.align_corners) return out > 1 ? double(in - 1) / double(out - 1) : 0;
  if (o.scale.empty()) return double(in) / double(out);
  return 1 / o.scale[o.scale.size() == 1 ? 0 : i];
}

// The sizes of the result's axes of space.
Dims sizes_of(const Dims& in, const InterpolateOptions& o, const Where& where) {
  if (o.size.empty() == o.scale.empty()) fail(op, "takes either a size or a scale", where);
  if (o.scale.empty()) return for_each_axis(o.size, in.size(), 1, op, "size", where);
  if (o.scale.size() != 1 && o.scale.size() != in.size())
    fail(op, fmt::format("{} scales are given for {} axes of space", o.scale.size(), in.size()), where);
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    const double scale = o.scale[o.scale.size() == 1 ? 0 : i];
    require_option(scale > 0 && scale <= double(max_tensor_bytes), op, "a scale", scale, "positive and finite", where);
    const double size = double(int64_t(in[i])) * scale, rounded = std::round(size);
    // 88 * (120. / 88) is 120 up to rounding.
    out.push_back(int64_t(std::abs(size - rounded) <= 1e-12 * rounded ? rounded : std::floor(size)));
  }
  return out;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o, Where where) {
  CallerScope caller(where);
  const size_t n = space_axes(op, x, 1, 3, where);
  const Dims in = image::space_of(x, o.layout), out = sizes_of(in, o, where);
  for (size_t i = 0; i < n; ++i) {
    if (out[i] < 1 || in[i] < 1)
      fail(op,
           fmt::format("axis {} of space has {} pixels and is to have {}; both must be at least 1", i, in[i], out[i]),
           where);
    require_few_numbers(op, multiply_sizes(out[i], 16), where);  // indices and weights of up to four pixels, twice
  }
  const bool smooth = o.mode == ResizeMode::linear || o.mode == ResizeMode::cubic;
  if (!smooth && (o.align_corners || o.antialias))
    fail(op, "align_corners and antialias are for the modes linear and cubic", where);
  if (o.align_corners && o.antialias) fail(op, "takes align_corners or antialias, not both", where);
  if (o.mode == ResizeMode::area) return adaptive_avg_pool(astype(x, to_floating(x.dtype())), out, o.layout, where);
  Tensor y = smooth ? to_work(x) : x;
  for (size_t i = 0; i < n; ++i) {
    const double ratio = ratio_of(in[i], out[i], o, i);
    const double scale = o.scale.empty() ? 0 : o.scale[o.scale.size() == 1 ? 0 : i];
    const bool cubic = o.mode == ResizeMode::cubic;
    const bool stays = o.mode == ResizeMode::nearest || (o.mode == ResizeMode::linear && !o.antialias);
    if (in[i] == out[i] && (ratio == 1 || stays)) continue;
    y = resized_axis(y, int64_t(space_axis(o.layout, i)),
                     !smooth       ? nearest_taps(in[i], out[i], scale, o.mode == ResizeMode::nearest_exact)
                     : o.antialias ? wide_taps(in[i], out[i], ratio, cubic)
                                   : smooth_taps(in[i], out[i], ratio, o));
  }
  return smooth ? from_work(y, x.dtype()) : astype(y, to_floating(x.dtype()));
}

}  // namespace rill
