// Moves selected lanes of a vector to its front: for sources that are compiled once for each instruction set.
#ifndef RILL_COMPRESSED_PLACES
#define RILL_COMPRESSED_PLACES
#include <array>
#include <cstddef>
#include <cstdint>

namespace rill::cpu {

// For each subset of `lanes` lanes, their positions in eight parts of a vector, one byte for each part.
template <int lanes>
constexpr auto compressed_positions = [] {
  constexpr int parts = 8 / lanes;
  std::array<uint64_t, size_t(1) << lanes> positions{};
  for (size_t set = 0; set < positions.size(); ++set)
    for (int lane = 0, to = 0; lane < lanes; ++lane)
      if (set >> lane & 1)
        for (int part = 0; part < parts; ++part) positions[set] |= uint64_t(lane * parts + part) << 8 * to++;
  return positions;
}();

}  // namespace rill::cpu
#endif

#if defined(RILL_DEVICES_CPU_COMPRESSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_COMPRESSED_INL_H_
#undef RILL_DEVICES_CPU_COMPRESSED_INL_H_
#else
#define RILL_DEVICES_CPU_COMPRESSED_INL_H_
#endif
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The lanes of v that `mask` selects, moved to the front; the lanes after them are arbitrary. Highway's own Compress
// copies its tables to the stack at each call when gcc compiles it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V compressed([[maybe_unused]] D d, V v, hn::Mask<D> mask) {
  [[maybe_unused]] constexpr bool wide = sizeof(hn::TFromD<D>) == 8;
#if HWY_TARGET == HWY_AVX3
  if constexpr (wide) return V{_mm512_maskz_compress_epi64(mask.raw, v.raw)};
  else return V{_mm512_maskz_compress_epi32(mask.raw, v.raw)};
#elif HWY_TARGET == HWY_AVX2
  const __m256i set = hn::VecFromMask(d, mask).raw;
  const uint64_t& positions = wide ? compressed_positions<4>[size_t(_mm256_movemask_pd(_mm256_castsi256_pd(set)))]
                                   : compressed_positions<8>[size_t(_mm256_movemask_ps(_mm256_castsi256_ps(set)))];
  const __m256i from = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&positions)));
  return V{_mm256_permutevar8x32_epi32(v.raw, from)};
#else
  return hn::Compress(v, mask);
#endif
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
