// The sorting of one line's items, which know their keys (sort.cpp makes both): short lines by comparison, longer ones
// by radix, digit after digit, and very long ones by all threads. Start at sort_items.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/devices/threads.h"

namespace rill::cpu {

// Unsigned keys alone are items too.
template <class K>
struct KeyedItem {
  K key;
  K index;
  friend bool operator<(const KeyedItem& a, const KeyedItem& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};

constexpr int64_t radix_from = 256;  // elements from which digits beat comparisons

template <class K>
K key_in(K key) {
  return key;
}
template <class K>
K key_in(const KeyedItem<K>& item) {
  return item.key;
}

template <class E>
void sort_items(E*& items, E*& spare, int64_t n, int64_t k);
template <class E>
void sort_runs(E* items, E* spare, int64_t n, int shift);

// By the two highest digits of `bits` bits in which keys differ, the lower one first; `spare` is as long as `items`.
// Two are enough to leave few neighbours in the wrong order, where keys are spread.
template <int bits, class E>
void sort_by_digits(E*& items, E*& spare, int64_t n) {
  using K = decltype(key_in(*items));
  constexpr K mask = (K(1) << bits) - 1;
  using Count = std::conditional_t<bits == 8, uint32_t, int64_t>;
  K differs = 0;
  for (int64_t i = 0; i < n; ++i) differs |= key_in(items[i]) ^ key_in(items[0]);
  if (!differs) return;
  const int width = int(std::bit_width(differs)), shift = std::max(0, width - 2 * bits),
            high = std::max(shift, width - bits);
  std::array<Count, size_t(1) << bits> low_counts{}, high_counts{};
  const auto digit = [](const E& e, int from) { return size_t(key_in(e) >> from & mask); };
  for (int64_t i = 0; i < n; ++i) ++low_counts[digit(items[i], shift)], ++high_counts[digit(items[i], high)];
  const auto pass = [&](auto& counts, int from) {
    Count at = 0;
    for (Count& c : counts) at += std::exchange(c, at);
    const E* const read = items;
    E* const write = spare;
    for (int64_t i = 0; i < n; ++i) write[counts[digit(read[i], from)]++] = read[i];
    std::swap(items, spare);
  };
  pass(low_counts, shift);
  if (high > shift) pass(high_counts, high);
  if (shift > 0) sort_runs(items, spare, n, shift);
}

// The runs of keys that are equal but for their lowest `shift` bits.
template <class E>
void sort_runs(E* items, E* spare, int64_t n, int shift) {
  constexpr int64_t few = 16;
  for (int64_t i = 0, end; i < n; i = end) {
    end = i + 1;
    while (end < n && key_in(items[end]) >> shift == key_in(items[i]) >> shift) ++end;
    if (end - i > few) {
      E *run = items + i, *other = spare + i;
      sort_items(run, other, end - i, end - i);
      if (run != items + i) std::copy_n(run, end - i, items + i);
      continue;
    }
    for (int64_t j = i + 1; j < end; ++j) {
      const E moved = items[j];
      int64_t to = j;
      for (; to > i && moved < items[to - 1]; --to) items[to] = items[to - 1];
      items[to] = moved;
    }
  }
}

// Short lines by short digits, whose counts are fewer.
template <class E>
void radix_sort(E*& items, E*& spare, int64_t n) {
  constexpr int64_t few = 1 << 13;
  if (n < few) sort_by_digits<8>(items, spare, n);
  else sort_by_digits<11>(items, spare, n);
}

constexpr int64_t long_from = 1 << 16;  // elements from which a line is sorted by several threads

// One long line by all threads: they hand its elements out to buckets by the highest digit in which keys differ, each
// thread's part after those before it, so that equal keys keep their order; then buckets, which fit into caches, are
// sorted side by side.
template <class E>
class LongSort {
  using K = decltype(key_in(std::declval<const E&>()));
  static constexpr int bits = 11;
  static constexpr size_t buckets = size_t(1) << bits;
  using Counts = std::array<int64_t, buckets>;

 public:
  LongSort(E*& items, E*& spare, int64_t n)
      : items_(items), spare_(spare), n_(n), parts_(std::clamp<int64_t>(num_threads(), 1, n / (long_from / 4))) {}

  void run() {
    find_digit();
    if (!differs_) return;
    counts_.resize(size_t(parts_));
    for_parts([&](int64_t part, const E* from, const E* end) {
      for (; from < end; ++from) ++counts_[size_t(part)][bucket(*from)];
    });
    int64_t at = 0;
    for (size_t b = 0; b < buckets; ++b) {
      begins_[b] = at;
      for (Counts& c : counts_) at += std::exchange(c[b], at);
    }
    begins_[buckets] = at;
    for_parts([&](int64_t part, const E* from, const E* end) {
      Counts& to = counts_[size_t(part)];
      for (; from < end; ++from) spare_[to[bucket(*from)]++] = *from;
    });
    std::swap(items_, spare_);
    if (shift_ > 0) sort_buckets();
  }

 private:
  size_t bucket(const E& e) const { return size_t(key_in(e) >> shift_) & (buckets - 1); }
  template <class F>
  void for_parts(F&& f) {
    parallel_for(parts_, 1, [&](int64_t b, int64_t e) {
      for (; b < e; ++b) f(b, items_ + n_ * b / parts_, items_ + n_ * (b + 1) / parts_);
    });
  }
  void find_digit() {
    std::vector<K> differing(size_t(parts_), 0);
    for_parts([&](int64_t part, const E* from, const E* end) {
      K all = 0;
      for (; from < end; ++from) all |= key_in(*from) ^ key_in(items_[0]);
      differing[size_t(part)] = all;
    });
    for (K d : differing) differs_ |= d;
    shift_ = std::max(0, int(std::bit_width(differs_)) - bits);
  }
  void sort_buckets() {
    parallel_for(int64_t(buckets), 1, [&](int64_t b, int64_t e) {
      // Those that begin in this share of the elements.
      const int64_t first = n_ * b / int64_t(buckets), last = n_ * e / int64_t(buckets);
      for (size_t k = size_t(std::ranges::lower_bound(begins_, first) - begins_.begin());
           k < buckets && begins_[k] < last; ++k) {
        const int64_t count = begins_[k + 1] - begins_[k];
        if (count < 2) continue;
        E *sorted = items_ + begins_[k], *other = spare_ + begins_[k];
        sort_items(sorted, other, count, count);
        if (sorted != items_ + begins_[k]) std::copy_n(sorted, count, items_ + begins_[k]);
      }
    });
  }

  E *&items_, *&spare_;
  const int64_t n_, parts_;
  K differs_ = 0;
  int shift_ = 0;
  std::vector<Counts> counts_;
  std::array<int64_t, buckets + 1> begins_;
};

// Puts the first k of many items in order, of which each thread finds those of its share.
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

// Puts the first k of n items in order, at `items`, which may change places with `spare`.
template <class E>
void sort_items(E*& items, E*& spare, int64_t n, int64_t k) {
  if (std::is_sorted(items, items + n)) return;
  if (n >= long_from && k == n) LongSort<E>(items, spare, n).run();
  else if (n >= long_from && k < n / 8) sort_first(items, spare, n, k);
  else if (k < n / 8) std::partial_sort(items, items + k, items + n);
  else if (n >= radix_from) radix_sort(items, spare, n);
  else std::sort(items, items + n);
}

}  // namespace rill::cpu
