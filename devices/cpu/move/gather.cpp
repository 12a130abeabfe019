// CPU kernels of gather and scatter.
//
// Both treat the output (or the updates) as [before, indexed, after]: `before` and `after` are the axes copied in full,
// and each element of `indexed` is the offset in x at which its slice begins, or skipped_index. So the element of x is
// at before[i] + indexed[j] + after[k]: three tables of offsets, which are computed first, while the indices are
// checked.
#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <vector>

#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/move/rows_within.h"
#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/params/gather_layout.h"
#include "rill/devices/params/gather_params.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {

namespace {

using Offsets = std::vector<int64_t>;

constexpr int64_t grain = 16 * 1024;  // elements worth waking a thread for

// The first position of an index out of bounds, whichever thread finds it.
class FirstBad {
 public:
  void found(int64_t position) {
    int64_t seen = first_.load();
    while (position < seen && !first_.compare_exchange_weak(seen, position)) {
    }
  }
  explicit operator bool() const { return first_ != none_bad; }
  int64_t position() const { return first_; }

 private:
  static constexpr int64_t none_bad = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_{none_bad};
};

// The offsets of all elements of `shape` in row-major order.
Offsets offsets_of(const Shape& shape, const Strides& strides) {
  Offsets out(size_t(shape.numel()));
  if (out.empty()) return out;
  out[0] = 0;
  // The table of the last axes, repeated for each index of the axis before them.
  int64_t made = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    for (int64_t k = 1; k < shape[i]; ++k)
      for (int64_t j = 0; j < made; ++j) out[size_t(k * made + j)] = out[size_t(j)] + k * strides[i];
    made *= shape[i];
  }
  return out;
}

// Adds the offsets of index tensor `t` to `indexed`. `index_offsets` are those of t's own elements; null if t is dense.
template <class I>
void add_index(const Tensor& t, const Offsets* index_offsets, int64_t axis, int64_t size, int64_t stride, bool skips,
               Offsets& indexed) {
  const I* index = reinterpret_cast<const I*>(t.rep()->data);
  auto offset = [&](int64_t p) { return index_offsets ? (*index_offsets)[size_t(p)] : p; };
  FirstBad bad;
  parallel_for(int64_t(indexed.size()), grain, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      int64_t i = int64_t(index[offset(p)]);
      if constexpr (std::is_signed_v<I>) i += i < 0 ? size : 0;
      if (skips) [[unlikely]] {
        int64_t& offset = indexed[size_t(p)];
        offset = uint64_t(i) >= uint64_t(size) || offset == skipped_index ? skipped_index : offset + i * stride;
        continue;
      }
      if (uint64_t(i) >= uint64_t(size)) [[unlikely]] {
        return bad.found(p);
      }
      indexed[size_t(p)] += i * stride;
    }
  });
  if (bad) index_at(t, offset(bad.position()), axis, size, false);
}

Offsets indexed_offsets(const GatherLayout& g, const Tensor& x) {
  Offsets indexed(size_t(g.index_shape.numel()));
  const Strides& xs = x.strides();
  if (!g.attrs.batch_axes.empty()) {
    Strides batch(g.index_shape.size(), 0);
    for (size_t i = 0; i < g.attrs.batch_axes.size(); ++i)
      batch[size_t(g.attrs.batch_dims[i])] += xs[size_t(g.attrs.batch_axes[i])];
    indexed = offsets_of(g.index_shape, batch);
  }
  for (size_t j = 0; j < g.indices.size(); ++j) {
    const Tensor& t = *g.indices[j];
    int64_t axis = g.attrs.axes[j], size = x.shape()[size_t(axis)], stride = xs[size_t(axis)];
    Offsets index_offsets;
    bool dense = t.is_contiguous() && t.size() == g.index_shape.numel();
    if (!dense) index_offsets = offsets_of(g.index_shape, g.index_strides[j]);
    visit_dtype(t.dtype(), [&](auto zero) {
      using I = decltype(zero);
      if constexpr (std::is_integral_v<I>) {
        add_index<I>(t, dense ? nullptr : &index_offsets, axis, size, stride, g.attrs.skips, indexed);
      }
    });
  }
  return indexed;
}

