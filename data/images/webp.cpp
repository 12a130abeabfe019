// WebP by libwebp, animations by libwebpdemux.
#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>

#include <cstring>
#include <memory>

#include "rill/data/images/codec.h"
#include "rill/ops/option_checks.h"

namespace rill::images {
namespace {

const uint8_t* data_of(const Decoding& d) { return reinterpret_cast<const uint8_t*>(d.bytes.data()); }

Tensor still(const Decoding& d, const WebPBitstreamFeatures& f) {
  d.require_size(f.height, f.width);
  const int channels = f.has_alpha ? 4 : 3;
  const Pixels out({f.height, f.width, channels}, DType::u8);
  const size_t room = size_t(f.height) * size_t(f.width) * size_t(channels);
  const auto decode = f.has_alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (!decode(data_of(d), d.bytes.size(), out.bytes(), room, f.width * channels)) d.fail_damaged();
  return out.tensor;
}

// Frames as they are displayed, blended with the frame before.
Tensor animated(const Decoding& d) {
  WebPAnimDecoderOptions options;
  if (!WebPAnimDecoderOptionsInit(&options)) fail(d.op, "libwebp is of another version than its headers", d.where);
  options.color_mode = MODE_RGBA;
  const WebPData file = {data_of(d), d.bytes.size()};
  // The sizes first: the decoder takes memory for two canvases.
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> parts(WebPDemux(&file), WebPDemuxDelete);
  if (!parts) d.fail_damaged();
  const int64_t h = WebPDemuxGetI(parts.get(), WEBP_FF_CANVAS_HEIGHT),
                w = WebPDemuxGetI(parts.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t frames = d.options.all_frames ? WebPDemuxGetI(parts.get(), WEBP_FF_FRAME_COUNT) : 1;
  if (frames < 1) d.fail_damaged("there are no frames");
  d.require_size(h, w, frames);
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(WebPAnimDecoderNew(&file, &options),
                                                                             WebPAnimDecoderDelete);
  if (!decoder) d.fail_damaged();
  const Pixels out({frames, h, w, 4}, DType::u8);
  const auto bytes = size_t(h * w * 4);
  for (int64_t i = 0; i < frames; ++i) {
    uint8_t* canvas = nullptr;
    int time = 0;
    if (!WebPAnimDecoderGetNext(decoder.get(), &canvas, &time)) d.fail_damaged(fmt::format("in frame {}", i));
    std::memcpy(out.bytes() + size_t(i) * bytes, canvas, bytes);
  }
  return d.options.all_frames ? out.tensor : out.tensor.reshape({h, w, 4});
}

int webp_orientation(const Decoding& d) {
  const WebPData file = {data_of(d), d.bytes.size()};
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> parts(WebPDemux(&file), WebPDemuxDelete);
  WebPChunkIterator chunk;
  if (!parts || !WebPDemuxGetChunk(parts.get(), "EXIF", 1, &chunk)) return 1;
  const int found = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return found;
}

}  // namespace

Tensor decode_webp(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  check_options("decode_webp", o, where);
  const Decoding d{"decode_webp", "WebP", file.view(), o, where};
  WebPBitstreamFeatures features;
  switch (WebPGetFeatures(data_of(d), d.bytes.size(), &features)) {
    case VP8_STATUS_OK: break;
    case VP8_STATUS_NOT_ENOUGH_DATA: d.fail_damaged("it ends within its header");
    default: d.fail_no_file();
  }
  if (features.has_animation) return finished(animated(d), d);
  const Tensor decoded = still(d, features);
  const Tensor x = finished(o.upright ? turned(decoded, webp_orientation(d)) : decoded, d);
  if (!o.all_frames) return x;
  const Shape& s = x.shape();
  return x.reshape({1, s[0], s[1], s[2]});
}

Tensor encode_webp(const Tensor& image, const WebpOptions& o, Where where) {
  const CallerScope caller(where);
  require_option(o.quality >= 0 && o.quality <= 100, "encode_webp", "quality", o.quality, "from 0 to 100", where);
  const Tensor x = pixels_to_write("encode_webp", image, {3, 4}, false, false, where);
  const int64_t h = x.shape()[0], w = x.shape()[1], channels = x.shape()[2];
  if (h > WEBP_MAX_DIMENSION || w > WEBP_MAX_DIMENSION)
    fail("encode_webp",
         fmt::format("a WebP file has at most {} pixels a side. got {}", WEBP_MAX_DIMENSION, to_string(x.spec())),
         where);
  WebPConfig config;
  WebPPicture picture;
  if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
    fail("encode_webp", "libwebp is of another version than its headers", where);
  config.quality = float(o.quality);
  config.lossless = o.lossless;
  config.exact = o.lossless;
  picture.use_argb = o.lossless;
  picture.width = int(w), picture.height = int(h);
  WebPMemoryWriter written;
  WebPMemoryWriterInit(&written);
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &written;
  const auto import = channels == 4 ? WebPPictureImportRGBA : WebPPictureImportRGB;
  const bool ok =
      import(&picture, x.data<uint8_t>().data(), int(w * channels)) != 0 && WebPEncode(&config, &picture) != 0;
  std::string bytes(reinterpret_cast<const char*>(written.mem), ok ? written.size : 0);
  const int error = picture.error_code;
  WebPPictureFree(&picture);
  WebPMemoryWriterClear(&written);
  if (!ok) fail("encode_webp", fmt::format("libwebp refuses the image (error {})", error), where);
  return file_of(std::move(bytes));
}

}  // namespace rill::images
