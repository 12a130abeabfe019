// The register tiles of rill's own matrix products, for every instruction set by Highway, and the two loops around
// them. Start reading at tile(): R rows of C times V vectors stay in registers while k runs. See gemm.h for when these
// serve.
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/gemm_tiles.cpp"
// SSSE3 gains nothing over SSE4 here, nor does anything newer over the first AVX-512.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile holds up to 6 rows; with 32 vector registers 4 vectors a row (24 sums, 4 of B, 1 of A), with 16 two.
constexpr int tile_rows = few_rows;
constexpr int tile_vectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// Whether masked loads and stores of 4 and 8 byte lanes leave the other lanes' memory alone.
constexpr bool masks_are_safe = HWY_TARGET <= HWY_AVX2;

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* p, size_t n) {
  if constexpr (masks_are_safe) return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T* p, size_t n) {
  if constexpr (masks_are_safe) return hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
}

// C[R, V vectors] (+)= A[R, k] B[k, V vectors]; the last vector of a row has `last` lanes. B's and C's columns are
// dense.
template <int R, int V, bool Tail, class T>
HWY_NOINLINE void tile(const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m, int64_t k,
                       size_t last, bool add) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  auto load = [&](const T* p, int v) HWY_ATTR {
    return Tail && v == V - 1 ? load_first(d, p + v * lanes, last) : hn::LoadU(d, p + v * lanes);
  };
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  if (add) {  // C left the caches since its last block of k
    RILL_UNROLL for (int r = 0; r < R; ++r) {
      RILL_UNROLL for (int v = 0; v < V; ++v) __builtin_prefetch(c + r * c_m + v * lanes, 1);
    }
  }
  for (int64_t i = 0; i < k; ++i, a += a_k, b += b_k) {
    hn::Vec<decltype(d)> row[V];
    RILL_UNROLL for (int v = 0; v < V; ++v) row[v] = load(b, v);
    RILL_UNROLL for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, a[r * a_m]);
      RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, row[v], sum[r][v]);
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* p = c + r * c_m + v * lanes;
      if (add) sum[r][v] = hn::Add(load(c + r * c_m, v), sum[r][v]);
      if (Tail && v == V - 1) store_first(d, sum[r][v], p, last);
      else hn::StoreU(sum[r][v], d, p);
    }
  }
}

// One strip of C, up to tile_vectors wide: all m rows, whose A advances by a_m a row.
template <int V, bool Tail, class T>
void strip_rows(int64_t m, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m, int64_t k,
                size_t last, bool add) {
  int64_t i = 0;
  for (; i + tile_rows <= m; i += tile_rows)
    tile<tile_rows, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
  if (i + 4 <= m) {
    tile<4, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
    i += 4;
  }
  if (i + 2 <= m) {
    tile<2, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
    i += 2;
  }
  if (i < m) tile<1, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
}
template <class T>
void strip(int64_t m, int64_t width, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m,
           int64_t k, bool add) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  const int vectors = int((width + lanes - 1) / lanes);
  const size_t last = size_t(width - (vectors - 1) * lanes);
  const bool tail = int64_t(last) != lanes;
  auto rows = [&]<int V>() HWY_ATTR {
    if (tail) strip_rows<V, true>(m, a, a_m, a_k, b, b_k, c, c_m, k, last, add);
    else strip_rows<V, false>(m, a, a_m, a_k, b, b_k, c, c_m, k, last, add);
  };
  if constexpr (tile_vectors == 4) {
    if (vectors == 4) return rows.template operator()<4>();
    if (vectors == 3) return rows.template operator()<3>();
  }
  if (vectors == 2) return rows.template operator()<2>();
  rows.template operator()<1>();
}

template <class T>
int64_t strip_width() {
  return tile_vectors * int64_t(hn::Lanes(hn::ScalableTag<T>()));
}

// to[k][n] dense = from[k][n].
template <class T>
void pack(int64_t k, int64_t n, const T* from, int64_t s_k, int64_t s_n, T* to, int64_t to_k) {
  if (s_n == 1) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(to + i * to_k, from + i * s_k, size_t(n) * sizeof(T));
    return;
  }
  // Eight columns at a time, so that the strided reads of one pass share cache lines with the next.
  for (int64_t j = 0; j < n; j += 8) {
    const int64_t end = std::min(j + 8, n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t x = j; x < end; ++x) to[i * to_k + x] = from[i * s_k + x * s_n];
  }
}

template <class T>
void small(const Gemm& g, const T* a, const T* b, T* c) {
  alignas(64) T packed[small_gemm_pack];
  int64_t b_k = g.b_k;
  if (g.b_n != 1 && g.n > 1) {
    pack(g.k, g.n, b, g.b_k, g.b_n, packed, g.n);
    b = packed;
    b_k = g.n;
  }
  const int64_t width = strip_width<T>(), strips = (g.n + width - 1) / width;
  const auto part = [&](int64_t i, int64_t end, int64_t j, int64_t last) {
    for (; j < last; j += width)
      for (int64_t k = 0; k == 0 || k < g.k; k += gemm_block_k)
        strip(end - i, std::min(width, last - j), a + i * g.a_m + k * g.a_k, g.a_m, g.a_k, b + k * b_k + j, b_k,
              c + i * g.n + j, g.n, std::min(gemm_block_k, g.k - k), k > 0);
  };
  if (g.m * g.n * g.k < 2 * worth_a_thread) {
    part(0, g.m, 0, g.n);
  } else if (g.m >= 2 * tile_rows * num_threads() || strips < num_threads()) {
    parallel_for(g.m, std::max<int64_t>(tile_rows, worth_a_thread / (g.n * g.k)),
                 [&](int64_t begin, int64_t end) { part(begin, end, 0, g.n); });
  } else {
    parallel_for(strips, 1 + worth_a_thread / (g.m * g.k * width),
                 [&](int64_t begin, int64_t end) { part(0, g.m, begin * width, std::min(g.n, end * width)); });
  }
}

