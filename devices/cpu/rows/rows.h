// Loops over one row of numbers with vector lanes: the tools of the kernels that normalise rows (softmax.cpp, norm.cpp,
// losses.cpp). Sums follow one tree that depends only on the row's length: neither the number of threads nor the
// instruction set changes a bit. Included once for each instruction set, as devices/kernel/lanes.h explains. Start at
// EagerRow and row_sum.

#if defined(RILL_DEVICES_CPU_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_ROWS_H_
#undef RILL_DEVICES_CPU_ROWS_H_
#else
#define RILL_DEVICES_CPU_ROWS_H_
#endif

#include <algorithm>
#include <limits>
#include <vector>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/cpu/rows/row_programs.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/math/math.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/threads.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// Loads or stores the first k lanes; all of them if k is the constant lanes<V>().
template <class V>
HWY_INLINE V load_k(const scalar_t<V>* p, size_t k) {
  return k == lanes<V>() ? load<V>(p) : load_n<V>(p, k);
}
template <class V>
HWY_INLINE void store_k(V v, scalar_t<V>* p, size_t k) {
  if (k == lanes<V>()) store(v, p);
  else store_n(v, p, k);
}
// Prefetches the line of the next row that is read or written: while a pass computes, memory is idle, and the next
// row's first pass would wait for it. Hardware prefetchers do not look that far ahead.
template <class C>
HWY_INLINE void fetch_next_row(const C* read, C* write, int64_t n) {
  __builtin_prefetch(read + n, 0, 3);
#if HWY_ARCH_X86  // for which compilers emit a prefetch for reading unless told that there is another instruction
  asm volatile("prefetchw %0" : : "m"(write[n]));
#else
  __builtin_prefetch(write + n, 1, 3);
#endif
}
// v in the first k lanes, `other` in the others.
template <class T>
HWY_INLINE Lane<T> first_k(Lane<T> v, size_t k, Lane<T> other) {
  return Lane<T>(hn::IfThenElse(hn::FirstN(typename Lane<T>::Tag(), k), v.raw, other.raw));
}

// Calls f(i, k) for the complete row; it handles the k <= lanes numbers from i on.
template <class V, class F>
HWY_INLINE void row_each(int64_t n, F f) {
  constexpr int64_t kL = int64_t(lanes<V>());
  int64_t i = 0;
  for (; i + kL <= n; i += kL) f(i, size_t(kL));
  if (i < n) f(i, size_t(n - i));
}

// The sums of rows follow the tree of the reductions (reduce_tree.h, with k = 1), as kernels do (devices/kernel/ir.h):
// 32 lanes, blocks of 1024 numbers, folded in pairs; so a row kernel that is recorded and compiled gives the same bits.
inline constexpr size_t sum_lanes = 32;
inline constexpr int64_t sum_block = 1024;

template <class V>
struct LaneSums {
  using C = scalar_t<V>;
  static constexpr size_t kL = lanes<V>(), kN = sum_lanes / kL;
  V acc[kN];

  HWY_INLINE LaneSums() { RILL_UNROLL for (size_t j = 0; j < kN; ++j) acc[j] = V(C(0)); }
  HWY_INLINE void save(C* to) const { RILL_UNROLL for (size_t j = 0; j < kN; ++j) store(acc[j], to + j * kL); }
  // Adds to the sums at `from`, of the earlier numbers.
  HWY_INLINE void add(const C* from) {
    RILL_UNROLL for (size_t j = 0; j < kN; ++j) acc[j] = rill::HWY_NAMESPACE::load<V>(from + j * kL) + acc[j];
  }
  HWY_INLINE void load(const C* from) {
    RILL_UNROLL for (size_t j = 0; j < kN; ++j) acc[j] = rill::HWY_NAMESPACE::load<V>(from + j * kL);
  }
  // Adds lanes half the width apart, until one is left.
  HWY_INLINE C total() const {
    HWY_ALIGN C sums[sum_lanes];
    save(sums);
    for (size_t width = sum_lanes / 2; width; width /= 2)
      for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
    return sums[0];
  }
};

// The lanes' sums of f(i, k)'s first k lanes over [begin, end), a block of the row.
template <class V, class F>
HWY_INLINE LaneSums<V> block_sums(int64_t begin, int64_t end, F f) {
  using Sums = LaneSums<V>;
  constexpr int64_t kL = int64_t(Sums::kL), kStep = int64_t(sum_lanes);
  Sums sums;
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
    RILL_UNROLL for (size_t j = 0; j < Sums::kN; ++j) {
      sums.acc[j] = sums.acc[j] + f(i + int64_t(j) * kL, size_t(kL));
    }
  }
  for (size_t j = 0; i < end; ++j, i += kL) {
    const size_t k = size_t(std::min(kL, end - i));
    sums.acc[j] = sums.acc[j] + first_k(f(i, k), k, V(scalar_t<V>(0)));
  }
  return sums;
}

