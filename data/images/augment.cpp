// Images changed by chance; see augment.h. Draws are numbered, so that each has a key of its own.
#include "rill/data/images/augment.h"

#include <algorithm>
#include <cmath>

#include "rill/data/images/colour.h"
#include "rill/data/images/draws.h"
#include "rill/data/images/geometry.h"
#include "rill/data/images/parts.h"
#include "rill/ops/distributions.h"

namespace rill::images {
namespace {

void require_range(std::string_view op, std::string_view name, std::pair<double, double> r, double least,
                   const Where& where) {
  if (!(r.first >= least && r.first <= r.second && std::isfinite(r.second)))
    fail(op,
         fmt::format("{} goes from {} to {}, and must not begin below {} or end before it begins", name, r.first,
                     r.second, least),
         where);
}

void require_chance(std::string_view op, double p, const Where& where) {
  require_option(p >= 0 && p <= 1, op, "p", p, "a probability, from 0 to 1", where);
}

// One draw an image: [...] in [low, high).
Tensor each_image(const Tensor& x, double low, double high, Draws& draws) {
  const Shape shape = leading_axes(x);
  const DType work = work_of(x.dtype());
  if (!(low < high)) return full(shape, low, {work, x.device()});
  return random::uniform(shape, {.low = low, .high = high, .dtype = work, .key = draws.next(), .device = x.device()});
}
// Each image of x as `other` has it, by chance.
Tensor by_chance(const Tensor& x, const Tensor& other, double p, Draws& draws) {
  const Tensor chosen = each_image(x, 0, 1, draws) < p;
  if (x.ndim() == 3 && only_values_count(x) && !chosen.is_symbolic()) return chosen.item<bool>() ? other : x;
  return rill::where(expand_dims(chosen, {-1, -2, -3}), other, x);
}

// {height, width} of a part of random area and proportions that fits into h x w; false where ten draws give none.
bool draw_part(int64_t h, int64_t w, std::pair<double, double> scale, std::pair<double, double> ratio, Draws& draws,
               Dims& part) {
  for (int i = 0; i < 10; ++i) {
    const double area = double(h) * double(w) * draws.number(scale.first, scale.second);
    const double proportion = std::exp(draws.number(std::log(ratio.first), std::log(ratio.second)));
    part = {std::llround(std::sqrt(area / proportion)), std::llround(std::sqrt(area * proportion))};
    if (part[0] >= 1 && part[0] <= h && part[1] >= 1 && part[1] <= w) return true;
  }
  return false;
}

// Whether each pixel is inside of rows and columns that are given as [..., 1, 1, 1]: [..., h, w, 1].
Tensor inside_of(const Tensor& x, const Tensor& top, const Tensor& left, const Tensor& bottom, const Tensor& right) {
  const TensorOptions made = {.dtype = DType::i64, .device = x.device()};
  const Tensor y = reshape(arange(height_of(x), made), {-1, 1, 1}), at = reshape(arange(width_of(x), made), {1, -1, 1});
  return logical_and(logical_and(y >= top, y < bottom), logical_and(at >= left, at < right));
}
Tensor inside_of(const Tensor& x, int64_t top, int64_t left, int64_t h, int64_t w) {
  return inside_of(x, Tensor(top), Tensor(left), Tensor(top + h), Tensor(left + w));
}

}  // namespace

Tensor random_flip_left_right(const Tensor& x, const ChanceOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_flip_left_right", x, where);
  require_chance("images::random_flip_left_right", o.p, where);
  Draws draws(o.key);
  return by_chance(x, flip_left_right(x), o.p, draws);
}
Tensor random_flip_up_down(const Tensor& x, const ChanceOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_flip_up_down", x, where);
  require_chance("images::random_flip_up_down", o.p, where);
  Draws draws(o.key);
  return by_chance(x, flip_up_down(x), o.p, draws);
}

Tensor random_crop(const Tensor& x, const Dims& size, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_crop", x, where);
  require_size("images::random_crop", size, where);
  const int64_t down = int64_t(height_of(x)) - size[0], right = int64_t(width_of(x)) - size[1];
  if (down < 0 || right < 0)
    fail("images::random_crop",
         fmt::format("{} pixels are more than {} has", to_string(Shape(size)), to_string(x.spec())), where);
  Draws draws(o.key);
  const Tensor top = random::randint(0, down + 1, {}, {.key = draws.next(), .device = x.device()});
  const Tensor left = random::randint(0, right + 1, {}, {.key = draws.next(), .device = x.device()});
  if (!top.is_symbolic() && !x.is_symbolic()) return crop(x, {top.item<int64_t>(), left.item<int64_t>()}, size);
  const TensorOptions made = {.dtype = DType::i64, .device = x.device()};
  return take(take(x, top + arange(size[0], made), -3), left + arange(size[1], made), -2);
}

Tensor random_resized_crop(const Tensor& x, const Dims& size, const ResizedCropOptions& o, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::random_resized_crop";
  require_image(op, x, where);
  require_size(op, size, where);
  require_range(op, "scale", o.scale, 0, where);
  require_range(op, "ratio", o.ratio, 1e-9, where);
  const int64_t h = height_of(x), w = width_of(x);
  Draws draws(o.key);
  Dims part, at;
  if (draw_part(h, w, o.scale, o.ratio, draws, part)) {
    at = {draws.whole(h - part[0] + 1), draws.whole(w - part[1] + 1)};
  } else {  // the middle, of proportions as near as may be
    const double proportion = std::clamp(double(w) / double(h), o.ratio.first, o.ratio.second);
    part = {std::clamp<int64_t>(std::llround(double(w) / proportion), 1, h),
            std::clamp<int64_t>(std::llround(double(h) * proportion), 1, w)};
    at = {(h - part[0]) / 2, (w - part[1]) / 2};
  }
  return resize(crop(x, at, part), size, {.antialias = o.antialias});
}

Tensor random_brightness(const Tensor& x, double max_delta, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_brightness", x, where);
  require_not_negative("images::random_brightness", "max_delta", max_delta, where);
  Draws draws(o.key);
  return adjust_brightness(x, each_image(x, -max_delta, max_delta, draws));
}
Tensor random_contrast(const Tensor& x, double low, double high, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_contrast", x, where);
  require_range("images::random_contrast", "the factor", {low, high}, 0, where);
  Draws draws(o.key);
  return adjust_contrast(x, each_image(x, low, high, draws));
}
Tensor random_saturation(const Tensor& x, double low, double high, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_channels("images::random_saturation", x, 3, where);
  require_range("images::random_saturation", "the factor", {low, high}, 0, where);
  Draws draws(o.key);
  return adjust_saturation(x, each_image(x, low, high, draws));
}
Tensor random_hue(const Tensor& x, double max_delta, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_channels("images::random_hue", x, 3, where);
  require_not_negative("images::random_hue", "max_delta", max_delta, where);
  Draws draws(o.key);
  return adjust_hue(x, each_image(x, -max_delta, max_delta, draws));
}
Tensor random_rotation(const Tensor& x, double degrees, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::random_rotation", x, where);
  require_not_negative("images::random_rotation", "degrees", degrees, where);
  Draws draws(o.key);
  // As rotate() makes it, of each image's own angle.
  const Tensor angle = reshape(each_image(x, -degrees, degrees, draws), {-1}) * -0.017453292519943295;
  const double h = double(int64_t(height_of(x))) / 2, w = double(int64_t(width_of(x))) / 2;
  const Tensor c = cos(angle), s = sin(angle), nothing = zeros_like(c);
  return warp(x, stack({c, s, w - c * w - s * h, -s, c, h + s * w - c * h, nothing, nothing}, -1));
}

Tensor color_jitter(const Tensor& x, const JitterOptions& o, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::color_jitter";
  require_channels(op, x, 3, where);
  for (double v : {o.brightness, o.contrast, o.saturation, o.hue}) require_not_negative(op, "an amount", v, where);
  require_option(o.hue <= 0.5, op, "hue", o.hue, "at most 0.5", where);
  Draws draws(o.key);
  const auto factor = [&](double v) { return each_image(x, std::max(0.0, 1 - v), 1 + v, draws); };
  Tensor y = x;
  if (o.brightness > 0) y = enhance_brightness(y, factor(o.brightness));
  if (o.contrast > 0) y = enhance_contrast(y, factor(o.contrast));
  if (o.saturation > 0) y = enhance_color(y, factor(o.saturation));
  if (o.hue > 0) y = adjust_hue(y, each_image(x, -o.hue, o.hue, draws));
  return y;
}

Tensor cutout(const Tensor& x, int64_t size, double value, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::cutout", x, where);
  require_option(size >= 0, "images::cutout", "size", size, "0 or more", where);
  Draws draws(o.key);
  const auto place = [&](int64_t n) {
    const Tensor middle =
        random::randint(0, std::max<int64_t>(n, 1), leading_axes(x), {.key = draws.next(), .device = x.device()});
    return expand_dims(middle, {-1, -2, -3}) - size / 2;
  };
  const Tensor top = place(height_of(x)), left = place(width_of(x));
  return rill::where(inside_of(x, top, left, top + size, left + size), astype(Tensor(value), x.dtype()), x);
}

Tensor random_erasing(const Tensor& x, const ErasingOptions& o, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::random_erasing";
  require_image(op, x, where);
  require_chance(op, o.p, where);
  require_range(op, "scale", o.scale, 0, where);
  require_range(op, "ratio", o.ratio, 1e-9, where);
  const int64_t h = height_of(x), w = width_of(x);
  Draws draws(o.key);
  Dims part;
  if (!(draws.number(0, 1) < o.p) || !draw_part(h, w, o.scale, {1 / o.ratio.second, 1 / o.ratio.first}, draws, part))
    return x;
  const int64_t top = draws.whole(h - part[0] + 1), left = draws.whole(w - part[1] + 1);
  return rill::where(inside_of(x, top, left, part[0], part[1]), astype(Tensor(o.value), x.dtype()), x);
}

namespace {

void require_batch(std::string_view op, const Tensor& x, const Tensor& labels, double alpha, const Where& where) {
  require_image(op, x, where);
  require_real(op, labels, where);
  require_option(alpha > 0 && std::isfinite(alpha), op, "alpha", alpha, "positive", where);
  if (x.ndim() != 4 || labels.ndim() != 2 || labels.shape()[0] != x.shape()[0] || !is_floating(labels.dtype()))
    fail(op,
         fmt::format(
             "takes a batch of images and floating labels [batch, classes] (one_hot() makes them). operands: {}, "
             "{}",
             to_string(x.spec()), to_string(labels.spec())),
         where);
}
Tensor share_of(const Tensor& x, double alpha, Draws& draws) {
  const Tensor a = full({}, alpha, {DType::f32, x.device()});
  return random::beta(a, a, {}, {.key = draws.next(), .device = x.device()});
}
Tensor before(const Tensor& x) { return roll(x, 1, 0); }

}  // namespace

std::pair<Tensor, Tensor> mixup(const Tensor& x, const Tensor& labels, const MixOptions& o, Where where) {
  const CallerScope caller(where);
  require_batch("images::mixup", x, labels, o.alpha, where);
  Draws draws(o.key);
  const Tensor share = share_of(x, o.alpha, draws);
  const auto mixed = [&](const Tensor& t) {
    const Tensor y = astype(t, work_of(t.dtype()));
    return rounded_to(before(y) * (1 - share) + y * share, t.dtype());
  };
  return {mixed(x), mixed(labels)};
}

std::pair<Tensor, Tensor> cutmix(const Tensor& x, const Tensor& labels, const MixOptions& o, Where where) {
  const CallerScope caller(where);
  require_batch("images::cutmix", x, labels, o.alpha, where);
  Draws draws(o.key);
  const Tensor half = 0.5 * sqrt(1 - share_of(x, o.alpha, draws));
  // The begin and end of the rectangle along an axis of n pixels, clamped to the edges.
  const auto ends = [&](int64_t n) {
    const Tensor middle = random::randint(0, n, {}, {.key = draws.next(), .device = x.device()});
    const Tensor reach = astype(half * double(n), DType::i64);
    return std::pair(clip(middle - reach, 0, n), clip(middle + reach, 0, n));
  };
  const int64_t h = height_of(x), w = width_of(x);
  const auto [top, bottom] = ends(h);
  const auto [left, right] = ends(w);
  const Tensor area = astype((bottom - top) * (right - left), DType::f32), share = 1 - area / (double(h) * double(w));
  const Tensor y = rill::where(inside_of(x, top, left, bottom, right), before(x), x);
  return {y, astype(before(labels) * (1 - share) + labels * share, labels.dtype())};
}

}  // namespace rill::images
