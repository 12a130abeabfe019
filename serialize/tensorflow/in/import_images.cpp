// tf.image: resizing, cropping, colours, patches, and picking boxes. Images are [batch, height, width, channels].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rill/ops/images.h"
#include "rill/serialize/model/taps.h"
#include "rill/serialize/tensorflow/in/windows.h"

namespace rill::tensorflow_in {
namespace {

using imported::Taps;

// --- Resizing: TensorFlow computes coordinates in f32 ----------------------------------------------------------------

struct AxisResize {
  int64_t in, out;
  bool corners, middles;
  float scale() const { return corners && out > 1 ? float(in - 1) / float(out - 1) : float(in) / float(out); }
  float position(int64_t i) const { return middles ? (float(i) + 0.5f) * scale() - 0.5f : float(i) * scale(); }
  int64_t within(int64_t i) const { return std::clamp<int64_t>(i, 0, in - 1); }
};

Tensor image_of(const Call& c, size_t i = 0) {
  const Tensor x = c.x(i);
  if (x.ndim() != 4) c.reject("takes images [batch, height, width, channels]");
  return x;
}
constexpr int64_t largest_side = int64_t(1) << 24;
AxisResize axis_resize(const Call& c, const Tensor& x, int64_t axis, const Dims& size) {
  if (size.size() != 2) c.reject("the size should be a height and a width");
  const AxisResize a{x.dim(axis), size[size_t(axis - 1)], c.flag("align_corners"), c.flag("half_pixel_centers")};
  if (a.in < 1 || a.out < 1 || a.out > largest_side) c.reject("a side is empty, or too long");
  return a;
}

Taps linear_taps(const AxisResize& a) {
  Taps taps{2};
  for (int64_t i = 0; i < a.out; ++i) {
    const float at = a.position(i), low = std::floor(at);
    taps.add(a.within(int64_t(low)), 1 - (at - low));
    taps.add(a.within(int64_t(low) + 1), at - low);
  }
  return taps;
}
// Weights are those of the nearest of 1024 positions between two pixels. With half_pixel_centers pixels beyond the
// edges do not count.
Taps cubic_taps(const AxisResize& a) {
  Taps taps{4};
  for (int64_t i = 0; i < a.out; ++i) {
    const float at = a.position(i), low = std::floor(at);
    const double d = double(std::lrint((at - low) * 1024)) / 1024;
    double w[4], total = 0;
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t j = int64_t(low) + k - 1;
      w[k] = a.middles && a.within(j) != j ? 0 : imported::cubic_weight(double(k - 1) - d, a.middles ? -0.5 : -0.75);
      total += w[k];
    }
    for (int64_t k = 0; k < 4; ++k)
      taps.add(a.within(int64_t(low) + k - 1), a.middles && total != 0 ? w[k] / total : w[k]);
  }
  return taps;
}
// The mean of the area that a pixel of the result covers.
Taps area_taps(const AxisResize& a) {
  const float scale = a.scale();
  Taps taps{int64_t(std::ceil(scale)) + 1};
  for (int64_t i = 0; i < a.out; ++i) {
    const float from = float(i) * scale, to = float(i + 1) * scale;
    for (int64_t k = 0; k < taps.count; ++k) {
      const int64_t j = int64_t(std::floor(from)) + k;
      const float covered = std::min(to, float(j + 1)) - std::max(from, float(j));
      taps.add(a.within(j), std::max(covered, 0.f) / scale);
    }
  }
  return taps;
}
template <Taps (*taps)(const AxisResize&)>
Values resize_rule(const Call& c) {
  const Dims size = c.dims(1);
  Tensor y = image_of(c).astype(f32);
  for (int64_t axis = 1; axis < 3; ++axis) y = imported::weighted(y, axis, taps(axis_resize(c, y, axis, size)));
  return {y};
}
Values nearest_rule(const Call& c) {
  const Dims size = c.dims(1);
  Tensor y = image_of(c);
  for (int64_t axis = 1; axis < 3; ++axis) {
    const AxisResize a = axis_resize(c, y, axis, size);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < a.out; ++i) {
      const float at = a.middles ? (float(i) + 0.5f) * a.scale() : float(i) * a.scale();
      places.push_back(a.within(int64_t(a.corners ? std::round(at) : std::floor(at))));
    }
    y = take(y, tensor(places, Shape{a.out}), Axis(axis));
  }
  return {y};
}

