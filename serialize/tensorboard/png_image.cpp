// PNG by libpng's simplified interface; see png_image.h.
#include "rill/serialize/png_image.h"

#include <png.h>

#include "rill/tensor/error.h"

namespace rill {

std::string encode_png(std::span<const uint8_t> pixels, int64_t height, int64_t width, int channels) {
  constexpr int64_t longest = 1'000'000;  // libpng's own default limit
  std::string size = std::to_string(height) + "x" + std::to_string(width) + "x" + std::to_string(channels);
  if (height < 1 || width < 1 || height > longest || width > longest || channels < 1 || channels > 4 ||
      int64_t(pixels.size()) != height * width * channels)
    fail("encode_png", "cannot write an image of " + size + " from " + std::to_string(pixels.size()) + " bytes");

  constexpr png_uint_32 formats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = png_uint_32(height);
  image.width = png_uint_32(width);
  image.format = formats[channels - 1];
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(bytes, '\0');
  int ok = png_image_write_to_memory(&image, png.data(), &bytes, 0, pixels.data(), 0, nullptr);
  std::string reason = image.message;
  png_image_free(&image);
  if (!ok) fail("encode_png", "libpng cannot write an image of " + size + ": " + reason);
  png.resize(bytes);
  return png;
}

}  // namespace rill
