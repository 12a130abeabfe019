// Padding, cropping and resizing of space.
#include "rill/nn/layers/padding.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"

namespace rill::nn {

namespace {

const SpacePadding& checked_ends(std::string_view type, const SpacePadding& ends, const Where& where) {
  if (ends.kind != SpacePadding::Kind::all && ends.kind != SpacePadding::Kind::each)
    fail(type, "give numbers: how much before and after each axis of space", where);
  for (const Dims* list : {&ends.lo, &ends.hi})
    for (int64_t n : *list)
      if (n < 0) fail(type, fmt::format("{} is negative. nn::Crop cuts off, nn::SpacePad adds", n), where);
  return ends;
}

// Of all axes of x, [batch, space..., channels], times `sign`.
std::vector<Padding> widths_of(std::string_view type, const SpacePadding& ends, const Tensor& x, int64_t sign,
                               const Where& where) {
  const int64_t n = x.ndim(where) - 2;
  if (n < 1 || (ends.kind == SpacePadding::Kind::each && int64_t(ends.lo.size()) != n))
    fail(type,
         fmt::format("{} has {} axes of space, between those of the batch and of the channels, and numbers are given "
                     "for {}",
                     to_string(x.spec()), n,
                     ends.kind == SpacePadding::Kind::all ? std::string("all") : std::to_string(ends.lo.size())),
         where);
  std::vector<Padding> widths(size_t(n) + 2);
  for (size_t i = 0; i < size_t(n); ++i) {
    const size_t at = ends.kind == SpacePadding::Kind::all ? 0 : i;
    widths[i + 1] = {ends.lo[at] * sign,
                     ends.kind == SpacePadding::Kind::all ? ends.lo[at] * sign : ends.hi[at] * sign};
  }
  return widths;
}

}  // namespace

SpacePad::SpacePad(SpacePadding padding, const SpacePadOptions& options, Where where)
    : padding(checked_ends("SpacePad", padding, where)), options(options) {}

Tensor SpacePad::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const std::vector<Padding> widths = widths_of("SpacePad", padding, in, 1, where);
  return run.give(options.mode ? pad(in, widths, *options.mode)
                               : pad(in, widths, full({}, options.value, {in.dtype(), in.device()})));
}

Crop::Crop(SpacePadding cut, std::string name, Where where)
    : cut(checked_ends("Crop", cut, where)), name(std::move(name)) {}

Tensor Crop::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  const Tensor in = call.in(x);
  const std::vector<Padding> widths = widths_of("Crop", cut, in, -1, where);
  for (size_t i = 1; i + 1 < widths.size(); ++i)
    if (in.dim(int64_t(i)) + widths[i].lo + widths[i].hi < 1)
      fail("Crop", fmt::format("nothing is left of axis {} of {}", i, to_string(in.spec())), where);
  return run.give(pad(in, widths));
}

Upsample::Upsample(const InterpolateOptions& options, std::string name, Where where)
    : options(options), name(std::move(name)) {
  if (options.size.empty() == options.scale.empty())
    fail("Upsample", "give either the sizes of the result or the scale by which space grows", where);
  if (options.layout != Layout::nhwc) fail("Upsample", "layers have channels last: leave the layout out", where);
}

Tensor Upsample::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(interpolate(call.in(x), options));
}

PixelShuffle::PixelShuffle(int64_t factor, std::string name, Where where)
    : factor(checked_count("PixelShuffle", "factor", factor, where)), name(std::move(name)) {}
Tensor PixelShuffle::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(pixel_shuffle(call.in(x), factor));
}

PixelUnshuffle::PixelUnshuffle(int64_t factor, std::string name, Where where)
    : factor(checked_count("PixelUnshuffle", "factor", factor, where)), name(std::move(name)) {}
Tensor PixelUnshuffle::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(pixel_unshuffle(call.in(x), factor));
}

ChannelShuffle::ChannelShuffle(int64_t groups, std::string name, Where where)
    : groups(checked_count("ChannelShuffle", "groups", groups, where)), name(std::move(name)) {}
Tensor ChannelShuffle::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(channel_shuffle(call.in(x), groups));
}

}  // namespace rill::nn
