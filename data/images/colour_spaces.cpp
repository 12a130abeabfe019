// Colour spaces; see colour.h. Matrices have a row for each new channel.
#include <array>

#include "rill/data/images/colour.h"
#include "rill/data/images/parts.h"

namespace rill::images {
namespace {

using Matrix = std::array<std::array<double, 3>, 3>;

// tensorflow/python/ops/image_ops_impl.py
constexpr Matrix yuv = {
    {{0.299, 0.587, 0.114}, {-0.14714119, -0.28886916, 0.43601035}, {0.61497538, -0.51496512, -0.10001026}}};
constexpr Matrix from_yuv = {{{1, 0, 1.13988303}, {1, -0.394642334, -0.58062185}, {1, 2.03206185, 0}}};
constexpr Matrix yiq = {
    {{0.299, 0.587, 0.114}, {0.59590059, -0.27455667, -0.32134392}, {0.2115, -0.52273617, 0.31119955}}};
constexpr Matrix from_yiq = {{{1, 0.95598634, 0.6208248}, {1, -0.27201283, -0.64720424}, {1, -1.10674021, 1.70423049}}};
// JFIF 1.02
constexpr Matrix ycbcr = {
    {{0.299, 0.587, 0.114}, {-0.168735892, -0.331264108, 0.5}, {0.5, -0.418687589, -0.081312411}}};
constexpr Matrix from_ycbcr = {{{1, 0, 1.402}, {1, -0.344136286, -0.714136286}, {1, 1.772, 0}}};
// IEC 61966-2-1: to XYZ by D65, and back.
constexpr Matrix xyz = {
    {{0.412453, 0.357580, 0.180423}, {0.212671, 0.715160, 0.072169}, {0.019334, 0.119193, 0.950227}}};
constexpr Matrix from_xyz = {{{3.24048134320, -1.53715151627, -0.49853632617},
                              {-0.96925494999, 1.87599000149, 0.04155592656},
                              {0.05564663913, -0.20404133837, 1.05731106964}}};
constexpr std::array<double, 3> white = {0.95047, 1, 1.08883};

std::array<Tensor, 3> channels_of(const Tensor& x) {
  return {x(ellipsis, slice(0, 1)), x(ellipsis, slice(1, 2)), x(ellipsis, slice(2, 3))};
}
Tensor joined(const std::array<Tensor, 3>& c) { return concat({c[0], c[1], c[2]}, -1); }
std::array<Tensor, 3> times(const Matrix& m, const std::array<Tensor, 3>& c) {
  std::array<Tensor, 3> out;
  for (size_t i = 0; i < 3; ++i) out[i] = c[0] * m[i][0] + c[1] * m[i][1] + c[2] * m[i][2];
  return out;
}
Tensor checked(std::string_view op, const Tensor& x, const Where& where) {
  require_channels(op, x, 3, where);
  return to_unit(x);
}
Tensor floating(const Tensor& y, const Tensor& x) { return is_floating(x.dtype()) ? astype(y, x.dtype()) : y; }
Tensor linear(std::string_view op, const Tensor& x, const Matrix& m, const Where& where, double before = 0,
              double after = 0) {
  std::array<Tensor, 3> c = channels_of(checked(op, x, where));
  if (before != 0) c[1] = c[1] - before, c[2] = c[2] - before;
  c = times(m, c);
  if (after != 0) c[1] = c[1] + after, c[2] = c[2] + after;
  return floating(joined(c), x);
}

}  // namespace

Tensor convert_dtype(const Tensor& x, DType dtype, Where where) {
  const CallerScope caller(where);
  require_real("images::convert_dtype", x, where);
  return x.dtype() == dtype ? x : from_unit(to_unit(x), dtype);
}

Tensor rgb_to_grayscale(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_channels("images::rgb_to_grayscale", x, 3, where);
  if (is_floating(x.dtype())) {
    const auto [r, g, b] = channels_of(astype(x, work_of(x.dtype())));
    return astype(r * 0.299 + g * 0.587 + b * 0.114, x.dtype());
  }
  const auto [r, g, b] = channels_of(astype(x, DType::i64));
  return astype(right_shift(r * 19595 + g * 38470 + b * 7471 + 32768, 16), x.dtype());
}
Tensor grayscale_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_channels("images::grayscale_to_rgb", x, 1, where);
  return concat({x, x, x}, -1);
}

