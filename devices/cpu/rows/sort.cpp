// Sorting on the CPU: dense lines, in parallel. Those along another axis than the last are copied first, and each
// repeated one is sorted once. Start at the kernels at the end.
//
// An element becomes an unsigned key that has the requested order: bit operations order signed numbers and floats,
// equal zeros and NaNs get one key, and NaN's key is the largest in both directions. Each key is stored with its index,
// so equal keys keep their order; values alone need none. line_sort.h sorts one line.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/rows/line_sort.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr int64_t sort_grain = 1 << 13;  // elements worth a thread

// bools are moved as bytes.
template <class T>
using Moved = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
// Keys are made from elements by code for each dtype; sorting depends only on their width.
template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
template <class T>
constexpr BitsOf<T> infinity_bits = BitsOf<T>(std::is_same_v<T, double>     ? 0x7FF0'0000'0000'0000
                                              : std::is_same_v<T, float>    ? 0x7F80'0000
                                              : std::is_same_v<T, BFloat16> ? 0x7F80
                                                                            : 0x7C00);
// A half's bits order it as a float's do.
template <class T>
bool is_half_nan(const T& x) {
  return (std::bit_cast<uint16_t>(x) & 0x7FFF) > infinity_bits<T>;
}

template <class T>
constexpr bool is_float = std::is_floating_point_v<T> || is_half_type<T>;

// The key of an integer is its value with these bits inverted.
template <class T>
KeyOf<T> inverted_bits(bool descending) {
  using K = KeyOf<T>;
  return (std::is_signed_v<T> ? K(1) << (8 * sizeof(K) - 1) : K(0)) ^ (descending ? ~K(0) : K(0));
}
template <class T>
KeyOf<T> widened(T x) {
  return KeyOf<T>(std::conditional_t<std::is_signed_v<T>, std::make_signed_t<KeyOf<T>>, KeyOf<T>>(x));
}

// By the rules above, one by one.
template <class T>
KeyOf<T> key_of(const T& x, bool descending) {
  using K = KeyOf<T>;
  constexpr int sign = 8 * int(sizeof(K)) - 1;
  if constexpr (is_half_type<T>) {
    const uint16_t all = std::bit_cast<uint16_t>(x), bits = all == 0x8000 ? uint16_t(0) : all;
    const uint16_t order = bits & 0x8000 ? uint16_t(~bits) : uint16_t(bits | 0x8000);
    return is_half_nan(x) ? ~K(0) : K(descending ? uint16_t(~order) : order);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~K(0);
    const K bits = std::bit_cast<K>(x + T(0)), order = bits >> sign ? ~bits : bits | K(1) << sign;  // -0 becomes 0
    return descending ? ~order : order;
  } else {
    return widened(x) ^ inverted_bits<T>(descending);
  }
}

template <class T>
const auto& float_keys() {
  if constexpr (is_half_type<T>) return key_sorts().halves;
  else if constexpr (sizeof(T) == 4) return key_sorts().floats;
  else return key_sorts().doubles;
}
// False if an element has no unique key: then the keys are useless.
template <class T>
bool read_keys(const T* x, int64_t n, bool descending, KeyOf<T>* keys) {
  if constexpr (is_float<T>) {
    return float_keys<T>().of(reinterpret_cast<const BitsOf<T>*>(x), n, infinity_bits<T>, descending, keys);
  } else {
    map_run(x, keys, size_t(n), [mask = inverted_bits<T>(descending)](T v) { return widened(v) ^ mask; });
    return true;
  }
}
template <class T>
void write_values(const KeyOf<T>* keys, int64_t n, bool descending, T* out) {
  if constexpr (is_float<T>) float_keys<T>().to(keys, n, descending, reinterpret_cast<BitsOf<T>*>(out));
  else map_run(keys, out, size_t(n), [mask = inverted_bits<T>(descending)](KeyOf<T> key) { return T(key ^ mask); });
}

