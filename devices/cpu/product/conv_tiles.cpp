// The register tiles of rill's own convolution, for every instruction set by Highway: as those of gemm_tiles.cpp, but
// that A's rows are found through pointers, so that no patch of the input is ever copied. Start at tile().
#include "rill/devices/cpu/product/conv_tiles.h"
#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/conv_tiles.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include "rill/devices/kernel/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

// As many sums as leave registers for a row of B and an element of A.
constexpr bool many_registers = vector_registers == 32;
constexpr int tile_vectors = many_registers ? 4 : 2;
constexpr int most_rows(int vectors) { return vectors == 1 || (many_registers && vectors == 2) ? 12 : 6; }

// R rows from `row` on and V vectors of columns.
template <int R, int V, bool Channels, class T>
HWY_NOINLINE void tile(const ConvTile<T>& c, int64_t row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const size_t last = size_t(c.columns - (V - 1) * lanes);
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  const T* const* from = c.from + row;
  const T* b = c.b;
  for (int64_t tap = 0; tap < c.taps; ++tap, from += c.pitch) {
    const T* a[R];
    RILL_UNROLL for (int r = 0; r < R; ++r) a[r] = from[r] + c.offset;
    for (int64_t i = 0; i < (Channels ? 1 : c.depth); ++i, b += V * lanes) {
      hn::Vec<decltype(d)> columns[V];
      RILL_UNROLL for (int v = 0; v < V; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
      RILL_UNROLL for (int r = 0; r < R; ++r) {
        if constexpr (Channels) {
          RILL_UNROLL for (int v = 0; v < V; ++v) {
            const auto x = v == V - 1 ? load_up_to(d, a[r] + v * lanes, last) : hn::LoadU(d, a[r] + v * lanes);
            sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
          }
        } else {
          const auto x = hn::Set(d, a[r][i]);
          RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
        }
      }
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* to = c.to[row + r] + c.to_offset + v * lanes;
      const size_t n = v == V - 1 ? last : size_t(lanes);
      if (c.add) sum[r][v] = hn::Add(load_up_to(d, to, n), sum[r][v]);
      store_up_to(d, sum[r][v], to, n);
    }
  }
}

template <int V, bool Channels, class T>
void all_rows(const ConvTile<T>& c) {
  constexpr int most = most_rows(V);
  int64_t i = 0;
  for (; i + most <= c.rows; i += most) tile<most, V, Channels>(c, i);
  if (most > 6 && i + 6 <= c.rows) tile<6, V, Channels>(c, i), i += 6;
  if (i + 4 <= c.rows) tile<4, V, Channels>(c, i), i += 4;
  if (i + 2 <= c.rows) tile<2, V, Channels>(c, i), i += 2;
  for (; i < c.rows; ++i) tile<1, V, Channels>(c, i);
}

template <bool Channels, class T>
void sum(const ConvTile<T>& c) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  if constexpr (tile_vectors == 4) {
    if (c.columns > 3 * lanes) return all_rows<4, Channels>(c);
    if (c.columns > 2 * lanes) return all_rows<3, Channels>(c);
  }
  if (c.columns > lanes) return all_rows<2, Channels>(c);
  all_rows<1, Channels>(c);
}

// V vectors of columns from `column` on, of R rows.
template <int R, int V, class T>
HWY_NOINLINE void row_tile(const ConvRowTile<T>& c, int64_t column) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  const T *from = c.from + column, *a = c.a;
  for (int64_t i = 0; i < c.k; ++i, a += R) {
    const T* b = from + c.offsets[i];
    hn::Vec<decltype(d)> x[R];
    RILL_UNROLL for (int r = 0; r < R; ++r) x[r] = hn::Set(d, a[r]);
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      const auto y = hn::LoadU(d, b + v * lanes);
      RILL_UNROLL for (int r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(x[r], y, sum[r][v]);
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* to = c.to + r * c.to_row + column + v * lanes;
      hn::StoreU(c.add ? hn::Add(hn::LoadU(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}
template <int R, class T>
void all_columns(const ConvRowTile<T>& c) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  constexpr int most = many_registers ? (R <= 2 ? 8 : 4) : (R == 1 ? 8 : R == 4 ? 2 : 4);
  int64_t j = 0, left = (c.columns + lanes - 1) / lanes;
  for (; left >= most; left -= most, j += most * lanes) row_tile<R, most>(c, j);
  if (most > 4 && left >= 4) row_tile<R, 4>(c, j), left -= 4, j += 4 * lanes;
  if (left >= 2) row_tile<R, 2>(c, j), left -= 2, j += 2 * lanes;
  if (left > 0) row_tile<R, 1>(c, j), left -= 1, j += lanes;
  if (left > 0) row_tile<R, 1>(c, j);
}
template <class T>
void rows(const ConvRowTile<T>& c) {
  switch (c.rows) {
    case 1: return all_columns<1>(c);
    case 2: return all_columns<2>(c);
    case 3: return all_columns<3>(c);
    default: return all_columns<4>(c);
  }
}

template <class T>
ConvTiles<T> tiles() {
  return {sum<false, T>, sum<true, T>, rows<T>, int64_t(hn::Lanes(hn::ScalableTag<T>())), tile_vectors};
}
ConvTiles<float> tiles_f32() { return tiles<float>(); }
ConvTiles<double> tiles_f64() { return tiles<double>(); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(tiles_f32);
HWY_EXPORT(tiles_f64);

template <>
const ConvTiles<float>& conv_tiles() {
  static const ConvTiles<float> made = HWY_DYNAMIC_DISPATCH(tiles_f32)();
  return made;
}
template <>
const ConvTiles<double>& conv_tiles() {
  static const ConvTiles<double> made = HWY_DYNAMIC_DISPATCH(tiles_f64)();
  return made;
}

}  // namespace rill::cpu
#endif
