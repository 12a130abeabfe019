// RandAugment, TrivialAugment and AutoAugment: changes by number, with torchvision's ranges of strength.
#include <algorithm>
#include <array>
#include <cmath>

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
  equalize,
  invert  // only in AutoAugment
};
constexpr int64_t changes = 14;  // that are drawn from

// How far each change goes at full strength.
struct Ranges {
  double shear, move_x, move_y, degrees, factor, bits;
};

// `strength` from 0 to 1; `down`: the other way, of changes that have two.
Tensor changed(const Tensor& x, Change change, double strength, bool down, const Ranges& r, double fill) {
  const double s = down ? -strength : strength;
  // About the upper left corner, as those who learned the policies did it, and torchvision.
  const auto sheared = [&](double along_x, double along_y) {
    return warp(x, tensor({1., along_x, 0., along_y, 1., 0., 0., 0.}, {.device = Device()}),
                {.bilinear = false, .fill = fill});
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
    case Change::invert: return invert(x);
  }
  return x;
}

// --- AutoAugment -----------------------------------------------------------------------------------------------------

// A change that is made with probability p/10, of strength/9.
struct Chance {
  Change change;
  uint8_t p, strength;
};
using Policy = std::array<std::array<Chance, 2>, 25>;
// clang-format off
constexpr Policy policies[] = {
    // imagenet
    {{
        {{{Change::posterize, 4, 8}, {Change::rotate, 6, 9}}},
        {{{Change::solarize, 6, 5}, {Change::autocontrast, 6, 0}}},
        {{{Change::equalize, 8, 0}, {Change::equalize, 6, 0}}},
        {{{Change::posterize, 6, 7}, {Change::posterize, 6, 6}}},
        {{{Change::equalize, 4, 0}, {Change::solarize, 2, 4}}},
        {{{Change::equalize, 4, 0}, {Change::rotate, 8, 8}}},
        {{{Change::solarize, 6, 3}, {Change::equalize, 6, 0}}},
        {{{Change::posterize, 8, 5}, {Change::equalize, 10, 0}}},
        {{{Change::rotate, 2, 3}, {Change::solarize, 6, 8}}},
        {{{Change::equalize, 6, 0}, {Change::posterize, 4, 6}}},
        {{{Change::rotate, 8, 8}, {Change::color, 4, 0}}},
        {{{Change::rotate, 4, 9}, {Change::equalize, 6, 0}}},
        {{{Change::equalize, 0, 0}, {Change::equalize, 8, 0}}},
        {{{Change::invert, 6, 0}, {Change::equalize, 10, 0}}},
        {{{Change::color, 6, 4}, {Change::contrast, 10, 8}}},
        {{{Change::rotate, 8, 8}, {Change::color, 10, 2}}},
        {{{Change::color, 8, 8}, {Change::solarize, 8, 7}}},
        {{{Change::sharpness, 4, 7}, {Change::invert, 6, 0}}},
        {{{Change::shear_x, 6, 5}, {Change::equalize, 10, 0}}},
        {{{Change::color, 4, 0}, {Change::equalize, 6, 0}}},
        {{{Change::equalize, 4, 0}, {Change::solarize, 2, 4}}},
        {{{Change::solarize, 6, 5}, {Change::autocontrast, 6, 0}}},
        {{{Change::invert, 6, 0}, {Change::equalize, 10, 0}}},
        {{{Change::color, 6, 4}, {Change::contrast, 10, 8}}},
        {{{Change::equalize, 8, 0}, {Change::equalize, 6, 0}}},
    }},
    // cifar10
    {{
        {{{Change::invert, 1, 0}, {Change::contrast, 2, 6}}},
        {{{Change::rotate, 7, 2}, {Change::move_x, 3, 9}}},
        {{{Change::sharpness, 8, 1}, {Change::sharpness, 9, 3}}},
        {{{Change::shear_y, 5, 8}, {Change::move_y, 7, 9}}},
        {{{Change::autocontrast, 5, 0}, {Change::equalize, 9, 0}}},
        {{{Change::shear_y, 2, 7}, {Change::posterize, 3, 7}}},
        {{{Change::color, 4, 3}, {Change::brightness, 6, 7}}},
        {{{Change::sharpness, 3, 9}, {Change::brightness, 7, 9}}},
        {{{Change::equalize, 6, 0}, {Change::equalize, 5, 0}}},
        {{{Change::contrast, 6, 7}, {Change::sharpness, 6, 5}}},
        {{{Change::color, 7, 7}, {Change::move_x, 5, 8}}},
        {{{Change::equalize, 3, 0}, {Change::autocontrast, 4, 0}}},
        {{{Change::move_y, 4, 3}, {Change::sharpness, 2, 6}}},
        {{{Change::brightness, 9, 6}, {Change::color, 2, 8}}},
        {{{Change::solarize, 5, 2}, {Change::invert, 0, 0}}},
        {{{Change::equalize, 2, 0}, {Change::autocontrast, 6, 0}}},
        {{{Change::equalize, 2, 0}, {Change::equalize, 6, 0}}},
        {{{Change::color, 9, 9}, {Change::equalize, 6, 0}}},
        {{{Change::autocontrast, 8, 0}, {Change::solarize, 2, 8}}},
        {{{Change::brightness, 1, 3}, {Change::color, 7, 0}}},
        {{{Change::solarize, 4, 5}, {Change::autocontrast, 9, 0}}},
        {{{Change::move_y, 9, 9}, {Change::move_y, 7, 9}}},
        {{{Change::autocontrast, 9, 0}, {Change::solarize, 8, 3}}},
        {{{Change::equalize, 8, 0}, {Change::invert, 1, 0}}},
        {{{Change::move_y, 7, 9}, {Change::autocontrast, 9, 0}}},
    }},
    // svhn
    {{
        {{{Change::shear_x, 9, 4}, {Change::invert, 2, 0}}},
        {{{Change::shear_y, 9, 8}, {Change::invert, 7, 0}}},
        {{{Change::equalize, 6, 0}, {Change::solarize, 6, 6}}},
        {{{Change::invert, 9, 0}, {Change::equalize, 6, 0}}},
        {{{Change::equalize, 6, 0}, {Change::rotate, 9, 3}}},
        {{{Change::shear_x, 9, 4}, {Change::autocontrast, 8, 0}}},
        {{{Change::shear_y, 9, 8}, {Change::invert, 4, 0}}},
        {{{Change::shear_y, 9, 5}, {Change::solarize, 2, 6}}},
        {{{Change::invert, 9, 0}, {Change::autocontrast, 8, 0}}},
        {{{Change::equalize, 6, 0}, {Change::rotate, 9, 3}}},
        {{{Change::shear_x, 9, 4}, {Change::solarize, 3, 3}}},
        {{{Change::shear_y, 8, 8}, {Change::invert, 7, 0}}},
        {{{Change::equalize, 9, 0}, {Change::move_y, 6, 6}}},
        {{{Change::invert, 9, 0}, {Change::equalize, 6, 0}}},
        {{{Change::contrast, 3, 3}, {Change::rotate, 8, 4}}},
        {{{Change::invert, 8, 0}, {Change::move_y, 0, 2}}},
        {{{Change::shear_y, 7, 6}, {Change::solarize, 4, 8}}},
        {{{Change::invert, 6, 0}, {Change::rotate, 8, 4}}},
        {{{Change::shear_y, 3, 7}, {Change::move_x, 9, 3}}},
        {{{Change::shear_x, 1, 6}, {Change::invert, 6, 0}}},
        {{{Change::solarize, 7, 2}, {Change::move_y, 6, 7}}},
        {{{Change::shear_y, 8, 4}, {Change::invert, 8, 0}}},
        {{{Change::shear_x, 7, 9}, {Change::move_y, 8, 3}}},
        {{{Change::shear_y, 8, 5}, {Change::autocontrast, 7, 0}}},
        {{{Change::shear_x, 7, 2}, {Change::invert, 1, 0}}},
    }},
};
// clang-format on

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

Tensor auto_augment(const Tensor& x, const AutoAugmentOptions& o, Where where) {
  const CallerScope caller(where);
  require_rgb_bytes("images::auto_augment", x, where);
  const double h = double(int64_t(height_of(x))), w = double(int64_t(width_of(x)));
  const Ranges ranges = {0.3, 150 / 331. * w, 150 / 331. * h, 30, 0.9, 4};
  Draws draws(o.key);
  const Policy& policy = policies[size_t(o.policy)];
  Tensor y = x;
  for (const Chance& c : policy[size_t(draws.whole(int64_t(policy.size())))]) {
    const bool made = draws.number(0, 10) < c.p, down = draws.whole(2) == 1;
    if (made) y = changed(y, c.change, c.strength / 9., down, ranges, o.fill);
  }
  return y;
}

}  // namespace rill::images
