// Sorting on the CPU, over operands that are dense, or made so, seen as [outer, n, inner]; lines run in parallel.
//
// An element becomes an unsigned key whose order is the order asked for: bit tricks put signed numbers and floats
// right, equal zeros and NaNs get one key, and NaN's key is the largest either way. Each key travels with its index, so
// equal keys keep their order. line_sort.h sorts one line.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/rows/line_sort.h"
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

// items[j * n + i] = element i of line j, for `lines` neighbouring lines whose elements are `step` apart: read
// together, so that whole cache lines are used.
template <class K, class T>
void read_items(const char* from, int64_t step, int64_t lines, int64_t n, bool descending, KeyedItem<K>* items) {
  const T* x = reinterpret_cast<const T*>(from);
  parallel_for(n, lines > 1 ? n : long_from / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < lines; ++j) items[j * n + i] = {key_of<K>(x[i * step + j], descending), K(i)};
  });
}
template <class K>
using ReadItems = void (*)(const char* from, int64_t step, int64_t lines, int64_t n, bool descending,
                           KeyedItem<K>* items);

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
  const KeyedItem<K>* items;
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
  const Ref<Buffer> room = allocate(Device(), size_t((together + 1) * n) * sizeof(KeyedItem<K>));
  KeyedItem<K>* const memory = static_cast<KeyedItem<K>*>(room->data);
  for (int64_t line = begin, some; line < end; line += some) {
    some = std::min({together, end - line, inner - line % inner});
    const char* from = x.rep()->data + (line / inner * n * inner + line % inner) * element;
    read(from, inner, some, n, descending, memory);
    KeyedItem<K>* spare = &memory[size_t(together * n)];
    for (int64_t j = 0; j < some; ++j) {
      KeyedItem<K>* items = &memory[size_t(j * n)];
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