// The kernels of ScaleAndTranslate: their radius, and their weights at distances up to it.
struct Kernel {
  double reach;
  double (*weight)(double x, double reach);
};
double lanczos(double x, double reach) {
  constexpr double pi = 3.14159265358979323846;
  if (x < 1e-9) return 1;
  return x > reach ? 0 : reach * std::sin(pi * x) * std::sin(pi * x / reach) / (pi * pi * x * x);
}
double gaussian(double x, double reach) { return x >= reach ? 0 : std::exp(-x * x / (2 * reach * reach / 9)); }
double box(double x, double) { return x < 0.5 ? 1 : x == 0.5 ? 0.5 : 0; }
double mitchell(double x, double) {  // Mitchell, Netravali 1988
  if (x >= 2) return 0;
  return x >= 1 ? ((-7. / 18 * x + 2) * x - 10. / 3) * x + 16. / 9 : (7. / 6 * x - 2) * x * x + 8. / 9;
}
Kernel kernel_of(const Call& c) {
  static const std::unordered_map<std::string, Kernel> all = {
      {"lanczos1", {1, lanczos}},
      {"lanczos3", {3, lanczos}},
      {"lanczos5", {5, lanczos}},
      {"gaussian", {1.5, gaussian}},
      {"box", {1, box}},
      {"triangle", {1, [](double x, double) { return imported::linear_weight(x); }}},
      {"keyscubic", {2, [](double x, double) { return imported::cubic_weight(x, -0.5); }}},
      {"mitchellcubic", {2, mitchell}}};
  const std::string name = c.text("kernel_type", "lanczos3");
  auto found = all.find(name);
  if (found == all.end()) c.reject(fmt::format("an unknown kernel, '{}'", name));
  return found->second;
}
// Pixel i of the result is a sum of those around (i + 1/2 - translation) / scale; of none if that is outside.
Taps spans(const Kernel& k, const AxisResize& a, float scale, float translation, bool antialias) {
  const float back = 1 / scale, stretch = antialias ? std::max(back, 1.f) : 1.f;
  const float reach = float(k.reach) * stretch;
  Taps taps{std::min<int64_t>(2 * int64_t(std::ceil(reach)) + 1, a.in)};
  for (int64_t i = 0; i < a.out; ++i) {
    const float at = (float(i) + 0.5f) * back - back * translation;
    const auto from = std::max<int64_t>(int64_t(std::ceil(at - reach - 0.5f)), 0);
    const auto to = std::min<int64_t>(int64_t(std::floor(at + reach - 0.5f)), a.in - 1);
    std::vector<double> w(size_t(taps.count), 0);
    double total = 0;
    for (int64_t j = from; j <= to && j - from < taps.count && at >= 0 && at <= float(a.in); ++j)
      total += w[size_t(j - from)] = k.weight(std::abs((float(j) + 0.5f - at) / stretch), k.reach);
    for (int64_t n = 0; n < taps.count; ++n)
      taps.add(a.within(from + n), std::abs(total) > 1e-34 ? w[size_t(n)] / total : 0);
  }
  return taps;
}
Values scale_and_translate_rule(const Call& c) {
  const Dims size = c.dims(1);
  const std::vector<double> scales = c.numbers(2), translations = c.numbers(3);
  if (scales.size() != 2 || translations.size() != 2) c.reject("scale and translation should be two numbers each");
  Tensor y = image_of(c).astype(f32);
  for (int64_t axis = 1; axis < 3; ++axis) {
    const auto scale = float(scales[size_t(axis - 1)]), by = float(translations[size_t(axis - 1)]);
    if (!(scale > 1e-6f) || !(scale < 1e6f) || !(std::abs(by) < 1e9f)) c.reject("a scale or translation out of range");
    const AxisResize a = axis_resize(c, y, axis, size);
    y = imported::weighted(y, axis, spans(kernel_of(c), a, scale, by, c.flag("antialias", true)));
  }
  return {y};
}

