// Sorts the items of one line (sort.cpp makes them): keys, in vectors (key_sort.h), or keys with indices, which are
// sorted as keys if both fit into one number, and else compared. Long lines are sorted by all threads. Start at
// sort_items.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "rill/devices/cpu/rows/key_sort.h"
#include "rill/devices/threads.h"
#include "rill/tensor/small_vec.h"

namespace rill::cpu {

// Unsigned keys without indices are items too.
template <class K>
struct KeyedItem {
  K its_key, its_index;

  KeyedItem(K key, K index) : its_key(key), its_index(index) {}
  K index() const { return its_index; }
  friend bool operator<(const KeyedItem& a, const KeyedItem& b) {
    return a.its_key != b.its_key ? a.its_key < b.its_key : a.its_index < b.its_index;
  }
};
// A key and its index in one number, which orders them, so that they are sorted like keys.
template <>
struct KeyedItem<uint32_t> {
  uint64_t bits;

  KeyedItem(uint32_t key, uint32_t index) : bits(uint64_t(key) << 32 | index) {}
  uint32_t index() const { return uint32_t(bits); }
  friend bool operator<(const KeyedItem& a, const KeyedItem& b) { return a.bits < b.bits; }
};

constexpr int64_t long_from = 1 << 16;  // length from which several threads sort a line

// On one thread.
template <class E>
void sort_alone(E* items, [[maybe_unused]] E* spare, int64_t n) {
  if constexpr (std::is_integral_v<E>) sort_keys(items, spare, n);
  else if constexpr (std::is_same_v<E, KeyedItem<uint32_t>>) sort_keys(&items->bits, &spare->bits, n);
  else std::sort(items, items + n);
}

// Sorts one long line on all threads: each sorts a part of it, then neighbouring runs are merged, each thread computing
// a part of the result, until one run is left.
template <class E>
class LongSort {
 public:
  LongSort(E*& items, E*& spare, int64_t n)
      : items_(items), spare_(spare), n_(n), parts_(std::clamp<int64_t>(num_threads(), 1, n / (long_from / 4))) {}

  void run() {
    for_parts([&](int64_t part) {
      const int64_t first = begin_of(part), count = begin_of(part + 1) - first;
      sort_alone(items_ + first, spare_ + first, count);
    });
    for (int64_t run = 1; run < parts_; run *= 2) {  // in parts
      for_parts([&](int64_t part) { merge_part(part, run); });
      std::swap(items_, spare_);
    }
  }

 private:
  // The remaining part of two runs that are being merged.
  struct Merge {
    const E *a, *a_end, *b, *b_end;
    E* to;

    bool has_both() const { return a < a_end && b < b_end; }
    void step() {
      const bool second = *b < *a;
      *to++ = second ? *b : *a;
      a += !second, b += second;
    }
    void finish() {
      while (has_both()) step();
      std::copy(b, b_end, std::copy(a, a_end, to));
    }
  };

  int64_t begin_of(int64_t part) const { return n_ * std::min(part, parts_) / parts_; }
  template <class F>
  void for_parts(F&& f) {
    parallel_for(parts_, 1, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) f(b);
    });
  }

  // Merges that section of the result of merging two runs, of `run` parts each, which has the position of `part`.
  void merge_part(int64_t part, int64_t run) {
    const int64_t first = part / (2 * run) * (2 * run), begin = begin_of(first), middle = begin_of(first + run),
                  end = begin_of(first + 2 * run);
    const auto merge = [&](int64_t from, int64_t to) {
      const E *a = items_ + begin, *b = items_ + middle;
      const int64_t a_count = middle - begin, b_count = end - middle;
      const int64_t i = taken_of_first(a, a_count, b, b_count, from - begin),
                    i_end = taken_of_first(a, a_count, b, b_count, to - begin);
      return Merge{a + i, a + i_end, b + (from - begin - i), b + (to - begin - i_end), spare_ + from};
    };
    const int64_t from = begin_of(part), to = begin_of(part + 1), half = from + (to - from) / 2;
    // Two merges at once, because each step waits for the one before.
    Merge low = merge(from, half), high = merge(half, to);
    while (low.has_both() && high.has_both()) low.step(), high.step();
    low.finish(), high.finish();
  }
  // How many of the first `count` items of the merged runs are from `a`, whose items come first among equals.
  static int64_t taken_of_first(const E* a, int64_t a_count, const E* b, int64_t b_count, int64_t count) {
    int64_t low = std::max<int64_t>(0, count - b_count), high = std::min(count, a_count);
    while (low < high) {
      const int64_t i = low + (high - low) / 2;
      if (b[count - i - 1] < a[i]) high = i;
      else low = i + 1;
    }
    return low;
  }

  E *&items_, *&spare_;
  const int64_t n_, parts_;
};

