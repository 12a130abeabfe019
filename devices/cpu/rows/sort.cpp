// Sorting on the CPU, over operands that are dense, or made so, seen as [outer, n, inner]; lines run in parallel.
//
// An element becomes an unsigned key whose order is the order asked for: bit tricks put signed numbers and floats
// right, equal zeros and NaNs get one key, and NaN's key is the largest either way. Each key travels with its index, so
// equal keys keep their order. Long lines are sorted by radix, digit after digit, and very long ones by all threads;
// short ones by comparison.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr int64_t parallel_grain = 1 << 13;  // elements worth a thread

// bools are moved as bytes.
template <class T>
using Moved = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
// Keys are made of elements by code for each dtype; what sorts them knows their width alone.
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

// What has no -0 and no NaN is made of its key again.
template <class T, class K>
T value_of(K key, bool descending) {
  if constexpr (is_half_type<T>) {
    return T(value_of<float>(key, descending));
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr KeyOf<T> top = KeyOf<T>(1) << (sizeof(T) * 8 - 1);
    const KeyOf<T> order = descending ? KeyOf<T>(~KeyOf<T>(key)) : KeyOf<T>(key);
    const KeyOf<T> bits = order & top ? order ^ top : ~order;
    T x;
    std::memcpy(&x, &bits, sizeof(T));
    return x;
  } else {
    constexpr K top = K(1) << (sizeof(K) * 8 - 1);
    const K order = descending ? K(~key) : key;
    return T(std::is_signed_v<T> ? order ^ top : order);
  }
}
template <class T>
bool has_a_key_of_its_own(const T& x) {
  if constexpr (is_half_type<T>) return has_a_key_of_its_own(float(x));
  else if constexpr (std::is_floating_point_v<T>) return x == x && !(x == T(0) && std::signbit(x));
  else return true;
}

constexpr int64_t radix_from = 256;  // elements from which digits beat comparisons

template <class K>
K key_in(K key) {
  return key;
}
template <class K>
K key_in(const Item<K>& item) {
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

// items[j * n + i] = element i of line j, for `lines` neighbouring lines whose elements are `step` apart: read
// together, so that whole cache lines are used.
template <class K, class T>
void read_items(const char* from, int64_t step, int64_t lines, int64_t n, bool descending, Item<K>* items) {
  const T* x = reinterpret_cast<const T*>(from);
  parallel_for(n, lines > 1 ? n : long_from / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < lines; ++j) items[j * n + i] = {key_of<K>(x[i * step + j], descending), K(i)};
  });
}
template <class K>
using ReadItems = void (*)(const char* from, int64_t step, int64_t lines, int64_t n, bool descending, Item<K>* items);

template <class K>
ReadItems<K> reader_of(DType dtype) {
  ReadItems<K> reader = nullptr;
  visit_dtype(dtype, [&](auto zero) {
    using T = Moved<decltype(zero)>;
    if constexpr ((std::is_arithmetic_v<T> && sizeof(T) <= sizeof(K)) || is_half_type<T>) reader = read_items<K, T>;
  });
  return reader;
}

// A line whose first element is at `from` and whose elements, like those of the result, are `inner` apart. items[0..n)
// are its keys and indices in order.
template <class K>
struct Sorted {
  const char* from;
  const Item<K>* items;
  int64_t inner, outer_index, inner_index;
};

