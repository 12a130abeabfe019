// Weighted sums of rows of numbers: what resizing and normalising an image consist of (blend_rows.cpp).
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::cpu {

// The number of fractional bits in the weights of bytes.
inline constexpr int blend_bits = 22;

// For each new pixel the first old one that it depends on, and `count` weights from there on.
template <class W>
struct BlendTaps {
  int64_t out = 0, count = 0;
  const int64_t* first = nullptr;  // [out]
  const W* weights = nullptr;      // [out, count]
};
// [outer, in, inner] to [outer, out, inner]. Bytes: (2^21 + sum of weights times pixels) / 2^22, rounded down and
// clamped to 0 to 255. Floats: the products added up one by one, each rounded.
void blend_axis(const uint8_t* from, int64_t outer, int64_t in, int64_t inner, const BlendTaps<int32_t>& taps,
                uint8_t* to);
void blend_axis(const float* from, int64_t outer, int64_t in, int64_t inner, const BlendTaps<float>& taps, float* to);

// to[i] = from[i] by[i] - less[i], each of the two rounded; i < n. `past_caches`: uses non-temporal stores, for results
// that are not read soon; end_of_scaling() must be called before another thread reads them.
void scale_bytes(const uint8_t* from, const float* by, const float* less, float* to, int64_t n,
                 bool past_caches = false);
void end_of_scaling();
// Reverses the order of the pixels in a row; a pixel has `channels` bytes.
void mirror_pixels(const uint8_t* from, int64_t pixels, int64_t channels, uint8_t* to);

}  // namespace rill::cpu

#pragma GCC visibility pop
