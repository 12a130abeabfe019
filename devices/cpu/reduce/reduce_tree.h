// The tree by which the CPU's reductions fold, and its evaluation.
//
// Which element is added to which depends only on the shape and the axes, not on threads, instruction sets or
// strides. The rule (which fused kernels with the same bits follow too): drop axes of size 1, then take the
// groups of neighbouring reduced axes from the innermost outwards. One group is a matrix [m, k] for each index of the
// axes before it: its m elements fold, for each of the k indices of the axes after it, as follows:
//   1. Rows are distributed over `lanes` accumulators: 32 if k <= 4, else the largest power of two <= 64/k, else one.
//      A "super row" is `lanes` rows, padded at the end with the identity. (So each of 2 to 4 columns folds as it would
//      by itself, which fusion relies on when it separates columns: trace/fusion/thin_axes.h.)
//   2. Every block of 32 super rows is folded from the first to the last.
//   3. Blocks are folded in pairs, pairs of pairs, and so on, from the left; what remains, from the right.
//   4. The lanes are folded: i adds i + lanes/2, then i + lanes/4, ... , i + 1.
// So a sum of n numbers has an error of about (32 + log2 n) roundings at worst.
//
// Start at run_stage(), which folds one group; reduce_loops.cpp has the vector loops, reduce.cpp the kernels. Included
// by reduce_fold.h and row_sums.h alone.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "rill/devices/axes.h"
#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/cpu/reduce/reduce_lanes.h"
#include "rill/devices/cpu/reduce/reduce_loops.h"
#include "rill/devices/kernel.h"
#include "rill/devices/threads.h"
#include "rill/tensor/per_thread.h"

namespace rill::cpu {

constexpr int64_t strip_columns = 512;  // whose accumulators stay in the L1 cache
constexpr int64_t widest_strip = 2 * strip_columns;
constexpr int64_t parallel_grain = 1 << 16;  // elements worth a thread

struct Axis {
  int64_t size, stride;
};
using AxisList = SmallVec<Axis, 6>;

inline int64_t count(const AxisList& axes) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.size;
  return n;
}

// Appends an axis, joined to the one before it if both together are one run.
inline void join(AxisList& axes, Axis a) { append_axis(axes, a, &Axis::stride); }

// The offset of element `index` (row-major over `axes`).
inline int64_t offset_of(const AxisList& axes, int64_t index) {
  if (axes.size() == 1) return index * axes[0].stride;
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0; index /= axes[i].size) offset += index % axes[i].size * axes[i].stride;
  return offset;
}

// One group of reduced axes: [outer, m, k] -> [outer, k].
struct Stage {
  AxisList outer, m, k;
};

// Reads n elements of one dtype, `stride` apart, as accumulators of another.
template <class T>
using Read = void (*)(const char* x, int64_t stride, int64_t n, T* y);

template <class S, class T, bool as_truth>
void read(const char* x, int64_t stride, int64_t n, T* y) {
  const S* p = reinterpret_cast<const S*>(x);
  const auto number = [](const S& v) {
    using N = std::conditional_t<is_half_type<S>, float, S>;
    if constexpr (as_truth && is_half_type<S>) return T((v.bits & 0x7FFF) != 0);
    else if constexpr (as_truth) return T(N(v) != N(0));
    else return T(N(v));
  };
  if constexpr (is_half_type<S> && std::is_same_v<T, float>)
    if (stride == 1) return convert_halves(p, y, size_t(n));
  if (stride == 1) return map_run(p, y, size_t(n), number);
  if (stride == -1) {  // in a flipped tensor
    read<S, T, as_truth>(reinterpret_cast<const char*>(p - (n - 1)), 1, n, y);
    return std::reverse(y, y + n);
  }
  for (int64_t i = 0; i < n; ++i) y[i] = number(p[i * stride]);
}

// Memory for the accumulators of one thread, reused between calls, by every type.
inline char* scratch_bytes(size_t size) {
  thread_local constinit PerThread<Scratch> kept;
  return kept->bytes(size);
}
template <class T>
T* scratch(int64_t n) {
  return reinterpret_cast<T*>(scratch_bytes(size_t(n) * sizeof(T)));
}

// Computes elements that are not in memory: `rows` runs of `width` neighbouring points, the first from point `first`
// on, the others `step` points apart, into the dense `to`.
template <class T>
struct Produce {
  void (*run)(const void* context, int64_t first, int64_t rows, int64_t step, int64_t width, T* to);
  const void* context;
};

