// Reductions whose results do not depend on the order, of operands that are dense rows or contiguous columns: in memory
// order, without the reduction tree. Each function returns false for other layouts. For reduce.cpp.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "rill/devices/cpu/reduce/reduce_fold.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::cpu {
namespace {

// --- Layouts ---------------------------------------------------------------------------------------------------------

// Dense rows, each of which is folded into one number.
struct RowsOfRuns {
  AxisList remaining;
  int64_t count = 1, n = 1;

  // False if the operand has another layout.
  bool find(const FoldAxes& axes) {
    AxisList run;
    for (const FoldAxis& a : axes) {
      if (!a.reduced && !run.empty()) return false;
      join(a.reduced ? run : remaining, {a.size, a.stride});
    }
    if (run.size() != 1 || run[0].stride != 1) return false;
    count = cpu::count(remaining), n = run[0].size;
    return true;
  }
  // out[r] = fold(row r, n). Threads share one long row; `combine` combines their results.
  template <class T, class R, class F, class J>
  void each(const T* x, R* out, F fold, J combine) const {
    if (count != 1)
      return parallel_for(count, 1 + parallel_grain / (n + 1), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) out[r] = fold(x + offset_of(remaining, r), n);
      });
    ForkMutex mutex;
    std::optional<R> total;
    parallel_for(n, parallel_grain, [&](int64_t begin, int64_t end) {
      const R part = fold(x + begin, end - begin);
      const std::lock_guard lock(mutex);
      total = total ? combine(*total, part) : part;
    });
    *out = total ? *total : fold(x, 0);
  }
};

// Contiguous columns, each of which is folded into one number.
struct Columns {
  int64_t rows = 1, step = 0, count = 1;

  // False if the operand has another layout.
  bool find(const FoldAxes& axes) {
    if (axes.size() != 2 || axes[0].reduced == axes[1].reduced) return false;
    const FoldAxis &down = axes[axes[0].reduced ? 0 : 1], &across = axes[axes[0].reduced ? 1 : 0];
    rows = down.size, step = down.stride, count = across.size;
    return across.stride == 1;
  }
  // Calls f with the first of each `strip` columns, in parallel; the last strip overlaps the one before.
  template <class F>
  void for_strips(int64_t strip, F f) const {
    parallel_for(count / strip, 1 + parallel_grain / (strip * (rows + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) f(s * strip);
    });
    if (count % strip != 0) f(count - strip);
  }
};

// --- Sums of integers of up to 32 bits -------------------------------------------------------------------------------

// Those of up to 16 bits: as many at a time as cannot overflow partial sums of twice the width, before these are added
// up. Blocks of a fixed length are what compilers vectorise.
template <class S>
int64_t sum_small(const S* x, int64_t n) {
  using Running = std::conditional_t<sizeof(S) == 1, int16_t, int32_t>;
  constexpr int64_t lanes = 64, most = 128;
  int64_t sum = 0, i = 0;
  while (i + lanes <= n) {
    Running running[lanes] = {};
    for (int64_t b = 0; b < most && i + lanes <= n; ++b, i += lanes) {
      S block[lanes];
      std::memcpy(block, x + i, sizeof(block));
      for (int64_t j = 0; j < lanes; ++j) running[j] = Running(running[j] + block[j]);
    }
    for (Running r : running) sum += r;
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

template <class S>
int64_t sum_of(const S* x, int64_t n) {
  if constexpr (std::is_same_v<S, uint8_t>) return reduce_tables().sum_u8(x, n);
  else if constexpr (sizeof(S) <= 2) return sum_small(x, n);
  else if constexpr (std::is_signed_v<S>) return reduce_tables().sum_i32(x, n);
  else return reduce_tables().sum_u32(x, n);
}

// A strip of columns at a time: in 32 bits while these cannot overflow.
template <class S>
void sum_columns(const Columns& columns, const S* x, int64_t* out) {
  using Running = std::conditional_t<sizeof(S) == 4, int64_t, int32_t>;
  constexpr int64_t strip = 64, most = sizeof(S) == 2 ? 1 << 15 : 1 << 22;
  columns.for_strips(strip, [&](int64_t at) {
    int64_t total[strip] = {};
    for (int64_t first = 0; first < columns.rows; first += most) {
      Running sums[strip] = {};
      for (int64_t r = first; r < std::min(first + most, columns.rows); ++r) {
        S row[strip];
        std::memcpy(row, x + at + r * columns.step, sizeof(row));
        for (int64_t i = 0; i < strip; ++i) sums[i] += Running(row[i]);
      }
      for (int64_t i = 0; i < strip; ++i) total[i] += sums[i];
    }
    std::copy_n(total, strip, out + at);
  });
}

template <class S>
bool sum_in_memory_order(const FoldAxes& axes, const S* x, int64_t* out) {
  constexpr int64_t few = 64;
  if (RowsOfRuns rows; rows.find(axes)) {
    rows.each(x, out, sum_of<S>, [](int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); });
    return true;
  }
  Columns columns;
  if (!columns.find(axes) || columns.count < few) return false;
  sum_columns(columns, x, out);
  return true;
}

// --- Extremes --------------------------------------------------------------------------------------------------------

template <class T>
bool extreme_of_rows(bool largest, const FoldAxes& axes, const T* x, T* out) {
  RowsOfRuns rows;
  if (!rows.find(axes) || rows.n < min_row_width) return false;
  const Extremes<T>& loops = std::get<Extremes<T>>(reduce_tables().extremes);
  const auto best = largest ? loops.largest : loops.smallest;
  rows.each(x, out, best, [&](T a, T b) {
    const T pair[] = {a, b};
    return best(pair, 2);
  });
  return true;
}

// --- Truth values ----------------------------------------------------------------------------------------------------

// Elements as bits U, and the bits that are zero in a false one: for floats all but the sign.
template <class S>
struct TruthBits {
  using U = std::conditional_t<
      sizeof(S) == 1, uint8_t,
      std::conditional_t<sizeof(S) == 2, uint16_t, std::conditional_t<sizeof(S) == 4, uint32_t, uint64_t>>>;
  static constexpr bool has_sign = is_half_type<S> || std::is_floating_point_v<S>;
  static constexpr U mask = has_sign ? U(U(~U(0)) >> 1) : U(~U(0));
};

// Whether all, or any, of such elements are true.
template <class U>
bool truth_in_memory_order(const FoldAxes& axes, const char* data, U mask, bool all, uint8_t* out) {
  const Truths<U>& loops = std::get<Truths<U>>(reduce_tables().truths);
  const U* x = reinterpret_cast<const U*>(data);
  if (RowsOfRuns rows; rows.find(axes)) {
    if (rows.n < min_row_width) return false;
    rows.each(
        x, out, [&](const U* row, int64_t n) { return uint8_t(loops.run(row, n, mask, all)); },
        [&](uint8_t a, uint8_t b) { return uint8_t(all ? a & b : a | b); });
    return true;
  }
  Columns columns;
  if (!columns.find(axes) || columns.count < loops.width) return false;
  columns.for_strips(loops.width,
                     [&](int64_t at) { loops.columns(x + at, columns.step, columns.rows, mask, all, out + at); });
  return true;
}

}  // namespace
}  // namespace rill::cpu
