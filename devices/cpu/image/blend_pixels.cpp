// See blend_pixels.h. VNNI adds four products of a byte and a signed byte to a sum of 32 bits, and VBMI permutes the
// bytes of a register freely. A weight of 23 bits is three signed digits of 8 bits, d0 + 2^8 d1 + 2^16 d2, and has a
// sum for each: all sums are exact, so that their order does not matter.
#include "rill/devices/cpu/image/blend_pixels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/isa.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rill::cpu {
namespace {

constexpr int64_t register_bytes = 64;

bool has_pixel_instructions() {
#ifdef __x86_64__
  static const bool has = [] {
    const std::string_view limit = isa_limit();
    return limit != "baseline" && limit != "avx2" && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512vbmi");
  }();
  return has;
#else
  return false;
#endif
}

// Which taps of a new pixel have a nonzero weight.
struct Weighing {
  Weighing(const BlendTaps<int32_t>& taps, int64_t pixel) : weights(taps.weights + pixel * taps.count) {
    count = taps.count;
    while (count > 1 && weights[count - 1] == 0) --count;
    int64_t zeros = 0;
    while (count > 1 && *weights == 0) ++weights, ++zeros, --count;
    first = taps.first[pixel] + zeros;
  }
  const int32_t* weights;
  int64_t first, count;
};

std::array<int64_t, 3> digits_of(int64_t weight) {
  const int64_t low = int8_t(weight), rest = (weight - low) / 256, middle = int8_t(rest);
  return {low, middle, (rest - middle) / 256};
}

}  // namespace

PixelTaps::PixelTaps(const BlendTaps<int32_t>& taps, int64_t in, int64_t channels)
    : old_(in * channels), made_(taps.out * channels) {
  if (!has_pixel_instructions() || made_ < lanes || old_ < register_bytes) return;
  for (int64_t to = 0; to < made_; to += lanes)
    if (!add_chunk(taps, channels, std::min(to, made_ - lanes))) {
      chunks_.clear();
      return;
    }
}

// Adds sixteen new numbers from `to` on; false if these instructions cannot compute them.
bool PixelTaps::add_chunk(const BlendTaps<int32_t>& taps, int64_t channels, int64_t to) {
  const int64_t first_pixel = to / channels, last_pixel = (to + lanes - 1) / channels;
  int64_t begin = INT64_MAX, end = 0, most_taps = 0;
  for (int64_t p = first_pixel; p <= last_pixel; ++p) {
    const Weighing w(taps, p);
    begin = std::min(begin, w.first * channels), end = std::max(end, (w.first + w.count) * channels);
    most_taps = std::max(most_taps, w.count);
  }
  // Registers are loaded from inside the row.
  const int64_t latest = old_ - register_bytes;
  const bool wide = end - std::min(begin, latest) > register_bytes;
  begin = std::min(begin, wide ? latest - register_bytes : latest);
  if (begin < 0 || end - begin > 2 * register_bytes) return false;
  const int64_t count = (most_taps + taps_per_group - 1) / taps_per_group;
  const bool extra_group = most_taps % taps_per_group == 1;
  chunks_.push_back({begin, to, int64_t(groups_.size()), count - extra_group, wide, extra_group});
  groups_.resize(groups_.size() + size_t(count));
  Group* const groups = groups_.data() + chunks_.back().group;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t channel = (to + lane) % channels;
    const Weighing w(taps, (to + lane) / channels);
    for (int64_t k = 0; k < w.count; ++k) {
      uint8_t* const at = groups[k / taps_per_group].bytes + lane * taps_per_group + k % taps_per_group;
      const auto digit = digits_of(w.weights[k]);
      if (digit[2] < -128 || digit[2] > 127) return false;
      at[0] = uint8_t((w.first + k) * channels + channel - begin);
      if (extra_group && k / taps_per_group == count - 1)
        std::memcpy(at + lanes * taps_per_group, &w.weights[k], sizeof(int32_t));
      else
        for (int64_t d = 0; d < digits; ++d) at[(1 + d) * lanes * taps_per_group] = uint8_t(digit[size_t(d)]);
    }
  }
  return true;
}

