// Image files: JPEG, PNG, GIF, WebP and BMP, to tensors and back. Images are [height, width, channels] with 1 (grey), 2
// (grey and alpha), 3 (RGB) or 4 (RGBA) channels, u8, or u16 if a PNG has 16 bits; animations are [frames, height,
// width, channels].
//
// JPEG, GIF and WebP are features of a build (libjpeg-turbo, giflib, libwebp); without one, its functions throw and say
// so. A file that is damaged, truncated or larger than allowed is an error, never half an image.
#pragma once
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::images {

// The bytes of a file: the result of read_file() (a string tensor of one element), a u8 vector, or C++ bytes. They must
// outlive the call.
class Bytes {
 public:
  Bytes(const Tensor& file, Where where = Where::current());
  Bytes(std::span<const uint8_t> bytes) : view_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  template <detail::Text S>
  Bytes(const S& bytes) : view_(bytes) {}
  std::string_view view() const { return view_; }

 private:
  Tensor kept_;
  std::string_view view_;
};

struct DecodeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // 1 (grey), 3 (RGB) or 4 (RGBA); 0: those of the file (a CMYK JPEG is RGB). Alpha is dropped or 255, nothing is
  // blended. Grey is (19595 R + 38470 G + 7471 B + 2^15) / 2^16, as in Pillow; a JPEG's is its own luma.
  int channels = 0;
  // u8, u16 (of 8 bits: 257 times), or a floating dtype, from 0 to 1. Nothing: that of the file.
  std::optional<DType> dtype = {};
  // {height, width}: a JPEG may be decoded at 1/2, 1/4 or 1/8 where it is at least as large then, which is faster.
  Dims at_least = {};
  bool upright = true;      // rotates a JPEG, PNG or WebP (no animation) by its EXIF orientation
  bool all_frames = false;  // of decode_image() and decode_webp(): all of an animation, not the first
  // Height times width times frames; more is an error, for a header may promise anything.
  int64_t max_pixels = int64_t(1) << 28;
};

// In addition, each format's functions throw Error if the bytes are no such file, a damaged one, or too large.
Tensor decode_jpeg(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());
// Exactly as the file has them: 16-bit grey 0x4000 is 0x4000, and no gamma is applied. Palettes become RGB or RGBA, and
// 1 to 4 bits of grey 8.
Tensor decode_png(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());
// All frames, [frames, height, width, 3], each as a viewer shows it, on black; with 4 channels transparency is kept.
Tensor decode_gif(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());
// Lossy and lossless; of an animation the first frame, [height, width, channels], unless `all_frames`.
Tensor decode_webp(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());
// With palettes (of 1, 4 and 8 bits: RGB), packed by runs or not, and with masks. Pixels that runs leave out have the
// palette's first colour.
Tensor decode_bmp(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());
// Any of them, by its first bytes. For an animation the first frame, unless `all_frames` returns [frames, height,
// width, channels] for every format that can hold one (GIF, WebP).
Tensor decode_image(const Bytes& file, const DecodeOptions& options = {}, Where where = Where::current());

struct JpegOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int quality = 95;          // 1 to 100
  bool halve_colour = true;  // in both directions (4:2:0); otherwise 4:4:4
  bool progressive = false;
};
struct PngOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int level = 6;  // 0 (nothing is packed) to 9
};
struct WebpOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double quality = 75;    // 0 to 100; how hard it tries, where lossless
  bool lossless = false;  // all pixels come back, those under transparent alpha too
};
struct GifOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int milliseconds = 100;  // that a frame is shown, in steps of 10
  bool loop = true;
};
// An image as the bytes of a file, a string tensor of one element. They take u8 [height, width, channels]; of a
// floating dtype [0, 1] becomes 0 to 255, rounded. jpeg: 1 or 3 channels. png: u16 too, 1 to 4 channels. webp: 3 or 4.
// gif: 3 channels or 1, with frames before them or not; more than 256 colours in a frame become 256 (median cut).
Tensor encode_jpeg(const Tensor& image, const JpegOptions& options = {}, Where where = Where::current());
Tensor encode_png(const Tensor& image, const PngOptions& options = {}, Where where = Where::current());
Tensor encode_webp(const Tensor& image, const WebpOptions& options = {}, Where where = Where::current());
Tensor encode_gif(const Tensor& image, const GifOptions& options = {}, Where where = Where::current());

// decode_image() of a file, which errors name.
Tensor read_image(const std::string& path, const DecodeOptions& options = {}, Where where = Where::current());
// Writes the result of encode_*() to the file at `path`, atomically.
void write_jpeg(const std::string& path, const Tensor& image, const JpegOptions& options = {},
                Where where = Where::current());
void write_png(const std::string& path, const Tensor& image, const PngOptions& options = {},
               Where where = Where::current());
void write_webp(const std::string& path, const Tensor& image, const WebpOptions& options = {},
                Where where = Where::current());
void write_gif(const std::string& path, const Tensor& image, const GifOptions& options = {},
               Where where = Where::current());

}  // namespace rill::images

#pragma GCC visibility pop
