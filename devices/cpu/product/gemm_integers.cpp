// Products of matrices of integers and of bools.
//
// Integers wrap around, so a sum is the same in any order, and signed ones are multiplied as the unsigned ones with the
// same bits: one kernel for each width is enough, and 8 bits are computed in 16, which vectors can multiply. Blocks of
// A and B are copied into contiguous strips, padded with zeros; tile() multiplies two of them in registers.
//
// A sum of bools is known at the first true product: gemm_bools() stops there.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/gemm_integers.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int tile_vectors = 2;

template <class T>
void tile(const T* a, const T* b, int64_t k, T* c) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[integer_tile_rows][tile_vectors];
  RILL_UNROLL for (auto& row : sum) { RILL_UNROLL for (auto& s : row) s = hn::Zero(d); }
  for (int64_t i = 0; i < k; ++i, a += integer_tile_rows, b += tile_vectors * lanes) {
    hn::Vec<decltype(d)> row[tile_vectors];
    RILL_UNROLL for (int v = 0; v < tile_vectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
    RILL_UNROLL for (int r = 0; r < integer_tile_rows; ++r) {
      const auto x = hn::Set(d, a[r]);
      RILL_UNROLL for (int v = 0; v < tile_vectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Mul(x, row[v]));
    }
  }
  RILL_UNROLL for (int r = 0; r < integer_tile_rows; ++r) {
    RILL_UNROLL for (int v = 0; v < tile_vectors; ++v) hn::StoreU(sum[r][v], d, c + (r * tile_vectors + v) * lanes);
  }
}

// c[j] = sum of a[i] b[i * step + j] over i < k, for as many columns as four vectors hold.
template <class E, class T>
void row(const T* a, const E* b, int64_t k, int64_t step, T* c) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  constexpr int count = 2 * tile_vectors;
  hn::Vec<decltype(d)> sum[count];
  RILL_UNROLL for (auto& s : sum) s = hn::Zero(d);
  const auto load = [&](const E* from) HWY_ATTR {
    if constexpr (std::is_same_v<E, T>) return hn::LoadU(d, from);
    else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<E, decltype(d)>(), from));
  };
  for (int64_t i = 0; i < k; ++i, b += step) {
    const auto x = hn::Set(d, a[i]);
    RILL_UNROLL for (int v = 0; v < count; ++v) sum[v] = hn::Add(sum[v], hn::Mul(x, load(b + v * lanes)));
  }
  RILL_UNROLL for (int v = 0; v < count; ++v) hn::StoreU(sum[v], d, c + v * lanes);
}

template <class T>
T dot(const T* a, const T* b, int64_t k) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  constexpr int count = 2 * tile_vectors;
  hn::Vec<decltype(d)> sum[count];
  RILL_UNROLL for (auto& s : sum) s = hn::Zero(d);
  int64_t i = 0;
  for (; i + count * lanes <= k; i += count * lanes) {
    RILL_UNROLL for (int v = 0; v < count; ++v) {
      sum[v] = hn::Add(sum[v], hn::Mul(hn::LoadU(d, a + i + v * lanes), hn::LoadU(d, b + i + v * lanes)));
    }
  }
  HWY_ALIGN T each[hn::MaxLanes(hn::ScalableTag<T>())];
  hn::Store(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), d, each);
  uint64_t total = 0;
  for (int64_t x = 0; x < lanes; ++x) total += each[x];
  for (; i < k; ++i) total += uint64_t(a[i]) * b[i];
  return T(total);
}

