// Products with a sparse matrix on the CPU. sparse_matmul needs the entries grouped by row: if they already are, as in
// a sorted matrix, it only computes the rows' beginnings; else it groups them first, in the order in which they are
// stored. Sorted entries times a vector take one pass, which needs neither. A row of the result is added up by one
// thread, entry by entry, so that its bits depend neither on the number of threads nor on the instruction set. Start at
// sparse_matmul(), at the end.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/params/sparse_params.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/sparse.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef RILL_SPARSE_ROWS
#define RILL_SPARSE_ROWS
namespace rill::cpu {
// The top bit is set if an index is not in [0, size): without a branch or a comparison.
inline uint64_t outside(int64_t index, int64_t size) {
  return uint64_t(index) | (uint64_t(size) - 1 - uint64_t(index));
}
// A product's operands, and the entries of row r: order[starts[r]], ..., order[starts[r + 1] - 1], or these indices
// themselves if `order` is null.
template <class T>
struct SparseRows {
  const T* values;
  const int64_t *columns, *starts, *order;
  const T* dense;  // [k, n]
  T* out;          // [m, n]
  int64_t n;
  int64_t entry(int64_t i) const { return order ? order[i] : i; }
};
// The operands of a product with a vector.
template <class T>
struct SparseVector {
  const T *values, *vector;
  const int64_t *rows, *columns;
  T* out;
  int64_t count, m, k;  // entries, rows, columns

  // The first entry from `e` on that starts a row.
  int64_t row_start(int64_t e) const {
    while (e > 0 && e < count && rows[e] == rows[e - 1]) ++e;
    return e;
  }
};
// Row rows[e] of `a` times row columns[e] of `b`, each of n elements.
template <class T>
struct SparseDots {
  const T *a, *b;
  const int64_t *rows, *columns;
  T* out;
  int64_t n;
};
}  // namespace rill::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Row r of the result, G vectors of columns from j on.
template <int G, class T>
HWY_NOINLINE void add_up(const SparseRows<T>& s, int64_t r, int64_t j) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[G];
  RILL_UNROLL for (int g = 0; g < G; ++g) sum[g] = hn::Zero(d);
  for (int64_t i = s.starts[r]; i < s.starts[r + 1]; ++i) {
    const int64_t e = s.entry(i);
    const auto value = hn::Set(d, s.values[e]);
    const T* from = s.dense + s.columns[e] * s.n + j;
    RILL_UNROLL for (int g = 0; g < G; ++g) {
      sum[g] = hn::Add(sum[g], hn::Mul(value, hn::LoadU(d, from + g * lanes)));
    }
  }
  RILL_UNROLL for (int g = 0; g < G; ++g) hn::StoreU(sum[g], d, s.out + r * s.n + j + g * lanes);
}

// Whether entries [begin, end) are sorted, with rows in [first, last) and columns in range.
template <class T>
bool are_sound(const SparseVector<T>& s, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const auto *rows = reinterpret_cast<const uint64_t*>(s.rows), *columns = reinterpret_cast<const uint64_t*>(s.columns);
  const auto from = uint64_t(first), to = uint64_t(last) - 1, columns_to = uint64_t(s.k) - 1;
  const hn::ScalableTag<uint64_t> d;
  const hn::RebindToSigned<decltype(d)> signs;
  const int64_t lanes = int64_t(hn::Lanes(d));
  uint64_t faults = 0;  // nonzero top bit: an invalid entry
  const auto check_entry = [&](int64_t e) {
    faults |= outside(int64_t(rows[e] - from), last - first) | outside(s.columns[e], s.k);
    if (e > 0) faults |= rows[e] - rows[e - 1];
  };
  int64_t e = begin;
  if (e == 0 && e < end) check_entry(e++);
  auto found = hn::Zero(d);
  for (; e + lanes <= end; e += lanes) {
    const auto row = hn::LoadU(d, rows + e), column = hn::LoadU(d, columns + e);
    const auto outside = hn::Or(hn::Sub(row, hn::Set(d, from)), hn::Sub(hn::Set(d, to), row));
    found = hn::Or(found, hn::Or(outside, hn::Sub(row, hn::LoadU(d, rows + e - 1))));
    found = hn::Or(found, hn::Or(column, hn::Sub(hn::Set(d, columns_to), column)));
  }
  for (; e < end; ++e) check_entry(e);
  return int64_t(faults) >= 0 && hn::AllFalse(signs, hn::Lt(hn::BitCast(signs, found), hn::Zero(signs)));
}