// The offsets in x of before, indexed and after.
struct Tables {
  Offsets before, indexed, after;
  int64_t n_before, n_indexed, n_after;
  bool after_dense;

  Tables(const GatherLayout& g, const Tensor& x) : indexed(indexed_offsets(g, x)) {
    Shape shape[2];
    Strides strides[2];
    for (size_t i = 0; i < g.slice_axes.size(); ++i) {
      size_t axis = size_t(g.slice_axes[i]), side = i >= g.at;
      shape[side].push_back(x.shape()[axis]);
      strides[side].push_back(x.strides()[axis]);
    }
    before = offsets_of(shape[0], strides[0]);
    after = offsets_of(shape[1], strides[1]);
    n_before = int64_t(before.size());
    n_indexed = int64_t(indexed.size());
    n_after = int64_t(after.size());
    after_dense = true;
    for (int64_t k = 0; k < n_after && after_dense; ++k) after_dense = after[size_t(k)] == k;
  }
};

template <class T>
void gather_typed(const Tables& t, const T* x, T* out) {
  parallel_for(t.n_before * t.n_indexed, std::max<int64_t>(1, grain / std::max<int64_t>(1, t.n_after)),
               [&](int64_t b, int64_t e) {
                 int64_t i = b / t.n_indexed, j = b % t.n_indexed;
                 for (T* to = out + b * t.n_after; b < e; ++b, to += t.n_after) {
                   const int64_t offset = t.indexed[size_t(j)];
                   if (offset == skipped_index) {
                     std::fill_n(to, t.n_after, T());
                   } else {
                     const T* from = x + t.before[size_t(i)] + offset;
                     if (t.n_after == 1) *to = *from;
                     else if (t.after_dense) copy_dense(from, to, size_t(t.n_after));
                     else
                       for (int64_t k = 0; k < t.n_after; ++k) to[k] = from[t.after[size_t(k)]];
                   }
                   if (++j == t.n_indexed) {
                     j = 0;
                     ++i;
                   }
                 }
               });
}

// Integers wrap around, which C++ leaves undefined for signed ones.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <class T>
[[gnu::always_inline]] inline void update(T& out, const T& u, ScatterMode mode) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    float wide = out;
    update(wide, float(u), mode);
    out = T(wide);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = u;
  } else if constexpr (std::is_same_v<T, bool>) {
    out = mode == ScatterMode::set ? u : mode == ScatterMode::add || mode == ScatterMode::max ? out || u : out && u;
  } else {
    if (mode == ScatterMode::set) out = u;
    else if (mode == ScatterMode::add) out = T(Wide<T>(out) + Wide<T>(u));
    else if (mode == ScatterMode::multiply) out = T(Wide<T>(out) * Wide<T>(u));
    else if constexpr (requires { out < u; }) {
      bool improves = mode == ScatterMode::min ? u < out : out < u;
      if (improves || (u != u && out == out)) out = u;  // NaN wins, and the first one stays
    }
  }
}

// Updates `n` neighbours.
template <class T>
void update_run(T* out, const T* u, int64_t n, ScatterMode mode) {
  if (mode == ScatterMode::set) copy_dense(u, out, size_t(n));
  else if (mode == ScatterMode::add)
    for (int64_t k = 0; k < n; ++k) update(out[k], u[k], ScatterMode::add);
  else
    for (int64_t k = 0; k < n; ++k) update(out[k], u[k], mode);
}