// Calls f(begin, end) for parts of a line of n elements, in parallel if it is long.
template <class F>
void along_line(int64_t n, F&& f) {
  if (n < long_from) f(int64_t(0), n);
  else parallel_for(n, long_from / 4, [&](int64_t begin, int64_t end) { f(begin, end); });
}

// keys[i] = the key of element i of a line.
template <class K, class T>
void read_all_keys(const char* line, int64_t n, bool descending, K* keys) {
  constexpr int64_t block = 256;
  const T* x = reinterpret_cast<const T*>(line);
  along_line(n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += block) {
      const int64_t count = std::min(block, end - i);
      if constexpr (std::is_same_v<K, KeyOf<T>>)
        if (read_keys(x + i, count, descending, keys + i)) continue;
      KeyOf<T> some[block];
      if (!read_keys(x + i, count, descending, some))
        for (int64_t j = 0; j < count; ++j) some[j] = key_of(x[i + j], descending);
      std::copy_n(some, count, keys + i);
    }
  });
}
template <class K>
using ReadKeys = void (*)(const char* line, int64_t n, bool descending, K* keys);

template <class K>
ReadKeys<K> reader_of(DType dtype) {
  ReadKeys<K> reader = nullptr;
  visit_dtype(dtype, [&](auto zero) {
    using T = Moved<decltype(zero)>;
    if constexpr ((std::is_arithmetic_v<T> && sizeof(T) <= sizeof(K)) || is_half_type<T>) reader = read_all_keys<K, T>;
  });
  return reader;
}

// Dense rows of n elements.
struct Rows {
  const Tensor& x;
  bool descending;
  int64_t n = x.shape().back(), count = x.size() / n, element = int64_t(size_of(x.dtype()));

  const char* operator[](int64_t row) const { return x.rep()->data + row * n * element; }
};