// The part of a stage that all tasks share.
template <class T>
struct Plan {
  const Stage& stage;
  const ReduceLoops<T>& loops;
  const char* data;
  int64_t element;            // bytes
  Read<T> read;               // null: the elements are of type T already
  const Produce<T>* produce;  // or null: the elements are at `data`
  int64_t m, k, lanes, supers, blocks, strips, strip_width;
  bool direct;             // rows are used in place; else blocks are gathered first
  bool columns_are_dense;  // the columns are contiguous in memory
  int64_t row_stride = 0;
  int64_t gathered = 1;  // blocks gathered at once

  Plan(const Stage& s, const ReduceLoops<T>& l, const char* d, int64_t e, Read<T> r, const Produce<T>* p)
      : stage(s), loops(l), data(d), element(e), read(r), produce(p), m(count(s.m)), k(count(s.k)) {
    lanes = lanes_of(k);
    supers = (m + lanes - 1) / lanes;
    blocks = (supers + rows_per_block - 1) / rows_per_block;
    cut_columns(strip_columns);
    row_stride = s.m.size() == 1 ? s.m[0].stride : k;
    const bool dense_row = s.k.empty() || (s.k.size() == 1 && s.k[0].stride == 1);
    direct = !read && !produce && dense_row && s.m.size() <= 1 && (lanes == 1 || row_stride == k);
    columns_are_dense =
        s.k.size() == 1 && s.m.size() == 1 && s.m[0].stride != 0 && std::abs(s.m[0].stride) < std::abs(s.k[0].stride);
    if (!columns_are_dense || lanes > 1) return;
    gathered = 16;  // few columns, and a long piece of each: each page of memory is used up before the next
    cut_columns(64);
  }
  // Into strips of `width`; the last includes the remainder, and none is narrower than the vector loops need.
  void cut_columns(int64_t width) {
    strips = std::max<int64_t>(1, k * lanes / width);
    strip_width = strips == 1 ? k * lanes : width;
  }
  int64_t width(int64_t strip) const { return strip + 1 == strips ? k * lanes - strip * strip_width : strip_width; }
};

// For contiguous columns: 16 of them are transposed at once, so that complete cache lines are used.
template <class T>
void gather_turned(const Plan<T>& plan, const char* x, int64_t rows, int64_t width, T* to) {
  const int64_t down = plan.stage.m[0].stride, across = plan.stage.k[0].stride;
  if (!plan.read && down == 1) return transpose(reinterpret_cast<const T*>(x), across, width, rows, to, width);
  constexpr int64_t piece = 64, columns_at_once = 16;
  T tile[columns_at_once][piece];
  for (int64_t c = 0; c < width; c += columns_at_once) {
    const int64_t columns = std::min(columns_at_once, width - c);
    for (int64_t first = 0; first < rows; first += piece) {
      const int64_t n = std::min(piece, rows - first);
      for (int64_t j = 0; j < columns; ++j) {
        const char* column = x + ((c + j) * across + first * down) * plan.element;
        if (plan.read) plan.read(column, down, n, tile[j]);
        else
          for (int64_t r = 0; r < n; ++r) tile[j][r] = reinterpret_cast<const T*>(column)[r * down];
      }
      transpose(tile[0], piece, columns, n, to + first * width + c, width);
    }
  }
}

// Copies rows [row, row + rows) of the columns [column, column + width) of one outer index, dense, as accumulators.
template <class T>
void gather_rows(const Plan<T>& plan, const char* base, int64_t row, int64_t rows, int64_t column, int64_t width,
                 T* to) {
  const auto run = [&](int64_t offset, int64_t stride, int64_t n) {
    const char* x = base + offset * plan.element;
    if (plan.read) return plan.read(x, stride, n, to);
    const T* p = reinterpret_cast<const T*>(x);
    if (stride == 1) std::memcpy(to, p, size_t(n) * sizeof(T));
    else if (stride == -1) copy_reversed(p, to, size_t(n));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = p[i * stride];
  };
  if (plan.k == 1) {  // along m, in runs of its innermost axis
    const Axis inner = plan.stage.m.empty() ? Axis{1, 1} : plan.stage.m.back();
    for (int64_t n; rows > 0; rows -= n, row += n, to += n) {
      n = std::min(rows, inner.size - row % inner.size);
      run(offset_of(plan.stage.m, row), inner.stride, n);
    }
    return;
  }
  const Axis inner = plan.stage.k.back();
  if (plan.columns_are_dense)
    return gather_turned(plan, base + (row * plan.stage.m[0].stride + column * inner.stride) * plan.element, rows,
                         width, to);
  for (; rows > 0; --rows, ++row) {
    const int64_t start = offset_of(plan.stage.m, row);
    for (int64_t c = column, end = column + width, n; c < end; c += n, to += n) {
      n = std::min(end - c, inner.size - c % inner.size);
      run(start + offset_of(plan.stage.k, c), inner.stride, n);
    }
  }
}