// C is divided into blocks, which threads share. Rows of blocks that one thread has are computed together: B is packed
// once for all of them, so many columns at a time, and each block of A once for these columns.
constexpr int64_t block_k = gemm_block_k, most_block_rows = 24 * tile_rows, panel_blocks = 8;
template <class T>
int64_t block_columns() {
  return 8 * strip_width<T>();
}
// Blocks of about the same height, so that no thread has the remainder alone.
int64_t block_rows(int64_t m) {
  const int64_t blocks = (m + most_block_rows - 1) / most_block_rows, rows = (m + blocks - 1) / blocks;
  return (rows + tile_rows - 1) / tile_rows * tile_rows;
}

// A part of C, [rows, columns], over all of k: B is packed into strips, A into groups of tile_rows rows.
template <class T>
void panel(const Gemm& g, const T* a, const T* b, T* c, int64_t rows, int64_t columns, T* pack_a, T* pack_b) {
  const int64_t width = strip_width<T>(), height = block_rows(g.m);
  for (int64_t k0 = 0; k0 < g.k; k0 += block_k) {
    const int64_t kc = std::min(block_k, g.k - k0);
    for (int64_t j = 0; j < columns; j += width)
      pack(kc, std::min(width, columns - j), b + k0 * g.b_k + j * g.b_n, g.b_k, g.b_n, pack_b + j * kc, width);
    for (int64_t i0 = 0; i0 < rows; i0 += height) {
      const int64_t end = std::min(rows, i0 + height);
      for (int64_t i = i0; i < end; i += tile_rows)
        pack(kc, std::min<int64_t>(tile_rows, end - i), a + k0 * g.a_k + i * g.a_m, g.a_k, g.a_m,
             pack_a + (i - i0) * kc, tile_rows);
      for (int64_t j = 0; j < columns; j += width)
        for (int64_t i = i0; i < end; i += tile_rows)
          strip(std::min<int64_t>(tile_rows, end - i), std::min(width, columns - j), pack_a + (i - i0) * kc, int64_t(1),
                int64_t(tile_rows), pack_b + j * kc, width, c + i * g.n + j, g.n, kc, k0 > 0);
    }
  }
}

template <class T>
void blocked(const Gemm& g, const T* a, const T* b, T* c) {
  const int64_t columns = block_columns<T>(), wide = std::min(panel_blocks * columns, g.n), height = block_rows(g.m);
  const int64_t down = (g.m + height - 1) / height, across = (g.n + columns - 1) / columns;
  parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
    const size_t a_bytes = size_t(height * block_k) * sizeof(T),
                 b_bytes = size_t((wide + strip_width<T>()) * block_k) * sizeof(T);
    Ref<Buffer> space = allocate(Device(), a_bytes + b_bytes);
    T* pack_a = static_cast<T*>(space->data);
    T* pack_b = pack_a + height * block_k;
    while (begin < end) {  // whole rows of blocks, or a part of one
      const int64_t first = begin % across, i = begin / across * height;
      const int64_t count = first == 0 && end - begin >= across ? (end - begin) / across : 1;
      const int64_t last = std::min(across, first + end - begin);
      for (int64_t j = first * columns; j < last * columns; j += panel_blocks * columns)
        panel(g, a + i * g.a_m, b + j * g.b_n, c + i * g.n + j, std::min(count * height, g.m - i),
              std::min(std::min(last * columns, g.n) - j, panel_blocks * columns), pack_a, pack_b);
      begin += count * (last - first);
    }
  });
}

void small_f32(const Gemm& g, const float* a, const float* b, float* c) { small(g, a, b, c); }
void small_f64(const Gemm& g, const double* a, const double* b, double* c) { small(g, a, b, c); }
void blocked_f32(const Gemm& g, const float* a, const float* b, float* c) { blocked(g, a, b, c); }
void blocked_f64(const Gemm& g, const double* a, const double* b, double* c) { blocked(g, a, b, c); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(small_f32);
HWY_EXPORT(small_f64);
HWY_EXPORT(blocked_f32);
HWY_EXPORT(blocked_f64);
void gemm_small(const Gemm& g, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(small_f32)(g, a, b, c);
}
void gemm_small(const Gemm& g, const double* a, const double* b, double* c) {
  HWY_DYNAMIC_DISPATCH(small_f64)(g, a, b, c);
}
void gemm_blocked(const Gemm& g, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(blocked_f32)(g, a, b, c);
}
void gemm_blocked(const Gemm& g, const double* a, const double* b, double* c) {
  HWY_DYNAMIC_DISPATCH(blocked_f64)(g, a, b, c);
}

}  // namespace rill::cpu
#endif