Tensor rgb_to_hsv(const Tensor& x, Where where) {
  const CallerScope caller(where);
  const auto [r, g, b] = channels_of(checked("images::rgb_to_hsv", x, where));
  const Tensor value = maximum(maximum(r, g), b), range = value - minimum(minimum(r, g), b);
  const Tensor coloured = range > 0, norm = 1 / (6 * rill::where(coloured, range, 1));
  const Tensor saturation = rill::where(value > 0, range / rill::where(value > 0, value, 1), 0);
  const Tensor turn = rill::where(r == value, norm * (g - b),
                                  rill::where(g == value, norm * (b - r) + 2 / 6., norm * (r - g) + 4 / 6.));
  const Tensor hue = rill::where(coloured, rill::where(turn < 0, turn + 1, turn), 0);
  return floating(joined({hue, saturation, value}), x);
}
Tensor hsv_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  const auto [h, s, v] = channels_of(checked("images::hsv_to_rgb", x, where));
  const Tensor at = h * 6;
  const auto part = [&, &s = s, &v = v](const Tensor& strength) { return ((1 - s) + s * clip(strength, 0, 1)) * v; };
  return floating(joined({part(abs(at - 3) - 1), part(2 - abs(at - 2)), part(2 - abs(at - 4))}), x);
}

Tensor rgb_to_yuv(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::rgb_to_yuv", x, yuv, where);
}
Tensor yuv_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::yuv_to_rgb", x, from_yuv, where);
}
Tensor rgb_to_yiq(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::rgb_to_yiq", x, yiq, where);
}
Tensor yiq_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::yiq_to_rgb", x, from_yiq, where);
}
Tensor rgb_to_ycbcr(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::rgb_to_ycbcr", x, ycbcr, where, 0, 0.5);
}
Tensor ycbcr_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  return linear("images::ycbcr_to_rgb", x, from_ycbcr, where, 0.5, 0);
}

Tensor rgb_to_lab(const Tensor& x, Where where) {
  const CallerScope caller(where);
  const Tensor c = checked("images::rgb_to_lab", x, where), bright = c > 0.04045;
  // Numbers that are not selected are replaced by harmless ones before powers are taken, so that gradients are finite.
  const Tensor light = rill::where(bright, pow((rill::where(bright, c, 1) + 0.055) / 1.055, 2.4), c / 12.92);
  std::array<Tensor, 3> t = times(xyz, channels_of(light));
  for (size_t i = 0; i < 3; ++i) {
    const Tensor u = t[i] / white[i], large = u > 0.008856;
    t[i] = rill::where(large, cbrt(rill::where(large, u, 1)), 7.787 * u + 16 / 116.);
  }
  return floating(joined({116 * t[1] - 16, 500 * (t[0] - t[1]), 200 * (t[1] - t[2])}), x);
}
Tensor lab_to_rgb(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_channels("images::lab_to_rgb", x, 3, where);
  const auto [l, a, b] = channels_of(astype(x, work_of(x.dtype())));
  const Tensor y = (l + 16) / 116;
  std::array<Tensor, 3> t = {y + a / 500, y, maximum(y - b / 200, 0)};
  for (size_t i = 0; i < 3; ++i)
    t[i] = rill::where(t[i] > 0.2068966, t[i] * t[i] * t[i], (t[i] - 16 / 116.) / 7.787) * white[i];
  const Tensor light = joined(times(from_xyz, t)), bright = light > 0.0031308;
  const Tensor c = rill::where(bright, 1.055 * pow(rill::where(bright, light, 1), 1 / 2.4) - 0.055, light * 12.92);
  return floating(clip(c, 0, 1), x);
}

}  // namespace rill::images
