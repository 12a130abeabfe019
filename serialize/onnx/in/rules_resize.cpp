// Resize and Upsample, axis by axis: the elements that each result is a sum of are gathered and weighted; nearest
// neighbours are gathered. So both are differentiable in every mode, and take memory in proportion to the result.
#include <algorithm>
#include <cmath>
#include <optional>

#include "rill/ops/apply.h"
#include "rill/serialize/model/taps.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// An axis of the source and of the result. Their sizes may be open; everything that follows from them is computed as
// tensors, so that one trace resizes images of every size. Without open sizes these are constants of the trace.
struct AxisResize {
  Dim in, out;
  std::optional<double> scale = {};  // none: the ratio of the sizes
  double first = 0, last = 1;        // tf_crop_and_resize's part of the source

  bool is_open() const { return in.is_open() || out.is_open(); }
  bool does_nothing() const {
    if (first != 0 || last != 1 || scale.value_or(1) != 1) return false;
    return in.is_open() ? out.is_open() && in.number() == out.number() : !out.is_open() && in.plain() == out.plain();
  }
  Tensor in_size() const { return Tensor(in).astype(f64); }
  Tensor out_size() const { return Tensor(out).astype(f64); }
  Tensor factor() const { return scale ? Tensor(*scale).astype(f64) : out_size() / in_size(); }
  // For code that needs the number now.
  double number() const { return scale ? *scale : double(int64_t(out)) / double(int64_t(in)); }
};

// The coordinates in the source of each element of the result.
Tensor source_coordinates(const Call& c, const std::string& mode, const AxisResize& a) {
  const Tensor y = iota({a.out}, 0, f64), scale = a.factor(), size = a.in_size();
  const Tensor length = scale * size, most = size - 1.0, one = equal(length, 1.0);
  const auto unless_one = [&](const Tensor& otherwise, const Tensor& of_one) { return where(one, of_one, otherwise); };
  const Tensor steps = where(one, ones_like(length), length - 1.0);
  if (mode == "asymmetric") return y / scale;
  if (mode == "align_corners") return unless_one(y * most / steps, zeros_like(y));
  if (mode == "half_pixel") return (y + 0.5) / scale - 0.5;
  if (mode == "pytorch_half_pixel") return unless_one((y + 0.5) / scale - 0.5, full({a.out}, -0.5, f64));
  if (mode == "half_pixel_symmetric") return size / 2.0 * (1.0 - a.out_size() / length) + (y + 0.5) / scale - 0.5;
  if (mode == "tf_half_pixel_for_nn") return (y + 0.5) / scale;
  if (mode == "tf_crop_and_resize") {
    const Tensor part = most * (a.last - a.first);
    return most * a.first + unless_one(y * part / steps, zeros_like(y) + part / 2.0);
  }
  c.reject("an unknown coordinate_transformation_mode, '" + mode + "'");
}

// Before opset 11 it is unspecified; ONNX's own examples round down when enlarging, and up when shrinking.
std::string nearest_mode(const Call& c, const AxisResize& a) {
  if (c.opset < 11) return a.number() < 1 ? "ceil" : "floor";
  return c.text("nearest_mode", "round_prefer_floor");
}
Tensor nearest(const std::string& mode, const Tensor& x) {
  if (mode == "floor") return floor(x);
  if (mode == "ceil") return ceil(x);
  if (mode == "round_prefer_ceil") return floor(x + 0.5);
  return ceil(x - 0.5);
}
Tensor within_source(const Tensor& positions, const AxisResize& a) {
  return maximum(minimum(positions, a.in_size() - 1.0), 0.0).astype(i64);
}

// The source continues as its edges do.
imported::TapTensors taps_of(const Call& c, const Tensor& positions, const AxisResize& a) {
  const bool cubic = c.text("mode", "nearest") == "cubic";
  const double shrink = c.flag("antialias") ? std::min(a.number(), 1.0) : 1.0;
  const auto reach = int64_t(std::ceil((cubic ? 2 : 1) / shrink));
  // From floor(x) - reach + 1 to floor(x) + reach: taps beyond are out of the filter's reach.
  const Tensor x = expand_dims(positions, 1);
  const Tensor at = floor(x) + (iota({2 * reach}, 0, f64) + double(1 - reach));
  const Tensor d = (at - x) * shrink;
  Tensor w = cubic ? imported::cubic_weights(d, c.real("cubic_coeff_a", -0.75)) : imported::linear_weights(d);
  if (c.flag("exclude_outside"))
    w = where(logical_and(greater_equal(at, 0.0), less(at, a.in_size())), w, zeros_like(w));
  const Tensor total = sum(w, ReduceOptions{.axis = 1, .keepdims = true});
  return {2 * reach, within_source(at, a), w / where(equal(total, 0.0), ones_like(total), total)};
}

