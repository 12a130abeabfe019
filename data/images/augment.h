// Random changes of images, for training. All draws come from `.key`, or else from the process's generator; the same
// key gives the same images on every machine. In a pipeline, make a key from each element's number, so that a run that
// is resumed, or has other threads, gets the same:
//
//   ds.enumerate().map([key](int64_t i, const auto& x) { return images::random_crop(x, {24, 24}, {.key = key.fold_in(i)}); })
//
// Images are [..., height, width, channels]; each image of a batch has its own draws unless stated otherwise.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "rill/ops/random.h"

#pragma GCC visibility push(default)

namespace rill::images {

struct ChanceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double p = 0.5;  // how likely an image is changed; throws outside [0, 1]
  std::optional<random::Key> key = {};
};
// Mirrored, or as it was.
Tensor random_flip_left_right(const Tensor& x, const ChanceOptions& options = {}, Where where = Where::current());
Tensor random_flip_up_down(const Tensor& x, const ChanceOptions& options = {}, Where where = Where::current());

struct DrawOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<random::Key> key = {};
};
// {height, width} pixels at a random offset, the same one for all of a batch.
Tensor random_crop(const Tensor& x, const Dims& size, const DrawOptions& options = {}, Where where = Where::current());

struct ResizedCropOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::pair<double, double> scale = {0.08, 1};         // the part of the image's area
  std::pair<double, double> ratio = {3 / 4., 4 / 3.};  // width over height
  bool antialias = true;
  std::optional<random::Key> key = {};
};
// A part of random area and proportions, resized to {height, width}: Inception's training crop, as torchvision draws
// it, the same one for all of a batch. Not inside `function`, for its sizes depend on draws.
Tensor random_resized_crop(const Tensor& x, const Dims& size, const ResizedCropOptions& options = {},
                           Where where = Where::current());

// Changed by an amount that is drawn: from -max_delta to max_delta (adjust_brightness, adjust_hue), from low to high
// (adjust_contrast, adjust_saturation).
Tensor random_brightness(const Tensor& x, double max_delta, const DrawOptions& options = {},
                         Where where = Where::current());
Tensor random_contrast(const Tensor& x, double low, double high, const DrawOptions& options = {},
                       Where where = Where::current());
Tensor random_saturation(const Tensor& x, double low, double high, const DrawOptions& options = {},
                         Where where = Where::current());
Tensor random_hue(const Tensor& x, double max_delta, const DrawOptions& options = {}, Where where = Where::current());
// Turned by an angle from -degrees to degrees.
Tensor random_rotation(const Tensor& x, double degrees, const DrawOptions& options = {},
                       Where where = Where::current());

struct JitterOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Factors are drawn from max(0, 1 - v) to 1 + v; hue, in turns, from -v to v (at most 1/2).
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  std::optional<random::Key> key = {};
};
// enhance_brightness, enhance_contrast, enhance_color and adjust_hue, in this order: torchvision's ColorJitter but for
// the order, which that draws.
Tensor color_jitter(const Tensor& x, const JitterOptions& options, Where where = Where::current());

// `value` in a square of `size` pixels around a random point, clamped to the edges (DeVries and Taylor, 2017).
Tensor cutout(const Tensor& x, int64_t size, double value = 0, const DrawOptions& options = {},
              Where where = Where::current());
struct ErasingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double p = 0.5;
  std::pair<double, double> scale = {0.02, 0.33};
  std::pair<double, double> ratio = {0.3, 3.3};  // height over width
  double value = 0;
  std::optional<random::Key> key = {};
};
// `value` in a rectangle of random area and proportions, with probability p: torchvision's RandomErasing, the same one
// for all of a batch. Throws where p is outside [0, 1].
Tensor random_erasing(const Tensor& x, const ErasingOptions& options = {}, Where where = Where::current());

struct MixOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double alpha = 1;  // the fraction of the first is drawn from Beta(alpha, alpha), once a batch
  std::optional<random::Key> key = {};
};
// Each image and its labels [batch, classes] mixed with those before it in the batch (the first one with the last):
// fraction x + (1 - fraction) other. Zhang et al.: mixup, 2018.
std::pair<Tensor, Tensor> mixup(const Tensor& x, const Tensor& labels, const MixOptions& options = {},
                                Where where = Where::current());
// Replaces a rectangle by that of the image before it, with labels in proportion to the areas. Yun et al.: CutMix,
// 2019.
std::pair<Tensor, Tensor> cutmix(const Tensor& x, const Tensor& labels, const MixOptions& options = {},
                                 Where where = Where::current());

struct RandAugmentOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t changes = 2;    // how many, one after the other
  int64_t magnitude = 9;  // of `bins` steps
  int64_t bins = 31;
  double fill = 0;
  std::optional<random::Key> key = {};
};
// A random choice of fourteen changes (shear, move, rotate, brightness, colour, contrast, sharpness, posterize,
// solarize, autocontrast, equalize, nothing), of the given strength: RandAugment (Cubuk et al., 2019) with
// torchvision's ranges. u8 with 3 channels, the same changes for all of a batch; not inside `function`.
Tensor rand_augment(const Tensor& x, const RandAugmentOptions& options = {}, Where where = Where::current());
// One change of a strength that is drawn: TrivialAugment Wide (Mueller and Hutter, 2021). As rand_augment().
Tensor trivial_augment(const Tensor& x, double fill = 0, const DrawOptions& options = {},
                       Where where = Where::current());

// Policies that were learned on these data.
enum class AugmentPolicy : uint8_t { imagenet, cifar10, svhn };
struct AutoAugmentOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  AugmentPolicy policy = AugmentPolicy::imagenet;
  double fill = 0;
  std::optional<random::Key> key = {};
};
// One of the policy's 25 pairs of changes, each made with its own probability and strength: AutoAugment (Cubuk et al.,
// 2018; tables 7 to 9), with torchvision's ranges. As rand_augment().
Tensor auto_augment(const Tensor& x, const AutoAugmentOptions& options = {}, Where where = Where::current());

}  // namespace rill::images

#pragma GCC visibility pop
