// See lines.h. Several rows are read at once, each from its start, so that the hardware prefetches all of them.
#include "rill/devices/matrix/lines.h"

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/matrix/lines.cpp"
// As in gemm_tiles.cpp: other instruction sets gain nothing here.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/cpu/product/gemm_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

constexpr int64_t line_sums_bytes = 128;

// y[r] for R rows, whose sums stay in registers.
template <int R, class T>
HWY_INLINE void dots_of_rows(const T* a, int64_t step, int64_t n, const T* x, T* y) {
  const hn::CappedTag<T, line_sums_bytes / sizeof(T)> d;
  constexpr int lanes = int(hn::MaxLanes(d)), sums = int(line_sums_bytes / sizeof(T)), vectors = sums / lanes;
  hn::Vec<decltype(d)> sum[R][vectors];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d); }
  int64_t j = 0;
  for (; j + sums <= n; j += sums) {
    RILL_UNROLL for (int v = 0; v < vectors; ++v) {
      const auto right = hn::LoadU(d, x + j + v * lanes);
      RILL_UNROLL for (int r = 0; r < R; ++r) sum[r][v] =
          hn::MulAdd(hn::LoadU(d, a + r * step + j + v * lanes), right, sum[r][v]);
    }
  }
  for (; j < n; j += lanes) {  // the remainder, padded with zeros
    const int v = int(j % sums) / lanes;
    const size_t count = size_t(n - j < lanes ? n - j : lanes);
    const auto right = load_first(d, x + j, count);
    RILL_UNROLL for (int r = 0; r < R; ++r) {
      const auto left = load_first(d, a + r * step + j, count);
      RILL_UNROLL for (int w = 0; w < vectors; ++w) {
        if (w == v) sum[r][w] = hn::MulAdd(left, right, sum[r][w]);
      }
    }
  }
  HWY_ALIGN T all[sums];
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < vectors; ++v) hn::Store(sum[r][v], d, all + v * lanes);
    RILL_UNROLL for (int half = sums / 2; half > 0; half /= 2) {
      RILL_UNROLL for (int i = 0; i < half; ++i) all[i] += all[i + half];
    }
    y[r] = all[0];
  }
}

// Rows at once: as many as fit in registers besides two of the operands.
template <class T>
constexpr int dot_rows() {
  constexpr int vectors =
      int(line_sums_bytes / sizeof(T) / hn::MaxLanes(hn::CappedTag<T, line_sums_bytes / sizeof(T)>()));
  return vectors <= 2 ? 4 : vectors <= 4 ? 2 : 1;
}

template <class T>
void dots(const T* a, int64_t step, int64_t rows, int64_t n, const T* x, T* y) {
  constexpr int together = dot_rows<T>();
  int64_t i = 0;
  for (; i + together <= rows; i += together) dots_of_rows<together>(a + i * step, step, n, x, y + i);
  for (; i < rows; ++i) dots_of_rows<1>(a + i * step, step, n, x, y + i);
}

template <int R, class T>
HWY_INLINE void add_rows(const T* a, int64_t step, int64_t n, const T* x, T* y) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = int64_t(hn::MaxLanes(d));
  hn::Vec<decltype(d)> by[R];
  RILL_UNROLL for (int r = 0; r < R; ++r) by[r] = hn::Set(d, x[r]);
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    auto sum = hn::LoadU(d, y + j);
    RILL_UNROLL for (int r = 0; r < R; ++r) sum = hn::MulAdd(by[r], hn::LoadU(d, a + r * step + j), sum);
    hn::StoreU(sum, d, y + j);
  }
  if (j == n) return;
  const size_t count = size_t(n - j);
  auto sum = load_first(d, y + j, count);
  RILL_UNROLL for (int r = 0; r < R; ++r) sum = hn::MulAdd(by[r], load_first(d, a + r * step + j, count), sum);
  store_first(d, sum, y + j, count);
}

template <class T>
void add(const T* a, int64_t step, int64_t rows, int64_t n, const T* x, T* y) {
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8) add_rows<8>(a + i * step, step, n, x + i, y);
  if (i + 4 <= rows) add_rows<4>(a + i * step, step, n, x + i, y), i += 4;
  if (i + 2 <= rows) add_rows<2>(a + i * step, step, n, x + i, y), i += 2;
  if (i < rows) add_rows<1>(a + i * step, step, n, x + i, y);
}

void dots_f32(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y) {
  dots(a, step, rows, n, x, y);
}
void dots_f64(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y) {
  dots(a, step, rows, n, x, y);
}
void add_f32(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y) {
  add(a, step, rows, n, x, y);
}
void add_f64(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y) {
  add(a, step, rows, n, x, y);
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(dots_f32);
HWY_EXPORT(dots_f64);
HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);
void line_dots(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(dots_f32)(a, step, rows, n, x, y);
}
void line_dots(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y) {
  HWY_DYNAMIC_DISPATCH(dots_f64)(a, step, rows, n, x, y);
}
void add_lines(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(add_f32)(a, step, rows, n, x, y);
}
void add_lines(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y) {
  HWY_DYNAMIC_DISPATCH(add_f64)(a, step, rows, n, x, y);
}

}  // namespace rill::cpu
#endif