// Keys of 64 bits and their indices in numbers of 64 bits: the key's distance from the least one, and in the lowest
// bits the index. If that drops low bits of keys, keys that are equal without them are sorted at the end.
class PackedItems {
 public:
  PackedItems(const uint64_t* keys, int64_t n) : keys_(keys), n_(n), index_bits_(int(std::bit_width(uint64_t(n - 1)))) {
    constexpr int64_t sampled = 64;
    const auto [low, high] = std::minmax_element(keys, keys + std::min(n, sampled));
    if ((*high - *low) >> 63) {  // random keys: they cannot be told apart further
      least_ = 0, width_ = 64;
      return;
    }
    std::atomic<uint64_t> least{~uint64_t(0)}, most{0};
    along_line(n, [&](int64_t begin, int64_t end) {
      constexpr int64_t keys_at_once = 4;  // a comparison waits for the one before
      uint64_t low[keys_at_once], high[keys_at_once];
      for (int64_t j = 0; j < keys_at_once; ++j) low[j] = high[j] = keys[begin];
      int64_t i = begin;
      for (; i + keys_at_once <= end; i += keys_at_once)
        for (int64_t j = 0; j < keys_at_once; ++j)
          low[j] = std::min(low[j], keys[i + j]), high[j] = std::max(high[j], keys[i + j]);
      for (; i < end; ++i) low[0] = std::min(low[0], keys[i]), high[0] = std::max(high[0], keys[i]);
      const uint64_t own_least = *std::min_element(low, low + keys_at_once),
                     own_most = *std::max_element(high, high + keys_at_once);
      for (uint64_t x = least; own_least < x && !least.compare_exchange_weak(x, own_least);) {
      }
      for (uint64_t x = most; own_most > x && !most.compare_exchange_weak(x, own_most);) {
      }
    });
    least_ = least;
    width_ = std::max(1, int(std::bit_width(most - least)));
  }
  uint64_t item(int64_t i) const { return ((keys_[i] - least_) << (64 - width_) & ~index_mask()) | uint64_t(i); }
  void pack(uint64_t* items) const {
    along_line(n_, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) items[i] = item(i);
    });
  }
  // The indices of sorted items.
  struct Sorted {
    const uint64_t* items;
    uint64_t mask;
    KeyedItem<uint32_t> operator[](int64_t i) const { return {0, uint32_t(items[i] & mask)}; }
  };
  Sorted sorted(uint64_t* items) const {
    if (width_ > 64 - index_bits_) untie(items);
    return {items, index_mask()};
  }

 private:
  uint64_t index_mask() const { return (uint64_t(1) << index_bits_) - 1; }
  void untie(uint64_t* items) const {
    constexpr int64_t few = 32, block = 64;
    const auto key = [this](uint64_t item) { return keys_[item & index_mask()]; };
    const auto is_tied = [&](int64_t i) { return ((items[i] ^ items[i - 1]) & ~index_mask()) == 0; };
    for (int64_t i = 1; i < n_;) {
      if (i + block <= n_) {  // branch-free: ties are mostly rare
        bool any_tied = false;
        for (int64_t j = i; j < i + block; ++j) any_tied |= is_tied(j);
        if (!any_tied) {
          i += block;
          continue;
        }
      }
      for (const int64_t stop = std::min(i + block, n_); i < stop; ++i) {
        if (!is_tied(i)) continue;
        const int64_t first = i - 1;
        while (i < n_ && is_tied(i)) ++i;
        if (i - first > few) untie_many(items + first, i - first);
        else
          std::sort(items + first, items + i,
                    [&](uint64_t a, uint64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
      }
    }
  }
  // Sorted as a line of its own: the dropped bits, at most 32, fit next to indices of 32 bits.
  void untie_many(uint64_t* items, int64_t n) const {
    std::vector<uint64_t> keys, tied(items, items + n), order(size_t(2 * n));
    for (const uint64_t item : tied) keys.push_back(keys_[item & index_mask()]);
    const PackedItems packed(keys.data(), n);
    packed.pack(order.data());
    sort_keys(order.data(), order.data() + n, n);
    const Sorted sorted = packed.sorted(order.data());
    for (int64_t i = 0; i < n; ++i) items[i] = tied[sorted[i].index()];
  }

  const uint64_t* keys_;
  uint64_t least_;
  int64_t n_;
  int index_bits_, width_;
};

// Calls f(row, items) for rows [begin, end), with the first `k` items in order: items[i].index().
template <class K, class F>
void sort_rows(const Rows& rows, int64_t k, int64_t begin, int64_t end, F&& f) {
  const ReadKeys<K> read = reader_of<K>(rows.x.dtype());
  const bool are_keys = sizeof(K) == 8 && rows.x.dtype() == DType::u64 && !rows.descending;
  const int64_t n = rows.n;
  const Ref<Buffer> key_room = allocate(Device(), are_keys ? 0 : size_t(n) * sizeof(K)),
                    item_room = allocate(Device(), size_t(2 * n) * sizeof(KeyedItem<K>));
  for (int64_t row = begin; row < end; ++row) {
    const K* keys = reinterpret_cast<const K*>(rows[row]);
    if (!are_keys) {
      read(rows[row], n, rows.descending, static_cast<K*>(key_room->data));
      keys = static_cast<const K*>(key_room->data);
    }
    if constexpr (sizeof(K) == 8) {
      if (!sorts_few(n, k) && n <= int64_t(0xFFFFFFFF)) {
        const PackedItems packed(keys, n);
        auto *items = static_cast<uint64_t*>(item_room->data), *spare = items + n;
        if (n < long_from || !SpreadSort(items, spare, n).run([packed](int64_t i) { return packed.item(i); })) {
          packed.pack(items);
          sort_items(items, spare, n, n);
        }
        f(row, packed.sorted(items));
        continue;
      }
    }
    auto *items = static_cast<KeyedItem<K>*>(item_room->data), *spare = items + n;
    along_line(n, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) items[i] = {keys[i], K(i)};
    });
    sort_items(items, spare, n, k);
    f(row, static_cast<const KeyedItem<K>*>(items));
  }
}
// Calls f(begin, end) for parts of all rows, in parallel.
template <class F>
void for_rows(const Rows& rows, F&& f) {
  parallel_for(rows.count, std::max<int64_t>(1, sort_grain / rows.n),
               [&](int64_t begin, int64_t end) { f(begin, end); });
}