// How often each element is repeated, if that is all that a resize does; else 0.
int64_t repeats(const Call& c, const AxisResize& a, const std::string& mode, const std::string& coordinates) {
  const double k = a.scale.value_or(0);
  if (mode != "nearest" || k < 1 || k > 64 || k != std::floor(k)) return 0;
  const std::string near = nearest_mode(c, a);
  const bool floors = coordinates == "asymmetric" && near == "floor";
  const bool halves = coordinates.ends_with("half_pixel") && near == "round_prefer_floor";
  return floors || halves ? int64_t(k) : 0;
}

Tensor resized(const Call& c, const Tensor& x, int64_t axis, const AxisResize& a, const std::string& coordinates) {
  const std::string mode = c.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") c.reject("an unknown mode, '" + mode + "'");
  if (const int64_t k = repeats(c, a, mode, coordinates)) return repeat(x, k, Axis(axis));
  Tensor positions, outside;
  imported::TapTensors taps;
  {
    std::optional<EagerScope> constant;
    if (!a.is_open()) constant.emplace();
    const Tensor at = source_coordinates(c, coordinates, a);
    outside = logical_or(less(at, 0.0), greater(at, a.in_size() - 1.0));
    if (mode == "nearest") positions = within_source(nearest(nearest_mode(c, a), at), a);
    else taps = taps_of(c, at, a);
  }
  Tensor y = mode == "nearest" ? take(x, positions, Axis(axis)) : imported::weighted(x, axis, taps);
  if (coordinates == "tf_crop_and_resize")
    y = where(along_channels(outside, x.ndim(), axis), full({}, Tensor(c.real("extrapolation_value", 0)), y.dtype()),
              y);
  return y;
}

// floor(n * scale): for an open size, if the scale is a small fraction.
Dim scaled(Dim n, double scale) {
  for (int64_t q = 1; n.is_open() && q <= 64; ++q) {
    const double p = std::round(scale * double(q)), fraction = p / double(q);
    if (float(fraction) == float(scale) && fraction <= scale && p < 1e6) return n * int64_t(p) / q;
  }
  return int64_t(std::floor(double(int64_t(n)) * scale + 1e-9));
}

// Scales and sizes of the named axes, or of all.
std::vector<AxisResize> plan(const Call& c, const Tensor& x, const Dims& axes, size_t scales_at, size_t sizes_at) {
  std::vector<AxisResize> all;
  const bool by_size = c.has(sizes_at) && (c.in[sizes_at].kind == Value::Kind::sizes || c.x(sizes_at).size() != 0);
  const Dims sizes = by_size ? c.dims(sizes_at) : Dims();
  const std::vector<double> scales = by_size                     ? std::vector<double>()
                                     : c.has_attribute("scales") ? c.reals("scales")
                                                                 : c.numbers(scales_at);
  const std::vector<double> roi =
      c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" ? c.numbers(1) : std::vector<double>();
  if ((by_size ? sizes.size() : scales.size()) != axes.size() || (!roi.empty() && roi.size() != 2 * axes.size()))
    c.reject("its scales, sizes or roi do not have an entry for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisResize a{x.dim(axis_of(c, axes[i], x.ndim())), 0};
    if (by_size) a.out = sizes[i];
    else a.scale = scales[i];
    if (!by_size && !(scales[i] > 0)) c.reject("a size or scale that is not positive");
    if (!by_size) a.out = scaled(a.in, scales[i]);
    if (!roi.empty()) a.first = roi[i], a.last = roi[i + axes.size()];
    if (a.out.hint() < (by_size ? 1 : 0) || a.in.hint() < 1) c.reject("a size or scale that is not positive");
    all.push_back(a);
  }
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (!by_size || policy == "stretch") return all;
  double scale = all[0].number();
  for (const AxisResize& a : all)
    scale = policy == "not_larger" ? std::min(scale, a.number()) : std::max(scale, a.number());
  for (AxisResize& a : all) a.scale = scale, a.out = int64_t(std::floor(scale * double(int64_t(a.in)) + 0.5));
  return all;
}

