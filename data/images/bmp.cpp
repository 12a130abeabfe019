// BMP, by hand: a header, perhaps a palette or masks, and rows of uncompressed or run-length encoded pixels. Facts:
// Microsoft's "Bitmap Storage" and "Bitmap Compression".
#include <algorithm>
#include <array>
#include <bit>

#include "rill/data/images/codec.h"
#include "rill/serialize/tensors/elements.h"
#include "rill/tensor/error.h"

namespace rill::images {
namespace {

class BmpReader {
 public:
  explicit BmpReader(const Decoding& d) : d_(d) {}

  Tensor read() {
    read_header();
    if (bits_ <= 8) read_palette();
    if (has_runs_) return read_runs();
    // Rows are padded to four bytes.
    const uint64_t row = (uint64_t(width_) * bits_ + 31) / 32 * 4;
    if (start_ > d_.bytes.size() || row * uint64_t(height_) > d_.bytes.size() - start_)
      d_.fail_damaged("it ends before its last row");
    const int channels = bits_ <= 8 ? (grey_ ? 1 : 3) : masks_[3].bits ? 4 : 3;
    const Pixels out({height_, width_, channels}, DType::u8);
    for (int64_t y = 0; y < height_; ++y) {
      const auto* from = reinterpret_cast<const uint8_t*>(d_.bytes.data()) + start_ +
                         uint64_t(upside_down_ ? height_ - 1 - y : y) * row;
      uint8_t* const to = out.bytes() + y * width_ * channels;
      if (bits_ <= 8) palette_row(from, to, channels);
      else masked_row(from, to, channels);
    }
    return out.tensor;
  }

 private:
  struct Mask {
    uint32_t mask = 0;
    int shift = 0, bits = 0;
    uint8_t of(uint32_t pixel) const {
      const uint64_t v = (pixel & mask) >> shift, most = (uint64_t(1) << bits) - 1;
      return bits == 0 ? 255 : uint8_t((v * 255 + most / 2) / most);
    }
  };

  uint32_t number(size_t at, size_t width) const {
    if (at > d_.bytes.size() || width > d_.bytes.size() - at) d_.fail_damaged("it ends within its header");
    return uint32_t(little_endian(d_.bytes.data() + at, width));
  }

  void read_header() {
    if (!d_.bytes.starts_with("BM")) d_.fail_no_file();
    start_ = number(10, 4);
    header_ = number(14, 4);
    const bool old = header_ == 12;
    if (!old && header_ < 40) d_.fail_damaged(fmt::format("its header has {} bytes", header_));
    width_ = old ? number(18, 2) : int32_t(number(18, 4));
    height_ = old ? number(20, 2) : int32_t(number(22, 4));
    upside_down_ = height_ >= 0;
    height_ = std::abs(height_);
    bits_ = number(old ? 24 : 28, 2);
    const uint32_t packed = old ? 0 : number(30, 4);
    has_runs_ = (packed == 1 && bits_ == 8) || (packed == 2 && bits_ == 4);
    if (packed != 0 && !has_runs_ && !(packed == 3 && (bits_ == 16 || bits_ == 32)) && !(packed == 6 && bits_ == 32))
      fail(d_.op, fmt::format("a BMP file that is packed (method {}) is not read", packed), d_.where);
    if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32)
      d_.fail_damaged(fmt::format("it has {} bits a pixel", bits_));
    d_.require_size(height_, width_, 1, has_runs_ ? 128 : 8);
    std::array<uint32_t, 4> masks = bits_ == 16 ? std::array<uint32_t, 4>{0x7C00, 0x3E0, 0x1F, 0}
                                                : std::array<uint32_t, 4>{0xFF0000, 0xFF00, 0xFF, 0};
    if (packed != 0 && !has_runs_)
      for (size_t i = 0; i < (header_ >= 56 || packed == 6 ? 4u : 3u); ++i) masks[i] = number(54 + 4 * i, 4);
    for (size_t i = 0; i < 4; ++i) {
      masks_[i] = {masks[i], masks[i] ? std::countr_zero(masks[i]) : 0, 0};
      masks_[i].bits = int(std::bit_width(masks[i] >> masks_[i].shift));
      if (i < 3 && masks[i] == 0) d_.fail_damaged("a colour has no bits");
    }
  }