// Calls f with a zero of the key type for the rows' elements.
template <class F>
void visit_keys(const Rows& rows, F&& f) {
  if (rows.element == 8 || rows.x.size() > int64_t(0xFFFFFFFF)) f(uint64_t());
  else f(uint32_t());
}

// to[i] = the element of item i.
template <class Items>
void put_values(const char* line, const Items& items, int64_t element, int64_t count, char* to) {
  const auto put = [&]<class U>(U) {
    along_line(count, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) reinterpret_cast<U*>(to)[i] = reinterpret_cast<const U*>(line)[items[i].index()];
    });
  };
  switch (element) {
    case 1: return put(uint8_t());
    case 2: return put(uint16_t());
    case 4: return put(uint32_t());
    default: return put(uint64_t());
  }
}
template <class Items>
void put_indices(const Items& items, int64_t count, int64_t* to) {
  along_line(count, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) to[i] = int64_t(items[i].index());
  });
}

template <class T>
bool is_less(const T& a, const T& b) {
  if constexpr (is_half_type<T>) return is_less(float(a), float(b));
  else return a < b || (b != b && a == a);
}

// --- Operands of any layout ------------------------------------------------------------------------------------------

// Whether the elements of a line are all the same one.
bool lines_are_one(const Tensor& x, int64_t axis) { return x.strides()[size_t(axis)] == 0 && x.size() > 0; }

// out[..., i, ...] = i along the axis.
void put_positions(Tensor& out, int64_t axis) {
  int64_t inner = 1;
  for (int i = int(axis) + 1; i < out.ndim(); ++i) inner *= out.shape()[size_t(i)];
  const int64_t n = out.shape()[size_t(axis)];
  int64_t* to = reinterpret_cast<int64_t*>(out.mutable_rep()->data);
  parallel_for(out.size() / inner, 1 + long_from / inner, [&](int64_t row, int64_t end) {
    for (; row < end; ++row) fill_dense(to + row * inner, size_t(inner), row % n);
  });
}