// Updates x by [before, indexed, after]. Each element of x is only written by one thread, which applies its updates in
// the order of the indices: threads divide the columns (before x after) if there are many, else the memory of x.
template <class T>
void scatter_typed(const Tables& t, const Offsets& update_offsets, const T* updates, T* x, int64_t size,
                   ScatterMode mode) {
  const bool dense = t.after_dense && update_offsets.empty();
  auto apply = [&](int64_t i, int64_t k0, int64_t k1, int64_t lo, int64_t hi) {
    const bool full_rows = dense && lo == 0 && hi == size;
    for (int64_t j = 0; j < t.n_indexed; ++j) {
      if (t.indexed[size_t(j)] == skipped_index) continue;
      int64_t start = t.before[size_t(i)] + t.indexed[size_t(j)], u = (i * t.n_indexed + j) * t.n_after;
      if (full_rows) {
        update_run(x + start + k0, updates + u + k0, k1 - k0, mode);
        continue;
      }
      for (int64_t k = k0; k < k1; ++k) {
        int64_t at = start + t.after[size_t(k)];
        if (at < lo || at >= hi) continue;
        update(x[at], updates[update_offsets.empty() ? u + k : update_offsets[size_t(u + k)]], mode);
      }
    }
  };
  int64_t columns = t.n_before * t.n_after, total = columns * t.n_indexed;
  if (total == 0) return;
  if (columns >= 64 && t.n_after == 1) {
    parallel_for(t.n_before, std::max<int64_t>(1, grain / t.n_indexed), [&](int64_t b, int64_t e) {
      for (; b < e; ++b) apply(b, 0, 1, 0, size);
    });
  } else if (columns >= 64) {
    parallel_for(columns, std::max<int64_t>(16, grain / t.n_indexed), [&](int64_t b, int64_t e) {
      while (b < e) {
        int64_t i = b / t.n_after, k0 = b % t.n_after, k1 = std::min(t.n_after, k0 + e - b);
        apply(i, k0, k1, 0, size);
        b += k1 - k0;
      }
    });
  } else {
    parallel_for(size, std::max<int64_t>(1, size * grain / total), [&](int64_t lo, int64_t hi) {
      for (int64_t i = 0; i < t.n_before; ++i) apply(i, 0, t.n_after, lo, hi);
    });
  }
}

// The offset of element `i` of a tensor, counted in row-major order.
int64_t offset_of(const Tensor& t, bool dense, int64_t i) {
  if (dense) return i;
  int64_t offset = 0;
  for (size_t axis = t.shape().size(); axis-- > 0; i /= int64_t(t.shape()[axis]))
    offset += i % int64_t(t.shape()[axis]) * t.strides()[axis];
  return offset;
}

// --- Slices along the first axis, by one index tensor ----------------------------------------------------------------
// Without tables, which would take longer than the copies if slices are short, and memory, which an update in place may
// not allocate once it has begun.

constexpr int64_t index_block = 256;  // indices that are read at a time
constexpr int64_t rows_ahead = 32;    // that are prefetched when they are gathered

// out[j] = index `begin` + j as a row of x, counted from the back if it is negative; a number outside of [0, rows) if
// there is no such row.
void read_rows(const Tensor& index, bool dense, int64_t begin, int64_t n, int64_t rows, int64_t* out) {
  visit_dtype(index.dtype(), [&](auto zero) {
    using I = decltype(zero);
    if constexpr (std::is_integral_v<I>) {
      const I* from = reinterpret_cast<const I*>(index.rep()->data);
      const auto row = [&](I i) {
        if constexpr (std::is_signed_v<I>)  // by shifts and additions, which every instruction set has for vectors
          return int64_t(uint64_t(i) + ((0 - (uint64_t(i) >> 63)) & uint64_t(rows)));
        else return int64_t(i);
      };
      constexpr int64_t line = int64_t(64 / sizeof(I));
      for (int64_t j = 0; dense && j < n; j += line) __builtin_prefetch(from + begin + index_block + j);
      if (dense) map_run(from + begin, out, size_t(n), row);
      else
        for (int64_t j = 0; j < n; ++j) out[j] = row(from[offset_of(index, false, begin + j)]);
    }
  });
}

// Whether all of them are rows: a negative or too large index sets the top bit of `bits`.
bool are_rows(const int64_t* at, int64_t n, int64_t rows) {
  constexpr int64_t chunk = 32;  // a length that compilers vectorise
  uint64_t bits = 0;
  for (; n >= chunk; n -= chunk, at += chunk)
    for (int64_t j = 0; j < chunk; ++j) bits |= uint64_t(at[j]) | (uint64_t(rows) - 1 - uint64_t(at[j]));
  for (int64_t j = 0; j < n; ++j) bits |= uint64_t(at[j]) | (uint64_t(rows) - 1 - uint64_t(at[j]));
  return int64_t(bits) >= 0;
}