Values resize_by(const Call& c, size_t scales_at, size_t sizes_at, const std::string& coordinates) {
  const Tensor x = c.x(0);
  Dims axes = c.integers("axes");
  if (axes.empty())
    for (int64_t i = 0; i < x.ndim(); ++i) axes.push_back(i);
  const std::vector<AxisResize> steps = plan(c, x, axes, scales_at, sizes_at);
  Tensor y = x;
  for (size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].does_nothing()) y = resized(c, y, axis_of(c, axes[i], x.ndim()), steps[i], coordinates);
  if (is_integer(x.dtype()) && is_floating(y.dtype())) {  // cubic weights overshoot
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

// [n, c, h, w] sampled at points in [-1, 1] for each axis of space: [n, h', w', 2], the last axis x before y.
struct Sampler {
  const Call& c;
  Tensor x;  // [n, c, space...]
  bool corners;
  std::string outside;

  // The element of each point, given as integers [n, points] for each axis of space.
  Tensor at(const std::vector<Tensor>& positions) const {
    const int64_t n = x.ndim() - 2;
    Tensor inside;
    GatherAttrs attrs;
    std::vector<Tensor> indices = {iota(positions[0].shape(), 0)};
    attrs.axes = {0};
    for (int64_t i = 0; i < n; ++i) {
      const Tensor last = Tensor(x.dim(i + 2) - 1).astype(f64);
      const Tensor& p = positions[size_t(i)];
      const Tensor here = logical_and(greater_equal(p, 0.0), less_equal(p, last));
      inside = inside.defined() ? logical_and(inside, here) : here;
      indices.push_back(clip(within(p, i), 0.0, last).astype(i64));
      attrs.axes.push_back(i + 2);
    }
    const Tensor y = gather(x, indices, attrs);  // [n, points, c]
    return outside == "zeros" ? where(expand_dims(inside, -1), y, zeros_like(y)) : y;
  }
  // Reflected back into the source if requested.
  Tensor within(const Tensor& p, int64_t i) const {
    if (outside != "reflection") return p;
    const double size = double(int64_t(x.dim(i + 2)));
    const double low = corners ? 0 : -0.5, high = corners ? size - 1 : size - 0.5, span = high - low;
    if (span <= 0) return zeros_like(p);
    const Tensor far = remainder(p - low, 2 * span);
    return where(greater(far, span), 2 * span - far, far) + low;
  }
};

// The sum over each combination of taps along the axes of space: the element times the product of the weights.
template <class Weight>
Tensor tapped(const Sampler& s, const std::vector<Tensor>& positions, int64_t first, int64_t last, Weight weight) {
  const size_t n = positions.size();
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
      const Tensor base = floor(positions[i]), here = base + double(tap), part = weight(here - positions[i]);
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
  std::vector<Tensor> positions;
  const Tensor points = reshape(grid, {grid.dim(0), -1, n}).astype(f64);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor p = points(all, all, n - 1 - i), size = Tensor(x.dim(i + 2)).astype(f64);
    const Tensor position = s.corners ? (p + 1.0) / 2.0 * (size - 1.0) : ((p + 1.0) * size - 1.0) / 2.0;
    positions.push_back(mode == "cubic" ? position : s.within(position, i));
  }
  Tensor y;
  if (mode == "nearest") {
    for (Tensor& p : positions) p = round(p);
    y = s.at(positions);
  } else if (mode == "linear") {
    y = tapped(s, positions, 0, 1, [](const Tensor& d) { return maximum(1.0 - abs(d), 0.0); });
  } else {
    y = tapped(s, positions, -1, 2, [](const Tensor& given) {
      const Tensor d = abs(given), near = (1.25 * d - 2.25) * d * d + 1.0;
      const Tensor far = ((d - 5.0) * d + 8.0) * d * -0.75 + 3.0;
      return where(less_equal(d, 1.0), near, where(less(d, 2.0), far, zeros_like(d)));
    });
  }
  Shape shape = {x.dim(0), x.dim(1)};
  for (int64_t i = 0; i < n; ++i) shape.push_back(grid.dim(i + 1));
  return {reshape(swapaxes(y, 1, 2), shape)};
}

// The points in [-1, 1] to which affine maps [n, d, d + 1] send a grid.
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
