// PNG, by what librill_io has of libpng.
#include "rill/serialize/png_codec.h"

#include "rill/data/images/codec.h"
#include "rill/ops/option_checks.h"

namespace rill::images {

Tensor decode_png(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  check_options("decode_png", o, where);
  const Decoding d{"decode_png", "PNG", file.view(), o, where};
  const PngReading reading = {.op = "decode_png",
                              .upper_bytes = o.dtype == DType::u8,
                              .max_pixels = o.max_pixels,
                              .cure = "to read it, say {.max_pixels = "};
  return finished(read_png(file.view(), reading, where), d);
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
