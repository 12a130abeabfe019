// Weighted sums along a row of pixels, which take most of the time of resizing an image of bytes, and weighted sums of
// rows: by AVX-512 with VNNI and VBMI (blend_pixels.cpp), with the same sums as blend_axis().
#pragma once
#include <cstdint>
#include <vector>

#include "rill/devices/cpu/image/blend_rows.h"

#pragma GCC visibility push(default)

namespace rill::cpu {

// Taps in the form that these instructions use, prepared once for many rows: sixteen new numbers at a time, whose
// channels and pixels follow from the positions of their old numbers.
class PixelTaps {
 public:
  // For rows of `in` pixels. Not usable() if the machine has no such instructions, or if sixteen new numbers need more
  // old ones than two registers hold.
  PixelTaps(const BlendTaps<int32_t>& taps, int64_t in, int64_t channels);
  bool usable() const { return !chunks_.empty(); }
  // [outer, in, channels] to [outer, out, channels].
  void blend(const uint8_t* from, int64_t outer, uint8_t* to) const;

  static constexpr int64_t lanes = 16, taps_per_group = 4, digits = 3;
  // For each lane the positions of its four old numbers in the registers, then their weights as three digits.
  struct alignas(64) Group {
    uint8_t bytes[(1 + digits) * lanes * taps_per_group];
  };
  struct Chunk {
    int64_t from, to;      // the first old and new number in their rows
    int64_t group, count;  // range of groups of four taps
    bool wide;             // the old numbers need two registers
    bool extra_group;      // an extra group of one tap, whose weights are not split into digits
  };

 private:
  [[gnu::visibility("hidden")]] bool add_chunk(const BlendTaps<int32_t>& taps, int64_t channels, int64_t to);
  std::vector<Chunk> chunks_;
  std::vector<Group> groups_;
  int64_t old_ = 0, made_ = 0;  // numbers in a row
};

// [in, inner] to [out, inner]: weighted sums of rows. Returns false, having done nothing, if these instructions cannot
// compute them.
bool blend_bytes_below(const uint8_t* from, int64_t inner, const BlendTaps<int32_t>& taps, uint8_t* to);

}  // namespace rill::cpu

#pragma GCC visibility pop
