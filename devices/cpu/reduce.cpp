// Reductions on the CPU: sum, prod, max, min, all, any.
//
// Which element is added to which is fixed by the shape and the axes alone; threads, instruction sets and strides do
// not enter. The rule (a fused kernel that wants the same bits follows it too): drop axes of size 1, then take the
// groups of neighbouring reduced axes from the innermost outwards. One group is a matrix [m, k] for each index of the
// axes before it: its m elements fold, for each of the k indices of the axes behind it, so:
//   1. Rows are dealt to `lanes` = 32 accumulators (k = 1), or the largest power of two <= 64/k of them, or one: a
//   "super
//      row" is `lanes` rows, padded at the end with the identity.
//   2. Every block of 32 super rows is folded from the first to the last.
//   3. Blocks are folded in pairs, pairs of pairs, and so on, from the left; what is left over at the end, from the
//   right.
//   4. The lanes are folded: i takes in i + lanes/2, then i + lanes/4, ... , i + 1.
// So a sum of n numbers carries an error of about (32 + log2 n) roundings at worst.
//
// Start at reduce(); reduce_loops.cpp has the vector loops.
#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>

#include "rill/devices/cpu/reduce_loops.h"
#include "rill/devices/reduce_params.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

constexpr int64_t rows_per_block = 32;
constexpr int64_t widest_strip = 512;        // columns whose accumulators stay in the first cache
constexpr int64_t parallel_grain = 1 << 16;  // elements worth a thread

struct Axis {
  int64_t size, stride;
};
using AxisList = SmallVec<Axis, 6>;

int64_t count(const AxisList& axes) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.size;
  return n;
}

// Appends an axis, joined to the one before it where both together are one run.
void join(AxisList& axes, Axis a) {
  if (!axes.empty() && axes.back().stride == a.size * a.stride) axes.back() = {axes.back().size * a.size, a.stride};
  else axes.push_back(a);
}

// Where element `index` (row-major over `axes`) lies.
int64_t offset_of(const AxisList& axes, int64_t index) {
  if (axes.size() == 1) return index * axes[0].stride;
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0; index /= axes[i].size) offset += index % axes[i].size * axes[i].stride;
  return offset;
}

// One group of reduced axes: [outer, m, k] -> [outer, k].
struct Stage {
  AxisList outer, m, k;
};

// How elements of one dtype are read as accumulators of another: n of them, `stride` apart.
template <class T>
using Read = void (*)(const char* x, int64_t stride, int64_t n, T* y);

template <class S, class T, bool as_truth>
void read(const char* x, int64_t stride, int64_t n, T* y) {
  const S* p = reinterpret_cast<const S*>(x);
  if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) {
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1) {
        const ReduceTables& tables = reduce_tables();
        return (std::is_same_v<S, Half> ? tables.widen_f16 : tables.widen_bf16)(reinterpret_cast<const uint16_t*>(p), n,
                                                                                y);
      }
    }
    for (int64_t i = 0; i < n; ++i) y[i] = as_truth ? T(float(p[i * stride]) != 0) : T(float(p[i * stride]));
  } else if constexpr (as_truth) {
    for (int64_t i = 0; i < n; ++i) y[i] = T(p[i * stride] != S(0));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = T(p[i * stride]);
  }
}

// Memory for the accumulators of one thread, kept between calls.
template <class T>
T* scratch(int64_t n) {
  thread_local std::unique_ptr<T[]> memory;
  thread_local int64_t size = 0;
  if (size < n) memory = std::make_unique_for_overwrite<T[]>(size_t(size = n));
  return memory.get();
}

// What of a stage does not change from task to task.
template <class T>
struct Plan {
  const Stage& stage;
  const ReduceLoops<T>& loops;
  const char* data;
  int64_t element;  // bytes
  Read<T> read;     // null: the elements are of type T already
  int64_t m, k, lanes, supers, blocks, strips, strip_width;
  bool direct;  // rows can be used where they lie
  int64_t row_stride = 0;

