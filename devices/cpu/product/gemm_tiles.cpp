// Products of a few microseconds, and of few rows: A and B are read in place, and nothing is allocated. Start
// reading at small_tile(): R rows of C times V vectors stay in registers while k runs.
#include <algorithm>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/gemm_tiles.cpp"
// SSSE3 gains nothing over SSE4 here, nor does anything newer over the first AVX-512.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/cpu/product/gemm_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

// C[R, V vectors] (+)= A[R, k] B[k, V vectors]; the last vector of a row has `last` lanes. B's and C's columns are
// dense.
template <int R, int V, bool Tail, class T>
HWY_NOINLINE void small_tile(const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m,
                             int64_t k, size_t last, bool add) {
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

// One strip of C, up to tile_vectors wide: all m rows; a_m is the stride of A's.
template <int V, bool Tail, class T>
void strip_rows(int64_t m, const T* a, int64_t a_m, int64_t a_k, const T* b, int64_t b_k, T* c, int64_t c_m, int64_t k,
                size_t last, bool add) {
  int64_t i = 0;
  for (; i + tile_rows <= m; i += tile_rows)
    small_tile<tile_rows, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
  if (i + 4 <= m) {
    small_tile<4, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
    i += 4;
  }
  if (i + 2 <= m) {
    small_tile<2, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
    i += 2;
  }
  if (i < m) small_tile<1, V, Tail>(a + i * a_m, a_m, a_k, b, b_k, c + i * c_m, c_m, k, last, add);
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

// A single row has few sums: with fewer than this, each would wait for its last addition.
constexpr int row_vectors = 8;

template <class T>
void small(const Gemm& g, const T* a, const T* b, T* c) {
  alignas(64) T packed[small_gemm_pack];
  int64_t b_k = g.b_k;
  if (g.b_n != 1 && g.n > 1) {
    copy_matrix(g.k, g.n, b, g.b_k, g.b_n, packed, g.n);
    b = packed;
    b_k = g.n;
  }
  const int64_t width = tile_vectors * int64_t(hn::Lanes(hn::ScalableTag<T>())), strips = (g.n + width - 1) / width;
  const int64_t row_width = row_vectors * int64_t(hn::Lanes(hn::ScalableTag<T>()));
  const auto part = [&](int64_t i, int64_t end, int64_t j, int64_t last) {
    for (; g.m == 1 && j + row_width <= last; j += row_width)
      for (int64_t k = 0; k == 0 || k < g.k; k += gemm_block_k)
        small_tile<1, row_vectors, false>(a + k * g.a_k, g.a_m, g.a_k, b + k * b_k + j, b_k, c + j, g.n,
                                          std::min(gemm_block_k, g.k - k), size_t(0), k > 0);
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

void small_f32(const Gemm& g, const float* a, const float* b, float* c) { small(g, a, b, c); }
void small_f64(const Gemm& g, const double* a, const double* b, double* c) { small(g, a, b, c); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(small_f32);
HWY_EXPORT(small_f64);
void gemm_small(const Gemm& g, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(small_f32)(g, a, b, c);
}
void gemm_small(const Gemm& g, const double* a, const double* b, double* c) {
  HWY_DYNAMIC_DISPATCH(small_f64)(g, a, b, c);
}

}  // namespace rill::cpu
#endif
