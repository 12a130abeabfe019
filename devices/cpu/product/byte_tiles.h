// The innermost loops of products of bytes (byte_products.h), for every instruction set. All sums wrap around.
#pragma once
#include <cstdint>

namespace rill::cpu {

inline constexpr int64_t bytes_together = 4;  // steps of k that are adjacent in a strip of packed columns
inline constexpr int64_t byte_strip = 32;     // columns of a strip
inline constexpr int64_t most_byte_rows = 12;

// to[r * to_step + j] = first[j] + sum over k of row r of a times column j of the strip b, over `groups` of four k.
// Rows of a start `step` bytes apart.
using ByteTile = void (*)(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, const int32_t* first,
                          int32_t* to, int64_t to_step);
// For `rows` rows of A at once, in descending order; the last tile has one row.
struct ByteTiles {
  int64_t rows[3];
  ByteTile run[3];
  // If both sides must have 16 bits: widens n bytes. Else null.
  void (*widen)(const uint8_t* from, int64_t n, uint8_t* to);

  int64_t element() const { return widen ? 2 : 1; }
};
const ByteTiles& byte_tiles();

// The corrections for zero points: the sum of n bytes, and sums[j] -= right[j] * factor for `columns` columns, which
// are a multiple of byte_strip.
struct ByteCorrections {
  uint32_t (*sum)(const uint8_t* a, int64_t n);
  void (*take_off)(int32_t* sums, int64_t columns, const int32_t* right, uint32_t factor);
};
const ByteCorrections& byte_corrections();

// Depthwise: to[p * to_step + c] = first[c] + sum over t of taps[t][p * pixel_step + c] w[t * channels + c]
// for neighbouring pixels p. A weight is in the lower 16 bits of an i32, and the upper are 0.
using ChannelTile = void (*)(const uint8_t* const* taps, int64_t count, int64_t pixel_step, int64_t channels,
                             const int32_t* w, const int32_t* first, int32_t* to, int64_t to_step);
inline constexpr int64_t byte_pixels = 4;
struct ChannelTiles {
  ChannelTile one, several;  // for one pixel, and for byte_pixels
};
// Of u8, or of i8.
const ChannelTiles& channel_tiles(bool is_signed);

}  // namespace rill::cpu