  Plan(const Stage& s, const ReduceLoops<T>& l, const char* d, int64_t e, Read<T> r)
      : stage(s), loops(l), data(d), element(e), read(r), m(count(s.m)), k(count(s.k)) {
    lanes = 1;
    if (k == 1) lanes = 32;
    else
      while (lanes * 2 * k <= 64) lanes *= 2;
    supers = (m + lanes - 1) / lanes;
    blocks = (supers + rows_per_block - 1) / rows_per_block;
    strips = (k * lanes + widest_strip - 1) / widest_strip;
    strip_width = strips == 1 ? k * lanes : ((k + strips - 1) / strips + 15) / 16 * 16;
    strips = (k * lanes + strip_width - 1) / strip_width;
    row_stride = s.m.size() == 1 ? s.m[0].stride : k;
    const bool dense_row = s.k.empty() || (s.k.size() == 1 && s.k[0].stride == 1);
    direct = !read && dense_row && s.m.size() <= 1 && (lanes == 1 || row_stride == k);
  }
  int64_t width(int64_t strip) const { return std::min(strip_width, k * lanes - strip * strip_width); }
};

// Copies rows [row, row + rows) of the columns [column, column + width) of one outer index, dense, as accumulators.
template <class T>
void pack(const Plan<T>& plan, const char* base, int64_t row, int64_t rows, int64_t column, int64_t width, T* to) {
  const auto run = [&](int64_t offset, int64_t stride, int64_t n) {
    const char* x = base + offset * plan.element;
    if (plan.read) return plan.read(x, stride, n, to);
    const T* p = reinterpret_cast<const T*>(x);
    if (stride == 1) std::memcpy(to, p, size_t(n) * sizeof(T));
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
  for (; rows > 0; --rows, ++row) {
    const int64_t start = offset_of(plan.stage.m, row);
    for (int64_t c = column, end = column + width, n; c < end; c += n, to += n) {
      n = std::min(end - c, inner.size - c % inner.size);
      run(start + offset_of(plan.stage.k, c), inner.stride, n);
    }
  }
}

// Step 2 for one block.
template <class T>
void fold_block(const Plan<T>& plan, const char* base, int64_t b, int64_t strip, T* tile, T* acc) {
  const int64_t width = plan.width(strip), column = strip * plan.strip_width;
  const int64_t first = b * rows_per_block, n = std::min(rows_per_block, plan.supers - first);
  const int64_t row = first * plan.lanes, rows = std::min(n * plan.lanes, plan.m - row);
  const int64_t columns = std::min(width, plan.k);
  const int64_t whole = rows / plan.lanes, rest = rows % plan.lanes;  // super rows; rows of the padded one
  if (!plan.direct) {
    pack(plan, base, row, rows, column, columns, tile);
    std::fill(tile + rows * columns, tile + n * width, plan.loops.identity);
    return plan.loops.block(tile, width, n, width, acc);
  }
  const T* x = reinterpret_cast<const T*>(base) + row * plan.row_stride + column;
  const int64_t stride = plan.row_stride * plan.lanes;
  if (whole > 0) plan.loops.block(x, stride, whole, width, acc);
  if (rest == 0) return;
  T* padded = whole > 0 ? tile : acc;
  std::memcpy(padded, x + whole * stride, size_t(rest * columns) * sizeof(T));
  std::fill(padded + rest * columns, padded + width, plan.loops.identity);
  if (whole > 0) plan.loops.merge(acc, padded, width);
}

// Step 3 over blocks [begin, end), where `begin` is a multiple of a power of two >= end - begin, so that the part is a
// subtree of the whole.
template <class T>
void fold_blocks(const Plan<T>& plan, int64_t outer, int64_t strip, int64_t begin, int64_t end, T* acc) {
  const char* base = plan.data + offset_of(plan.stage.outer, outer) * plan.element;
  const int64_t width = plan.width(strip);
  if (plan.direct && end - begin == 1 && width <= 64) {
    T tile[64];
    return fold_block(plan, base, begin, strip, tile, acc);
  }
  int64_t levels = 1;
  while ((int64_t(1) << (levels - 1)) < end - begin) ++levels;
  T* stack = scratch<T>((levels + 1 + rows_per_block) * width);
  T* tile = stack + (levels + 1) * width;
  int64_t depth = 0;
  for (int64_t b = begin; b < end; ++b) {
    fold_block(plan, base, b, strip, tile, stack + depth++ * width);
    for (int64_t done = b - begin + 1; done % 2 == 0; done /= 2, --depth)
      plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  }
  for (; depth > 1; --depth) plan.loops.merge(stack + (depth - 2) * width, stack + (depth - 1) * width, width);
  std::memcpy(acc, stack, size_t(width) * sizeof(T));
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
  if constexpr (std::is_floating_point_v<T>) {
    // The identity of a sum is +0, as in numpy, though lanes without padding never met it.
    if (plan.loops.identity == 0)
      for (T *o = out + strip * plan.strip_width, *e = o + std::min(plan.k, plan.width(strip)); o < e; ++o) *o += T(0);
  }
}

// Runs a stage whose source and m are not empty into the dense `out`.
template <class T>
void run_stage(const Stage& stage, const ReduceLoops<T>& loops, const char* data, int64_t element, Read<T> read,
               T* out) {
  const Plan<T> plan(stage, loops, data, element, read);
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
  // Few long tasks: each is cut into subtrees of a power of two of blocks, so that the cut cannot show.
  int64_t size = 1;
  while (size * rows_per_block * plan.strip_width < parallel_grain || plan.blocks / size > 64) size *= 2;
  const int64_t pieces = (plan.blocks + size - 1) / size;
  const auto parts = std::make_unique_for_overwrite<T[]>(size_t(tasks * pieces * plan.strip_width));
  parallel_for(tasks * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t task = p / pieces, first = p % pieces * size;
      fold_blocks(plan, task / plan.strips, task % plan.strips, first, std::min(first + size, plan.blocks),
                  parts.get() + p * plan.strip_width);
    }
  });
  for (int64_t task = 0; task < tasks; ++task) {  // the upper levels of the tree
    T* part = parts.get() + task * pieces * plan.strip_width;
    const int64_t width = plan.width(task % plan.strips);
    int64_t depth = 0;
    SmallVec<T*, 64> stack(64);
    for (int64_t p = 0; p < pieces; ++p) {
      stack[depth++] = part + p * plan.strip_width;
      for (int64_t done = p + 1; done % 2 == 0; done /= 2, --depth)
        loops.merge(stack[depth - 2], stack[depth - 1], width);
    }
    for (; depth > 1; --depth) loops.merge(stack[depth - 2], stack[depth - 1], width);
    finish(task, stack[0]);
  }
}