// --- Crops -----------------------------------------------------------------------------------------------------------

// The elements of x [batch, h, w, channels] at integers [n, rows, 1] and [n, 1, columns], of image `of` [n].
Tensor picked(const Tensor& x, const Tensor& of, const Tensor& row, const Tensor& column) {
  GatherAttrs attrs;
  attrs.axes = {0, 1, 2};
  const auto inside = [](const Tensor& p, Dim n) { return clip(p, 0, Tensor(n - 1).astype(p.dtype())).astype(i64); };
  return gather(x, {expand_dims(of.astype(i64), {1, 2}), inside(row, x.dim(1)), inside(column, x.dim(2))}, attrs);
}
// Boxes (y1, x1, y2, x2), where 0 and 1 are the middles of the first and last pixels, each resized.
Values crop_rule(const Call& c) {
  const Tensor x = image_of(c).astype(f32), boxes = c.x(1), of = c.x(2);
  const Dims size = c.dims(3);
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > largest_side || size[1] > largest_side)
    c.reject("crop_size should be a height and a width");
  if (boxes.ndim() != 2 || int64_t(boxes.dim(1)) != 4) c.reject("boxes should be [n, 4]");
  const auto places = [&](int first, Dim out, Dim in) {
    const Tensor low = boxes(all, slice(first, first + 1)), high = boxes(all, slice(first + 2, first + 3));
    const Tensor last = Tensor(in - 1).astype(f32);
    if (out == 1) return 0.5 * (low + high) * last;
    const Tensor step = (high - low) * last / Tensor(out - 1).astype(f32);
    return low * last + iota({1, out}, 1).astype(f32) * step;
  };
  const Tensor row = expand_dims(places(0, size[0], x.dim(1)), 2),
               column = expand_dims(places(1, size[1], x.dim(2)), 1);
  const auto outside = [](const Tensor& p, Dim n) { return (p < 0) | (p > Tensor(n - 1).astype(f32)); };
  const Tensor beyond = expand_dims(outside(row, x.dim(1)) | outside(column, x.dim(2)), -1);
  Tensor y;
  if (c.text("method", "bilinear") == "nearest") {
    const auto near = [](const Tensor& p) { return floor(p + 0.5); };
    y = picked(x, of, near(row), near(column));
  } else {
    const Tensor top = floor(row), left = floor(column);
    const Tensor down = expand_dims(row - top, -1), right = expand_dims(column - left, -1);
    const auto mixed = [&](const Tensor& r) {
      const Tensor a = picked(x, of, r, left);
      return a + (picked(x, of, r, ceil(column)) - a) * right;
    };
    const Tensor a = mixed(top);
    y = a + (mixed(ceil(row)) - a) * down;
  }
  return {where(beyond, c.real("extrapolation_value", 0), y)};
}

// --- Colours: the last axis is red, green, blue; or hue, saturation, value -------------------------------------------

