// Resize and Upsample, axis by axis: the elements that make one of the result are gathered and weighted; nearest
// neighbours are picked. So both are differentiable, whatever the mode, and take memory in proportion to the result.
#include <algorithm>
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/serialize/model/taps.h"
#include "rill/serialize/onnx/interpreter.h"

namespace rill::onnx_import {
namespace {

using imported::Taps;

struct AxisResize {
  int64_t in, out;
  double scale;
  double first = 0, last = 1;  // tf_crop_and_resize's part of the source
};

// Where in the source the result's place `i` lies.
double source_place(const Call& c, const std::string& mode, const AxisResize& a, int64_t i) {
  const double length = a.scale * double(a.in), most = double(a.in - 1), y = double(i);
  if (mode == "asymmetric") return y / a.scale;
  if (mode == "align_corners") return length == 1 ? 0 : y * most / (length - 1);
  if (mode == "half_pixel") return (y + 0.5) / a.scale - 0.5;
  if (mode == "pytorch_half_pixel") return length == 1 ? -0.5 : (y + 0.5) / a.scale - 0.5;
  if (mode == "half_pixel_symmetric")
    return double(a.in) / 2 * (1 - double(a.out) / length) + (y + 0.5) / a.scale - 0.5;
  if (mode == "tf_half_pixel_for_nn") return (y + 0.5) / a.scale;
  if (mode == "tf_crop_and_resize")
    return a.first * most +
           (length == 1 ? (a.last - a.first) * most / 2 : y * (a.last - a.first) * most / (length - 1));
  c.reject("an unknown coordinate_transformation_mode, '" + mode + "'");
}

double nearest(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

// The source goes on as its edges do.
Taps taps_of(const Call& c, const std::string& mode, const AxisResize& a) {
  const bool cubic = c.text("mode", "nearest") == "cubic", exclude = c.flag("exclude_outside");
  const double coefficient = c.real("cubic_coeff_a", -0.75);
  const double shrink = c.flag("antialias") ? std::min(a.scale, 1.0) : 1.0;
  const auto reach = int64_t(std::ceil((cubic ? 2 : 1) / shrink));
  // From floor(x) - reach + 1 to floor(x) + reach: those beyond are as far away as the filter reaches.
  Taps taps{2 * reach};
  for (int64_t i = 0; i < a.out; ++i) {
    const double x = source_place(c, mode, a, i);
    const auto first = int64_t(std::floor(x)) - reach + 1;
    double total = 0;
    for (int64_t j = first; j < first + taps.count; ++j) {
      const double d = (double(j) - x) * shrink;
      const bool counts = !exclude || (j >= 0 && j < a.in);
      const double w = !counts ? 0 : cubic ? imported::cubic_weight(d, coefficient) : imported::linear_weight(d);
      taps.add(std::clamp<int64_t>(j, 0, a.in - 1), w);
      total += w;
    }
    for (int64_t k = 0; total != 0 && k < taps.count; ++k) taps.weights[size_t(i * taps.count + k)] /= total;
  }
  return taps;
}

// Before opset 11 nobody says it, and ONNX's own examples round down where they enlarge, and up where they shrink.
std::string nearest_mode(const Call& c, const AxisResize& a) {
  if (c.opset < 11) return a.scale < 1 ? "ceil" : "floor";
  return c.text("nearest_mode", "round_prefer_floor");
}

Tensor resized(const Call& c, const Tensor& x, int64_t axis, const AxisResize& a, const std::string& coordinates) {
  const std::string mode = c.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") c.reject("an unknown mode, '" + mode + "'");
  Tensor places, outside;
  {
    const EagerScope eager;
    std::vector<int64_t> all;
    std::vector<bool> beyond;
    for (int64_t i = 0; i < a.out; ++i) {
      const double at = source_place(c, coordinates, a, i);
      beyond.push_back(at < 0 || at > double(a.in - 1));
      const double near = nearest(nearest_mode(c, a), at);
      all.push_back(std::clamp<int64_t>(int64_t(near), 0, a.in - 1));
    }
    places = tensor(all, Shape{a.out});
    outside = tensor(beyond, Shape{a.out});
  }
  Tensor y = mode == "nearest" ? take(x, places, Axis(axis)) : imported::weighted(x, axis, taps_of(c, coordinates, a));
  if (coordinates == "tf_crop_and_resize")
    y = where(along_channels(outside, x.ndim(), axis), full({}, Tensor(c.real("extrapolation_value", 0)), y.dtype()),
              y);
  return y;
}

// Scales and sizes of the axes that are named, or of all.
std::vector<AxisResize> plan(const Call& c, const Tensor& x, const Dims& axes, size_t scales_at, size_t sizes_at) {
  std::vector<AxisResize> all;
  const bool by_size = c.has(sizes_at) && c.x(sizes_at).size() != 0;
  const Dims sizes = by_size ? c.dims(sizes_at) : Dims();
  const std::vector<double> scales = by_size                     ? std::vector<double>()
                                     : c.has_attribute("scales") ? c.reals("scales")
                                                                 : c.numbers(scales_at);
  const std::vector<double> roi =
      c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" ? c.numbers(1) : std::vector<double>();
  if ((by_size ? sizes.size() : scales.size()) != axes.size() || (!roi.empty() && roi.size() != 2 * axes.size()))
    c.reject("its scales, sizes or roi do not have an entry for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t in = x.dim(axis_of(c, axes[i], x.ndim()));
    AxisResize a{in, 0, 1};
    if (by_size) a.out = sizes[i], a.scale = double(a.out) / double(in);
    else a.scale = scales[i], a.out = int64_t(std::floor(double(in) * scales[i] + 1e-9));
    if (!roi.empty()) a.first = roi[i], a.last = roi[i + axes.size()];
    if (!(a.scale > 0) || a.out < 0 || in < 1) c.reject("a size or scale that is not positive");
    all.push_back(a);
  }
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (!by_size || policy == "stretch") return all;
  double scale = all[0].scale;
  for (const AxisResize& a : all) scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (AxisResize& a : all) a.scale = scale, a.out = int64_t(std::floor(scale * double(a.in) + 0.5));
  return all;
}

Values resize_by(const Call& c, size_t scales_at, size_t sizes_at, const std::string& coordinates) {
  const Tensor x = c.x(0);
  Dims axes = c.integers("axes");
  if (axes.empty())
    for (int64_t i = 0; i < x.ndim(); ++i) axes.push_back(i);
  const std::vector<AxisResize> steps = plan(c, x, axes, scales_at, sizes_at);
  Tensor y = x;
  for (size_t i = 0; i < steps.size(); ++i) {
    const AxisResize& a = steps[i];
    if (a.in == a.out && a.scale == 1 && a.first == 0 && a.last == 1) continue;
    y = resized(c, y, axis_of(c, axes[i], x.ndim()), a, coordinates);
  }
  if (is_integer(x.dtype()) && is_floating(y.dtype())) {  // cubic weights go beyond what they weigh
    const IntegerInfo range = iinfo(x.dtype());
    y = clip(round(y), double(range.min), double(range.max));
  }
  return {y.astype(x.dtype())};
}

Values resize_rule(const Call& c) {
  if (c.opset < 11) return resize_by(c, 1, SIZE_MAX, "asymmetric");
  return resize_by(c, 2, 3, c.text("coordinate_transformation_mode", "half_pixel"));
}
Values upsample_rule(const Call& c) { return resize_by(c, 1, SIZE_MAX, "asymmetric"); }

// [n, c, h, w] read at places in [-1, 1] of each axis of space: [n, h', w', 2], the last axis x before y.
struct Sampler {
  const Call& c;
  Tensor x;  // [n, c, space...]
  bool corners;
  std::string outside;

  // The element of each place, given as whole numbers [n, points] for each axis of space.
  Tensor at(const std::vector<Tensor>& places) const {
    const int64_t n = x.ndim() - 2;
    Tensor inside;
    GatherAttrs attrs;
    std::vector<Tensor> indices = {iota(places[0].shape(), 0)};
    attrs.axes = {0};
    for (int64_t i = 0; i < n; ++i) {
      const Tensor last = Tensor(x.dim(i + 2) - 1).astype(f64);
      const Tensor& p = places[size_t(i)];
      const Tensor here = logical_and(greater_equal(p, 0.0), less_equal(p, last));
      inside = inside.defined() ? logical_and(inside, here) : here;
      indices.push_back(clip(within(p, i), 0.0, last).astype(i64));
      attrs.axes.push_back(i + 2);
    }
    const Tensor y = gather(x, indices, attrs);  // [n, points, c]
    return outside == "zeros" ? where(expand_dims(inside, -1), y, zeros_like(y)) : y;
  }
  // Mirrored back into the source where that is asked for.
  Tensor within(const Tensor& p, int64_t i) const {
    if (outside != "reflection") return p;
    const double size = double(int64_t(x.dim(i + 2)));
    const double low = corners ? 0 : -0.5, high = corners ? size - 1 : size - 0.5, span = high - low;
    if (span <= 0) return zeros_like(p);
    const Tensor far = remainder(p - low, 2 * span);
    return where(greater(far, span), 2 * span - far, far) + low;
  }
};

// For each combination of taps along the axes of space: the element there times the product of the weights.
template <class Weight>
Tensor tapped(const Sampler& s, const std::vector<Tensor>& places, int64_t first, int64_t last, Weight weight) {
  const size_t n = places.size();
  const int64_t taps = last - first + 1;
  int64_t all = 1;
  for (size_t i = 0; i < n; ++i) all *= taps;
  Tensor total;
  for (int64_t k = 0; k < all; ++k) {
    int64_t rest = k;
    std::vector<Tensor> at;
    Tensor w;
    for (size_t i = 0; i < n; ++i) {
      const int64_t tap = first + rest % taps;
      rest /= taps;
      const Tensor base = floor(places[i]), here = base + double(tap), part = weight(here - places[i]);
      at.push_back(here);
      w = w.defined() ? w * part : part;
    }
    const Tensor y = s.at(at) * expand_dims(w, -1).astype(s.x.dtype());
    total = total.defined() ? total + y : y;
  }
  return total;
}

Values grid_sample_rule(const Call& c) {
  const Tensor x = c.x(0), grid = c.x(1);
  const int64_t n = x.ndim() - 2;
  if (n < 1 || grid.ndim() != n + 2 || grid.dim(-1) != n) c.reject("its grid does not fit its operand");
  std::string mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear");
  if (mode.starts_with("bi")) mode = mode.substr(2);
  const Sampler s{c, x, c.flag("align_corners"), c.text("padding_mode", "zeros")};
  std::vector<Tensor> places;
  const Tensor points = reshape(grid, {grid.dim(0), -1, n}).astype(f64);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor p = points(all, all, n - 1 - i), size = Tensor(x.dim(i + 2)).astype(f64);
    const Tensor position = s.corners ? (p + 1.0) / 2.0 * (size - 1.0) : ((p + 1.0) * size - 1.0) / 2.0;
    places.push_back(mode == "cubic" ? position : s.within(position, i));
  }
  Tensor y;
  if (mode == "nearest") {
    for (Tensor& p : places) p = round(p);
    y = s.at(places);
  } else if (mode == "linear") {
    y = tapped(s, places, 0, 1, [](const Tensor& d) { return maximum(1.0 - abs(d), 0.0); });
  } else {
    y = tapped(s, places, -1, 2, [](const Tensor& given) {
      const Tensor d = abs(given), near = (1.25 * d - 2.25) * d * d + 1.0;
      const Tensor far = ((d - 5.0) * d + 8.0) * d * -0.75 + 3.0;
      return where(less_equal(d, 1.0), near, where(less(d, 2.0), far, zeros_like(d)));
    });
  }
  Shape shape = {x.dim(0), x.dim(1)};
  for (int64_t i = 0; i < n; ++i) shape.push_back(grid.dim(i + 1));
  return {reshape(swapaxes(y, 1, 2), shape)};
}

// The places in [-1, 1] that affine maps [n, d, d + 1] send a grid to.
Values affine_grid_rule(const Call& c) {
  const Tensor theta = c.x(0);
  const Dims size = c.dims(1);
  const size_t n = size.size() - 2;
  if (size.size() < 4 || theta.ndim() != 3) c.reject("takes [n, d, d + 1] and the sizes [n, c, space...]");
  std::vector<Tensor> axes;
  Shape space;
  for (size_t i = 0; i < n; ++i) space.push_back(size[i + 2]);
  for (size_t i = n; i-- > 0;) {  // x comes first
    const Tensor at = iota(space, int64_t(i)).astype(theta.dtype()), count = Tensor(size[i + 2]).astype(theta.dtype());
    axes.push_back(c.flag("align_corners") ? at * 2 / (count - 1) - 1 : (at * 2 + 1) / count - 1);
  }
  axes.push_back(ones(space, theta.dtype()));
  const Tensor points = reshape(stack(axes, -1), {-1, int64_t(n) + 1});
  Shape out = {size[0]};
  for (Dim d : space) out.push_back(d);
  out.push_back(int64_t(n));
  return {reshape(matmul(points, matrix_transpose(theta)), out)};
}

}  // namespace

const RuleTable& resize_rules() {
  static const RuleTable table = {
      {"AffineGrid", {affine_grid_rule, 0b10}},
      {"GridSample", {grid_sample_rule}},
      {"Resize", {resize_rule, 0b1110}},
      {"Upsample", {upsample_rule, 0b10}},
  };
  return table;
}

}  // namespace rill::onnx_import