// --- From axes to stages ---------------------------------------------------------------------------------------------

struct FoldAxis {
  int64_t size, stride;
  bool reduced;
};
using FoldAxes = SmallVec<FoldAxis, 8>;

// The innermost group of reduced axes as a stage; `axes` becomes those that remain, as a dense tensor's.
Stage next_stage(FoldAxes& axes) {
  size_t end = axes.size();
  while (!axes[end - 1].reduced) --end;
  size_t begin = end;
  while (begin > 0 && axes[begin - 1].reduced) --begin;
  Stage stage;
  for (size_t i = 0; i < axes.size(); ++i)
    join(i < begin ? stage.outer : i < end ? stage.m : stage.k, {axes[i].size, axes[i].stride});
  for (size_t i = begin; i < end; ++i) axes.erase(begin);
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0; stride *= axes[i].size) axes[i].stride = stride;
  return stage;
}

bool any_reduced(const FoldAxes& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const FoldAxis& a) { return a.reduced; });
}

// The axes of the operand that have more than one index.
FoldAxes fold_axes(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  const Dims& reduced = args.attrs.as<ReduceParams>().axes;
  FoldAxes axes;
  size_t next = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    const bool r = next < reduced.size() && reduced[next] == i;
    next += r;
    if (x.shape()[i] != 1) axes.push_back({x.shape()[i], x.strides()[i], r});
  }
  return axes;
}

