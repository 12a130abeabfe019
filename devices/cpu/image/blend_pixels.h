// Rows of whole pixels that are weighed and added up along the row, which is what takes longest of resizing an image of
// bytes, and rows below each other: by AVX-512 with VNNI and VBMI (blend_pixels.cpp), with the very sums of blend_axis().
#pragma once
#include <cstdint>
#include <vector>

#include "rill/devices/cpu/image/blend_rows.h"

#pragma GCC visibility push(default)

namespace rill::cpu {

// Taps as those instructions take them, made once for many rows: sixteen new numbers at a time, which channel and pixel
// each is known by where its old ones lie.
class PixelTaps {
 public:
  // Of rows of `in` pixels. Not usable() where the machine has no such instructions, or sixteen new numbers need more
  // old ones than two registers hold.
  PixelTaps(const BlendTaps<int32_t>& taps, int64_t in, int64_t channels);
  bool usable() const { return !chunks_.empty(); }
  // [outer, in, channels] to [outer, out, channels].
  void blend(const uint8_t* from, int64_t outer, uint8_t* to) const;

  static constexpr int64_t lanes = 16, together = 4, digits = 3;
  // For each lane where its four old numbers lie in the registers, then their weights as three digits.
  struct alignas(64) Group {
    uint8_t bytes[(1 + digits) * lanes * together];
  };
  struct Chunk {
    int64_t from, to;      // where the old and the new numbers begin in their rows
    int64_t group, count;  // which groups of four taps
    bool wide;             // the old ones take two registers
    bool one_more;         // a group more, of one tap, with whole weights in place of digits
  };

 private:
  [[gnu::visibility("hidden")]] bool add_chunk(const BlendTaps<int32_t>& taps, int64_t channels, int64_t to);
  std::vector<Chunk> chunks_;
  std::vector<Group> groups_;
  int64_t old_ = 0, made_ = 0;  // numbers of a row
};

// [in, inner] to [out, inner], the same sums of rows that lie below each other. False where they cannot be had so; then
// nothing is done.
bool blend_bytes_below(const uint8_t* from, int64_t inner, const BlendTaps<int32_t>& taps, uint8_t* to);

}  // namespace rill::cpu

#pragma GCC visibility pop
