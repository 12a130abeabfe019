// See blend_rows.h. Sums stay in registers, four vectors at a time.
#include "rill/devices/cpu/image/blend_rows.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/image/blend_rows.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct BlendBytes {
  using T = uint8_t;
  using W = int32_t;
  using D = hn::ScalableTag<int32_t>;
  using DT = hn::Rebind<uint8_t, D>;
  using V = hn::Vec<D>;
  static HWY_INLINE V load(const T* from) { return hn::PromoteTo(D(), hn::LoadU(DT(), from)); }
  static HWY_INLINE V first(const T* from, W w) {
    return hn::Add(hn::Set(D(), 1 << (blend_bits - 1)), hn::Mul(load(from), hn::Set(D(), w)));
  }
  static HWY_INLINE V next(V sum, const T* from, W w) { return hn::Add(sum, hn::Mul(load(from), hn::Set(D(), w))); }
  static HWY_INLINE void store(V sum, T* to) {
    hn::StoreU(hn::DemoteTo(DT(), hn::ShiftRight<blend_bits>(sum)), DT(), to);
  }
  static T one(const T* from, int64_t step, const W* weights, int64_t count) {
    W sum = 1 << (blend_bits - 1);
    for (int64_t k = 0; k < count; ++k) sum += weights[k] * W(from[k * step]);
    return T(std::clamp(sum >> blend_bits, 0, 255));
  }
};

struct BlendFloats {
  using T = float;
  using W = float;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static HWY_INLINE V first(const T* from, W w) { return hn::Mul(hn::LoadU(D(), from), hn::Set(D(), w)); }
  static HWY_INLINE V next(V sum, const T* from, W w) { return hn::Add(sum, first(from, w)); }
  static HWY_INLINE void store(V sum, T* to) { hn::StoreU(sum, D(), to); }
  static T one(const T* from, int64_t step, const W* weights, int64_t count) {
    float sum = from[0] * weights[0];
    for (int64_t k = 1; k < count; ++k) sum += from[k * step] * weights[k];
    return sum;
  }
};

// `vectors` independent sums.
template <class B, int vectors>
HWY_INLINE void blend_vectors(const typename B::T* from, int64_t step, const typename B::W* weights, int64_t count,
                              typename B::T* out) {
  constexpr int64_t lanes = hn::MaxLanes(typename B::D());
  typename B::V sum[vectors];
  RILL_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = B::first(from + v * lanes, weights[0]);
  for (int64_t k = 1; k < count; ++k) {
    from += step;
    RILL_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = B::next(sum[v], from + v * lanes, weights[k]);
  }
  RILL_UNROLL for (int v = 0; v < vectors; ++v) B::store(sum[v], out + v * lanes);
}

template <class B>
void blend(const typename B::T* rows, int64_t step, const typename B::W* weights, int64_t count, typename B::T* out,
           int64_t n) {
  constexpr int64_t lanes = hn::MaxLanes(typename B::D());
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) blend_vectors<B, 4>(rows + i, step, weights, count, out + i);
  const int64_t left = (n - i) / lanes;
  if (left == 3) blend_vectors<B, 3>(rows + i, step, weights, count, out + i);
  if (left == 2) blend_vectors<B, 2>(rows + i, step, weights, count, out + i);
  if (left == 1) blend_vectors<B, 1>(rows + i, step, weights, count, out + i);
  for (i += left * lanes; i < n; ++i) out[i] = B::one(rows + i, step, weights, count);
}

void scale(const uint8_t* from, const float* by, const float* less, float* to, int64_t n, bool past_caches) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> db;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  const auto at = [&](int64_t k) HWY_ATTR {
    const auto x = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(db, from + k)));
    return hn::Sub(hn::Mul(x, hn::LoadU(d, by + k)), hn::LoadU(d, less + k));
  };
  if (past_caches && reinterpret_cast<uintptr_t>(to) % 64 == 0)
    for (; i + lanes <= n; i += lanes) hn::Stream(at(i), d, to + i);
  for (; i + lanes <= n; i += lanes) hn::StoreU(at(i), d, to + i);
  for (; i < n; ++i) to[i] = float(from[i]) * by[i] - less[i];
}