#ifdef __x86_64__
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // inside immintrin.h, about lanes that a full mask excludes
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace {

// One chunk of `rows` rows.
template <int rows, bool wide>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi"), gnu::always_inline]] inline void blend_chunk(
    const uint8_t* from, int64_t old, uint8_t* to, int64_t made, const PixelTaps::Group* group, int64_t count,
    bool extra_group) {
  __m512i x[rows], y[rows], low[rows], middle[rows], high[rows];
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    x[r] = _mm512_loadu_si512(from + r * old);
    if (wide) y[r] = _mm512_loadu_si512(from + r * old + register_bytes);
    low[r] = _mm512_set1_epi32(1 << (blend_bits - 1));
    middle[r] = high[r] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < count; ++g, ++group) {
    const __m512i positions = _mm512_load_si512(group->bytes), w0 = _mm512_load_si512(group->bytes + 64),
                  w1 = _mm512_load_si512(group->bytes + 128), w2 = _mm512_load_si512(group->bytes + 192);
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      const __m512i pixels =
          wide ? _mm512_permutex2var_epi8(x[r], positions, y[r]) : _mm512_permutexvar_epi8(positions, x[r]);
      low[r] = _mm512_dpbusd_epi32(low[r], pixels, w0);
      middle[r] = _mm512_dpbusd_epi32(middle[r], pixels, w1);
      high[r] = _mm512_dpbusd_epi32(high[r], pixels, w2);
    }
  }
  if (extra_group) {  // on execution units that are idle otherwise
    const __m512i positions = _mm512_load_si512(group->bytes), w = _mm512_load_si512(group->bytes + 64);
    constexpr __mmask64 first = 0x1111111111111111;
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      const __m512i pixels = wide ? _mm512_maskz_permutex2var_epi8(first, x[r], positions, y[r])
                                  : _mm512_maskz_permutexvar_epi8(first, positions, x[r]);
      low[r] = _mm512_add_epi32(low[r], _mm512_mullo_epi32(pixels, w));
    }
  }
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(high[r], 16), _mm512_slli_epi32(middle[r], 8));
    const __m512i sum = _mm512_srai_epi32(_mm512_add_epi32(upper, low[r]), blend_bits);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + r * made),
                     _mm512_cvtusepi32_epi8(_mm512_max_epi32(sum, _mm512_setzero_si512())));
  }
}

template <int rows>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]] void blend_chunks(
    const std::vector<PixelTaps::Chunk>& chunks, const PixelTaps::Group* groups, const uint8_t* from, int64_t old,
    uint8_t* to, int64_t made) {
  for (const PixelTaps::Chunk& c : chunks) {
    const PixelTaps::Group* const group = groups + c.group;
    if (c.wide) blend_chunk<rows, true>(from + c.from, old, to + c.to, made, group, c.count, c.extra_group);
    else blend_chunk<rows, false>(from + c.from, old, to + c.to, made, group, c.count, c.extra_group);
  }
}

#define RILL_PIXEL_TARGET gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")

// --- Along columns ---------------------------------------------------------------------------------------------------

// Adds the products of `groups` times four taps to `rows` sums, digit by digit.
template <int groups, int rows>
[[RILL_PIXEL_TARGET, gnu::always_inline]] inline void add_taps(const __m512i (&pixels)[groups][rows],
                                                               const __m512i (&weights)[groups][3], __m512i* sum) {
  static_assert(blend_bits == 8 + 8 + 6);
  RILL_UNROLL for (int r = 0; r < rows; ++r) sum[r] = _mm512_set1_epi32(1 << (blend_bits - 1));
  RILL_UNROLL for (int d = 0; d < 3; ++d) {
    RILL_UNROLL for (int g = 0; g < groups; ++g) RILL_UNROLL for (int r = 0; r < rows; ++r) sum[r] =
        _mm512_dpbusd_epi32(sum[r], pixels[g][r], weights[g][d]);
    RILL_UNROLL for (int r = 0; r < rows; ++r) sum[r] = _mm512_srai_epi32(sum[r], d < 2 ? 8 : 6);
  }
}
// Four registers of sums as bytes from 0 to 255: each 16 bytes of the result have four bytes of each register.
[[RILL_PIXEL_TARGET, gnu::always_inline]] inline __m512i as_bytes(const __m512i* sum) {
  return _mm512_packus_epi16(_mm512_packs_epi32(sum[0], sum[1]), _mm512_packs_epi32(sum[2], sum[3]));
}