// Throws numpy's error for the first index that is out of bounds.
void require_rows(const Tensor& index, bool dense, int64_t rows) {
  FirstBad bad;
  parallel_for(index.size(), grain, [&](int64_t b, int64_t e) {
    int64_t at[index_block];
    for (int64_t j = b; j < e; j += index_block) {
      const int64_t n = std::min(index_block, e - j);
      read_rows(index, dense, j, n, rows, at);
      if (are_rows(at, n, rows)) continue;
      return bad.found(j + (std::find_if(at, at + n, [&](int64_t i) { return uint64_t(i) >= uint64_t(rows); }) - at));
    }
  });
  if (bad) index_at(index, offset_of(index, dense, bad.position()), 0, rows, false);
}

// Each element is written by one thread, in the order of the indices, as in scatter_typed().
template <class T>
void scatter_rows(const Tensor& updates, const Tensor& index, T* x, int64_t rows, const ScatterAttrs& s, bool is_copy) {
  const T* u = reinterpret_cast<const T*>(updates.rep()->data);
  const bool dense = updates.is_contiguous(), dense_index = index.is_contiguous(),
             is_one = std::ranges::all_of(updates.strides(), [](int64_t s) { return s == 0; });
  const int64_t n = index.size(), total = updates.size(), width = n ? total / n : 0;
  if (!s.where.skips && (!is_copy || total == 0)) require_rows(index, dense_index, rows);
  if (total == 0) return;
  std::atomic<bool> outside{false};
  // Applies the updates of the rows in [first, last).
  const bool reads_in_place = dense_index && index.dtype() == DType::i64;
  const auto apply = [&](int64_t k0, int64_t k1, int64_t first, int64_t last) {
    int64_t read[index_block], row[index_block + room_within], update_at[index_block + room_within];
    for (int64_t begin = 0; begin < n; begin += index_block) {
      const int64_t block = std::min(index_block, n - begin);
      const int64_t* indices = read;
      if (reads_in_place) indices = reinterpret_cast<const int64_t*>(index.rep()->data) + begin;
      else read_rows(index, dense_index, begin, block, rows, read);
      bool out_of_bounds = false;
      const int64_t found =
          rows_within(indices, block, rows, reads_in_place ? rows : 0, first, last, row, update_at, &out_of_bounds);
      if (is_copy && out_of_bounds) outside = true;
      const T* const own = u + (is_one ? 0 : begin * width);
      if (width == 1 && (dense || is_one)) {
        const int64_t step = is_one ? 0 : 1;
        if (s.mode == ScatterMode::add)
          for (int64_t f = 0; f < found; ++f) update(x[row[f]], own[update_at[f] * step], ScatterMode::add);
        else
          for (int64_t f = 0; f < found; ++f) update(x[row[f]], own[update_at[f] * step], s.mode);
        continue;
      }
      for (int64_t f = 0; f < found; ++f) {
        T* to = x + row[f] * width;
        const int64_t from = (begin + update_at[f]) * width;
        if (!dense)
          for (int64_t k = k0; k < k1; ++k) update(to[k], u[offset_of(updates, false, from + k)], s.mode);
        else update_run(to + k0, u + from + k0, k1 - k0, s.mode);
      }
    }
  };
  if (width >= 64)
    parallel_for(width, std::max<int64_t>(16, grain / n), [&](int64_t b, int64_t e) { apply(b, e, 0, rows); });
  else
    parallel_for(rows, std::max<int64_t>(1, rows * grain / total),
                 [&](int64_t b, int64_t e) { apply(0, width, b, e); });
  if (outside && !s.where.skips) require_rows(index, dense_index, rows);  // throws; nobody gets the copy
}

