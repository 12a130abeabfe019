// PNG by libpng; see png_image.h and png_codec.h.
#include "rill/serialize/png_image.h"

#include <png.h>

#include <bit>

#include <csetjmp>
#include <cstdio>
#include <vector>

#include "rill/devices/registry.h"
#include "rill/serialize/png_codec.h"
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

// --- Reading ---------------------------------------------------------------------------------------------------------

namespace {

// A PNG that is read by libpng's functions for each step, for the short way knows colours only: it takes 16 bits for
// linear light, and follows gamma chunks. Where libpng reports an error it jumps back into one of the functions below,
// which therefore hold nothing that a destructor frees.
struct PngReader {
  std::string_view rest;
  bool upper_bytes = false;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "";
  png_uint_32 height = 0, width = 0;
  int channels = 0;
  bool deep = false;  // 16 bits a channel

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  // The sizes; false where there is an error, as `message` has it.
  bool read_header() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info || setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, this, on_read);
    png_read_info(png, info);
    png_set_expand(png);  // palettes, bits and transparency become bytes
    if (upper_bytes) png_set_strip_16(png);
    else if (std::endian::native == std::endian::little) png_set_swap(png);  // of 16 bits
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    height = png_get_image_height(png, info), width = png_get_image_width(png, info);
    channels = png_get_channels(png, info);
    deep = png_get_bit_depth(png, info) == 16;
    return true;
  }
  // rows: where each begins.
  bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }

  static void on_read(png_structp png, png_bytep to, size_t n) {
    auto& r = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (n > r.rest.size()) png_error(png, "the file ends too early");
    r.rest.copy(reinterpret_cast<char*>(to), n);
    r.rest.remove_prefix(n);
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp what) {
    auto& r = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(r.message, sizeof r.message, "%s", what);
    png_longjmp(png, 1);
  }
};

}  // namespace

Tensor read_png(std::string_view png, const PngReading& reading, const Where& where) {
  PngReader reader{png, reading.upper_bytes};
  const auto reject = [&](const std::string& what) {
    fail(reading.op,
         std::to_string(png.size()) + " bytes " + what +
             (reader.message[0] ? std::string(": ") + reader.message : std::string()),
         where);
  };
  if (!reader.read_header()) reject("are no PNG file");
  // What the best packed pixels, of one bit each, could become: a header may promise anything.
  constexpr uint64_t most_a_byte = 1032 * 8 * 4;
  const uint64_t pixels = uint64_t(reader.height) * reader.width;
  if (pixels > png.size() * most_a_byte) reject("cannot hold an image of that size");
  if (pixels > uint64_t(reading.max_pixels))
    fail(reading.op,
         "the PNG file has " + std::to_string(reader.height) + " x " + std::to_string(reader.width) +
             " pixels, more than the " + std::to_string(reading.max_pixels) + " that are allowed. " +
             std::string(reading.cure) + std::to_string(pixels) + "}",
         where);
  Spec spec;
  spec.shape = {int64_t(reader.height), int64_t(reader.width), int64_t(reader.channels)};
  spec.dtype = reader.deep ? DType::u16 : DType::u8;
  Tensor out = empty_tensor(spec);
  std::vector<png_bytep> rows;
  const size_t row = reader.width * size_t(reader.channels) * (reader.deep ? 2 : 1);
  for (size_t y = 0; y < reader.height; ++y)
    rows.push_back(reinterpret_cast<png_bytep>(out.mutable_rep()->data) + y * row);
  if (!reader.read_rows(rows.data())) reject("are a damaged PNG file");
  return out;
}

Tensor decode_png(std::string_view png, Where where) {
  return read_png(png, {.op = "decode_png", .upper_bytes = true}, where);
}

// --- Writing, of what png_image_write_to_memory() does not take ------------------------------------------------------

namespace {

struct PngWriter {
  std::string bytes;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "";

  ~PngWriter() { png_destroy_write_struct(&png, &info); }

  // Of 16 bits as the machine has them. As in PngReader: nothing here has a destructor.
  bool write(png_bytepp rows, int64_t height, int64_t width, int channels, int bits, int level) {
    constexpr int kinds[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info || setjmp(png_jmpbuf(png))) return false;
    png_set_write_fn(png, this, on_write, [](png_structp) {});
    png_set_compression_level(png, level);
    png_set_IHDR(png, info, png_uint_32(width), png_uint_32(height), bits, kinds[channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (bits == 16 && std::endian::native == std::endian::little) png_set_swap(png);
    png_write_image(png, rows);
    png_write_end(png, nullptr);
    return true;
  }

  static void on_write(png_structp png, png_bytep from, size_t n) {
    static_cast<PngWriter*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(from), n);
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp what) {
    auto& w = *static_cast<PngWriter*>(png_get_error_ptr(png));
    std::snprintf(w.message, sizeof w.message, "%s", what);
    png_longjmp(png, 1);
  }
};

}  // namespace

std::string write_png(const void* pixels, int64_t height, int64_t width, int channels, int bits, int level,
                      std::string_view op, const Where& where) {
  constexpr int64_t longest = 1'000'000;  // libpng's own default limit
  if (height > longest || width > longest)
    fail(op, "a PNG has at most a million pixels a side. got " + std::to_string(height) + " x " + std::to_string(width),
         where);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < height; ++y)
    rows.push_back(static_cast<png_bytep>(const_cast<void*>(pixels)) + y * width * channels * (bits / 8));
  PngWriter writer;
  if (!writer.write(rows.data(), height, width, channels, bits, level))
    fail(op, std::string("libpng cannot write the image: ") + writer.message, where);
  return std::move(writer.bytes);
}

}  // namespace rill