// Fills the tile with the super rows of blocks [b, end).
template <class T>
void gather_blocks(const Plan<T>& plan, const char* base, int64_t b, int64_t end, int64_t strip, T* tile) {
  const int64_t width = plan.width(strip), columns = std::min(width, plan.k);
  const int64_t row = b * rows_per_block * plan.lanes, last = std::min(end * rows_per_block, plan.supers) * plan.lanes;
  const int64_t rows = std::min(last, plan.m) - row;
  gather_rows(plan, base, row, rows, strip * plan.strip_width, columns, tile);
  std::fill(tile + rows * columns, tile + (last - row) * columns, plan.loops.identity);
}

// Step 2 for one block whose rows are used in place; `spare` has room for one super row.
template <class T>
void fold_direct(const Plan<T>& plan, const char* base, int64_t b, int64_t strip, T* spare, T* acc) {
  const int64_t width = plan.width(strip), column = strip * plan.strip_width;
  const int64_t first = b * rows_per_block, n = std::min(rows_per_block, plan.supers - first);
  const int64_t row = first * plan.lanes, rows = std::min(n * plan.lanes, plan.m - row);
  const int64_t columns = std::min(width, plan.k);
  const int64_t full_rows = rows / plan.lanes, rest = rows % plan.lanes;  // complete super rows; rows of the padded one
  const T* x = reinterpret_cast<const T*>(base) + row * plan.row_stride + column;
  const int64_t stride = plan.row_stride * plan.lanes;
  if (full_rows > 0) plan.loops.block(x, stride, full_rows, width, acc);
  if (rest == 0) return;
  T* padded = full_rows > 0 ? spare : acc;
  std::memcpy(padded, x + full_rows * stride, size_t(rest * columns) * sizeof(T));
  std::fill(padded + rest * columns, padded + width, plan.loops.identity);
  if (full_rows > 0) plan.loops.merge(acc, padded, width);
}

// Step 2 for one block whose elements are computed or converted, fill(row, rows, to): a few super rows at a time, which
// stay in the L1 cache. The partial result is the first row of the next few, so that the order is that of the complete
// block. `tile` has room for rows_per_block super rows.
constexpr int64_t few_elements = 4096;
template <class T, class Fill>
void fold_filled(const Plan<T>& plan, int64_t b, int64_t strip, T* tile, T* acc, Fill fill) {
  const int64_t width = plan.width(strip), columns = std::min(width, plan.k);
  const int64_t first = b * rows_per_block, end = std::min(first + rows_per_block, plan.supers);
  const int64_t fit = few_elements / width;
  const int64_t few = fit >= rows_per_block ? rows_per_block : std::clamp<int64_t>(fit, 1, rows_per_block - 1);
  for (int64_t super = first; super < end; super += few) {
    const int64_t supers = std::min(few, end - super), row = super * plan.lanes;
    const int64_t rows = std::min(supers * plan.lanes, plan.m - row);
    T* to = tile + (super > first ? width : 0);
    if (super > first) std::memcpy(tile, acc, size_t(width) * sizeof(T));
    fill(row, rows, columns, to);
    std::fill(to + rows * columns, to + supers * width, plan.loops.identity);
    plan.loops.block(tile, width, supers + (super > first ? 1 : 0), width, acc);
  }
}
template <class T>
void fold_produced(const Plan<T>& plan, int64_t base, int64_t b, int64_t strip, T* tile, T* acc) {
  const int64_t column = strip * plan.strip_width;
  fold_filled(plan, b, strip, tile, acc, [&](int64_t row, int64_t rows, int64_t columns, T* to) {
    const int64_t at = base + offset_of(plan.stage.m, row);
    const auto& produce = *plan.produce;
    if (plan.k == 1) produce.run(produce.context, at, 1, 0, rows, to);
    else produce.run(produce.context, at + column, rows, plan.row_stride, columns, to);
  });
}

