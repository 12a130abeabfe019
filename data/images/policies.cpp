// RandAugment and TrivialAugment: changes by number, with torchvision's ranges of strength.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "rill/data/images/augment.h"
#include "rill/data/images/colour.h"
#include "rill/data/images/draws.h"
#include "rill/data/images/geometry.h"
#include "rill/data/images/parts.h"

namespace rill::images {
namespace {

enum class Change : uint8_t {
  nothing,
  shear_x,
  shear_y,
  move_x,
  move_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};
constexpr int64_t changes = 14;

// How far each change goes at full strength.
struct Ranges {
  double shear, move_x, move_y, degrees, factor, bits;
};

// `strength` from 0 to 1; `down`: the other way, of changes that have two.
Tensor changed(const Tensor& x, Change change, double strength, bool down, const Ranges& r, double fill) {
  const double s = down ? -strength : strength;
  const auto sheared = [&](double along_x, double along_y) {
    const auto degrees = [](double v) { return std::atan(v) * 180 / std::numbers::pi; };
    return affine(x, {.shear = {degrees(along_x), degrees(along_y)}, .bilinear = false, .fill = fill});
  };
  const auto moved = [&](double right, double below) {
    return affine(x, {.translate = {std::trunc(right), std::trunc(below)}, .bilinear = false, .fill = fill});
  };
  const double factor = 1 + s * r.factor;
  switch (change) {
    case Change::nothing: return x;
    case Change::shear_x: return sheared(s * r.shear, 0);
    case Change::shear_y: return sheared(0, s * r.shear);
    case Change::move_x: return moved(s * r.move_x, 0);
    case Change::move_y: return moved(0, s * r.move_y);
    case Change::rotate: return rotate(x, s * r.degrees, {.bilinear = false, .fill = fill});
    case Change::brightness: return enhance_brightness(x, factor);
    case Change::color: return enhance_color(x, factor);
    case Change::contrast: return enhance_contrast(x, factor);
    case Change::sharpness: return enhance_sharpness(x, factor);
    case Change::posterize: return posterize(x, 8 - int(std::lround(strength * r.bits)));
    case Change::solarize: return solarize(x, 255 - strength * 255);
    case Change::autocontrast: return autocontrast(x);
    case Change::equalize: return equalize(x);
  }
  return x;
}

void require_rgb_bytes(std::string_view op, const Tensor& x, const Where& where) {
  require_channels(op, x, 3, where);
  if (x.dtype() != DType::u8) fail(op, fmt::format("takes u8 images. got {}", to_string(x.spec())), where);
}

}  // namespace

Tensor rand_augment(const Tensor& x, const RandAugmentOptions& o, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::rand_augment";
  require_rgb_bytes(op, x, where);
  require_option(o.changes >= 0, op, "changes", o.changes, "0 or more", where);
  require_option(o.bins >= 2, op, "bins", o.bins, "2 or more", where);
  require_option(o.magnitude >= 0 && o.magnitude < o.bins, op, "magnitude", o.magnitude, "from 0 to below bins", where);
  const double h = double(int64_t(height_of(x))), w = double(int64_t(width_of(x)));
  const Ranges ranges = {0.3, 150 / 331. * w, 150 / 331. * h, 30, 0.9, 4};
  const double strength = double(o.magnitude) / double(o.bins - 1);
  Draws draws(o.key);
  Tensor y = x;
  for (int64_t i = 0; i < o.changes; ++i) {
    const auto change = Change(draws.whole(changes));
    y = changed(y, change, strength, draws.whole(2) == 1, ranges, o.fill);
  }
  return y;
}

Tensor trivial_augment(const Tensor& x, double fill, const DrawOptions& o, Where where) {
  const CallerScope caller(where);
  require_rgb_bytes("images::trivial_augment", x, where);
  const Ranges ranges = {0.99, 32, 32, 135, 0.99, 6};
  Draws draws(o.key);
  const auto change = Change(draws.whole(changes));
  const double strength = double(draws.whole(31)) / 30;
  return changed(x, change, strength, draws.whole(2) == 1, ranges, fill);
}

}  // namespace rill::images