struct Channels {
  Tensor a, b, c;
  Channels(const Call& call, const Tensor& x) {
    if (x.ndim() < 1 || int64_t(x.dim(-1)) != 3) call.reject("takes three channels along the last axis");
    a = x(ellipsis, 0), b = x(ellipsis, 1), c = x(ellipsis, 2);
  }
};
Tensor hsv_of(const Call& c, const Tensor& x) {
  const Channels p(c, x);
  const Tensor value = max(x, -1), range = value - min(x, -1);
  const Tensor some = range > 0, by = 1 / (6 * where(some, range, 1));
  const Tensor hue = where(equal(p.a, value), by * (p.b - p.c),
                           where(equal(p.b, value), by * (p.c - p.a) + 2. / 6, by * (p.a - p.b) + 4. / 6));
  const Tensor turned = where(some, where(hue < 0, hue + 1, hue), 0);
  return stack({turned, where(value > 0, range / where(value > 0, value, 1), 0), value}, -1);
}
Tensor rgb_of(const Call& c, const Tensor& x) {
  const Channels p(c, x);
  const Tensor h = p.a * 6;
  const auto part = [&](const Tensor& t) { return (1 + p.b * (clip(t, 0, 1) - 1)) * p.c; };
  return stack({part(abs(h - 3) - 1), part(2 - abs(h - 2)), part(2 - abs(h - 4))}, -1);
}
Values contrast_rule(const Call& c) {
  const Tensor x = c.x(0);
  if (x.ndim() < 3) c.reject("takes images [..., height, width, channels]");
  const Tensor middle = mean(x.astype(f32), Axes{-3, -2}, true);
  return {((x.astype(f32) - middle) * c.x(1).astype(f32) + middle).astype(x.dtype())};
}
Values hue_rule(const Call& c) {
  const Tensor x = hsv_of(c, c.x(0)), h = x(ellipsis, slice(0, 1)) + c.x(1).astype(x.dtype());
  return {rgb_of(c, concat({h - floor(h), x(ellipsis, slice(1, 3))}, -1))};
}
Values saturation_rule(const Call& c) {
  const Tensor x = hsv_of(c, c.x(0));
  const Tensor s = clip(x(ellipsis, slice(1, 2)) * c.x(1).astype(x.dtype()), 0, 1);
  return {rgb_of(c, concat({x(ellipsis, slice(0, 1)), s, x(ellipsis, slice(2, 3))}, -1))};
}

// --- Patches ---------------------------------------------------------------------------------------------------------

Values patches_rule(const Call& c) {
  const Tensor x = c.x();
  const Windows v(c, x);
  return {unfold(x, v.space("ksizes"),
                 {.strides = v.space("strides"),
                  .padding = v.padding(),
                  .dilation = c.attribute("rates") ? v.space("rates") : Dims()})};
}
// The maximum of each window of x plus the filter [height, width, channels]; there is nothing beyond the edges.
Values dilation_rule(const Call& c) {
  const Tensor x = c.x(0), filter = c.x(1);
  const Windows v(c, x);
  if (filter.ndim() != 3) c.reject("the filter is not [height, width, channels]");
  const Dims strides = v.space("strides"), rates = v.space("rates");
  std::vector<Padding> widths(4);
  for (size_t i = 0; i < 2 && c.text("padding", "") == "SAME"; ++i) {
    const Dim n = x.shape()[i + 1], reach = (filter.shape()[i] - 1) * rates[i] + 1;
    const Dim all = larger(((n + strides[i] - 1) / strides[i] - 1) * strides[i] + reach - n, 0);
    widths[i + 1] = {all / 2, all - all / 2};
  }
  const Tensor lowest = full({}, is_floating(x.dtype()) ? -INFINITY : 0, x.dtype());
  const Tensor patches =
      unfold(pad(x, widths, lowest), {filter.dim(0), filter.dim(1)}, {.strides = strides, .dilation = rates});
  Shape split(patches.shape().begin(), patches.shape().end() - 1);
  split.push_back(filter.dim(0) * filter.dim(1));
  split.push_back(filter.dim(2));
  return {max(reshape(patches, split) + reshape(filter, {filter.dim(0) * filter.dim(1), filter.dim(2)}), -2)};
}

}  // namespace

const RuleTable& image_rules() {
  static const RuleTable table = {
      {"ResizeBilinear", resize_rule<linear_taps>},
      {"ResizeBicubic", resize_rule<cubic_taps>},
      {"ResizeArea", resize_rule<area_taps>},
      {"ResizeNearestNeighbor", nearest_rule},
      {"ScaleAndTranslate", scale_and_translate_rule},
      {"CropAndResize", crop_rule},
      {"RGBToHSV", [](const Call& c) -> Values { return {hsv_of(c, c.x())}; }},
      {"HSVToRGB", [](const Call& c) -> Values { return {rgb_of(c, c.x())}; }},
      {"AdjustContrastv2", contrast_rule},
      {"AdjustHue", hue_rule},
      {"AdjustSaturation", saturation_rule},
      {"ExtractImagePatches", patches_rule},
      {"ExtractVolumePatches", patches_rule},
      {"Dilation2D", dilation_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