template <class T>
IntegerTile<T> integer_tile() {
  return {tile<T>, row<T, T>, dot<T>, tile_vectors * int64_t(hn::Lanes(hn::ScalableTag<T>()))};
}
IntegerTiles integer_tiles() {
  return {integer_tile<uint16_t>(), integer_tile<uint32_t>(), integer_tile<uint64_t>(), row<uint8_t, uint16_t>};
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(integer_tiles);

namespace {

const IntegerTiles& all_tiles() {
  static const IntegerTiles tiles = HWY_DYNAMIC_DISPATCH(integer_tiles)();
  return tiles;
}
template <class T>
const IntegerTile<T>& tile_of() {
  const IntegerTiles& tiles = all_tiles();
  if constexpr (sizeof(T) == 2) return tiles.u16;
  else if constexpr (sizeof(T) == 4) return tiles.u32;
  else return tiles.u64;
}

constexpr int64_t block_k = gemm_block_k, block_rows = 64 * integer_tile_rows, block_tiles = 8;

// to[i][j] = from[i * s_k + j * s_n] for i < k, j < n, and 0 for n <= j < width.
template <class E, class T>
void pack_strip(int64_t k, int64_t n, const E* from, int64_t s_k, int64_t s_n, T* to, int64_t width) {
  if (n < width) std::memset(to, 0, size_t(k * width) * sizeof(T));
  if (s_n == 1) {
    for (int64_t i = 0; i < k; ++i) map_run(from + i * s_k, to + i * width, size_t(n), [](E x) { return T(x); });
    return;
  }
  // Eight columns at a time, so that the strided reads of one pass share cache lines with the next.
  for (int64_t j = 0; j < n; j += 8) {
    const int64_t end = std::min(j + 8, n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t x = j; x < end; ++x) to[i * width + x] = T(from[i * s_k + x * s_n]);
  }
}

// A block of C: [rows, columns], over all of k.
template <class E, class T>
void block(const Gemm& g, const E* a, const E* b, E* c, int64_t rows, int64_t columns, T* pack_a, T* pack_b) {
  const int64_t width = tile_of<T>().width;
  const auto run = tile_of<T>().run;
  T sums[integer_tile_rows * widest_integer_tile];
  for (int64_t k0 = 0; k0 < g.k; k0 += block_k) {
    const int64_t kc = std::min(block_k, g.k - k0);
    for (int64_t j = 0; j < columns; j += width)
      pack_strip(kc, std::min(width, columns - j), b + k0 * g.b_k + j * g.b_n, g.b_k, g.b_n, pack_b + j * kc, width);
    for (int64_t i = 0; i < rows; i += integer_tile_rows)
      pack_strip(kc, std::min<int64_t>(integer_tile_rows, rows - i), a + k0 * g.a_k + i * g.a_m, g.a_k, g.a_m,
                 pack_a + i * kc, integer_tile_rows);
    for (int64_t j = 0; j < columns; j += width)
      for (int64_t i = 0; i < rows; i += integer_tile_rows) {
        run(pack_a + i * kc, pack_b + j * kc, kc, sums);
        for (int64_t r = 0; r < std::min<int64_t>(integer_tile_rows, rows - i); ++r) {
          E* to = c + (i + r) * g.n + j;
          const T* from = sums + r * width;
          for (int64_t x = 0; x < std::min(width, columns - j); ++x) to[x] = E(k0 == 0 ? from[x] : T(to[x] + from[x]));
        }
      }
  }
}

// sum_i a[i] b[i]. Partial sums in a block of a fixed length are what compilers vectorise.
template <class E>
E dot(const E* a, const E* b, int64_t k) {
  using T = std::conditional_t<sizeof(E) == 1, uint16_t, E>;
  if constexpr (std::is_same_v<E, T>) return tile_of<T>().dot(a, b, k);
  constexpr int64_t lanes = 64;
  T sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    E x[lanes], y[lanes];
    std::memcpy(x, a + i, sizeof(x));
    std::memcpy(y, b + i, sizeof(y));
    for (int64_t j = 0; j < lanes; ++j) sums[j] = T(sums[j] + uint32_t(1) * x[j] * y[j]);
  }
  for (; i < k; ++i) sums[0] = T(sums[0] + uint32_t(1) * a[i] * b[i]);
  uint64_t sum = 0;
  for (T s : sums) sum += s;
  return E(sum);
}

// A vector times a matrix whose columns are dense, or a product of two vectors.
template <class E>
void dots(const Gemm& g, const E* a, const E* b, E* c) {
  const auto run = [](const E* x, int64_t step, int64_t n, Ref<Buffer>& copy) {
    if (step == 1 || n == 1) return x;
    copy = allocate(Device(), size_t(n) * sizeof(E));
    E* to = static_cast<E*>(copy->data);
    for (int64_t i = 0; i < n; ++i) to[i] = x[i * step];
    return static_cast<const E*>(to);
  };
  Ref<Buffer> of_a, of_b;
  a = run(a, g.a_k, g.k, of_a);
  if (g.n == 1) b = run(b, g.b_k, g.k, of_b);
  if (g.n > 1)
    return parallel_for(g.n, 1 + worth_a_thread / g.k, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) c[j] = dot(a, b + j * g.b_n, g.k);
    });
  std::atomic<E> sum = 0;
  parallel_for(g.k, worth_a_thread, [&](int64_t begin, int64_t end) { sum += dot(a + begin, b + begin, end - begin); });
  *c = sum;
}