// Writes accumulators as the output's dtype.
template <class T>
void write(const T* from, int64_t n, DType dtype, char* to) {
  visit_dtype(dtype, [&](auto zero) {
    using S = decltype(zero);
    if constexpr (std::is_same_v<S, std::string> || (!std::is_same_v<S, T> && sizeof(S) > 8)) {
    } else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) {
      if constexpr (std::is_same_v<T, float>)
        for (int64_t i = 0; i < n; ++i) reinterpret_cast<S*>(to)[i] = S(from[i]);
    } else if constexpr (std::is_arithmetic_v<S> && std::is_arithmetic_v<T>) {
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<S*>(to)[i] = S(from[i]);
    }
  });
}

// Reduces `data`, whose elements are read by `read` (null: they are of type T), into `out` of `dtype`; `same`: out's
// elements are of type T too.
template <class T>
void fold(FoldAxes axes, const ReduceLoops<T>& loops, const char* data, int64_t element, Read<T> read, char* out,
          DType dtype, bool same) {
  int64_t m = 1, n = 1;
  for (const FoldAxis& a : axes) (a.reduced ? m : n) *= a.size;
  if (n == 0) return;
  T few[64];
  std::unique_ptr<T[]> many, middle;
  T* result = reinterpret_cast<T*>(out);
  if (!same) result = n <= 64 ? few : (many = std::make_unique_for_overwrite<T[]>(size_t(n))).get();
  if (m == 0) {
    std::fill(result, result + n, loops.identity);
  } else if (!any_reduced(axes)) {  // nothing to fold: axes of size 1 went away, or none
    Stage stage;
    for (const FoldAxis& a : axes) join(stage.k, {a.size, a.stride});
    run_stage(stage, loops, data, element, read, result);
  }
  while (m != 0 && any_reduced(axes)) {
    const Stage stage = next_stage(axes);
    if (!any_reduced(axes)) {
      run_stage(stage, loops, data, element, read, result);
      break;
    }
    auto part = std::make_unique_for_overwrite<T[]>(size_t(count(stage.outer) * count(stage.k)));
    run_stage(stage, loops, data, element, read, part.get());
    middle = std::move(part);
    data = reinterpret_cast<const char*>(middle.get());
    element = sizeof(T);
    read = nullptr;
  }
  if (!same) write(result, n, dtype, out);
}

// --- Kernels ---------------------------------------------------------------------------------------------------------

// Elements of type S accumulate as T.
template <class S, class T, bool as_truth = false>
void fold_as(const KernelArgs& args, const ReduceLoops<T>& loops) {
  const DType out = args.output().dtype();
  const bool same = out == dtype_of<T>() || (std::is_integral_v<T> && sizeof(T) == 8 && size_of(out) == 8) ||
                    (std::is_same_v<T, uint8_t> && is_bool(out));
  const bool plain = std::is_same_v<S, T> || (std::is_integral_v<S> && std::is_integral_v<T> &&
                                              sizeof(S) == sizeof(T) && (!as_truth || std::is_same_v<S, bool>));
  fold<T>(fold_axes(args), loops, args.in_data<char>(0), sizeof(S), plain ? nullptr : Read<T>(read<S, T, as_truth>),
          args.out_data<char>(), out, same);
}

// A complex tensor as the real one with a last axis of two.
template <class T>
void fold_complex(const KernelArgs& args, const ReduceLoops<T>& loops) {
  FoldAxes axes = fold_axes(args);
  for (FoldAxis& a : axes) a.stride *= 2;
  axes.push_back({2, 1, false});
  fold<T>(axes, loops, args.in_data<char>(0), sizeof(T), nullptr, args.out_data<char>(), dtype_of<T>(), true);
}