// The entries at[g] + i of each stream g, for i < n. Each addition to a row waits for the one before: hence streams.
template <int streams, class T>
void add_products(const SparseVector<T>& s, const int64_t* at, int64_t n) {
  const T *values = s.values, *vector = s.vector;
  const int64_t *rows = s.rows, *columns = s.columns;
  T* out = s.out;
  for (int64_t i = 0; i < n; ++i) {
    RILL_UNROLL for (int g = 0; g < streams; ++g) {
      const int64_t e = at[g] + i;
      // If entries are not sorted, two threads may write to one row; the result is then discarded.
      const std::atomic_ref<T> sum(out[rows[e]]);
      sum.store(sum.load(std::memory_order_relaxed) + values[e] * vector[columns[e]], std::memory_order_relaxed);
    }
  }
}

// The rows whose entries are [begin, end), and the empty rows before them. False if entries are not sorted, or an index
// is out of range.
template <class T>
bool times_vector(const SparseVector<T>& s, int64_t begin, int64_t end) {
  constexpr int64_t block = 256;
  constexpr int streams = 8;
  const int64_t first = begin == 0        ? 0
                        : begin < s.count ? s.rows[begin]
                                          : s.m,
                last = end < s.count ? s.rows[end] : s.m;
  if (first < 0 || first > last || last > s.m) return false;
  for (int64_t r = first; r < last; ++r) std::atomic_ref(s.out[r]).store(T(0), std::memory_order_relaxed);
  int64_t at[streams + 1], common = end - begin;
  for (int g = 0; g <= streams; ++g) at[g] = s.row_start(begin + (end - begin) * g / streams);
  const int64_t ends[] = {at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
  for (int g = 0; g < streams; ++g) common = std::min(common, ends[g] - at[g]);
  for (; common >= block; common -= block) {
    for (int g = 0; g < streams; ++g)
      if (!are_sound(s, at[g], at[g] + block, first, last)) return false;
    add_products<streams>(s, at, block);
    for (int g = 0; g < streams; ++g) at[g] += block;
  }
  for (int g = 0; g < streams; ++g)
    for (; at[g] < ends[g]; at[g] = std::min(at[g] + block, ends[g])) {
      const int64_t n = std::min(block, ends[g] - at[g]);
      if (!are_sound(s, at[g], at[g] + n, first, last)) return false;
      add_products<1>(s, at + g, n);
    }
  return true;
}

template <class T>
void rows(const SparseRows<T>& s, int64_t first, int64_t last) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t r = first; r < last; ++r) {
    int64_t j = 0;
    for (; j + 8 * lanes <= s.n; j += 8 * lanes) add_up<8>(s, r, j);
    for (; j + 2 * lanes <= s.n; j += 2 * lanes) add_up<2>(s, r, j);
    for (; j + lanes <= s.n; j += lanes) add_up<1>(s, r, j);
    for (; j < s.n; ++j) {
      T sum = 0;
      for (int64_t i = s.starts[r]; i < s.starts[r + 1]; ++i) {
        const int64_t e = s.entry(i);
        sum += s.values[e] * s.dense[s.columns[e] * s.n + j];
      }
      s.out[r * s.n + j] = sum;
    }
  }
}

