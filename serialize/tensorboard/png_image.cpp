// PNG by libpng's simplified interface; see png_image.h.
#include "rill/serialize/png_image.h"

#include <png.h>

#include "rill/devices/registry.h"
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

Tensor decode_png(std::string_view png, Where where) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  auto reject = [&](const std::string& what) {
    const std::string message = what + (image.message[0] ? std::string(": ") + image.message : "");
    png_image_free(&image);
    fail("decode_png", std::to_string(png.size()) + " bytes " + message, where);
  };
  if (!png_image_begin_read_from_memory(&image, png.data(), png.size())) reject("are no PNG file");
  image.format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;
  const uint64_t channels = PNG_IMAGE_SAMPLE_CHANNELS(image.format);
  // What the best packed pixels, of one bit each, could become: a header may promise anything.
  constexpr uint64_t most_a_byte = 1032 * 8 * 4;
  if (uint64_t(image.height) * image.width > png.size() * most_a_byte) reject("cannot hold an image of that size");
  Spec spec;
  spec.shape = {int64_t(image.height), int64_t(image.width), int64_t(channels)};
  spec.dtype = DType::u8;
  Tensor pixels = empty_tensor(spec);
  if (!png_image_finish_read(&image, nullptr, pixels.mutable_rep()->data, 0, nullptr)) reject("are a damaged PNG file");
  return pixels;
}

}  // namespace rill