// For many numbers whose leading bits are uniformly distributed, like random ones: all threads distribute them over
// buckets by those bits, then sort the buckets.
class SpreadSort {
 public:
  SpreadSort(uint64_t*& items, uint64_t*& spare, int64_t n)
      : items_(items), spare_(spare), n_(n), parts_(std::clamp<int64_t>(num_threads(), 1, n / (long_from / 4))) {}

  // item(i) is item i. Returns false, having done nothing, if they are not so distributed.
  template <class Item>
  bool run(Item&& item) {
    const size_t buckets = size_t(1) << bits;
    SmallVec<int64_t, buckets> starts(size_t(parts_) * buckets);
    for_parts([&](int64_t part) { count(begin_of(part), begin_of(part + 1), item, &starts[size_t(part) * buckets]); });
    SmallVec<int64_t, buckets + 1> begins(buckets + 1);
    int64_t begin = 0;
    for (size_t bucket = 0; bucket < buckets; ++bucket) {
      begins[bucket] = begin;
      for (int64_t part = 0; part < parts_; ++part)
        begin += std::exchange(starts[size_t(part) * buckets + bucket], begin);
      if (begin - begins[bucket] > n_ / int64_t(buckets) * 4) return false;
    }
    begins[buckets] = n_;
    for_parts([&, spare = spare_](int64_t part) {
      int64_t* own_starts = &starts[size_t(part) * buckets];
      const auto mine = item;  // a copy, which the stores below cannot alias
      for (int64_t i = begin_of(part), end = begin_of(part + 1); i < end; ++i) {
        const uint64_t x = mine(i);
        spare[own_starts[bucket_of(x)]++] = x;
      }
    });
    parallel_for(int64_t(buckets), 1, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) {
        const int64_t first = begins[size_t(b)];
        sort_keys(spare_ + first, items_ + first, begins[size_t(b) + 1] - first);
      }
    });
    std::swap(items_, spare_);
    return true;
  }

 private:
  static constexpr int bits = 9;

  static size_t bucket_of(uint64_t item) { return size_t(item >> (64 - bits)); }
  // Several histograms: a counter that is read soon after it was written would stall.
  template <class Item>
  static void count(int64_t i, int64_t end, const Item& item, int64_t* to) {
    constexpr int side = 4;
    const auto mine = item;  // a copy, which the stores below cannot alias
    int32_t counts[side][size_t(1) << bits] = {};
    for (; i + side <= end; i += side) {
      uint64_t x[side];
      for (int j = 0; j < side; ++j) x[j] = mine(i + j);
      for (int j = 0; j < side; ++j) ++counts[j][bucket_of(x[j])];
    }
    for (; i < end; ++i) ++counts[0][bucket_of(mine(i))];
    for (size_t b = 0; b < size_t(1) << bits; ++b)
      for (int j = 0; j < side; ++j) to[b] += counts[j][b];
  }
  int64_t begin_of(int64_t part) const { return n_ * part / parts_; }
  template <class F>
  void for_parts(F&& f) {
    parallel_for(parts_, 1, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) f(b);
    });
  }

  uint64_t *&items_, *&spare_;
  const int64_t n_, parts_;
};

// Sorts the first k of many items, of which each thread selects those of its part.
template <class E>
void sort_first(E* items, E* spare, int64_t n, int64_t k) {
  const int64_t parts = std::clamp<int64_t>(num_threads(), 1, n / std::max(4 * k, long_from / 4));
  const auto begin_of = [&](int64_t part) { return n * part / parts; };
  parallel_for(parts, 1, [&](int64_t b, int64_t e) {
    for (; b < e; ++b) std::partial_sort(items + begin_of(b), items + begin_of(b) + k, items + begin_of(b + 1));
  });
  for (int64_t part = 0; part < parts; ++part) std::copy_n(items + begin_of(part), k, spare + part * k);
  std::partial_sort(spare, spare + k, spare + parts * k);
  std::copy_n(spare, k, items);
}

// Whether k of n items are so few that selecting them by a heap takes less time than sorting all.
inline bool sorts_few(int64_t n, int64_t k) { return k < n / 64; }

// Sorts the first k of n items, in `items`, which may be exchanged with `spare`.
template <class E>
void sort_items(E*& items, E*& spare, int64_t n, int64_t k) {
  const bool is_long = n >= long_from, few = sorts_few(n, k);
  if (std::is_sorted(items, items + n)) return;
  if (few && is_long) sort_first(items, spare, n, k);
  else if (few) std::partial_sort(items, items + k, items + n);
  else if (is_long) LongSort<E>(items, spare, n).run();
  else sort_alone(items, spare, n);
}

}  // namespace rill::cpu