// sum_j a[j] b[j] in 64 bytes of partial sums, the same on every processor.
template <class T>
HWY_INLINE T dot(const T* a, const T* b, int64_t n) {
  constexpr int all = 64 / sizeof(T);
  const hn::CappedTag<T, all> d;
  constexpr int lanes = int(hn::MaxLanes(d)), vectors = all / lanes;
  hn::Vec<decltype(d)> sum[vectors];
  RILL_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = hn::Zero(d);
  const auto add_products = [&](const T* x, const T* y) HWY_ATTR {
    RILL_UNROLL for (int v = 0; v < vectors; ++v) {
      sum[v] = hn::Add(sum[v], hn::Mul(hn::LoadU(d, x + v * lanes), hn::LoadU(d, y + v * lanes)));
    }
  };
  int64_t j = 0;
  for (; j + all <= n; j += all) add_products(a + j, b + j);
  if (j < n) {
    T rest_a[all] = {}, rest_b[all] = {};
    std::copy(a + j, a + n, rest_a);
    std::copy(b + j, b + n, rest_b);
    add_products(rest_a, rest_b);
  }
  for (int half = vectors / 2; half > 0; half /= 2)
    for (int v = 0; v < half; ++v) sum[v] = hn::Add(sum[v], sum[v + half]);
  HWY_ALIGN T parts[lanes];
  hn::Store(sum[0], d, parts);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

template <class T>
void dots(const SparseDots<T>& s, int64_t first, int64_t last) {
  constexpr int64_t ahead = 8, line = 64 / sizeof(T), most = 8 * line;
  for (int64_t e = first; e < last; ++e) {
    if (e + ahead < last)  // rows of b come in no order, which hardware cannot predict
      for (int64_t j = 0; j < std::min(s.n, most); j += line) __builtin_prefetch(s.b + s.columns[e + ahead] * s.n + j);
    s.out[e] = dot(s.a + s.rows[e] * s.n, s.b + s.columns[e] * s.n, s.n);
  }
}

void rows_f32(const SparseRows<float>& s, int64_t first, int64_t last) { rows(s, first, last); }
void rows_f64(const SparseRows<double>& s, int64_t first, int64_t last) { rows(s, first, last); }
bool times_vector_f32(const SparseVector<float>& s, int64_t begin, int64_t end) { return times_vector(s, begin, end); }
bool times_vector_f64(const SparseVector<double>& s, int64_t begin, int64_t end) { return times_vector(s, begin, end); }
void dots_f32(const SparseDots<float>& s, int64_t first, int64_t last) { dots(s, first, last); }
void dots_f64(const SparseDots<double>& s, int64_t first, int64_t last) { dots(s, first, last); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {
namespace {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(times_vector_f32);
HWY_EXPORT(times_vector_f64);
HWY_EXPORT(dots_f32);
HWY_EXPORT(dots_f64);

// The type in which sums of T are kept; integers wrap around, which C++ leaves undefined for signed ones.
template <class T>
using Sum = std::conditional_t<is_half_type<T>, float, std::conditional_t<std::is_integral_v<T>, uint64_t, T>>;

template <class T>
void add_up_rows(const SparseRows<T>& s, int64_t first, int64_t last) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(rows_f32)(s, first, last);
  } else if constexpr (std::is_same_v<T, double>) {
    HWY_DYNAMIC_DISPATCH(rows_f64)(s, first, last);
  } else {
    std::vector<Sum<T>> sums(size_t(s.n));
    for (int64_t r = first; r < last; ++r) {
      std::fill(sums.begin(), sums.end(), Sum<T>());
      for (int64_t i = s.starts[r]; i < s.starts[r + 1]; ++i) {
        const int64_t e = s.entry(i);
        const T* from = s.dense + s.columns[e] * s.n;
        for (int64_t j = 0; j < s.n; ++j) sums[size_t(j)] += Sum<T>(s.values[e]) * Sum<T>(from[j]);
      }
      for (int64_t j = 0; j < s.n; ++j) s.out[r * s.n + j] = T(sums[size_t(j)]);
    }
  }
}

template <class T>
void dot_all(const SparseDots<T>& s, int64_t first, int64_t last) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(dots_f32)(s, first, last);
  } else if constexpr (std::is_same_v<T, double>) {
    HWY_DYNAMIC_DISPATCH(dots_f64)(s, first, last);
  } else {
    for (int64_t e = first; e < last; ++e) {
      const T *a = s.a + s.rows[e] * s.n, *b = s.b + s.columns[e] * s.n;
      Sum<T> sum{};
      for (int64_t j = 0; j < s.n; ++j) sum += Sum<T>(a[j]) * Sum<T>(b[j]);
      s.out[e] = T(sum);
    }
  }
}

constexpr int64_t grain = 1 << 14;  // entries worth a thread, if each costs little

bool top_bit(uint64_t x) { return int64_t(x) < 0; }

[[noreturn]] void fail_outside(const int64_t* index, int64_t size, std::string_view what) {
  int64_t e = 0;
  while (uint64_t(index[e]) < uint64_t(size)) ++e;
  fail("sparse", fmt::format("entry {} has the {} index {}, and there are {} {}s", e, what, index[e], size, what));
}
// Throws if an index is not in [0, size).
void check(const int64_t* index, int64_t count, int64_t size, std::string_view what) {
  std::atomic<uint64_t> bad{0};
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    constexpr int64_t chunk = 64;  // a length that compilers vectorise
    uint64_t found = 0;
    for (; begin + chunk <= end; begin += chunk)
      for (int64_t e = begin; e < begin + chunk; ++e) found |= outside(index[e], size);
    for (; begin < end; ++begin) found |= outside(index[begin], size);
    bad |= found;
  });
  if (top_bit(bad)) fail_outside(index, size, what);
}

// The entries of each row, as SparseRows needs them. Throws if a row is not in [0, m).
struct RowOrder {
  std::vector<int64_t> starts, order;

  RowOrder(const int64_t* rows, int64_t count, int64_t m) : starts(size_t(m) + 1) {
    if (count > 0 && find_ends(rows, count, m)) {
      for (int64_t r = 0; r < m; ++r) starts[size_t(r) + 1] = std::max(starts[size_t(r) + 1], starts[size_t(r)]);
      return;
    }
    std::fill(starts.begin(), starts.end(), 0);
    for (int64_t e = 0; e < count; ++e) ++starts[size_t(rows[e]) + 1];
    for (int64_t r = 0; r < m; ++r) starts[size_t(r) + 1] += starts[size_t(r)];
    order.resize(size_t(count));
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (int64_t e = 0; e < count; ++e) order[size_t(next[size_t(rows[e])]++)] = e;
  }

