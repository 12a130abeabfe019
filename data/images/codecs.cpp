// Shared by all formats, and the choice between them; see codec.h.
#include "rill/data/images/codecs.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "rill/data/images/codec.h"
#include "rill/data/images/parts.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/serialize/files.h"

namespace rill::images {

Bytes::Bytes(const Tensor& file, Where where) : kept_(file) {
  require_operand("images::Bytes", file, where);
  const bool text = file.dtype() == DType::string && file.size() == 1;
  if (!text && !(file.dtype() == DType::u8 && file.ndim() == 1))
    fail("images::Bytes",
         fmt::format("a file is a string tensor of one element, as read_file() gives it, or a u8 vector of its bytes. "
                     "got {}",
                     to_string(file.spec())),
         where);
  if (text) {
    view_ = kept_.data<std::string>(where)[0];
  } else {
    kept_ = kept_.to(Device()).contiguous();
    const auto bytes = kept_.data<uint8_t>(where);
    view_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
}

std::string_view hint_of_path(std::string_view bytes) {
  constexpr size_t longest_path = 4096, longest_ending = 5;
  const size_t dot = bytes.rfind('.');
  const bool is_path = bytes.size() < longest_path && dot != bytes.npos && dot + 1 < bytes.size() &&
                       bytes.size() - dot <= longest_ending &&
                       std::ranges::all_of(
                           bytes.substr(dot + 1), [](unsigned char c) { return std::isalnum(c); }) &&
                       std::ranges::none_of(bytes, [](unsigned char c) { return c < ' '; });
  return is_path ? ". they look like a path: read_file(path) gives the bytes of a file" : "";
}

// --- Decoding --------------------------------------------------------------------------------------------------------

void Decoding::require_size(int64_t height, int64_t width, int64_t frames, int64_t most_pixels_a_byte) const {
  if (height < 1 || width < 1) fail_damaged(fmt::format("it says that it has {} x {} pixels", height, width));
  const double pixels = double(height) * double(width) * double(frames);
  if (pixels > double(bytes.size()) * double(most_pixels_a_byte))
    fail_damaged(fmt::format("they cannot hold the {} x {} pixels that it says it has", height, width));
  if (pixels > double(options.max_pixels))
    fail(op,
         fmt::format("the {} file has {} x {} pixels{}, more than the {} that are allowed. to read it, say "
                     "{{.max_pixels = {:.0f}}}",
                     format, height, width, frames > 1 ? fmt::format(" in {} frames", frames) : "", options.max_pixels,
                     pixels),
         where);
}

void check_options(std::string_view op, const DecodeOptions& o, const Where& where) {
  require_option(o.channels == 0 || o.channels == 1 || o.channels == 3 || o.channels == 4, op, "channels", o.channels,
                 "0 (those of the file), 1, 3 or 4", where);
  if (o.dtype)
    require_option(*o.dtype == DType::u8 || *o.dtype == DType::u16 || is_floating(*o.dtype), op, "dtype",
                   name(*o.dtype), "u8, u16 or a floating one", where);
  if (!o.at_least.empty() && (o.at_least.size() != 2 || o.at_least[0] < 1 || o.at_least[1] < 1))
    fail(op, "at_least takes {height, width}, each at least 1", where);
}

namespace {

template <class T>
void convert_channels(const T* from, size_t in, T* to, size_t out, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i, from += in, to += out) {
    const bool colour = in >= 3;
    if (out == 1) {
      to[0] = colour
                  ? T((uint64_t(19595) * from[0] + 38470 * uint64_t(from[1]) + 7471 * uint64_t(from[2]) + 32768) >> 16)
                  : from[0];
      continue;
    }
    for (size_t c = 0; c < 3; ++c) to[c] = colour ? from[c] : from[0];
    if (out == 4) to[3] = in == 2 || in == 4 ? from[in - 1] : T(-1);
  }
}

Tensor with_channels(const Tensor& x, int channels) {
  const auto in = size_t(x.shape().back());
  Shape shape = x.shape();
  shape[shape.size() - 1] = channels;
  const Pixels out(shape, x.dtype());
  const auto n = size_t(x.size()) / in;
  if (x.dtype() == DType::u16)
    convert_channels(x.data<uint16_t>().data(), in, reinterpret_cast<uint16_t*>(out.bytes()), size_t(channels), n);
  else convert_channels(x.data<uint8_t>().data(), in, out.bytes(), size_t(channels), n);
  return out.tensor;
}

}  // namespace

Tensor finished(const Tensor& decoded, const Decoding& d) {
  Tensor x = decoded;
  if (d.options.channels != 0 && d.options.channels != x.shape().back()) x = with_channels(x, d.options.channels);
  const DType to = d.options.dtype.value_or(x.dtype());
  if (to == x.dtype()) return x;
  if (to == DType::u8) return astype(right_shift(x, 8), DType::u8);  // the upper byte, as TensorFlow's
  if (to == DType::u16) return astype(x, DType::u16) * 257;
  const DType work = to == DType::f64 ? to : DType::f32;
  return astype(astype(x, work) / (x.dtype() == DType::u16 ? 65535 : 255), to);
}

Tensor decode_image(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  const std::string_view b = file.view();
  if (b.starts_with("\xFF\xD8")) return decode_jpeg(file, o, where);
  if (b.starts_with("\x89PNG")) return decode_png(file, o, where);
  if (b.starts_with("BM")) return decode_bmp(file, o, where);
  if (b.size() > 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP") return decode_webp(file, o, where);
  if (b.starts_with("GIF8")) return o.all_frames ? decode_gif(file, o, where) : first_of_gif(file, o, where);
  const char* const known = b.starts_with("II*") || b.starts_with("MM") ? "a TIFF file"
                            : b.substr(0, 12).ends_with("ftypavif")     ? "an AVIF file"
                            : b.substr(0, 12).ends_with("ftypheic")     ? "a HEIC file"
                            : b.empty()                                 ? "empty"
                                                                        : "";
  fail("decode_image",
       fmt::format("{} bytes are no JPEG, PNG, GIF, WebP or BMP file{}{}", b.size(),
                   *known ? fmt::format(" but {}", known) : std::string(), hint_of_path(b)),
       where);
}

Tensor read_image(const std::string& path, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  const std::string bytes = rill::read_file(path, "read_image", where, Accepts::streams);
  try {
    return decode_image(bytes, o, where);
  } catch (const Error& e) {
    std::string_view text = e.what();  // without the location and the decoders' names
    for (size_t at = text.find(": ["); at != text.npos; at = text.starts_with("in [") ? 0 : text.npos)
      text.remove_prefix(std::min(text.find("] ", at), text.size() - 2) + 2);
    fail("read_image", fmt::format("'{}': {}", path, text), where);
  }
}

// --- Encoding --------------------------------------------------------------------------------------------------------

Tensor pixels_to_write(std::string_view op, const Tensor& image, std::initializer_list<int> channels, bool deep,
                       bool frames, const Where& where) {
  require_operand(op, image, where);
  const int n = image.ndim();
  const bool shaped =
      (n == 3 || (frames && n == 4)) && std::ranges::find(channels, image.shape().back()) != channels.end();
  const bool typed = image.dtype() == DType::u8 || (deep && image.dtype() == DType::u16) || is_floating(image.dtype());
  if (!shaped || !typed || image.size() == 0)
    fail(op,
         fmt::format(
             "takes an image [{}height, width, channels] with {} channels, of u8{} or a floating dtype from 0 to "
             "1. got {}",
             frames ? "frames or none, " : "", fmt::join(channels, " or "), deep ? ", u16" : "",
             to_string(image.spec())) +
             hint_of_channels_first(image),
         where);
  Tensor x = image.to(Device());
  if (is_floating(x.dtype())) x = astype(clip(round(astype(x, DType::f32) * 255), 0, 255), DType::u8);
  return x.contiguous();
}

Tensor file_of(std::string bytes) { return tensor(std::move(bytes), {.device = Device()}); }

void fail_no_feature(std::string_view op, std::string_view feature, std::string_view library, const Where& where) {
  fail(op,
       fmt::format("this build of rill has no {0} feature. install {1} and build again with -D{0}=enabled", feature,
                   library),
       where);
}

void write_jpeg(const std::string& path, const Tensor& image, const JpegOptions& o, Where where) {
  const CallerScope caller(where);
  rill::write_file(path, Bytes(encode_jpeg(image, o, where)).view(), "write_jpeg", where);
}
void write_png(const std::string& path, const Tensor& image, const PngOptions& o, Where where) {
  const CallerScope caller(where);
  rill::write_file(path, Bytes(encode_png(image, o, where)).view(), "write_png", where);
}
void write_webp(const std::string& path, const Tensor& image, const WebpOptions& o, Where where) {
  const CallerScope caller(where);
  rill::write_file(path, Bytes(encode_webp(image, o, where)).view(), "write_webp", where);
}
void write_gif(const std::string& path, const Tensor& image, const GifOptions& o, Where where) {
  const CallerScope caller(where);
  rill::write_file(path, Bytes(encode_gif(image, o, where)).view(), "write_gif", where);
}

}  // namespace rill::images