// A vector times a matrix whose rows are dense: columns in groups that fit in registers.
template <class E, class T>
void one_row(const Gemm& g, const E* a, const E* b, E* c) {
  const int64_t width = 2 * tile_of<T>().width, groups = (g.n + width - 1) / width;
  parallel_for(groups, 1 + worth_a_thread / (width * g.k), [&](int64_t begin, int64_t end) {
    constexpr int64_t depth = 256;
    T x[depth], sums[2 * widest_integer_tile];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t j = i * width, columns = std::min(width, g.n - j);
      T total[2 * widest_integer_tile] = {};
      for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
        const int64_t kc = std::min(depth, g.k - k0);
        for (int64_t k = 0; k < kc; ++k) x[k] = T(a[(k0 + k) * g.a_k]);
        const E* from = b + k0 * g.b_k + j;
        if (columns < width) {
          for (int64_t k = 0; k < kc; ++k)
            for (int64_t y = 0; y < columns; ++y) total[y] = T(total[y] + uint32_t(1) * x[k] * T(from[k * g.b_k + y]));
          continue;
        }
        if constexpr (std::is_same_v<E, T>) tile_of<T>().row(x, from, kc, g.b_k, sums);
        else all_tiles().row_u8(x, from, kc, g.b_k, sums);
        for (int64_t y = 0; y < width; ++y) total[y] = T(total[y] + sums[y]);
      }
      for (int64_t y = 0; y < columns; ++y) c[j + y] = E(total[y]);
    }
  });
}

// For so few numbers that packing costs more than it saves.
template <class E>
void few_numbers(const Gemm& g, const E* a, const E* b, E* c) {
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < g.k; ++k) sum += uint64_t(a[i * g.a_m + k * g.a_k]) * uint64_t(b[k * g.b_k + j * g.b_n]);
      c[i * g.n + j] = E(sum);
    }
}

}  // namespace

