// See blend_pixels.h. VNNI adds four products of a byte and a signed byte to a sum of 32 bits, and VBMI brings any bytes of a
// register to any lane. A weight of 23 bits is three signed digits of 8, d0 + 2^8 d1 + 2^16 d2, and has a sum for each:
// all is exact, so that the order does not count.
#include "rill/devices/cpu/image/blend_pixels.h"

#include <algorithm>
#include <array>

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

// Which taps of a new pixel weigh something.
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

// Sixteen new numbers from `to` on. Whether they can be had so.
bool PixelTaps::add_chunk(const BlendTaps<int32_t>& taps, int64_t channels, int64_t to) {
  const int64_t first_pixel = to / channels, last_pixel = (to + lanes - 1) / channels;
  int64_t begin = INT64_MAX, end = 0, most = 0;
  for (int64_t p = first_pixel; p <= last_pixel; ++p) {
    const Weighing w(taps, p);
    begin = std::min(begin, w.first * channels), end = std::max(end, (w.first + w.count) * channels);
    most = std::max(most, w.count);
  }
  // Registers are loaded within the row.
  const int64_t latest = old_ - register_bytes;
  const bool wide = end - std::min(begin, latest) > register_bytes;
  begin = std::min(begin, wide ? latest - register_bytes : latest);
  if (begin < 0 || end - begin > 2 * register_bytes) return false;
  const int64_t count = (most + together - 1) / together;
  chunks_.push_back({begin, to, int64_t(groups_.size()) / group_bytes, count, wide});
  groups_.resize(groups_.size() + size_t(count * group_bytes));
  uint8_t* const groups = groups_.data() + chunks_.back().group * group_bytes;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t channel = (to + lane) % channels;
    const Weighing w(taps, (to + lane) / channels);
    for (int64_t k = 0; k < w.count; ++k) {
      uint8_t* const at = groups + k / together * group_bytes + lane * together + k % together;
      const auto digit = digits_of(w.weights[k]);
      if (digit[2] < -128 || digit[2] > 127) return false;
      at[0] = uint8_t((w.first + k) * channels + channel - begin);
      for (int64_t d = 0; d < digits; ++d) at[(1 + d) * lanes * together] = uint8_t(digit[size_t(d)]);
    }
  }
  return true;
}

#ifdef __x86_64__
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // within immintrin.h, of lanes that a full mask leaves out
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace {

// One chunk of `rows` rows.
template <int rows, bool wide>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi"), gnu::always_inline]] inline void blend_chunk(
    const uint8_t* from, int64_t old, uint8_t* to, int64_t made, const uint8_t* group, int64_t count) {
  __m512i x[rows], y[rows], low[rows], middle[rows], high[rows];
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    x[r] = _mm512_loadu_si512(from + r * old);
    if (wide) y[r] = _mm512_loadu_si512(from + r * old + register_bytes);
    low[r] = _mm512_set1_epi32(1 << (blend_bits - 1));
    middle[r] = high[r] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < count; ++g, group += PixelTaps::group_bytes) {
    const __m512i places = _mm512_loadu_si512(group), w0 = _mm512_loadu_si512(group + 64),
                  w1 = _mm512_loadu_si512(group + 128), w2 = _mm512_loadu_si512(group + 192);
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      const __m512i pixels =
          wide ? _mm512_permutex2var_epi8(x[r], places, y[r]) : _mm512_permutexvar_epi8(places, x[r]);
      low[r] = _mm512_dpbusd_epi32(low[r], pixels, w0);
      middle[r] = _mm512_dpbusd_epi32(middle[r], pixels, w1);
      high[r] = _mm512_dpbusd_epi32(high[r], pixels, w2);
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
    const std::vector<PixelTaps::Chunk>& chunks, const uint8_t* groups, const uint8_t* from, int64_t old, uint8_t* to,
    int64_t made) {
  for (const PixelTaps::Chunk& c : chunks) {
    const uint8_t* const group = groups + c.group * PixelTaps::group_bytes;
    if (c.wide) blend_chunk<rows, true>(from + c.from, old, to + c.to, made, group, c.count);
    else blend_chunk<rows, false>(from + c.from, old, to + c.to, made, group, c.count);
  }
}

}  // namespace

void PixelTaps::blend(const uint8_t* from, int64_t outer, uint8_t* to) const {
  constexpr int64_t together = 4;
  int64_t o = 0;
  for (; o + together <= outer; o += together)
    blend_chunks<together>(chunks_, groups_.data(), from + o * old_, old_, to + o * made_, made_);
  for (; o < outer; ++o) blend_chunks<1>(chunks_, groups_.data(), from + o * old_, old_, to + o * made_, made_);
}
#pragma GCC diagnostic pop
#else
void PixelTaps::blend(const uint8_t*, int64_t, uint8_t*) const {}
#endif

}  // namespace rill::cpu