// A row of pixels in reverse: as many complete pixels at once as fit in 16 bytes; what is written beyond them is
// overwritten by the next ones.
void mirror(const uint8_t* from, int64_t pixels, int64_t channels, uint8_t* to) {
  const auto one = [&](int64_t x) {
    for (int64_t c = 0; c < channels; ++c) to[x * channels + c] = from[(pixels - 1 - x) * channels + c];
  };
  int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  if (const int64_t pixels_at_once = 16 / channels; pixels_at_once > 1) {
    const hn::FixedTag<uint8_t, 16> d;
    uint8_t positions[16] = {};
    for (int64_t i = 0; i < pixels_at_once * channels; ++i)
      positions[i] = uint8_t((pixels_at_once - 1 - i / channels) * channels + i % channels);
    const auto at = hn::LoadU(d, positions);
    for (; x < pixels && (x + pixels_at_once) * channels < 16; ++x)
      one(x);  // 16 bytes from there would end beyond the row
    for (; (pixels - x) * channels >= 16; x += pixels_at_once)
      hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, from + (pixels - x - pixels_at_once) * channels), at), d,
                 to + x * channels);
  }
#endif
  for (; x < pixels; ++x) one(x);
}

// out[i] = the sum over k of weights[k] rows[k * step + i], i < n.
template <class T, class W>
using BlendRows = void (*)(const T* rows, int64_t step, const W* weights, int64_t count, T* out, int64_t n);
using ScaleBytes = void (*)(const uint8_t* from, const float* by, const float* less, float* to, int64_t n,
                            bool past_caches);
using MirrorPixels = void (*)(const uint8_t* from, int64_t pixels, int64_t channels, uint8_t* to);
using BlendLoops = std::tuple<BlendRows<uint8_t, int32_t>, BlendRows<float, float>, ScaleBytes, MirrorPixels>;
BlendLoops make_blend_loops() { return {blend<BlendBytes>, blend<BlendFloats>, scale, mirror}; }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_blend_loops);

namespace {

// Which of the taps of new pixel i have a nonzero weight: integer sums are the same without the others.
template <class W>
std::pair<int64_t, int64_t> weighing(const BlendTaps<W>& taps, int64_t i) {
  int64_t first = 0, count = taps.count;
  if constexpr (std::is_integral_v<W>) {
    const W* const w = taps.weights + i * taps.count;
    while (count > 1 && w[count - 1] == 0) --count;
    while (count > 1 && w[first] == 0) ++first, --count;
  }
  return {first, count};
}

// Blends rows of `inner` numbers. Short rows, of one pixel, are first interleaved for several of the outer ones.
template <class T, class W, class Blend>
void blend_any(Blend blend, const T* from, int64_t outer, int64_t in, int64_t inner, const BlendTaps<W>& taps, T* to) {
  const int64_t rows_at_once = inner >= 64 ? 1 : std::min<int64_t>(outer, 16), old = in * inner,
                made = taps.out * inner;
  std::vector<T> side(rows_at_once > 1 ? size_t(old * rows_at_once) : 0),
      mixed(rows_at_once > 1 ? size_t(made * rows_at_once) : 0);
  for (int64_t o = 0; o < outer; o += rows_at_once) {
    const int64_t n = std::min(rows_at_once, outer - o), row = n * inner;
    const T* const source = rows_at_once > 1 ? side.data() : from + o * old;
    T* const target = rows_at_once > 1 ? mixed.data() : to + o * made;
    if (rows_at_once > 1) transpose(from + o * old, old, n, old, side.data(), n);
    for (int64_t i = 0; i < taps.out; ++i) {
      const auto [first, count] = weighing(taps, i);
      blend(source + (taps.first[i] + first) * row, row, taps.weights + i * taps.count + first, count, target + i * row,
            row);
    }
    if (rows_at_once > 1) transpose(mixed.data(), n, made, n, to + o * made, made);
  }
}

auto blend_loops() {
  static const auto loops = HWY_DYNAMIC_DISPATCH(make_blend_loops)();
  return loops;
}

}  // namespace

void blend_axis(const uint8_t* from, int64_t outer, int64_t in, int64_t inner, const BlendTaps<int32_t>& taps,
                uint8_t* to) {
  blend_any(std::get<0>(blend_loops()), from, outer, in, inner, taps, to);
}
void blend_axis(const float* from, int64_t outer, int64_t in, int64_t inner, const BlendTaps<float>& taps, float* to) {
  blend_any(std::get<1>(blend_loops()), from, outer, in, inner, taps, to);
}
void scale_bytes(const uint8_t* from, const float* by, const float* less, float* to, int64_t n, bool past_caches) {
  std::get<2>(blend_loops())(from, by, less, to, n, past_caches);
}
void end_of_scaling() { hwy::FlushStream(); }
void mirror_pixels(const uint8_t* from, int64_t pixels, int64_t channels, uint8_t* to) {
  std::get<3>(blend_loops())(from, pixels, channels, to);
}

}  // namespace rill::cpu
#endif