template <class E>
void gemm_integers(const Gemm& g, const E* a, const E* b, E* c) {
  using T = std::conditional_t<sizeof(E) == 1, uint16_t, E>;
  constexpr int64_t few = 16 * 16 * 16;
  if (g.m * g.n * g.k <= few) return few_numbers(g, a, b, c);
  if (g.m == 1 && (g.n == 1 || g.b_k == 1)) return dots(g, a, b, c);
  if (g.m == 1 && g.b_n == 1) return one_row<E, T>(g, a, b, c);
  const int64_t width = tile_of<T>().width, block_columns = block_tiles * width;
  const int64_t down = (g.m + block_rows - 1) / block_rows, across = (g.n + block_columns - 1) / block_columns;
  const int64_t depth = std::min(block_k, g.k);
  const int64_t padded_rows =
      (std::min(block_rows, g.m) + integer_tile_rows - 1) / integer_tile_rows * integer_tile_rows;
  const int64_t padded_columns = (std::min(block_columns, g.n) + width - 1) / width * width;
  parallel_for(down * across, 1 + worth_a_thread / (padded_rows * padded_columns * g.k),
               [&](int64_t begin, int64_t end) {
                 Ref<Buffer> space = allocate(Device(), size_t((padded_rows + padded_columns) * depth) * sizeof(T));
                 T* pack_b = static_cast<T*>(space->data);
                 T* pack_a = pack_b + padded_columns * depth;
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t i = t / across * block_rows, j = t % across * block_columns;
                   block(g, a + i * g.a_m, b + j * g.b_n, c + i * g.n + j, std::min(block_rows, g.m - i),
                         std::min(block_columns, g.n - j), pack_a, pack_b);
                 }
               });
}
template void gemm_integers(const Gemm&, const uint8_t*, const uint8_t*, uint8_t*);
template void gemm_integers(const Gemm&, const uint16_t*, const uint16_t*, uint16_t*);
template void gemm_integers(const Gemm&, const uint32_t*, const uint32_t*, uint32_t*);
template void gemm_integers(const Gemm&, const uint64_t*, const uint64_t*, uint64_t*);

namespace {

constexpr int64_t bools_at_once = 64;  // a length that compilers vectorise

// Whether a[k] and b[k] are both true for one k; both are dense.
bool meet(const uint8_t* a, const uint8_t* b, int64_t k) {
  int64_t i = 0;
  for (; i + bools_at_once <= k; i += bools_at_once) {
    uint8_t x[bools_at_once], y[bools_at_once];
    std::memcpy(x, a + i, sizeof(x));
    std::memcpy(y, b + i, sizeof(y));
    uint8_t found = 0;
    for (int64_t j = 0; j < bools_at_once; ++j) found |= x[j] & y[j];
    if (found) return true;
  }
  for (; i < k; ++i)
    if (a[i] & b[i]) return true;
  return false;
}

// c |= b, for n bools; returns whether all of c are true now.
bool or_into(const uint8_t* b, uint8_t* c, int64_t n) {
  uint8_t every = 1;
  int64_t i = 0;
  for (; i + bools_at_once <= n; i += bools_at_once) {
    uint8_t x[bools_at_once], y[bools_at_once];
    std::memcpy(x, b + i, sizeof(x));
    std::memcpy(y, c + i, sizeof(y));
    for (int64_t j = 0; j < bools_at_once; ++j) y[j] |= x[j];
    for (int64_t j = 0; j < bools_at_once; ++j) every &= y[j];
    std::memcpy(c + i, y, sizeof(y));
  }
  for (; i < n; ++i) every &= c[i] |= b[i];
  return every != 0;
}

}  // namespace

void gemm_bools(const Gemm& g, const uint8_t* a, const uint8_t* b, uint8_t* c) {
  // If the columns of b are dense, each element by itself; else row by row.
  const bool columns_are_dense = g.n == 1 ? g.b_k == 1 && g.a_k == 1 : g.b_n != 1;
  parallel_for(g.m, 1 + worth_a_thread / (1 + g.n * g.k), [&](int64_t begin, int64_t end) {
    Ref<Buffer> space;
    if (columns_are_dense && g.a_k != 1) space = allocate(Device(), size_t(g.k));
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* row = a + i * g.a_m;
      uint8_t* to = c + i * g.n;
      if (columns_are_dense) {
        if (g.a_k != 1) {
          uint8_t* copy = static_cast<uint8_t*>(space->data);
          for (int64_t k = 0; k < g.k; ++k) copy[k] = row[k * g.a_k];
          row = copy;
        }
        for (int64_t j = 0; j < g.n; ++j) to[j] = meet(row, b + j * g.b_n, g.k);
      } else {
        std::memset(to, 0, size_t(g.n));
        for (int64_t k = 0; k < g.k; ++k)
          if (row[k * g.a_k] && or_into(b + k * g.b_k, to, g.n)) break;
      }
    }
  });
}

}  // namespace rill::cpu
#endif
