// Padding, cropping and resizing of space: [batch, space..., channels].
#pragma once
#include <optional>
#include <string>

#include "rill/nn/layer.h"
#include "rill/ops/images.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct SpacePadOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<PadMode> mode = {};  // reflect, edge (torch: replication), wrap (circular), symmetric; empty: `value`
  double value = 0;
  std::string name = "pad";
};
// Space with more at its ends: nn::SpacePad({{1, 2}, {0, 3}}), before and after each axis, or nn::SpacePad(1), the same
// at both ends of all; see pad(). Throws where a number is negative.
class SpacePad {
 public:
  explicit SpacePad(SpacePadding padding, const SpacePadOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(SpacePad)

  SpacePadding padding;
  SpacePadOptions options;
};

// Crops the ends of space, given like the padding of SpacePad. Throws if nothing would be left.
class Crop {
 public:
  explicit Crop(SpacePadding cut, std::string name = "crop", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Crop)

  SpacePadding cut;
  std::string name;
};

// Space resized in one of the ways of interpolate(): nn::Upsample({.scale = {2}, .mode = ResizeMode::linear}).
class Upsample {
 public:
  // Throws unless exactly one of size and scale is given.
  explicit Upsample(const InterpolateOptions& options, std::string name = "upsample", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Upsample)

  InterpolateOptions options;
  std::string name;
};

// Channels to space: see pixel_shuffle().
class PixelShuffle {
 public:
  explicit PixelShuffle(int64_t factor, std::string name = "pixel_shuffle", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(PixelShuffle)

  int64_t factor;
  std::string name;
};
// Space to channels, its inverse.
class PixelUnshuffle {
 public:
  explicit PixelUnshuffle(int64_t factor, std::string name = "pixel_unshuffle", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(PixelUnshuffle)

  int64_t factor;
  std::string name;
};
// One channel of each group side by side: see channel_shuffle().
class ChannelShuffle {
 public:
  explicit ChannelShuffle(int64_t groups, std::string name = "channel_shuffle", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ChannelShuffle)

  int64_t groups;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