// Step 3 over blocks [begin, end), where `begin` is a multiple of a power of two >= end - begin, so that the part is a
// subtree of the complete tree.
template <class T>
void fold_blocks(const Plan<T>& plan, int64_t outer, int64_t strip, int64_t begin, int64_t end, T* acc) {
  const char* base = plan.data + offset_of(plan.stage.outer, outer) * plan.element;
  const int64_t width = plan.width(strip);
  if (plan.direct && end - begin == 1 && width <= 64) {
    T spare[64];
    return fold_direct(plan, base, begin, strip, spare, acc);
  }
  int64_t levels = 1;
  while ((int64_t(1) << (levels - 1)) < end - begin) ++levels;
  T* stack = scratch<T>((levels + 1 + rows_per_block * plan.gathered) * width);
  T* tile = stack + (levels + 1) * width;
  const bool in_fours = plan.direct && plan.k == 1 && plan.row_stride == 1 && plan.loops.four_blocks;
  const auto four = end - begin > 32 ? plan.loops.four_of_many : plan.loops.four_blocks;
  int64_t depth = 0;
  for (int64_t b = begin, block_count; b < end; b += block_count) {
    T* top = stack + depth++ * width;
    block_count = in_fours && b + 4 <= end && (b + 4) * longest_line <= plan.m ? 4 : 1;
    if (block_count == 4) {
      four(reinterpret_cast<const T*>(base) + b * longest_line, top);
    } else if (plan.direct) {
      fold_direct(plan, base, b, strip, tile, top);
    } else if (plan.produce) {
      fold_produced(plan, offset_of(plan.stage.outer, outer), b, strip, tile, top);
    } else if (plan.read && rows_per_block * width > few_elements && !plan.columns_are_dense) {
      fold_filled(plan, b, strip, tile, top, [&](int64_t row, int64_t rows, int64_t columns, T* to) {
        gather_rows(plan, base, row, rows, strip * plan.strip_width, columns, to);
      });
    } else {
      const int64_t at = (b - begin) % plan.gathered;
      if (at == 0) gather_blocks(plan, base, b, std::min(b + plan.gathered, end), strip, tile);
      plan.loops.block(tile + at * rows_per_block * width, width,
                       std::min(rows_per_block, plan.supers - b * rows_per_block), width, top);
    }
    for (int64_t done = (b - begin) / block_count + 1; done % 2 == 0; done /= 2, --depth)
      plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  }
  for (; depth > 1; --depth) plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  std::memcpy(acc, stack, size_t(width) * sizeof(T));
}

// The identity of a sum is +0, as in numpy, even for lanes without padding.
template <class T>
void positive_zeros(const ReduceLoops<T>& loops, T* y, int64_t n) {
  if constexpr (std::is_floating_point_v<T>)
    if (loops.identity == 0)
      for (int64_t i = 0; i < n; ++i) y[i] += T(0);
}

// Step 4.
template <class T>
void fold_lanes(const Plan<T>& plan, int64_t strip, T* acc, T* out) {
  if (plan.k == 1) {
    *out = plan.loops.fold(acc);
  } else {
    for (int64_t half = plan.lanes / 2; half > 0; half /= 2) plan.loops.merge(acc, acc + half * plan.k, half * plan.k);
    std::memcpy(out + strip * plan.strip_width, acc, size_t(std::min(plan.k, plan.width(strip))) * sizeof(T));
  }
  positive_zeros(plan.loops, out + strip * plan.strip_width, std::min(plan.k, plan.width(strip)));
}

// Folds dense, short rows along their last axis.
template <class T>
void run_lines(const ReduceLoops<T>& loops, const T* x, int64_t stride, int64_t rows, int64_t n, T* out) {
  parallel_for(rows, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
    loops.lines(x + begin * stride, stride, end - begin, n, out + begin);
    positive_zeros(loops, out + begin, end - begin);
  });
}

// Folds rows whose elements are strided, while the rows are contiguous (a transposed operand): `columns` rows at once,
// each with its 32 lanes. The same tree as fold_blocks and fold_lanes, with the lanes of all columns in one array.
template <class T>
void fold_columns(const Plan<T>& plan, const T* x, int64_t columns, T* out) {
  const int64_t step = plan.stage.m[0].stride, width = min_row_width * columns;
  int64_t levels = 1;
  while ((int64_t(1) << (levels - 1)) < plan.blocks) ++levels;
  T* stack = scratch<T>((levels + 1) * width);
  int64_t depth = 0;
  for (int64_t b = 0; b < plan.blocks; ++b) {
    T* acc = stack + depth++ * width;
    const int64_t first = b * longest_line, rows = std::min(longest_line, plan.m - first);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + (first + r) * step;
      T* lane = acc + r % min_row_width * columns;
      if (r < min_row_width) std::memcpy(lane, row, size_t(columns) * sizeof(T));
      else plan.loops.merge(lane, row, columns);
    }
    if (rows < min_row_width) std::fill(acc + rows * columns, acc + width, plan.loops.identity);
    for (int64_t done = b + 1; done % 2 == 0; done /= 2, --depth)
      plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  }
  for (; depth > 1; --depth) plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  for (int64_t half = width / 2; half >= columns; half /= 2) plan.loops.merge(stack, stack + half, half);
  std::memcpy(out, stack, size_t(columns) * sizeof(T));
  positive_zeros(plan.loops, out, columns);
}