// Products of integers and of complex numbers, by plain loops over the same tree.
template <class T>
const ReduceLoops<T>& plain_prod() {
  static constexpr ReduceLoops<T> loops = {[](const T* x, int64_t stride, int64_t rows, int64_t width, T* acc) {
                                             for (int64_t c = 0; c < width; ++c) acc[c] = x[c];
                                             for (int64_t r = 1; r < rows; ++r)
                                               for (int64_t c = 0; c < width; ++c) acc[c] *= x[r * stride + c];
                                           },
                                           [](T* acc, const T* x, int64_t width) {
                                             for (int64_t c = 0; c < width; ++c) acc[c] *= x[c];
                                           },
                                           [](const T* lanes) {
                                             T v[32];
                                             std::copy(lanes, lanes + 32, v);
                                             for (int half = 16; half > 0; half /= 2)
                                               for (int i = 0; i < half; ++i) v[i] *= v[i + half];
                                             return v[0];
                                           },
                                           T(1)};
  return loops;
}

}  // namespace

void reduce_sum(const KernelArgs& args) {
  const ReduceTables& t = reduce_tables();
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (std::is_same_v<S, std::complex<float>>) fold_complex<float>(args, t.sum_f32);
    else if constexpr (std::is_same_v<S, std::complex<double>>) fold_complex<double>(args, t.sum_f64);
    else if constexpr (std::is_same_v<S, double>) fold_as<S, double>(args, t.sum_f64);
    else if constexpr (std::is_integral_v<S>) fold_as<S, int64_t>(args, t.sum_i64);
    else if constexpr (!std::is_same_v<S, std::string>) fold_as<S, float>(args, t.sum_f32);
  });
}

void reduce_prod(const KernelArgs& args) {
  const ReduceTables& t = reduce_tables();
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>)
      fold_as<S, S>(args, plain_prod<S>());
    else if constexpr (std::is_same_v<S, double>) fold_as<S, double>(args, t.prod_f64);
    else if constexpr (std::is_integral_v<S>) fold_as<S, uint64_t>(args, plain_prod<uint64_t>());
    else if constexpr (!std::is_same_v<S, std::string>) fold_as<S, float>(args, t.prod_f32);
  });
}

#define RILL_EXTREME(name)                                                     \
  void reduce_##name(const KernelArgs& args) {                                 \
    const ReduceTables& t = reduce_tables();                                   \
    switch (args.input(0).dtype()) {                                           \
      case DType::boolean: return fold_as<bool, uint8_t>(args, t.name##_u8);   \
      case DType::u8: return fold_as<uint8_t, uint8_t>(args, t.name##_u8);     \
      case DType::i8: return fold_as<int8_t, int32_t>(args, t.name##_i32);     \
      case DType::i16: return fold_as<int16_t, int32_t>(args, t.name##_i32);   \
      case DType::i32: return fold_as<int32_t, int32_t>(args, t.name##_i32);   \
      case DType::i64: return fold_as<int64_t, int64_t>(args, t.name##_i64);   \
      case DType::u16: return fold_as<uint16_t, uint32_t>(args, t.name##_u32); \
      case DType::u32: return fold_as<uint32_t, uint32_t>(args, t.name##_u32); \
      case DType::u64: return fold_as<uint64_t, uint64_t>(args, t.name##_u64); \
      case DType::f16: return fold_as<Half, float>(args, t.name##_f32);        \
      case DType::bf16: return fold_as<BFloat16, float>(args, t.name##_f32);   \
      case DType::f32: return fold_as<float, float>(args, t.name##_f32);       \
      case DType::f64: return fold_as<double, double>(args, t.name##_f64);     \
      default: return;                                                         \
    }                                                                          \
  }
RILL_EXTREME(max)
RILL_EXTREME(min)
#undef RILL_EXTREME

namespace {
void fold_truth(const KernelArgs& args, ReduceLoops<uint8_t> loops, uint8_t identity) {
  loops.identity = identity;
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (!std::is_same_v<S, std::string>) fold_as<S, uint8_t, true>(args, loops);
  });
}
}  // namespace

void reduce_all(const KernelArgs& args) { fold_truth(args, reduce_tables().min_u8, 1); }
void reduce_any(const KernelArgs& args) { fold_truth(args, reduce_tables().max_u8, 0); }

}  // namespace rill::cpu
