// Shared by the decoders and encoders of all formats: errors, limits, memory for pixels, channels.
#pragma once
#include <fmt/format.h>

#include <cstdint>

#include "rill/data/images/codecs.h"
#include "rill/devices/registry.h"

namespace rill::images {

// What a message says of bytes that seem to be a file's path; else nothing.
std::string_view hint_of_path(std::string_view bytes);

// One file that is decoded: the context of errors, and the limits.
struct Decoding {
  std::string_view op, format;  // "decode_png", "PNG"
  std::string_view bytes;
  const DecodeOptions& options;
  const Where& where;

  // "[decode_png] 12 bytes are no PNG file: why"; the reason may be empty.
  [[noreturn]] void fail_no_file(std::string_view why = "") const { fail_as("no", why, hint_of_path(bytes)); }
  [[noreturn]] void fail_damaged(std::string_view why = "") const { fail_as("a damaged", why); }
  // Throws where `frames` images of that size are more than is allowed, or than so few bytes can hold.
  void require_size(int64_t height, int64_t width, int64_t frames = 1, int64_t most_pixels_a_byte = INT64_MAX) const;

 private:
  [[noreturn]] void fail_as(std::string_view what, std::string_view why, std::string_view hint = "") const {
    fail(op,
         fmt::format("{} bytes are {} {} file{}{}{}", bytes.size(), what, format, why.empty() ? "" : ": ", why, hint),
         where);
  }
};

// Memory for pixels, and where they lie.
struct Pixels {
  Pixels(const Shape& shape, DType dtype) {
    Spec spec;
    spec.shape = shape;
    spec.dtype = dtype;
    tensor = empty_tensor(spec);
  }
  uint8_t* bytes() const { return reinterpret_cast<uint8_t*>(const_cast<Tensor&>(tensor).mutable_rep()->data); }
  Tensor tensor;
};

// The tensor with the channels and the dtype that the options ask for: of u8 or u16 [..., channels].
Tensor finished(const Tensor& decoded, const Decoding& d);
// Checks options, and `file` against nothing: a format's decoder begins with it.
void check_options(std::string_view op, const DecodeOptions& o, const Where& where);

// The orientation, 1 to 8, in EXIF data; 1, unchanged, without one. May be passed with or without the "Exif\0\0" that
// precedes them in some files.
int exif_orientation(std::string_view exif);
// The image [height, width, channels], dense, rotated or mirrored by its orientation.
Tensor turned(const Tensor& x, int orientation);

// The first frame of a GIF file, [height, width, channels].
Tensor first_of_gif(const Bytes& file, const DecodeOptions& o, const Where& where);

// u8 (or u16, where `deep`) on the host, dense, [height, width, channels], with frames before them where `frames`.
// Throws unless it is an image with so many channels.
Tensor pixels_to_write(std::string_view op, const Tensor& image, std::initializer_list<int> channels, bool deep,
                       bool frames, const Where& where);
// A string tensor of one element.
Tensor file_of(std::string bytes);

// Throws that this build has no such feature.
[[noreturn]] void fail_no_feature(std::string_view op, std::string_view feature, std::string_view library,
                                  const Where& where);

}  // namespace rill::images
