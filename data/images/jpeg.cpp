// JPEG by libjpeg-turbo's TurboJPEG interface. The slow exact transform and smooth upsampling, as in libjpeg's defaults
// and Pillow.
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "rill/data/images/codec.h"
#include "rill/ops/option_checks.h"

namespace rill::images {
namespace {

using Handle = std::unique_ptr<void, int (*)(tjhandle)>;

// --- What stands in markers before the image ---------------------------------------------------------------------------

struct Markers {
  int orientation = 1;  // EXIF's
  bool adobe = false;   // Adobe writes CMYK inverted
  bool arithmetic = false;
  int components = 0;
};

Markers read_markers(std::string_view b) {
  Markers m;
  bool found = false;
  for (size_t at = 2; at + 4 <= b.size() && uint8_t(b[at]) == 0xFF;) {
    const uint8_t kind = uint8_t(b[at + 1]);
    if (kind == 0xFF) {  // filling
      ++at;
      continue;
    }
    if (kind == 0xDA || kind == 0xD9) break;
    // A frame's header: precision, height, width, number of components.
    if (kind >= 0xC0 && kind <= 0xCF && kind != 0xC4 && kind != 0xC8 && kind != 0xCC && at + 10 <= b.size())
      m.components = uint8_t(b[at + 9]);
    if (kind >= 0xC9 && kind <= 0xCF && kind != 0xCC) m.arithmetic = true;
    const size_t length = size_t(uint8_t(b[at + 2])) << 8 | uint8_t(b[at + 3]);
    if (length < 2) break;
    const std::string_view part = b.substr(at + 4, length - 2);
    if (kind == 0xE1 && !found && part.starts_with(std::string_view("Exif\0\0", 6))) {
      m.orientation = exif_orientation(part.substr(6));
      found = true;
    }
    if (kind == 0xEE && part.starts_with("Adobe")) m.adobe = true;
    at += 2 + length;
  }
  return m;
}

// --- Pixels ------------------------------------------------------------------------------------------------------------

// CMYK to RGB as Pillow: k - c k / 255, rounded, of inks that are counted down (Adobe's) or up.
void cmyk_to_rgb(const uint8_t* from, uint8_t* to, size_t pixels, bool inverted) {
  for (size_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const auto ink = [&](size_t c) { return uint32_t(inverted ? 255 - from[c] : from[c]); };
    const uint32_t white = 255 - ink(3);
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t t = ink(c) * white + 128;
      to[c] = uint8_t(white - std::min(white, ((t >> 8) + t) >> 8));
    }
  }
}

// The smallest of 1, 1/2, 1/4 and 1/8 at which the image is at least as large as requested: other fractions have no
// vector code in libjpeg-turbo, and are slower than the full size.
tjscalingfactor scale_for(int64_t height, int64_t width, const Dims& at_least) {
  tjscalingfactor best = {1, 1};
  if (at_least.empty()) return best;
  int n = 0;
  const tjscalingfactor* const all = tjGetScalingFactors(&n);
  for (int i = 0; i < n; ++i) {
    const tjscalingfactor f = all[i];
    if (f.num == 1 && f.denom > best.denom && TJSCALED(height, f) >= at_least[0] && TJSCALED(width, f) >= at_least[1])
      best = f;
  }
  return best;
}

struct JpegReader {
  const Decoding& d;
  Handle handle{tjInitDecompress(), tjDestroy};
  int width = 0, height = 0, sampling = -1, space = -1;

  const unsigned char* data() const { return reinterpret_cast<const unsigned char*>(d.bytes.data()); }

  // libjpeg's warnings are errors, except for bytes between two segments, which do no harm: a truncated file would be
  // grey from there on.
  void decompress(uint8_t* to, int w, int h, int format) {
    int flags = TJFLAG_ACCURATEDCT;
#ifdef TJFLAG_LIMITSCANS
    flags |= TJFLAG_LIMITSCANS;
#endif
    if (tjDecompress2(handle.get(), data(), d.bytes.size(), to, w, 0, h, format, flags) == 0) return;
    const std::string_view why = tjGetErrorStr2(handle.get());
    if (tjGetErrorCode(handle.get()) != TJERR_WARNING || why.find("extraneous bytes") == why.npos) d.fail_damaged(why);
  }