// Gathers rows of x, each of `width` contiguous elements.
template <class T>
void gather_rows(const T* x, int64_t stride, int64_t rows, int64_t width, const Tensor& index, bool skips, T* out) {
  const bool dense = index.is_contiguous();
  std::atomic<bool> outside{false};
  parallel_for(index.size(), std::max<int64_t>(1, grain / std::max<int64_t>(1, width)), [&](int64_t b, int64_t e) {
    // The rows of a block, and the first of the next behind them: rows are prefetched that far ahead.
    int64_t row[index_block + rows_ahead];
    const auto read = [&](int64_t begin, int64_t n, int64_t* to) {
      const int64_t left = std::clamp<int64_t>(e - begin, 0, n);
      read_rows(index, dense, begin, left, rows, to);
      std::fill(to + left, to + n, 0);
      return skips || are_rows(to, left, rows);
    };
    // GCC treats calls of a function that only prefetches as free of effects, and drops them unless they are inlined
    // first.
    const auto fetch = [&](int64_t i) __attribute__((always_inline)) {
      if (uint64_t(i) < uint64_t(rows)) __builtin_prefetch(x + i * stride);
    };
    bool inside = read(b, rows_ahead, row);
    for (int64_t j = 0; j < std::min(rows_ahead, e - b); ++j) fetch(row[j]);
    for (int64_t begin = b; begin < e; begin += index_block) {
      inside = inside && read(begin + rows_ahead, index_block, row + rows_ahead);
      if (!inside) {
        outside = true;
        return;
      }
      const int64_t n = std::min(index_block, e - begin);
      T* to = out + begin * width;
      if (width == 1 && !skips)
        for (int64_t j = 0; j < n; ++j) fetch(row[j + rows_ahead]), to[j] = x[row[j] * stride];
      else
        for (int64_t j = 0; j < n; ++j, to += width) {
          fetch(row[j + rows_ahead]);
          if (uint64_t(row[j]) >= uint64_t(rows)) std::fill_n(to, width, T());
          else copy_dense(x + row[j] * stride, to, size_t(width));
        }
      std::copy_n(row + index_block, rows_ahead, row);
    }
  });
  if (outside) require_rows(index, dense, rows);
}

// Whether the slices along the first axis are dense.
bool rows_are_dense(const Tensor& x) {
  int64_t step = 1;
  for (int i = x.ndim(); i-- > 1; step *= x.shape()[size_t(i)])
    if (x.shape()[size_t(i)] != 1 && x.strides()[size_t(i)] != step) return false;
  return true;
}

}  // namespace

void gather(const KernelArgs& a) {
  const Tensor& x = a.input(0);
  const auto& attrs = a.attrs.as<GatherAttrs>();
  const bool by_rows = attrs.takes_rows() && rows_are_dense(x) && a.input(1).size() > 0;
  const std::optional<Tables> t =
      by_rows ? std::nullopt : std::optional<Tables>(std::in_place, GatherLayout(x, a.in.subspan(1), attrs), x);
  auto run = [&](auto zero) {
    using T = decltype(zero);
    if (t) return gather_typed(*t, a.in_data<T>(0), a.out_data<T>());
    gather_rows(a.in_data<T>(0), x.strides()[0], x.shape()[0], a.output().size() / a.input(1).size(), a.input(1),
                attrs.skips, a.out_data<T>());
  };
  if (x.dtype() == DType::string) return run(std::string());
  switch (size_of(x.dtype())) {
    case 1: return run(uint8_t());
    case 2: return run(uint16_t());
    case 4: return run(uint32_t());
    case 8: return run(uint64_t());
    default: return run(Bytes16());
  }
}

void scatter(const KernelArgs& a) {
  if (scatters_wide(a)) return through_f32(a, scatter);
  const auto& s = a.attrs.as<ScatterAttrs>();
  const Tensor &updates = a.input(1), &out = a.output();
  const Tensor& x = a.input(0);
  const bool is_copy = x.rep()->data != out.rep()->data;  // otherwise it is updated in place
  const auto copy = [&] {
    if (is_copy) strided_copy(x.dtype(), x.shape(), x.rep()->data, x.strides(), a.out_data<char>(), out.strides());
  };
  if (s.where.takes_rows()) {
    copy();
    return visit_dtype(moved_as(out.dtype()), [&](auto zero) {
      using T = decltype(zero);
      scatter_rows(updates, a.input(2), a.out_data<T>(), out.shape()[0], s, is_copy);
    });
  }
  Tables t(GatherLayout(out, a.in.subspan(2), s.where), out);
  copy();
  Offsets update_offsets;
  if (!updates.is_contiguous()) update_offsets = offsets_of(updates.shape(), updates.strides());
  visit_dtype(moved_as(out.dtype()), [&](auto zero) {
    using T = decltype(zero);
    scatter_typed(t, update_offsets, a.in_data<T>(1), a.out_data<T>(), out.size(), s.mode);
  });
}

}  // namespace rill::cpu