// Calls run(rows, outputs) with the lines along `axis` as dense rows, only one of each that are repeated.
template <class F>
void on_rows(const KernelArgs& args, int64_t axis, bool descending, F&& run) {
  const Tensor& x = args.input(0);
  if (x.size() == 0 || args.output().size() == 0) return;
  if (axis == x.ndim() - 1 && x.is_contiguous()) return run(Rows{x, descending}, args.out);
  Dims order;  // of x's axes: `axis` last
  for (int64_t i = 0; i < x.ndim(); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  Shape shape;
  Strides strides;
  for (int64_t i : order) {
    const int64_t stride = x.strides()[size_t(i)];
    shape.push_back(stride == 0 && i != axis ? Dim(1) : x.shape()[size_t(i)]), strides.push_back(stride);
  }
  const Tensor rows = as_dense(make_view(x, shape, strides, 0));
  SmallVec<Tensor, 2> results;
  for (const Tensor* out : args.out) {
    shape.back() = out->shape()[size_t(axis)];
    results.push_back(empty_tensor(Spec{shape, out->dtype(), false, x.device()}));
  }
  SmallVec<Tensor*, 2> pointers;
  for (Tensor& result : results) pointers.push_back(&result);
  run(Rows{rows, descending}, std::span<Tensor* const>(pointers.data(), pointers.size()));
  for (size_t k = 0; k < results.size(); ++k) {
    Shape back = results[k].shape();
    Strides strides = results[k].strides();
    for (size_t i = 0; i < order.size(); ++i)
      back[size_t(order[i])] = results[k].shape()[i], strides[size_t(order[i])] = results[k].strides()[i];
    copy_repeated(make_view(results[k], back, strides, 0), *args.out[k]);
  }
}

// Restores zeros of either sign and NaNs, which share keys, in their original order.
template <class T>
void put_equals(const T* x, const KeyOf<T>* sorted, int64_t n, bool descending, T* out) {
  using N = std::conditional_t<is_half_type<T>, float, T>;
  const auto place_of = [&](KeyOf<T> key) { return out + (std::lower_bound(sorted, sorted + n, key) - sorted); };
  T *zero = place_of(key_of(T(0), descending)), *nan = place_of(~KeyOf<T>(0));
  for (int64_t i = 0; i < n; ++i) {
    const N number = N(x[i]);
    if (number == 0) *zero++ = x[i];
    else if (number != number) *nan++ = x[i];
  }
}

template <class T>
void sort_values(const Rows& rows, int64_t begin, int64_t end, T* out) {
  using K = KeyOf<T>;
  const int64_t n = rows.n;
  const Ref<Buffer> buffer = allocate(Device(), size_t(2 * n) * sizeof(K));
  for (int64_t row = begin; row < end; ++row) {
    const T* x = reinterpret_cast<const T*>(rows[row]);
    K *keys = static_cast<K*>(buffer->data), *spare = keys + n;
    std::atomic<bool> plain{true};
    along_line(n, [&](int64_t b, int64_t e) {
      if (!read_keys(x + b, e - b, rows.descending, keys + b)) plain = false;
    });
    if (!plain) read_all_keys<K, T>(rows[row], n, rows.descending, keys);
    sort_items(keys, spare, n, n);
    along_line(n, [&](int64_t b, int64_t e) { write_values(keys + b, e - b, rows.descending, out + row * n + b); });
    if constexpr (is_float<T>)
      if (!plain) put_equals(x, keys, n, rows.descending, out + row * n);
  }
}

}  // namespace

// --- Kernels ---------------------------------------------------------------------------------------------------------

void sort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  if (lines_are_one(args.input(0), p.axis)) return copy_elements(args.input(0), args.output());
  on_rows(args, p.axis, p.descending, [](const Rows& rows, std::span<Tensor* const> outs) {
    visit_dtype(rows.x.dtype(), [&](auto zero) {
      using T = Moved<decltype(zero)>;
      if constexpr (std::is_arithmetic_v<T> || is_half_type<T>)
        for_rows(rows, [&](int64_t begin, int64_t end) {
          sort_values(rows, begin, end, reinterpret_cast<T*>(outs[0]->mutable_rep()->data));
        });
    });
  });
}

void argsort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  if (lines_are_one(args.input(0), p.axis)) return put_positions(args.output(), p.axis);
  on_rows(args, p.axis, p.descending, [](const Rows& rows, std::span<Tensor* const> outs) {
    int64_t* const out = reinterpret_cast<int64_t*>(outs[0]->mutable_rep()->data);
    visit_keys(rows, [&]<class K>(K) {
      for_rows(rows, [&](int64_t begin, int64_t end) {
        sort_rows<K>(rows, rows.n, begin, end,
                     [&](int64_t row, const auto& items) { put_indices(items, rows.n, out + row * rows.n); });
      });
    });
  });
}

void topk(const KernelArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  on_rows(args, p.axis, p.largest, [&](const Rows& rows, std::span<Tensor* const> outs) {
    char* const values = outs[0]->mutable_rep()->data;
    int64_t* const indices = reinterpret_cast<int64_t*>(outs[1]->mutable_rep()->data);
    visit_keys(rows, [&]<class K>(K) {
      for_rows(rows, [&](int64_t begin, int64_t end) {
        sort_rows<K>(rows, p.k, begin, end, [&](int64_t row, const auto& items) {
          put_values(rows[row], items, rows.element, p.k, values + row * p.k * rows.element);
          put_indices(items, p.k, indices + row * p.k);
        });
      });
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