  // TurboJPEG supports six kinds of chroma subsampling, and reports others as an error here, but decodes them all the
  // same: Pillow's CMYK, say.
  void read_header(const Markers& markers) {
    if (tjDecompressHeader3(handle.get(), data(), d.bytes.size(), &width, &height, &sampling, &space) == 0 ||
        tjGetErrorCode(handle.get()) == TJERR_WARNING)
      return;
    const std::string_view why = tjGetErrorStr2(handle.get());
    if (why.find("Could not determine subsampling") == why.npos || width < 1 || height < 1) d.fail_damaged(why);
    if (space < 0) space = markers.components == 4 ? TJCS_CMYK : markers.components == 1 ? TJCS_GRAY : TJCS_YCbCr;
  }

  Tensor read() {
    if (!handle) fail(d.op, "libjpeg-turbo has no memory for a decoder", d.where);
    if (!d.bytes.starts_with("\xFF\xD8")) d.fail_no_file();
    const Markers markers = read_markers(d.bytes);
    read_header(markers);
    // A block of 64 takes a bit at least, where it is not coded by arithmetic.
    d.require_size(height, width, 1, markers.arithmetic ? 1 << 16 : 1 << 10);
    const bool upright = !d.options.upright || markers.orientation < 5;
    Dims wanted = d.options.at_least;
    if (!wanted.empty() && !upright) std::swap(wanted[0], wanted[1]);
    const tjscalingfactor scale = scale_for(height, width, wanted);
    const Tensor x = pixels(TJSCALED(height, scale), TJSCALED(width, scale), markers);
    return d.options.upright && markers.orientation > 1 ? turned(x, markers.orientation) : x;
  }

  Tensor pixels(int h, int w, const Markers& markers) {
    if (space == TJCS_CMYK || space == TJCS_YCCK) {
      const Pixels inks({h, w, 4}, DType::u8), colours({h, w, 3}, DType::u8);
      decompress(inks.bytes(), w, h, TJPF_CMYK);
      cmyk_to_rgb(inks.bytes(), colours.bytes(), size_t(h) * size_t(w), markers.adobe);
      return colours.tensor;
    }
    const int channels = d.options.channels != 0 ? d.options.channels : space == TJCS_GRAY ? 1 : 3;
    const Pixels out({h, w, channels}, DType::u8);
    decompress(out.bytes(), w, h, channels == 1 ? TJPF_GRAY : channels == 3 ? TJPF_RGB : TJPF_RGBA);
    return out.tensor;
  }
};

}  // namespace

Tensor decode_jpeg(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  check_options("decode_jpeg", o, where);
  const Decoding d{"decode_jpeg", "JPEG", file.view(), o, where};
  return finished(JpegReader{d}.read(), d);
}

Tensor encode_jpeg(const Tensor& image, const JpegOptions& o, Where where) {
  const CallerScope caller(where);
  require_option(o.quality >= 1 && o.quality <= 100, "encode_jpeg", "quality", o.quality, "from 1 to 100", where);
  const Tensor x = pixels_to_write("encode_jpeg", image, {1, 3}, false, false, where);
  const int64_t h = x.shape()[0], w = x.shape()[1];
  const bool grey = x.shape()[2] == 1;
  if (h > 65535 || w > 65535)
    fail("encode_jpeg", fmt::format("a JPEG has at most 65535 pixels a side. got {}", to_string(x.spec())), where);
  const Handle handle(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int flags = TJFLAG_ACCURATEDCT | (o.progressive ? TJFLAG_PROGRESSIVE : 0);
  const int status =
      tjCompress2(handle.get(), x.data<uint8_t>().data(), int(w), 0, int(h), grey ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                  grey             ? TJSAMP_GRAY
                  : o.halve_colour ? TJSAMP_420
                                   : TJSAMP_444,
                  o.quality, flags);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> kept(bytes, tjFree);
  if (status != 0) fail("encode_jpeg", tjGetErrorStr2(handle.get()), where);
  return file_of({reinterpret_cast<const char*>(bytes), size});
}

}  // namespace rill::images
