// A strided copy in three steps: sort the axes by the destination's strides, and join those that are contiguous with
// each other; make the last one the inner loop, tiled with the source's fastest axis if that is another (a transpose);
// split the rest among threads.
#include "rill/devices/cpu/move/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "rill/devices/axes.h"
#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {

namespace {

struct Axis {
  int64_t size, from, to;  // strides in elements
};
using AxisPairs = SmallVec<Axis, 8>;

constexpr int64_t copy_grain = 64 * 1024;     // elements worth waking a thread for
constexpr int64_t streamed_bytes = 40 << 20;  // more than most last-level caches hold

AxisPairs joined_axes(const Shape& shape, const Strides& from, const Strides& to) {
  AxisPairs axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) axes.push_back({shape[i], from[i], to[i]});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
  AxisPairs out;
  for (const Axis& a : axes) append_axis(out, a, &Axis::from, &Axis::to);
  if (out.empty()) out.push_back({1, 1, 1});
  return out;
}

// The offsets of rows along all axes but the last `inner`, from row `begin` on.
class Rows {
 public:
  Rows(const AxisPairs& axes, size_t inner, int64_t begin) : axes_(axes), n_(axes.size() - inner), index_(n_, 0) {
    for (size_t i = n_; i-- > 0;) {
      index_[i] = begin % axes[i].size;
      begin /= axes[i].size;
      from += index_[i] * axes[i].from;
      to += index_[i] * axes[i].to;
    }
  }
  void next() {
    for (size_t i = n_; i-- > 0;) {
      from += axes_[i].from;
      to += axes_[i].to;
      if (++index_[i] < axes_[i].size) return;
      from -= axes_[i].from * axes_[i].size;
      to -= axes_[i].to * axes_[i].size;
      index_[i] = 0;
    }
  }
  int64_t from = 0, to = 0;

 private:
  const AxisPairs& axes_;
  size_t n_;
  SmallVec<int64_t, 8> index_;
};

template <class T>
void copy_row(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  if (to_step == 1 && from_step == 1) {
    copy_dense(from, to, size_t(n));
  } else if (to_step == 1 && from_step == -1) {
    copy_reversed(from, to, size_t(n));
  } else if (to_step == 1 && from_step == 0) {
    fill_dense(to, size_t(n), *from);
  } else if (to_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_step];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

template <class T>
void copy_rows(const AxisPairs& axes, const T* from, T* to) {
  const Axis& last = axes.back();
  if (axes.size() == 1) {
    parallel_for(last.size, copy_grain, [&](int64_t b, int64_t e) {
      copy_row(from + b * last.from, last.from, to + b * last.to, last.to, e - b);
    });
    return;
  }
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < axes.size(); ++i) rows *= axes[i].size;
  parallel_for(rows, std::max<int64_t>(1, copy_grain / last.size), [&](int64_t b, int64_t e) {
    Rows row(axes, 1, b);
    for (; b < e; ++b, row.next()) copy_row(from + row.from, last.from, to + row.to, last.to, last.size);
  });
}

// The last axis is the fastest in `to`, the one before it in `from`: tiles keep both in the cache.
template <class T>
void copy_tiles(const AxisPairs& axes, const T* from, T* to) {
  const Axis &a = axes[axes.size() - 2], &l = axes.back();
  const int64_t tile = std::max<int64_t>(16, 128 / sizeof(T)), long_tile = 8 * tile;
  int64_t blocks = (a.size + tile - 1) / tile, rows = blocks, line = 64 / int64_t(sizeof(T));
  bool lines = a.to % line == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0;  // each cache line is written as a whole
  for (size_t i = 0; i + 2 < axes.size(); ++i) rows *= axes[i].size, lines &= axes[i].to % line == 0;
  const bool streaming = lines && rows * tile * l.size * int64_t(sizeof(T)) >= streamed_bytes;
  parallel_for(rows, std::max<int64_t>(1, copy_grain / (tile * l.size)), [&](int64_t b, int64_t e) {
    for (; b < e; ++b) {
      Rows outer(axes, 2, b / blocks);
      int64_t a0 = b % blocks * tile, a1 = std::min(a0 + tile, a.size);
      for (int64_t l0 = 0; l0 < l.size; l0 += long_tile) {
        int64_t l1 = std::min(l0 + long_tile, l.size);
        const T* source = from + outer.from + a0 * a.from + l0 * l.from;
        T* target = to + outer.to + a0 * a.to + l0 * l.to;
        if constexpr (std::is_unsigned_v<T>)
          if (a.from == 1 && l.to == 1) {
            transpose(source, l.from, l1 - l0, a1 - a0, target, a.to, streaming);
            continue;
          }
        for (int64_t i = 0; i < a1 - a0; ++i)
          for (int64_t j = 0; j < l1 - l0; ++j) target[i * a.to + j * l.to] = source[i * a.from + j * l.from];
      }
    }
  });
}