// The sum of f(i, k)'s first k lanes over the row.
template <class V, class F>
HWY_INLINE scalar_t<V> row_sum(int64_t n, F f) {
  using C = scalar_t<V>;
  LaneSums<V> sums = block_sums<V>(0, std::min(n, sum_block), f);
  if (n <= sum_block) return sums.total();
  HWY_ALIGN C stack[48][sum_lanes];  // of blocks, and of pairs of blocks
  int depth = 0;
  for (int64_t block = 0, begin = 0; begin < n; ++block, begin += sum_block) {
    if (block > 0) sums = block_sums<V>(begin, std::min(n, begin + sum_block), f);
    for (int64_t done = block + 1; done % 2 == 0; done /= 2) sums.add(stack[--depth]);
    sums.save(stack[depth++]);
  }
  sums.load(stack[--depth]);
  while (depth > 0) sums.add(stack[--depth]);
  return sums.total();
}

// The largest number of the row; -inf if it is empty. NaN may be missed: results computed from the row still have it.
template <class V>
HWY_INLINE scalar_t<V> row_max(const scalar_t<V>* x, int64_t n) {
  using C = scalar_t<V>;
  constexpr size_t kL = lanes<V>(), kN = 4;
  const auto larger = [](V a, V b) HWY_ATTR { return V(hn::Max(a.raw, b.raw)); };
  const V lowest(-std::numeric_limits<C>::infinity());
  V top[kN] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + int64_t(kN * kL) <= n; i += int64_t(kN * kL)) {
    RILL_UNROLL for (size_t j = 0; j < kN; ++j) top[j] = larger(top[j], load<V>(x + i + int64_t(j * kL)));
  }
  for (; i < n; i += int64_t(kL)) {
    const size_t k = std::min(kL, size_t(n - i));
    top[0] = larger(top[0], first_k(load_n<V>(x + i, k), k, lowest));
  }
  HWY_ALIGN C lane[kL];
  store(larger(larger(top[0], top[1]), larger(top[2], top[3])), lane);
  C m = lane[0];
  for (size_t j = 1; j < kL; ++j) m = max(m, lane[j]);
  return m;
}

// A row in memory, for the programs of row_programs.h: for each operand and result its row, or its only number.
template <class C>
struct EagerRow {
  using V = Lane<C>;
  using Number = C;
  static constexpr int max_inputs = 7, max_outputs = 3;

  AttrsView attributes;
  int64_t n;
  const C* in[max_inputs] = {};
  C* out[max_outputs] = {};  // for results that are sums over all rows: their accumulator
  int64_t label = -1;        // the index of the point that a label operand names

  HWY_INLINE AttrsView attrs() const { return attributes; }
  HWY_INLINE const C* operand(int i) const { return in[i]; }
  HWY_INLINE C number(int i) const { return *in[i]; }
  HWY_INLINE C count() const { return C(n); }
  HWY_INLINE C constant(double c) const { return C(c); }
  // log(1 + x + y), where y may be too small to change 1 + y.
  HWY_INLINE C log1p(C x, C y) const { return C(rill::HWY_NAMESPACE::log1p(double(x) + double(y))); }
  HWY_INLINE C max(const C* x) const { return row_max<V>(x, n); }
  HWY_INLINE C at_label(const C* x) const { return x[label]; }

  template <class F, class... X>
  HWY_INLINE C sum(F f, const X*... x) const {
    return C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW { return f(load_k<V>(x + i, k)...); }));
  }
  template <class F>
  HWY_INLINE C sum(NoFetch, F f, const C* x) const {
    return sum(f, x);
  }
  template <class F>
  HWY_INLINE C sum(FetchNext, F f, const C* x) const {
    return C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      fetch_next_row(x + i, out[0] + i, n);
      return f(load_k<V>(x + i, k));
    }));
  }
  template <class F>
  HWY_INLINE C sum_where(bool condition, F f, const C* x) const {
    return condition ? sum(f, x) : C(0);
  }
  struct Kept {
    const C* kept;
    C sum;
  };
  template <class F>
  HWY_INLINE Kept sum_kept(FetchNext, int o, F f, const C* x) const {
    C* const to = out[o];
    const C sum = C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      fetch_next_row(x + i, to + i, n);
      const V v = f(load_k<V>(x + i, k));
      store_k(v, to + i, k);
      return v;
    }));
    return {to, sum};
  }
  // The sum of the terms of f, whose other numbers are added to results o and o + 1.
  template <class F, class... X>
  HWY_INLINE C sum_adding(int o, F f, const X*... x) const {
    C *const first = out[o], *const second = out[o + 1];
    return C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      const SumTerms<V> s = f(load_k<V>(x + i, k)...);
      store_k(load_k<V>(first + i, k) + s.added[0], first + i, k);
      store_k(load_k<V>(second + i, k) + s.added[1], second + i, k);
      return s.term;
    }));
  }
  template <class F, class... X>
  HWY_INLINE void write(int o, F f, const X*... x) const {
    C* const to = out[o];
    row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW { store_k(f(load_k<V>(x + i, k)...), to + i, k); });
  }
  template <class F, class... X>
  HWY_INLINE void write(FetchNext, int o, F f, const C* first, const X*... x) const {
    C* const to = out[o];
    row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      fetch_next_row(first + i, to + i, n);
      store_k(f(load_k<V>(first + i, k), load_k<V>(x + i, k)...), to + i, k);
    });
  }
  HWY_INLINE void write_number(int o, C v) const { *out[o] = v; }
  // f(...), minus `less` at the label.
  template <class F>
  HWY_INLINE void write_less_at_label(int o, C less, F f, const C* x) const {
    write(o, f, x);
    out[o][label] -= less;
  }
};

