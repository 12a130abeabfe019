// See byte_tiles.h. Without VNNI, numbers are multiplied in 16 bits: AVX2's products of bytes saturate.
#include "rill/devices/cpu/product/byte_tiles.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/isa.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rill::cpu {
namespace {

template <int rows>
void plain_tile(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, const int32_t* first, int32_t* to,
                int64_t to_step) {
  uint32_t sums[rows][byte_strip];
  for (int r = 0; r < rows; ++r) std::memcpy(sums[r], first, sizeof(sums[r]));
  for (int64_t g = 0; g < groups; ++g, b += byte_strip * bytes_together)
    for (int r = 0; r < rows; ++r)
      for (int64_t j = 0; j < byte_strip; ++j)
        for (int64_t t = 0; t < bytes_together; ++t)
          sums[r][j] += uint32_t(int32_t(a[r * step + g * bytes_together + t]) * int32_t(b[j * bytes_together + t]));
  for (int r = 0; r < rows; ++r) std::memcpy(to + r * to_step, sums[r], sizeof(sums[r]));
}

template <class Byte>
uint32_t channel_sum(const uint8_t* const* taps, int64_t count, int64_t channels, int64_t at, int64_t c,
                     const int32_t* w, const int32_t* first) {
  auto sum = uint32_t(first[c]);
  for (int64_t t = 0; t < count; ++t)
    sum += uint32_t(int32_t(Byte(taps[t][at])) * int32_t(int16_t(w[t * channels + c])));
  return sum;
}
template <int pixels, class Byte>
void plain_channels(const uint8_t* const* taps, int64_t count, int64_t pixel_step, int64_t channels, const int32_t* w,
                    const int32_t* first, int32_t* to, int64_t to_step) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < channels; ++c)
      to[p * to_step + c] = int32_t(channel_sum<Byte>(taps, count, channels, p * pixel_step + c, c, w, first));
}

uint32_t plain_sum(const uint8_t* a, int64_t n) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}
void plain_take_off(int32_t* sums, int64_t columns, const int32_t* right, uint32_t factor) {
  for (int64_t j = 0; j < columns; ++j) sums[j] = int32_t(uint32_t(sums[j]) - uint32_t(right[j]) * factor);
}

#ifdef __x86_64__
int32_t four_bytes(const uint8_t* a) {
  int32_t x;
  std::memcpy(&x, a, 4);
  return x;
}

template <int rows>
[[gnu::target("avx512f,avx512bw,avx512vnni")]] void vnni_tile(const uint8_t* a, int64_t step, const int8_t* b,
                                                              int64_t groups, const int32_t* first, int32_t* to,
                                                              int64_t to_step) {
  __m512i low[rows], high[rows];
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    low[r] = _mm512_loadu_si512(first);
    high[r] = _mm512_loadu_si512(first + 16);
  }
  for (int64_t g = 0; g < groups; ++g, a += bytes_together, b += byte_strip * bytes_together) {
    const __m512i left = _mm512_loadu_si512(b), right = _mm512_loadu_si512(b + 64);
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      const __m512i x = _mm512_set1_epi32(four_bytes(a + r * step));
      low[r] = _mm512_dpbusd_epi32(low[r], x, left);
      high[r] = _mm512_dpbusd_epi32(high[r], x, right);
    }
  }
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    _mm512_storeu_si512(to + r * to_step, low[r]);
    _mm512_storeu_si512(to + r * to_step + 16, high[r]);
  }
}

// 8 columns: a register has two sums of two steps for each of four columns. Both sides have 16 bits: with 8, as many
// instructions would widen numbers as multiply them.
template <int rows>
[[gnu::target("avx2")]] void pairs_of_eight(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups,
                                            const int32_t* first, int32_t* to, int64_t to_step) {
  constexpr int64_t wide = 2;
  __m256i sum[rows][2];
  RILL_UNROLL for (int r = 0; r < rows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
  for (int64_t g = 0; g < groups; ++g, a += wide * bytes_together, b += wide * byte_strip * bytes_together) {
    const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)),
                  right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 32));
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      int64_t four;
      std::memcpy(&four, a + r * step, sizeof four);
      const __m256i x = _mm256_set1_epi64x(four);
      sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(x, left));
      sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(x, right));
    }
  }
  const __m256i start = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    const __m256i both = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][0], sum[r][1]), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * to_step), _mm256_add_epi32(both, start));
  }
}
template <int rows>
void avx2_tile(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, const int32_t* first, int32_t* to,
               int64_t to_step) {
  for (int64_t j = 0; j < byte_strip; j += 8)
    pairs_of_eight<rows>(a, step, b + 8 * j, groups, first + j, to + j, to_step);
}
[[gnu::target("avx2")]] void avx2_widen(const uint8_t* from, int64_t n, uint8_t* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i),
                        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[2 * i] = from[i], to[2 * i + 1] = 0;
}

[[gnu::target("avx2")]] uint32_t avx2_sum(const uint8_t* a, int64_t n) {
  __m256i sums = _mm256_setzero_si256();  // four sums of 64 bits
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
  }
  uint64_t parts[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), sums);
  return uint32_t(parts[0] + parts[1] + parts[2] + parts[3]) + plain_sum(a + i, n - i);
}
[[gnu::target("avx2")]] void avx2_take_off(int32_t* sums, int64_t columns, const int32_t* right, uint32_t factor) {
  const __m256i by = _mm256_set1_epi32(int32_t(factor));
  for (int64_t j = 0; j < columns; j += 8) {
    auto* const at = reinterpret_cast<__m256i*>(sums + j);
    const __m256i less = _mm256_mullo_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(right + j)), by);
    _mm256_storeu_si256(at, _mm256_sub_epi32(_mm256_loadu_si256(at), less));
  }
}

