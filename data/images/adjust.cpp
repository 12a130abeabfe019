// Adjustments and enhancements; see colour.h.
#include <cmath>

#include "rill/data/images/colour.h"
#include "rill/data/images/parts.h"

namespace rill::images {
namespace {

// NaN makes NaN of floats, which is seen; of integers it would make pixels like any others.
void require_number(std::string_view op, const Tensor& factor, const Tensor& x, const Where& where) {
  if (is_floating(x.dtype()) || !is_floating(factor.dtype()) || !only_values_count(factor)) return;
  for (const double v : factor.to_vector<double>())
    if (std::isnan(v))
      fail(op, fmt::format("the factor or difference is nan, which makes no pixels of {}", name(x.dtype())), where);
}

// A factor: one number, or one for each image of the batch, to broadcast with [..., height, width, channels].
Tensor beside(std::string_view op, const Tensor& factor, const Tensor& x, const Where& where) {
  require_real(op, factor, where);
  require_number(op, factor, x, where);
  const Tensor f = astype(factor, work_of(x.dtype())).to(x.device());
  if (f.ndim() == 0) return f;
  if (f.ndim() != x.ndim() - 3)
    fail(op,
         fmt::format("takes one number, or one for each image. operands: {}, {}", to_string(x.spec()),
                     to_string(factor.spec())),
         where);
  return expand_dims(f, {-1, -2, -3});
}

// factor x + (1 - factor) other, both on the image's own scale.
Tensor mixed(const Tensor& x, const Tensor& other, const Tensor& factor) {
  const double white = white_of(x.dtype());
  const Tensor y = clip(other + (astype(x, work_of(x.dtype())) - other) * factor, 0, white);
  return astype(y, x.dtype());  // integers are truncated
}

// 3 x 3 pixels, the middle one five times, over 13; the outermost stay.
Tensor smoothed(const Tensor& x) {
  const Tensor from = astype(x, work_of(x.dtype()));
  const int64_t h = height_of(x), w = width_of(x);
  if (h < 3 || w < 3) return from;
  Tensor sum = 4 * from(ellipsis, slice(1, h - 1), slice(1, w - 1), all);
  for (int64_t dy = 0; dy < 3; ++dy)
    for (int64_t dx = 0; dx < 3; ++dx) sum = sum + from(ellipsis, slice(dy, h - 2 + dy), slice(dx, w - 2 + dx), all);
  Tensor inner = sum / 13;
  if (!is_floating(x.dtype())) inner = floor(inner + 0.5);
  const Tensor middle = concat(
      {from(ellipsis, slice(1, h - 1), slice(0, 1), all), inner, from(ellipsis, slice(1, h - 1), slice(w - 1, w), all)},
      -2);
  return concat({from(ellipsis, slice(0, 1), all, all), middle, from(ellipsis, slice(h - 1, h), all, all)}, -3);
}

}  // namespace

Tensor adjust_brightness(const Tensor& x, const Tensor& delta, Where where) {
  const CallerScope caller(where);
  require_image("images::adjust_brightness", x, where);
  return from_unit(to_unit(x) + beside("images::adjust_brightness", delta, x, where), x.dtype());
}
Tensor adjust_contrast(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_image("images::adjust_contrast", x, where);
  const Tensor y = to_unit(x), middle = mean(y, {-3, -2}, true);
  return from_unit((y - middle) * beside("images::adjust_contrast", factor, x, where) + middle, x.dtype());
}
Tensor adjust_saturation(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_channels("images::adjust_saturation", x, 3, where);
  const Tensor hsv = rgb_to_hsv(to_unit(x));
  const Tensor s = clip(hsv(ellipsis, slice(1, 2)) * beside("images::adjust_saturation", factor, x, where), 0, 1);
  return from_unit(hsv_to_rgb(concat({hsv(ellipsis, slice(0, 1)), s, hsv(ellipsis, slice(2, 3))}, -1)), x.dtype());
}
Tensor adjust_hue(const Tensor& x, const Tensor& delta, Where where) {
  const CallerScope caller(where);
  require_channels("images::adjust_hue", x, 3, where);
  const Tensor hsv = rgb_to_hsv(to_unit(x));
  const Tensor h = hsv(ellipsis, slice(0, 1)) + beside("images::adjust_hue", delta, x, where);
  return from_unit(hsv_to_rgb(concat({h - stop_gradient(floor(h)), hsv(ellipsis, slice(1, 3))}, -1)), x.dtype());
}
Tensor adjust_gamma(const Tensor& x, double gamma, double gain, Where where) {
  const CallerScope caller(where);
  require_image("images::adjust_gamma", x, where);
  require_not_negative("images::adjust_gamma", "gamma", gamma, where);
  require_finite("images::adjust_gamma", "gain", gain, where);
  return from_unit(pow(to_unit(x), gamma) * gain, x.dtype());
}

Tensor enhance_brightness(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_image("images::enhance_brightness", x, where);
  const Tensor f = beside("images::enhance_brightness", factor, x, where);
  return mixed(x, zeros({}, {work_of(x.dtype()), x.device()}), f);
}
Tensor enhance_contrast(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_image("images::enhance_contrast", x, where);
  const Tensor f = beside("images::enhance_contrast", factor, x, where);
  const Tensor grey = x.shape().back() == 3 ? rgb_to_grayscale(x) : x;
  Tensor middle = mean(astype(grey, work_of(x.dtype())), {-3, -2, -1}, true);
  if (!is_floating(x.dtype())) middle = floor(middle + 0.5);
  return mixed(x, middle, f);
}
Tensor enhance_color(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_channels("images::enhance_color", x, 3, where);
  const Tensor f = beside("images::enhance_color", factor, x, where);
  return mixed(x, astype(rgb_to_grayscale(x), work_of(x.dtype())), f);
}
Tensor enhance_sharpness(const Tensor& x, const Tensor& factor, Where where) {
  const CallerScope caller(where);
  require_image("images::enhance_sharpness", x, where);
  return mixed(x, smoothed(x), beside("images::enhance_sharpness", factor, x, where));
}

}  // namespace rill::images