// n dense numbers converted to another type.
template <class T, class C>
void convert_dense(const T* from, C* to, int64_t n) {
  if constexpr (std::is_same_v<T, C>) std::copy_n(from, n, to);
  else cpu::convert_halves(from, to, size_t(n));
}

// Rows whose elements are strided but that are contiguous themselves are read and written this many at a time, so that
// complete cache lines are used.
template <class T>
inline constexpr int64_t rows_together = sizeof(T) == 2 ? 32 : 16;
// For halves, this many elements of each are converted before they are transposed.
inline constexpr int64_t elements_together = 64;

// Rows of a dense tensor along one axis, as numbers of type C: in place if possible, else copied.
template <class T, class C>
class RowReader {
 public:
  RowReader(const T* data, const AxisView& view) : data_(data), view_(view) {
    if (!direct()) scratch_.resize(size_t(view.size * std::min(rows_together<T>, view.inner)));
  }
  const C* operator()(int64_t row) {
    if constexpr (std::is_same_v<T, C>) {
      if (direct()) return data_ + row * view_.size;
    }
    if (row < first_ || row >= end_) read(row);
    return scratch_.data() + (row - first_) * view_.size;
  }

 private:
  bool direct() const { return std::is_same_v<T, C> && view_.inner == 1; }
  void read(int64_t row) {
    const int64_t n = std::min(rows_together<T>, view_.inner - row % view_.inner);
    first_ = row, end_ = row + n;
    const T* from = data_ + row / view_.inner * view_.size * view_.inner + row % view_.inner;
    if (view_.inner == 1) return convert_dense(from, scratch_.data(), view_.size);
    if constexpr (std::is_same_v<T, C>) {
      cpu::transpose(from, view_.inner, view_.size, n, scratch_.data(), view_.size);
    } else {
      C block[elements_together * rows_together<T>];
      for (int64_t i = 0, count; i < view_.size; i += count) {
        count = std::min(elements_together, view_.size - i);
        for (int64_t k = 0; k < count; ++k) convert_dense(from + (i + k) * view_.inner, block + k * n, n);
        cpu::transpose(block, n, count, n, scratch_.data() + i, view_.size);
      }
    }
  }

  const T* data_;
  AxisView view_;
  std::vector<C> scratch_;
  int64_t first_ = 0, end_ = 0;  // the rows in scratch_
};

// Writes consecutive rows; `end` is past the last one.
template <class T, class C>
class RowWriter {
 public:
  RowWriter(T* data, const AxisView& view, int64_t end) : data_(data), view_(view), end_(end) {
    if (!direct()) scratch_.resize(size_t(view.size * std::min(rows_together<T>, view.inner)));
  }
  // The memory for row `row`; call flush(row) when it is written.
  C* operator()(int64_t row) {
    if constexpr (std::is_same_v<T, C>) {
      if (direct()) return data_ + row * view_.size;
    }
    if (kept_ == 0) first_ = row;
    return scratch_.data() + kept_++ * view_.size;
  }
  void flush(int64_t row) {
    if (direct() || (kept_ < rows_together<T> && row + 1 < end_ && (row + 1) % view_.inner != 0)) return;
    T* to = data_ + first_ / view_.inner * view_.size * view_.inner + first_ % view_.inner;
    write(to);
    kept_ = 0;
  }

 private:
  bool direct() const { return std::is_same_v<T, C> && view_.inner == 1; }
  void write(T* to) const {
    if (view_.inner == 1) return convert_dense(scratch_.data(), to, view_.size);
    if constexpr (std::is_same_v<T, C>) {
      cpu::transpose(scratch_.data(), view_.size, kept_, view_.size, to, view_.inner);
    } else {
      C block[elements_together * rows_together<T>];
      for (int64_t i = 0, count; i < view_.size; i += count) {
        count = std::min(elements_together, view_.size - i);
        cpu::transpose(scratch_.data() + i, view_.size, kept_, count, block, kept_);
        for (int64_t k = 0; k < count; ++k) convert_dense(block + k * kept_, to + (i + k) * view_.inner, kept_);
      }
    }
  }

  T* data_;
  AxisView view_;
  int64_t end_;
  std::vector<C> scratch_;
  int64_t first_ = 0, kept_ = 0;  // the rows in scratch_
};

// The least number of rows that is worth handing over to a thread.
inline int64_t row_grain(int64_t row_size) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_size)); }

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