// out[i] as a weighted sum of rows, for 64 columns: bytes of four rows in the same column are interleaved first.
template <int groups>
[[RILL_PIXEL_TARGET, gnu::always_inline]] inline void blend_columns(const uint8_t* const (&rows)[groups][4], int64_t at,
                                                                    const __m512i (&weights)[groups][3], uint8_t* out) {
  __m512i pixels[groups][4], sum[4];
  RILL_UNROLL for (int g = 0; g < groups; ++g) {
    __m512i x[4];
    RILL_UNROLL for (int k = 0; k < 4; ++k) x[k] = _mm512_loadu_si512(rows[g][k] + at);
    const __m512i low = _mm512_unpacklo_epi8(x[0], x[1]), high = _mm512_unpackhi_epi8(x[0], x[1]),
                  low2 = _mm512_unpacklo_epi8(x[2], x[3]), high2 = _mm512_unpackhi_epi8(x[2], x[3]);
    pixels[g][0] = _mm512_unpacklo_epi16(low, low2), pixels[g][1] = _mm512_unpackhi_epi16(low, low2);
    pixels[g][2] = _mm512_unpacklo_epi16(high, high2), pixels[g][3] = _mm512_unpackhi_epi16(high, high2);
  }
  add_taps(pixels, weights, sum);
  _mm512_storeu_si512(out + at, as_bytes(sum));
}

template <int groups>
[[RILL_PIXEL_TARGET]] void blend_row(const uint8_t* from, int64_t step, const Weighing& w, uint8_t* out, int64_t n) {
  const uint8_t* rows[groups][4];
  __m512i weights[groups][3];
  for (int g = 0; g < groups; ++g) {
    uint8_t digits[3][4] = {};
    for (int k = 0; k < 4; ++k) {
      const int64_t tap = std::min<int64_t>(4 * g + k, w.count - 1);
      rows[g][k] = from + (w.first + tap) * step;
      const auto d = digits_of(4 * g + k < w.count ? w.weights[tap] : 0);
      for (int i = 0; i < 3; ++i) digits[i][k] = uint8_t(d[size_t(i)]);
    }
    for (int i = 0; i < 3; ++i) {
      int32_t four = 0;
      std::memcpy(&four, digits[i], 4);
      weights[g][i] = _mm512_set1_epi32(four);
    }
  }
  for (int64_t at = 0; at < n; at += register_bytes)
    blend_columns(rows, std::min(at, n - register_bytes), weights, out);
}

}  // namespace

void PixelTaps::blend(const uint8_t* from, int64_t outer, uint8_t* to) const {
  constexpr int64_t rows_at_once = 4;
  int64_t o = 0;
  for (; o + rows_at_once <= outer; o += rows_at_once)
    blend_chunks<rows_at_once>(chunks_, groups_.data(), from + o * old_, old_, to + o * made_, made_);
  for (; o < outer; ++o) blend_chunks<1>(chunks_, groups_.data(), from + o * old_, old_, to + o * made_, made_);
}

bool blend_bytes_below(const uint8_t* from, int64_t inner, const BlendTaps<int32_t>& taps, uint8_t* to) {
  if (!has_pixel_instructions() || inner < register_bytes) return false;
  for (int64_t i = 0; i < taps.out; ++i) {
    const Weighing w(taps, i);
    if (w.count > 8) return false;
  }
  for (int64_t i = 0; i < taps.out; ++i, to += inner) {
    const Weighing w(taps, i);
    if (w.count <= 4) blend_row<1>(from, inner, w, to, inner);
    else blend_row<2>(from, inner, w, to, inner);
  }
  return true;
}
#pragma GCC diagnostic pop
#else
void PixelTaps::blend(const uint8_t*, int64_t, uint8_t*) const {}
bool blend_bytes_below(const uint8_t*, int64_t, const BlendTaps<int32_t>&, uint8_t*) { return false; }
#endif

}  // namespace rill::cpu
