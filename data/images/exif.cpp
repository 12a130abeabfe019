// How a camera was held: EXIF's orientation, which JPEG, PNG and WebP files can hold. Facts: EXIF 2.3, 4.6.
#include <cstring>

#include "rill/data/images/codec.h"

namespace rill::images {

// A TIFF header, then the first directory's entries of 12 bytes each.
int exif_orientation(std::string_view tiff) {
  if (tiff.starts_with(std::string_view("Exif\0\0", 6))) tiff.remove_prefix(6);
  const bool big = tiff.starts_with("MM");
  const auto number = [&](size_t at, size_t width) -> uint32_t {
    if (at > tiff.size() || width > tiff.size() - at) return 0;
    uint32_t n = 0;
    for (size_t i = 0; i < width; ++i) n |= uint32_t(uint8_t(tiff[at + (big ? width - 1 - i : i)])) << (8 * i);
    return n;
  };
  if (!big && !tiff.starts_with("II")) return 1;
  const size_t directory = number(4, 4);
  for (size_t i = 0, n = number(directory, 2); i < n && directory + 2 + 12 * i < tiff.size(); ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (number(entry, 2) != 0x0112 || number(entry + 2, 2) != 3) continue;
    const uint32_t o = number(entry + 8, 2);
    return o >= 1 && o <= 8 ? int(o) : 1;
  }
  return 1;
}

// Rows and columns exchanged, then mirrored.
Tensor turned(const Tensor& x, int orientation) {
  if (orientation == 1) return x;
  const bool exchanged = orientation >= 5;
  const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const int64_t h = x.shape()[0], w = x.shape()[1], c = x.shape()[2] * int64_t(size_of(x.dtype()));
  const int64_t rows = exchanged ? w : h, columns = exchanged ? h : w;
  const Pixels out({rows, columns, x.shape()[2]}, x.dtype());
  const auto* const from = reinterpret_cast<const uint8_t*>(x.rep()->data);
  uint8_t* to = out.bytes();
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t i = 0; i < columns; ++i, to += c) {
      const int64_t a = down ? rows - 1 - y : y, b = right ? columns - 1 - i : i;
      std::memcpy(to, from + (exchanged ? b * w + a : a * w + b) * c, size_t(c));
    }
  return out.tensor;
}

}  // namespace rill::images