constexpr int64_t columns_at_once = 128;

template <class T>
void run_columns(const Plan<T>& plan, T* out) {
  const Axis side = plan.stage.outer.back();
  const int64_t pieces = (side.size + columns_at_once - 1) / columns_at_once;
  const int64_t tasks = count(plan.stage.outer) / side.size * pieces;
  parallel_for(tasks, std::max<int64_t>(1, parallel_grain / (plan.m * columns_at_once)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t first = t / pieces * side.size + t % pieces * columns_at_once;
                   fold_columns(plan, reinterpret_cast<const T*>(plan.data) + offset_of(plan.stage.outer, first),
                                std::min(columns_at_once, side.size - t % pieces * columns_at_once), out + first);
                 }
               });
}

// Runs a stage whose source and m are not empty into the dense `out`.
template <class T>
void run_stage(const Stage& stage, const ReduceLoops<T>& loops, const char* data, int64_t element, Read<T> read, T* out,
               const Produce<T>* produce) {
  if (!produce && !read && stage.k.empty() && stage.outer.size() <= 1 && stage.m.size() == 1 &&
      stage.m[0].stride == 1 && stage.m[0].size <= longest_line) {
    const int64_t rows = count(stage.outer), stride = stage.outer.empty() ? 0 : stage.outer[0].stride;
    return run_lines(loops, reinterpret_cast<const T*>(data), stride, rows, stage.m[0].size, out);
  }
  const Plan<T> plan(stage, loops, data, element, read, produce);
  if (!produce && !read && !plan.direct && plan.k == 1 && stage.m.size() == 1 && !stage.outer.empty() &&
      stage.outer.back().stride == 1 && stage.outer.back().size >= min_row_width)
    return run_columns(plan, out);
  const int64_t tasks = count(stage.outer) * plan.strips;
  const int64_t work = plan.m * std::min(plan.k, plan.strip_width);
  const auto finish = [&](int64_t task, T* acc) {
    fold_lanes(plan, task % plan.strips, acc, out + task / plan.strips * plan.k);
  };
  if (tasks >= 8 || work * tasks <= 2 * parallel_grain || plan.blocks == 1) {
    parallel_for(tasks, std::max<int64_t>(1, parallel_grain / work), [&](int64_t begin, int64_t end) {
      alignas(64) T acc[widest_strip];
      for (int64_t t = begin; t < end; ++t) {
        fold_blocks(plan, t / plan.strips, t % plan.strips, 0, plan.blocks, acc);
        finish(t, acc);
      }
    });
    return;
  }
  // Few long tasks: each is cut into subtrees of a power of two of blocks, so that the cut changes no bits.
  int64_t size = 1;
  while (size * rows_per_block * plan.strip_width < parallel_grain || plan.blocks / size > 64) size *= 2;
  const int64_t pieces = (plan.blocks + size - 1) / size, piece_size = plan.width(plan.strips - 1);
  const auto parts = std::make_unique_for_overwrite<T[]>(size_t(tasks * pieces * piece_size));
  parallel_for(tasks * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t task = p / pieces, first = p % pieces * size;
      fold_blocks(plan, task / plan.strips, task % plan.strips, first, std::min(first + size, plan.blocks),
                  parts.get() + p * piece_size);
    }
  });
  for (int64_t task = 0; task < tasks; ++task) {  // the upper levels of the tree
    T* part = parts.get() + task * pieces * piece_size;
    const int64_t width = plan.width(task % plan.strips);
    int64_t depth = 0;
    SmallVec<T*, 64> stack(64);
    for (int64_t p = 0; p < pieces; ++p) {
      stack[depth++] = part + p * piece_size;
      for (int64_t done = p + 1; done % 2 == 0; done /= 2, --depth)
        loops.merge(stack[depth - 2], stack[depth - 1], width);
    }
    for (; depth > 1; --depth) loops.merge(stack[depth - 2], stack[depth - 1], width);
    finish(task, stack[0]);
  }
}

}  // namespace rill::cpu
