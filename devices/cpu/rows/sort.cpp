// Sorting on the CPU, over dense operands seen as [outer, n, inner]; lines run in parallel.
//
// An element becomes an unsigned key whose order is the order asked for: bit tricks put signed numbers and floats
// right, equal zeros and NaNs get one key, and NaN's key is the largest either way. Each key travels with its index, so
// equal keys keep their order. Long lines are sorted by radix, digit after digit; short ones by comparison.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "rill/devices/params/reduce_params.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr int64_t parallel_grain = 1 << 13;  // elements worth a thread

// bools are moved as bytes.
template <class T>
using Moved = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class K>
struct Item {
  K key;
  K index;
  friend bool operator<(const Item& a, const Item& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }
};

template <class K, class T>
K key_of(const T& x, bool descending) {
  if constexpr (is_half_type<T>) {
    return key_of<K>(float(x), descending);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~K(0);
    const T plain = x + T(0);  // -0 becomes 0
    KeyOf<T> bits;
    std::memcpy(&bits, &plain, sizeof(T));
    constexpr KeyOf<T> top = KeyOf<T>(1) << (sizeof(T) * 8 - 1);
    bits = bits & top ? ~bits : bits | top;
    return K(descending ? KeyOf<T>(~bits) : bits);
  } else {
    constexpr K top = K(1) << (sizeof(K) * 8 - 1);
    const K key = std::is_signed_v<T> ? K(std::make_signed_t<K>(x)) ^ top : K(x);
    return descending ? K(~key) : key;
  }
}

constexpr int64_t radix_from = 512;  // elements from which digits beat comparisons

// By 11 bits at a time, from the lowest; `spare` is as long as `items`. Digits that all share are skipped.
template <class K>
void radix_sort(Item<K>*& items, Item<K>*& spare, int64_t n) {
  constexpr int bits = 11, digits = (int(sizeof(K)) * 8 + bits - 1) / bits;
  constexpr K mask = (K(1) << bits) - 1;
  auto counts = std::make_unique<std::array<std::array<int64_t, size_t(1) << bits>, digits>>();
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++(*counts)[size_t(d)][size_t(items[i].key >> (d * bits) & mask)];
  for (int d = 0; d < digits; ++d) {
    auto& count = (*counts)[size_t(d)];
    if (count[size_t(items[0].key >> (d * bits) & mask)] == n) continue;
    int64_t at = 0;
    for (int64_t& c : count) at += std::exchange(c, at);
    for (int64_t i = 0; i < n; ++i) spare[count[size_t(items[i].key >> (d * bits) & mask)]++] = items[i];
    std::swap(items, spare);
  }
}

// Puts the first k of n items in order, at `items`, which may change places with `spare`.
template <class K>
void sort_items(Item<K>*& items, Item<K>*& spare, int64_t n, int64_t k) {
  if (std::is_sorted(items, items + n)) return;
  if (k < n / 8) std::partial_sort(items, items + k, items + n);
  else if (n >= radix_from) radix_sort(items, spare, n);
  else std::sort(items, items + n);
}

// Calls f(line, items) for each line, where items[0..n) are its keys and indices in order (the first `k` of them).
// Neighbouring lines that do not lie dense are read together, so that whole cache lines are used.
template <class K, class T, class F>
void sort_lines(const KernelArgs& args, int64_t axis, bool descending, int64_t k, F&& f) {
  const Tensor& x = args.input(0);
  const int64_t n = x.shape()[size_t(axis)];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= x.shape()[size_t(i)];
  if (n * outer * inner == 0) return;
  const T* data = args.in_data<T>(0);
  const int64_t together = n > (1 << 16) ? 1 : std::min<int64_t>(16, inner);
  parallel_for(outer * inner, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
    const auto memory = std::make_unique_for_overwrite<Item<K>[]>(size_t((together + 1) * n));
    for (int64_t line = begin, some; line < end; line += some) {
      some = std::min({together, end - line, inner - line % inner});
      const T* from = data + line / inner * n * inner + line % inner;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < some; ++j)
          memory[size_t(j * n + i)] = {key_of<K>(from[i * inner + j], descending), K(i)};
      for (int64_t j = 0; j < some; ++j) {
        Item<K>*items = &memory[size_t(j * n)], *spare = &memory[size_t(together * n)];
        sort_items(items, spare, n, k);
        f(line / inner, line % inner + j, inner, from + j, items);
      }
    }
  });
}

// For the element type behind args' first input.
template <class F>
void visit_sortable(const KernelArgs& args, F&& f) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = Moved<decltype(zero)>;
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      if (sizeof(KeyOf<T>) == 8 || args.input(0).size() > int64_t(0xFFFFFFFF)) f(T(), uint64_t());
      else f(T(), uint32_t());
    }
  });
}

template <class T>
bool is_less(const T& a, const T& b) {
  if constexpr (is_half_type<T>) return is_less(float(a), float(b));
  else return a < b || (b != b && a == a);
}

}  // namespace

void sort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  visit_sortable(args, [&](auto element, auto key) {
    using T = decltype(element);
    const int64_t n = args.input(0).shape()[size_t(p.axis)];
    T* out = args.out_data<T>();
    sort_lines<decltype(key), T>(args, p.axis, p.descending, n,
                                 [&](int64_t o, int64_t c, int64_t inner, const T* from, const auto* items) {
                                   for (int64_t i = 0; i < n; ++i)
                                     out[(o * n + i) * inner + c] = from[int64_t(items[i].index) * inner];
                                 });
  });
}

void argsort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  visit_sortable(args, [&](auto element, auto key) {
    using T = decltype(element);
    const int64_t n = args.input(0).shape()[size_t(p.axis)];
    int64_t* out = args.out_data<int64_t>();
    sort_lines<decltype(key), T>(args, p.axis, p.descending, n,
                                 [&](int64_t o, int64_t c, int64_t inner, const T*, const auto* items) {
                                   for (int64_t i = 0; i < n; ++i)
                                     out[(o * n + i) * inner + c] = int64_t(items[i].index);
                                 });
  });
}

void topk(const KernelArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  visit_sortable(args, [&](auto element, auto key) {
    using T = decltype(element);
    T* values = args.out_data<T>(0);
    int64_t* indices = args.out_data<int64_t>(1);
    sort_lines<decltype(key), T>(args, p.axis, p.largest, p.k,
                                 [&](int64_t o, int64_t c, int64_t inner, const T* from, const auto* items) {
                                   for (int64_t i = 0; i < p.k; ++i) {
                                     const int64_t to = (o * p.k + i) * inner + c;
                                     indices[to] = int64_t(items[i].index);
                                     values[to] = from[indices[to] * inner];
                                   }
                                 });
  });
}

void searchsorted(const KernelArgs& args) {
  const bool right = args.attrs.as<SearchParams>().right;
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      const T *begin = args.in_data<T>(0), *end = begin + args.input(0).size(), *values = args.in_data<T>(1);
      int64_t* out = args.out_data<int64_t>();
      parallel_for(args.input(1).size(), 1 << 12, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i)
          out[i] = (right ? std::upper_bound(begin, end, values[i], is_less<T>)
                          : std::lower_bound(begin, end, values[i], is_less<T>)) -
                   begin;
      });
    }
  });
}

}  // namespace rill::cpu
