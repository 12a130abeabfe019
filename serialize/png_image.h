// PNG, for image summaries.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#pragma GCC visibility push(default)

namespace rill {

// A PNG file of `pixels`: height x width x channels bytes, row-major; 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
// Throws rill::Error where libpng refuses (a side of 0 or over a million).
std::string encode_png(std::span<const uint8_t> pixels, int64_t height, int64_t width, int channels);

}  // namespace rill

#pragma GCC visibility pop
