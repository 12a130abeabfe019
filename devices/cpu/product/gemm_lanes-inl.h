// What rill's own matrix products and convolutions share for each instruction set: how many registers a tile may take,
// relu of its sums, and transposed copies of matrices.
#include <cstring>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/vectors.h"

#if defined(RILL_DEVICES_CPU_GEMM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_GEMM_LANES_INL_H_
#undef RILL_DEVICES_CPU_GEMM_LANES_INL_H_
#else
#define RILL_DEVICES_CPU_GEMM_LANES_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

// A tile holds up to 6 rows; with 32 vector registers 4 vectors a row (24 sums, 4 of B, 1 of A), with 16 two.
constexpr int tile_rows = few_rows;
constexpr int tile_vectors = vector_registers == 32 ? 4 : 2;

// max(x, 0); NaN stays NaN.
template <class V>
HWY_INLINE V relu_of(V x) {
  return hn::IfThenZeroElse(hn::Le(x, hn::Zero(hn::DFromV<V>())), x);
}

#if HWY_TARGET != HWY_SCALAR
// Loads 16 bytes of each of several rows: block b of 16 bytes comes from row b * (elements in a block).
template <class D, class T>
HWY_INLINE hn::Vec<D> load_lines(D d, const T* p, int64_t step) {
  if constexpr (hn::MaxLanes(d) * sizeof(T) <= 16) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_lines(half, p + int64_t(hn::MaxLanes(half)) * step, step), load_lines(half, p, step));
  }
}
#endif

// to[i][j] = from[j][i] for i < rows, j < columns; the rows of `from` and of `to` are dense.
template <class T>
void transposed_copy(int64_t rows, int64_t columns, const T* from, int64_t from_step, T* to, int64_t to_step) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = hn::MaxLanes(d), square = 16 / sizeof(T);
  constexpr int64_t steps = 64 / 16;  // the steps that read one cache line: each prefetches a part of the next lines
  for (; j + lanes <= columns; j += lanes) {
    const bool more = j + 2 * lanes <= columns;
    int64_t i = 0;
    for (; i + square <= rows; i += square) {
      hn::Vec<decltype(d)> v[square];
      if (more) {
        const T* next = from + (j + lanes + i / square % steps * (lanes / steps)) * from_step + i;
        RILL_UNROLL for (int r = 0; r < lanes / steps; ++r) __builtin_prefetch(next + r * from_step);
      }
      RILL_UNROLL for (int r = 0; r < square; ++r) v[r] = load_lines(d, from + (j + r) * from_step + i, from_step);
      transpose_squares(d, v);
      RILL_UNROLL for (int r = 0; r < square; ++r) hn::StoreU(v[r], d, to + (i + r) * to_step + j);
    }
    for (; i < rows; ++i)
      for (int64_t x = j; x < j + lanes; ++x) to[i * to_step + x] = from[x * from_step + i];
  }
#endif
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t x = j; x < columns; ++x) to[i * to_step + x] = from[x * from_step + i];
}

// to[i][j] = from[i][j]; the rows of `to` are dense.
template <class T>
void copy_matrix(int64_t rows, int64_t columns, const T* from, int64_t s_row, int64_t s_column, T* to,
                 int64_t to_step) {
  if (s_column == 1) {
    for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * s_row, size_t(columns) * sizeof(T));
  } else if (s_row == 1) {
    transposed_copy(rows, columns, from, s_column, to, to_step);
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) to[i * to_step + j] = from[i * s_row + j * s_column];
  }
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
