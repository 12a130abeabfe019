// PNG, by what librill_io has of libpng.
#include "rill/serialize/png_codec.h"

#include "rill/data/images/codec.h"
#include "rill/ops/option_checks.h"

namespace rill::images {
namespace {

// PNG's third edition, 11.3.4.5: chunk eXIf, before or after the pixels.
int png_orientation(std::string_view b) {
  const auto length_at = [&](size_t at) {
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | uint8_t(b[at + i]);
    return size_t(n);
  };
  for (size_t at = 8; at + 12 <= b.size() && length_at(at) <= b.size() - at - 12; at += 12 + length_at(at))
    if (b.substr(at + 4, 4) == "eXIf") return exif_orientation(b.substr(at + 8, length_at(at)));
  return 1;
}

}  // namespace

Tensor decode_png(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  check_options("decode_png", o, where);
  const Decoding d{"decode_png", "PNG", file.view(), o, where};
  const PngReading reading = {.op = "decode_png",
                              .upper_bytes = o.dtype == DType::u8,
                              .max_pixels = o.max_pixels,
                              .cure = "to read it, say {.max_pixels = "};
  const Tensor x = read_png(file.view(), reading, where);
  return finished(o.upright ? turned(x, png_orientation(d.bytes)) : x, d);
}

Tensor encode_png(const Tensor& image, const PngOptions& o, Where where) {
  const CallerScope caller(where);
  require_option(o.level >= 0 && o.level <= 9, "encode_png", "level", o.level, "from 0 to 9", where);
  const Tensor x = pixels_to_write("encode_png", image, {1, 2, 3, 4}, true, false, where);
  const bool deep = x.dtype() == DType::u16;
  const void* const pixels = deep ? static_cast<const void*>(x.data<uint16_t>().data()) : x.data<uint8_t>().data();
  return file_of(
      write_png(pixels, x.shape()[0], x.shape()[1], int(x.shape()[2]), deep ? 16 : 8, o.level, "encode_png", where));
}

}  // namespace rill::images