// The last vector of channels overlaps the one before; the shared channels are computed twice.
template <int pixels, class Byte>
[[gnu::target("avx512f,avx512bw,avx512vnni")]] void vnni_channels(const uint8_t* const* taps, int64_t count,
                                                                  int64_t pixel_step, int64_t channels,
                                                                  const int32_t* w, const int32_t* first, int32_t* to,
                                                                  int64_t to_step) {
  constexpr int64_t lanes = 16;
  constexpr __mmask16 all = 0xffff;  // g++ 12 warns that the intrinsics without a mask read uninitialised memory
  if (channels < lanes) return plain_channels<pixels, Byte>(taps, count, pixel_step, channels, w, first, to, to_step);
  for (int64_t begin = 0; begin < channels; begin += lanes) {
    const int64_t c = std::min(begin, channels - lanes);
    __m512i sum[pixels];
    RILL_UNROLL for (int p = 0; p < pixels; ++p) sum[p] = _mm512_loadu_si512(first + c);
    for (int64_t t = 0; t < count; ++t) {
      const __m512i weight = _mm512_loadu_si512(w + t * channels + c);
      RILL_UNROLL for (int p = 0; p < pixels; ++p) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(taps[t] + p * pixel_step + c));
        const __m512i wide = Byte(-1) < 0 ? _mm512_maskz_cvtepi8_epi32(all, x) : _mm512_maskz_cvtepu8_epi32(all, x);
        sum[p] = _mm512_dpwssd_epi32(sum[p], wide, weight);
      }
    }
    RILL_UNROLL for (int p = 0; p < pixels; ++p) _mm512_storeu_si512(to + p * to_step + c, sum[p]);
  }
}
template <int pixels, class Byte>
[[gnu::target("avx2")]] void avx2_channels(const uint8_t* const* taps, int64_t count, int64_t pixel_step,
                                           int64_t channels, const int32_t* w, const int32_t* first, int32_t* to,
                                           int64_t to_step) {
  constexpr int64_t lanes = 8;
  if (channels < lanes) return plain_channels<pixels, Byte>(taps, count, pixel_step, channels, w, first, to, to_step);
  for (int64_t begin = 0; begin < channels; begin += lanes) {
    const int64_t c = std::min(begin, channels - lanes);
    __m256i sum[pixels];
    RILL_UNROLL for (int p = 0; p < pixels; ++p) {
      sum[p] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + c));
    }
    for (int64_t t = 0; t < count; ++t) {
      const __m256i weight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + t * channels + c));
      RILL_UNROLL for (int p = 0; p < pixels; ++p) {
        const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(taps[t] + p * pixel_step + c));
        const __m256i wide = Byte(-1) < 0 ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x);
        sum[p] = _mm256_add_epi32(sum[p], _mm256_madd_epi16(wide, weight));
      }
    }
    RILL_UNROLL for (int p = 0; p < pixels; ++p) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + p * to_step + c), sum[p]);
    }
  }
}

enum class ByteIsa { plain, avx2, vnni };
ByteIsa byte_isa() {
  const std::string_view limit = isa_limit();
  const bool avx2 = limit != "baseline" && __builtin_cpu_supports("avx2");
  if (avx2 && limit != "avx2" && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"))
    return ByteIsa::vnni;
  if (avx2) return ByteIsa::avx2;
  return ByteIsa::plain;
}
#endif

template <class Byte>
ChannelTiles chosen_channel_tiles() {
#ifdef __x86_64__
  const ByteIsa isa = byte_isa();
  if (isa == ByteIsa::vnni) return {vnni_channels<1, Byte>, vnni_channels<byte_pixels, Byte>};
  if (isa == ByteIsa::avx2) return {avx2_channels<1, Byte>, avx2_channels<byte_pixels, Byte>};
#endif
  return {plain_channels<1, Byte>, plain_channels<byte_pixels, Byte>};
}

}  // namespace

const ByteTiles& byte_tiles() {
  static const ByteTiles chosen = []() -> ByteTiles {
#ifdef __x86_64__
    const ByteIsa isa = byte_isa();
    if (isa == ByteIsa::vnni)
      return {{most_byte_rows, 4, 1}, {vnni_tile<most_byte_rows>, vnni_tile<4>, vnni_tile<1>}, nullptr};
    if (isa == ByteIsa::avx2) return {{4, 2, 1}, {avx2_tile<4>, avx2_tile<2>, avx2_tile<1>}, avx2_widen};
#endif
    return {{4, 2, 1}, {plain_tile<4>, plain_tile<2>, plain_tile<1>}, nullptr};
  }();
  return chosen;
}

const ByteCorrections& byte_corrections() {
  static const ByteCorrections chosen = []() -> ByteCorrections {
#ifdef __x86_64__
    if (byte_isa() != ByteIsa::plain) return {avx2_sum, avx2_take_off};
#endif
    return {plain_sum, plain_take_off};
  }();
  return chosen;
}

const ChannelTiles& channel_tiles(bool is_signed) {
  static const ChannelTiles of_u8 = chosen_channel_tiles<uint8_t>(), of_i8 = chosen_channel_tiles<int8_t>();
  return is_signed ? of_i8 : of_u8;
}

}  // namespace rill::cpu