// Moves the axis that is fastest in the source next to the last; false if that is the last one itself.
bool order_for_tiles(AxisPairs& axes) {
  size_t n = axes.size(), fast = n - 1;
  for (size_t i = 0; i < n; ++i)
    if (axes[i].from != 0 && std::abs(axes[i].from) < std::abs(axes[fast].from)) fast = i;
  if (fast == n - 1 || axes[fast].size < 4 || axes.back().size < 4) return false;
  Axis moved = axes[fast];
  axes.erase(fast);
  axes.insert(n - 2, moved);
  return true;
}

template <class T>
void copy_typed(AxisPairs& axes, const void* from, void* to) {
  if (order_for_tiles(axes)) copy_tiles(axes, static_cast<const T*>(from), static_cast<T*>(to));
  else copy_rows(axes, static_cast<const T*>(from), static_cast<T*>(to));
}

// Whether it is one element, perhaps broadcast.
bool is_uniform(const Tensor& t) {
  for (size_t i = 0; i < t.strides().size(); ++i)
    if (t.shape()[i] != 1 && t.strides()[i] != 0) return false;
  return true;
}

}  // namespace

void strided_copy(DType dtype, const Shape& shape, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides) {
  if (shape.numel() == 0) return;
  AxisPairs axes = joined_axes(shape, from_strides, to_strides);
  if (dtype == DType::string) return copy_typed<std::string>(axes, from, to);
  switch (size_of(dtype)) {
    case 1: return copy_typed<uint8_t>(axes, from, to);
    case 2: return copy_typed<uint16_t>(axes, from, to);
    case 4: return copy_typed<uint32_t>(axes, from, to);
    case 8: return copy_typed<uint64_t>(axes, from, to);
    default: return copy_typed<Bytes16>(axes, from, to);
  }
}

Tensor as_dense(const Tensor& t) {
  if (t.is_contiguous()) return t;
  Tensor copy = empty_tensor(t.spec());
  copy_elements(t, copy);
  return copy;
}

void copy_repeated(const Tensor& from, Tensor& to) {
  Strides strides = from.strides();
  for (size_t i = 0; i < strides.size(); ++i)
    if (from.shape()[i] == 1) strides[i] = 0;
  strided_copy(to.dtype(), to.shape(), from.rep()->data, strides, to.mutable_rep()->data, to.strides());
}

void gather_run(const char* from, int64_t stride, size_t element, void* to, int64_t n) {
  auto copy = [&](auto zero) {
    using T = decltype(zero);
    T* out = static_cast<T*>(to);
    if (stride == -int64_t(sizeof(T))) return copy_reversed(reinterpret_cast<const T*>(from), out, size_t(n));
    for (int64_t i = 0; i < n; ++i, from += stride) out[i] = *reinterpret_cast<const T*>(from);
  };
  switch (element) {
    case 1: return copy(uint8_t());
    case 2: return copy(uint16_t());
    case 4: return copy(uint32_t());
    case 8: return copy(uint64_t());
    default: return copy(Bytes16());
  }
}

Ints common_order(std::span<const Tensor* const> in, const Shape& shape) {
  const Tensor* first = nullptr;
  const size_t n = shape.size();
  for (const Tensor* t : in) {
    if (is_uniform(*t)) continue;
    if (!(t->shape() == shape)) return {};
    for (size_t i = 0; first && i < n; ++i)
      if (shape[i] != 1 && t->strides()[i] != first->strides()[i]) return {};
    first = t;
  }
  if (!first) return {};
  const Strides& strides = first->strides();
  Ints order(n, 0);
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return strides[size_t(a)] > strides[size_t(b)]; });
  int64_t dense = 1;
  for (size_t i = n; i-- > 0;) {
    const int64_t size = shape[size_t(order[i])];
    if (size != 1 && strides[size_t(order[i])] != dense) return {};
    dense *= size;
  }
  return std::is_sorted(order.begin(), order.end()) ? Ints() : order;
}

Tensor in_order(const Tensor& t, const Ints& order) {
  if (is_uniform(t)) return make_view(t, Shape{}, Strides{}, 0);
  Shape shape;
  Strides strides;
  for (int64_t axis : order) shape.push_back(t.shape()[size_t(axis)]), strides.push_back(t.strides()[size_t(axis)]);
  return make_view(t, shape, strides, 0);
}

Tensor out_of_order(const Tensor& t, const Ints& order) {
  Ints back(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  return in_order(t, back);
}

}  // namespace rill::cpu