 private:
  // starts[r + 1] = where row r's entries end, if it has some. Returns whether rows ascend; otherwise `starts` is
  // meaningless.
  bool find_ends(const int64_t* rows, int64_t count, int64_t m) {
    std::atomic<uint64_t> bad{outside(rows[count - 1], m)}, descends{0};
    parallel_for(count - 1, grain, [&](int64_t begin, int64_t end) {
      constexpr int64_t chunk = 256;
      int64_t ends[chunk];
      uint64_t out = 0, falls = 0;
      for (int64_t last; begin < end && !top_bit(out); begin = last) {
        last = std::min(begin + chunk, end);
        int64_t found = 0;  // branch-free, as branches on lengths of rows would be mispredicted
        for (int64_t e = begin; e < last; ++e) {
          const uint64_t step = uint64_t(rows[e + 1]) - uint64_t(rows[e]);
          ends[found] = e, found += step != 0, falls |= step, out |= outside(rows[e], m);
        }
        for (int64_t i = 0; i < found && !top_bit(out); ++i)  // written by several threads if rows do not ascend
          std::atomic_ref(starts[size_t(rows[ends[i]]) + 1]).store(ends[i] + 1, std::memory_order_relaxed);
      }
      bad |= out, descends |= falls;
    });
    if (top_bit(bad)) fail_outside(rows, m, "row");
    starts[size_t(rows[count - 1]) + 1] = count;
    return !top_bit(descends);
  }
};

// False if entries are not sorted, or an index is out of range: then the output is meaningless.
template <class T>
bool add_up_sorted(const SparseVector<T>& s) {
  if (s.count == 0) std::fill_n(s.out, s.m, T(0));
  std::atomic<bool> sound{true};
  parallel_for(s.count, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = s.row_start(begin), to = s.row_start(end);
    if constexpr (std::is_same_v<T, float>) {
      if (!HWY_DYNAMIC_DISPATCH(times_vector_f32)(s, from, to)) sound = false;
    } else {
      if (!HWY_DYNAMIC_DISPATCH(times_vector_f64)(s, from, to)) sound = false;
    }
  });
  return sound;
}

template <class T>
void run_product(const KernelArgs& a) {
  const int64_t count = a.input(0).size(), k = a.input(3).shape()[0], n = a.input(3).shape()[1],
                m = a.output().shape()[0];
  const auto *rows = a.in_data<int64_t>(1), *columns = a.in_data<int64_t>(2);
  if constexpr (std::is_floating_point_v<T>)
    if (n == 1 &&
        add_up_sorted(SparseVector<T>{a.in_data<T>(0), a.in_data<T>(3), rows, columns, a.out_data<T>(), count, m, k}))
      return;
  const RowOrder by_row(rows, count, m);
  check(columns, count, k, "column");
  if (m * n == 0) return;
  const int64_t* starts = by_row.starts.data();
  const SparseRows<T> s{a.in_data<T>(0), columns,          starts, by_row.order.empty() ? nullptr : by_row.order.data(),
                        a.in_data<T>(3), a.out_data<T>(0), n};
  // Rows may differ much in length: pieces have equal sums of rows and entries. Row r is at starts[r] + r.
  const auto row_at = [&](int64_t at) {
    int64_t low = 0, high = m;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (starts[middle] + middle < at) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  parallel_for(count + m, 1 + worth_a_thread / n,
               [&](int64_t begin, int64_t end) { add_up_rows(s, row_at(begin), row_at(end)); });
}

template <class T>
void run_sampled(const KernelArgs& a) {
  const int64_t count = a.output().size(), n = a.input(0).shape()[1];
  const auto *rows = a.in_data<int64_t>(2), *columns = a.in_data<int64_t>(3);
  check(rows, count, a.input(0).shape()[0], "row");
  check(columns, count, a.input(1).shape()[0], "column");
  const SparseDots<T> s{a.in_data<T>(0), a.in_data<T>(1), rows, columns, a.out_data<T>(), n};
  parallel_for(count, 1 + worth_a_thread / std::max<int64_t>(n, 1),
               [&](int64_t begin, int64_t end) { dot_all(s, begin, end); });
}

}  // namespace

void sparse_matmul(const KernelArgs& a) {
  visit_dtype(a.output().dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, bool>) run_product<T>(a);
  });
}

void sampled_matmul(const KernelArgs& a) {
  visit_dtype(a.output().dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, bool>) run_sampled<T>(a);
  });
}

}  // namespace rill::cpu
#endif
