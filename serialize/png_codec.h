// PNG files by libpng, both ways, for decode_png() and encode_png() of png_image.h and of rill::images.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct PngReading {
  std::string_view op;       // as which it throws
  bool upper_bytes = false;  // of 16 bits a channel; otherwise u16
  int64_t max_pixels = INT64_MAX;
  std::string_view cure = "";  // what the message says of more pixels than that
};
// The pixels as the file has them, [height, width, channels], of u8 or u16: no gamma is applied, palettes become RGB or
// RGBA, 1 to 4 bits of grey 8. Throws rill::Error where `png` is no PNG file, a damaged one, or a larger one.
Tensor read_png(std::string_view png, const PngReading& reading, const Where& where);

// `pixels`: of 8 or 16 bits a channel, row-major. `level` is zlib's. Throws rill::Error where libpng refuses.
std::string write_png(const void* pixels, int64_t height, int64_t width, int channels, int bits, int level,
                      std::string_view op, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