// Calls f for lines [begin, end), with the first `k` items in order.
template <class K>
void sort_lines(const KernelArgs& args, int64_t axis, bool descending, int64_t k, int64_t begin, int64_t end,
                const Callback<void(const Sorted<K>&)>& f) {
  const Tensor& x = args.input(0);
  const ReadItems<K> read = reader_of<K>(x.dtype());
  const int64_t n = x.shape()[size_t(axis)], element = int64_t(size_of(x.dtype()));
  int64_t inner = 1;
  for (int i = int(axis) + 1; i < x.ndim(); ++i) inner *= x.shape()[size_t(i)];
  const int64_t together = n >= long_from ? 1 : std::min<int64_t>(16, inner);
  const Ref<Buffer> room = allocate(Device(), size_t((together + 1) * n) * sizeof(Item<K>));
  Item<K>* const memory = static_cast<Item<K>*>(room->data);
  for (int64_t line = begin, some; line < end; line += some) {
    some = std::min({together, end - line, inner - line % inner});
    const char* from = x.rep()->data + (line / inner * n * inner + line % inner) * element;
    read(from, inner, some, n, descending, memory);
    Item<K>* spare = &memory[size_t(together * n)];
    for (int64_t j = 0; j < some; ++j) {
      Item<K>* items = &memory[size_t(j * n)];
      sort_items(items, spare, n, k);
      f({from + j * element, items, inner, line / inner, line % inner + j});
    }
  }
}
// For all lines, which run in parallel.
template <class K>
void sort_lines(const KernelArgs& args, int64_t axis, bool descending, int64_t k,
                const Callback<void(const Sorted<K>&)>& f) {
  const Tensor& x = args.input(0);
  if (x.size() == 0) return;
  const int64_t n = x.shape()[size_t(axis)];
  parallel_for(x.size() / n, std::max<int64_t>(1, parallel_grain / n),
               [&](int64_t begin, int64_t end) { sort_lines<K>(args, axis, descending, k, begin, end, f); });
}

// Calls f with a zero of the type of keys for args' first input.
template <class F>
void visit_keys(const KernelArgs& args, F&& f) {
  const Tensor& x = args.input(0);
  if (size_of(x.dtype()) == 8 || x.size() > int64_t(0xFFFFFFFF)) f(uint64_t());
  else f(uint32_t());
}

// to[i * inner] = the element that item i stands for.
template <class K>
void put_values(const Sorted<K>& line, size_t element, int64_t count, char* to) {
  const auto put = [&]<class U>(U) {
    const U* from = reinterpret_cast<const U*>(line.from);
    parallel_for(count, long_from / 4, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) reinterpret_cast<U*>(to)[i * line.inner] = from[int64_t(line.items[i].index) * line.inner];
    });
  };
  switch (element) {
    case 1: return put(uint8_t());
    case 2: return put(uint16_t());
    case 4: return put(uint32_t());
    default: return put(uint64_t());
  }
}
template <class K>
void put_indices(const Sorted<K>& line, int64_t count, int64_t* to) {
  parallel_for(count, long_from / 4, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) to[i * line.inner] = int64_t(line.items[i].index);
  });
}

template <class T>
bool is_less(const T& a, const T& b) {
  if constexpr (is_half_type<T>) return is_less(float(a), float(b));
  else return a < b || (b != b && a == a);
}

}  // namespace

namespace {

// Runs `kernel` on a dense operand, and once on lines that are repeated. False where args' operand is dense already.
bool run_dense(const KernelArgs& args, int64_t axis, Kernel kernel) {
  const Tensor& x = args.input(0);
  if (x.is_contiguous()) return false;
  Shape shape = x.shape();
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != axis && x.strides()[i] == 0 && shape[i] > 1) shape[i] = 1;
  const Tensor lines = make_view(x, shape, x.strides(), 0);
  Tensor dense = empty_tensor(lines.spec()),
         sorted = empty_tensor(Spec{shape, args.output().dtype(), false, x.device()});
  copy_elements(lines, dense);
  const Tensor* const in[] = {&dense};
  Tensor* const out[] = {&sorted};
  if (shape == x.shape()) {
    kernel({in, args.out, args.attrs, nullptr});
  } else {
    kernel({in, out, args.attrs, nullptr});
    copy_repeated(sorted, args.output());
  }
  return true;
}

// Whether the elements of a line are one and the same.
bool lines_are_one(const Tensor& x, int64_t axis) { return x.strides()[size_t(axis)] == 0 && x.size() > 0; }

// out[..., i, ...] = i along the axis.
void put_positions(Tensor& out, int64_t axis) {
  int64_t inner = 1;
  for (int i = int(axis) + 1; i < out.ndim(); ++i) inner *= out.shape()[size_t(i)];
  const int64_t n = out.shape()[size_t(axis)];
  int64_t* to = reinterpret_cast<int64_t*>(out.mutable_rep()->data);
  for (int64_t row = 0; row < out.size() / inner; ++row) std::fill_n(to + row * inner, inner, row % n);
}

}  // namespace

