// PNG, for image summaries and for images that a model is given.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// A PNG file of `pixels`: height x width x channels bytes, row-major; 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
// Throws rill::Error where libpng refuses (a side of 0 or over a million).
std::string encode_png(std::span<const uint8_t> pixels, int64_t height, int64_t width, int channels);

// The pixels of a PNG file, u8[height,width,channels], channels as above. Of 16 bits a channel the upper eight are
// taken, and palettes become RGB or RGBA. Throws rill::Error where `png` is no PNG file, or a damaged one.
Tensor decode_png(std::string_view png, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