  void read_palette() {
    const bool old = header_ == 12;
    const uint32_t said = old ? 0 : number(46, 4), most = 1u << bits_, n = said == 0 ? most : std::min(said, most);
    grey_ = bits_ == 8;
    for (uint32_t i = 0; i < n; ++i) {
      const size_t at = 14 + header_ + i * (old ? 3 : 4);
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = uint8_t(number(at + 2 - c, 1));
      grey_ = grey_ && palette_[i][0] == i && palette_[i][1] == i && palette_[i][2] == i;
    }
  }

  // Pairs of bytes: a run of pixels of one colour (or alternately of two, with 4 bits); after 0, the end of a row or of
  // the image, a step to the right and up, or literal pixels, padded to pairs of bytes.
  Tensor read_runs() {
    std::string places(size_t(width_ * height_), '\0');  // in the palette
    size_t at = start_;
    int64_t x = 0, y = 0;
    const auto next = [&] {
      if (at >= d_.bytes.size()) d_.fail_damaged("it ends within its runs");
      return uint8_t(d_.bytes[at++]);
    };
    const auto put = [&](uint8_t place) {
      if (x >= width_ || y >= height_) d_.fail_damaged("a run goes beyond the image");
      places[size_t((upside_down_ ? height_ - 1 - y : y) * width_ + x++)] = char(place);
    };
    const auto nth = [&](uint8_t byte, int i) { return bits_ == 8 ? byte : uint8_t(i % 2 ? byte & 15 : byte >> 4); };
    for (;;) {
      const int count = next(), what = next();
      if (count > 0) {
        for (int i = 0; i < count; ++i) put(nth(uint8_t(what), i));
      } else if (what == 0) {
        x = 0, ++y;
      } else if (what == 1) {
        break;
      } else if (what == 2) {
        x += next(), y += next();
      } else {
        const size_t begin = at;
        uint8_t byte = 0;
        for (int i = 0; i < what; ++i) {
          if (bits_ == 8 || i % 2 == 0) byte = next();
          put(nth(byte, i));
        }
        at += (at - begin) % 2;
      }
    }
    const int channels = grey_ ? 1 : 3;
    const Pixels out({height_, width_, channels}, DType::u8);
    uint8_t* to = out.bytes();
    for (const char place : places)
      for (int c = 0; c < channels; ++c) *to++ = palette_[uint8_t(place)][size_t(c)];
    return out.tensor;
  }

  void palette_row(const uint8_t* from, uint8_t* to, int channels) const {
    for (uint32_t x = 0; x < uint32_t(width_); ++x) {
      const uint64_t bit = uint64_t(x) * bits_, index = (from[bit / 8] >> (8 - bits_ - bit % 8)) & ((1u << bits_) - 1);
      for (int c = 0; c < channels; ++c) *to++ = palette_[index][size_t(c)];
    }
  }
  void masked_row(const uint8_t* from, uint8_t* to, int channels) const {
    const size_t step = bits_ / 8;
    for (int64_t x = 0; x < width_; ++x, from += step) {
      uint32_t pixel = 0;
      for (size_t i = 0; i < step; ++i) pixel |= uint32_t(from[i]) << (8 * i);
      for (int c = 0; c < channels; ++c) *to++ = masks_[size_t(c)].of(pixel);
    }
  }

  const Decoding& d_;
  uint32_t start_ = 0, header_ = 0, bits_ = 0;
  int64_t width_ = 0, height_ = 0;
  bool upside_down_ = true, grey_ = false, has_runs_ = false;
  std::array<Mask, 4> masks_ = {};
  std::array<std::array<uint8_t, 3>, 256> palette_ = {};
};

}  // namespace

Tensor decode_bmp(const Bytes& file, const DecodeOptions& o, Where where) {
  const CallerScope caller(where);
  check_options("decode_bmp", o, where);
  const Decoding d{"decode_bmp", "BMP", file.view(), o, where};
  return finished(BmpReader(d).read(), d);
}

}  // namespace rill::images