namespace {

// Lines whose elements all have a key of their own: the keys are sorted, without indices. The others of [begin, end)
// are left to `rest`.
template <class T, class F>
void sort_keys(const T* x, T* out, int64_t n, int64_t inner, int64_t begin, int64_t end, bool descending, F rest) {
  using K = KeyOf<T>;
  const int64_t together = n >= long_from ? 1 : std::min<int64_t>(16, inner);
  const Ref<Buffer> room = allocate(Device(), size_t((together + 1) * n) * sizeof(K));
  K* const memory = static_cast<K*>(room->data);
  for (int64_t line = begin, some; line < end; line += some) {
    some = std::min({together, end - line, inner - line % inner});
    const int64_t at = line / inner * n * inner + line % inner;
    std::atomic<bool> plain{true};
    const int64_t share = n < long_from ? n : long_from / 4;  // elements worth a thread
    parallel_for(n, share, [&](int64_t b, int64_t e) {
      bool all = true;
      for (int64_t i = b; i < e; ++i)
        for (int64_t j = 0; j < some; ++j) {
          const T v = x[at + i * inner + j];
          all &= has_a_key_of_its_own(v);
          memory[size_t(j * n + i)] = key_of<K>(v, descending);
        }
      if (!all) plain = false;
    });
    if (!plain) {
      rest(line, line + some);
      continue;
    }
    K* sorted[16];
    K* spare = &memory[size_t(together * n)];
    for (int64_t j = 0; j < some; ++j) {
      sorted[j] = &memory[size_t(j * n)];
      sort_items(sorted[j], spare, n, n);
    }
    parallel_for(n, share, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        for (int64_t j = 0; j < some; ++j) out[at + i * inner + j] = value_of<T>(sorted[j][i], descending);
    });
  }
}

}  // namespace

void sort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  if (lines_are_one(args.input(0), p.axis)) return copy_elements(args.input(0), args.output());
  if (run_dense(args, p.axis, sort)) return;
  const Tensor& x = args.input(0);
  const int64_t n = x.shape()[size_t(p.axis)];
  if (x.size() == 0) return;
  int64_t inner = 1;
  for (int i = int(p.axis) + 1; i < x.ndim(); ++i) inner *= x.shape()[size_t(i)];
  const size_t element = size_of(x.dtype());
  const auto with_indices = [&](int64_t begin, int64_t end) {
    visit_keys(args, [&]<class K>(K) {
      sort_lines<K>(args, p.axis, p.descending, n, begin, end, [&](const Sorted<K>& l) {
        put_values(l, element, n,
                   args.out_data<char>() + (l.outer_index * n * l.inner + l.inner_index) * int64_t(element));
      });
    });
  };
  visit_dtype(x.dtype(), [&](auto zero) {
    using T = Moved<decltype(zero)>;
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>)
      parallel_for(x.size() / n, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
        sort_keys(args.in_data<T>(0), args.out_data<T>(), n, inner, begin, end, p.descending, with_indices);
      });
  });
}

void argsort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  if (lines_are_one(args.input(0), p.axis)) return put_positions(args.output(), p.axis);
  if (run_dense(args, p.axis, argsort)) return;
  const int64_t n = args.input(0).shape()[size_t(p.axis)];
  visit_keys(args, [&]<class K>(K) {
    sort_lines<K>(args, p.axis, p.descending, n, [&](const Sorted<K>& l) {
      put_indices(l, n, args.out_data<int64_t>() + l.outer_index * n * l.inner + l.inner_index);
    });
  });
}

void topk(const KernelArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  const size_t element = size_of(args.output().dtype());
  visit_keys(args, [&]<class K>(K) {
    sort_lines<K>(args, p.axis, p.largest, p.k, [&](const Sorted<K>& l) {
      const int64_t to = l.outer_index * p.k * l.inner + l.inner_index;
      put_values(l, element, p.k, args.out_data<char>(0) + to * int64_t(element));
      put_indices(l, p.k, args.out_data<int64_t>(1) + to);
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
