// Reductions on the CPU: sum, prod, max, min, all, any, norm. The order of additions depends only on the shape and the
// axes, not on threads, instruction sets or strides (reduce_tree.h defines it). This file decides which groups of axes
// are reduced in which order and in which dtype, and has the kernels. Start at fold().
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "rill/devices/cpu/elementwise/complex_vectors.h"
#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/reduce/fold_in_memory_order.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

// How a result depends on its elements: on their order; not on it; not even on whether one occurs twice.
enum class Order { fixed, free, idempotent };

// If the result does not depend on the order, moves the reduced axes last, in memory order, if one of them is the
// innermost in memory: dense lines are folded fastest.
void follow_memory(FoldAxes& axes) {
  const FoldAxis* innermost = nullptr;
  for (const FoldAxis& a : axes)
    if (a.stride != 0 && (!innermost || std::abs(a.stride) < std::abs(innermost->stride))) innermost = &a;
  if (!innermost || !innermost->reduced) return;
  std::stable_sort(axes.begin(), axes.end(), [](const FoldAxis& a, const FoldAxis& b) {
    return a.reduced && b.reduced ? std::abs(a.stride) > std::abs(b.stride) : !a.reduced && b.reduced;
  });
}

// The axes of the operand that have more than one index.
FoldAxes fold_axes(const KernelArgs& args, Order order = Order::fixed) {
  const Tensor& x = args.input(0);
  const Dims& reduced = args.attrs.as<ReduceParams>().axes;
  FoldAxes axes;
  size_t next = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    const bool r = next < reduced.size() && reduced[next] == i;
    next += r;
    const int64_t size = x.shape()[i], stride = x.strides()[i];
    const bool repeats = r && stride == 0 && size > 0 && order == Order::idempotent;
    if (size != 1 && !repeats) axes.push_back({size, stride, r});
  }
  if (order != Order::fixed) follow_memory(axes);
  return axes;
}

// If a broadcast operand repeats lines, runs `kernel` on one of each and copies its results.
bool folds_repeats_once(const KernelArgs& args, Kernel kernel) {
  const Tensor& x = args.input(0);
  const auto& p = args.attrs.as<ReduceParams>();
  Shape in = x.shape(), out = args.output().shape();
  size_t next = 0, to = 0;
  bool any = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (next < p.axes.size() && p.axes[next] == int64_t(i)) {
      ++next, to += p.keepdims;
      continue;
    }
    if (in[i] > 1 && x.strides()[i] == 0) in[i] = out[to] = 1, any = true;
    ++to;
  }
  if (!any) return false;
  const Tensor once = make_view(x, in, x.strides(), 0);
  Tensor results = empty_tensor(Spec{out, args.output().dtype(), false, x.device()});
  const Tensor* const inputs[] = {&once};
  Tensor* const outputs[] = {&results};
  kernel(KernelArgs{inputs, outputs, args.attrs, nullptr});
  copy_repeated(results, args.output());
  return true;
}

bool reduces_last(const FoldAxes& axes) {
  return std::is_partitioned(axes.begin(), axes.end(), [](const FoldAxis& a) { return !a.reduced; });
}

// The same for rows only: the order of their additions does not depend on how many there are, unlike that of columns.
bool folds_repeated_rows(const KernelArgs& args, Kernel kernel) {
  const Strides& strides = args.input(0).strides();
  return std::find(strides.begin(), strides.end(), 0) != strides.end() && reduces_last(fold_axes(args)) &&
         folds_repeats_once(args, kernel);
}

// --- Kernels ---------------------------------------------------------------------------------------------------------

// The common small case, without checking strides: dense rows of one block, folded along their last axes.
template <class T>
bool fold_rows(const KernelArgs& args, const ReduceLoops<T>& loops) {
  const Tensor& x = args.input(0);
  const Dims& axes = args.attrs.as<ReduceParams>().axes;
  const size_t ndim = x.shape().size(), kept_axes = ndim - axes.size();
  int64_t rows = 1, n = 1;
  for (size_t i = 0; i < ndim; ++i) (i < kept_axes ? rows : n) *= x.shape()[i];
  if (axes.empty() || axes[0] != int64_t(kept_axes) || n < 1 || n > longest_line || rows * n > parallel_grain ||
      !x.is_contiguous())
    return false;
  loops.lines(args.in_data<T>(0), n, rows, n, args.out_data<T>());
  positive_zeros(loops, args.out_data<T>(), rows);
  return true;
}

// A dense copy, made in tiles, if folding would read elements one by one from distant addresses, along several axes or
// with a conversion; else an undefined tensor.
Tensor copy_to_fold(const KernelArgs& args, Order order, bool converts) {
  constexpr int64_t line = 64, few = 4096;
  const Tensor& x = args.input(0);
  if (x.size() < few || x.is_contiguous()) return Tensor();
  const FoldAxes axes = fold_axes(args, order);
  if (axes.empty() || !axes.back().reduced) return Tensor();
  const int64_t step = std::abs(axes.back().stride);
  bool several = false;  // several axes that are not one run in memory
  for (size_t i = axes.size() - 1; i > 0 && axes[i - 1].reduced; --i)
    several |= axes[i - 1].stride != axes[i].stride * axes[i].size;
  const bool another_is_nearer = std::any_of(
      axes.begin(), axes.end(), [&](const FoldAxis& a) { return a.stride != 0 && std::abs(a.stride) < step; });
  if (step * int64_t(size_of(x.dtype())) < line || !another_is_nearer || !(several || converts)) return Tensor();
  Tensor copy = empty_tensor(x.spec());
  copy_elements(x, copy);
  return copy;
}

// Elements of `size` bytes that `read` converts to T; null: they already are T.
template <class T>
void fold_elements(const KernelArgs& args, const ReduceLoops<T>& loops, Order order, size_t size, Read<T> read) {
  const DType out = args.output().dtype();
  const bool same = out == dtype_of<T>() || (std::is_integral_v<T> && sizeof(T) == 8 && size_of(out) == 8) ||
                    (std::is_same_v<T, uint8_t> && is_bool(out));
  if (!read && same && fold_rows(args, loops)) return;
  const Tensor copy = copy_to_fold(args, order, read);
  const Tensor* const in[] = {copy.defined() ? &copy : &args.input(0)};
  const KernelArgs dense{in, args.out, args.attrs, nullptr};
  if (copy.defined() && !read && same && fold_rows(dense, loops)) return;
  fold<T>(fold_axes(dense, order), loops, dense.in_data<char>(0), int64_t(size), read, args.out_data<char>(), out,
          same);
}

// Elements of type S accumulate as T.
template <class S, class T, bool as_truth = false>
void fold_as(const KernelArgs& args, const ReduceLoops<T>& loops, Order order = Order::fixed) {
  // Truth values are read as 0 or 1, which only bools already are.
  constexpr bool plain =
      as_truth ? std::is_same_v<S, bool>
               : std::is_same_v<S, T> || (std::is_integral_v<S> && std::is_integral_v<T> && sizeof(S) == sizeof(T));
  if constexpr (plain) fold_elements<T>(args, loops, order, sizeof(S), nullptr);
  else fold_elements<T>(args, loops, order, sizeof(S), read<S, T, as_truth>);
}

// A complex tensor as the real one with a last axis of two.
template <class T>
void fold_complex(const KernelArgs& args, const ReduceLoops<T>& loops) {
  FoldAxes axes = fold_axes(args);
  for (FoldAxis& a : axes) a.stride *= 2;
  axes.push_back({2, 1, false});
  fold<T>(std::move(axes), loops, args.in_data<char>(0), sizeof(T), nullptr, args.out_data<char>(), dtype_of<T>(),
          true);
}

// Products of complex numbers, by the loops of multiply(), over the same tree.
template <class T>
struct ComplexProd {
  static void block(const T* x, int64_t stride, int64_t rows, int64_t width, T* acc) {
    complex_columns(x, stride, rows, width, acc);
    for (int64_t c = 0; c < width; ++c)
      if (acc[c] != acc[c]) {
        acc[c] = x[c];
        for (int64_t r = 1; r < rows; ++r) acc[c] = padded_product(acc[c], x[r * stride + c]);
      }
  }
  static void merge(T* acc, const T* x, int64_t width) {
    constexpr int64_t block_width = 64;
    for (int64_t c = 0, n; c < width; c += n) {
      n = std::min(block_width, width - c);
      T rows[2 * block_width];
      std::copy_n(x + c, n, std::copy_n(acc + c, n, rows));
      block(rows, n, 2, n, acc + c);
    }
  }
  // Lines are padded with 1, which must leave an infinity as it is.
  static T padded_product(const T& a, const T& b) {
    if (a == T(1)) return b;
    if (b == T(1)) return a;
    T product;
    scalar_loops<"multiply">[dtype_of<T>()]({{&a, &b}, &product, 1, 0});
    return product;
  }
  static void complex_columns(const T* x, int64_t stride, int64_t rows, int64_t width, T* acc) {
    using P = typename T::value_type;
    const P* const from = reinterpret_cast<const P*>(x);
    P* const to = reinterpret_cast<P*>(acc);
    if constexpr (sizeof(P) == 4) complex_products().columns_c64(from, stride, rows, width, to);
    else complex_products().columns_c128(from, stride, rows, width, to);
  }
  static T fold(const T* lanes) {
    T v[min_row_width], halved[min_row_width / 2];
    std::copy(lanes, lanes + min_row_width, v);
    for (int64_t half = min_row_width / 2; half > 0; half /= 2) {
      block(v, half, 2, half, halved);
      std::copy_n(halved, half, v);
    }
    return v[0];
  }
  static void lines(const T* x, int64_t stride, int64_t rows, int64_t n, T* out) {
    const int64_t full_rows = n / min_row_width, rest = n % min_row_width;
    for (int64_t r = 0; r < rows; ++r, x += stride) {
      T acc[min_row_width], row[min_row_width];
      if (full_rows > 0) block(x, min_row_width, full_rows, min_row_width, acc);
      if (rest > 0) {
        T* const to = full_rows > 0 ? row : acc;
        std::fill(std::copy_n(x + full_rows * min_row_width, rest, to), to + min_row_width, T(1));
        if (full_rows > 0) merge(acc, row, min_row_width);
      }
      out[r] = fold(acc);
    }
  }
  static constexpr ReduceLoops<T> loops = {block, merge, fold, lines, nullptr, T(1)};
};

// For integers, if the operand does not move along reduced axes: the sum over the other axes, times their size.
bool sum_repeats_once(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  Shape once = x.shape();
  uint64_t times = 1;
  for (const Dim& axis : args.attrs.as<ReduceParams>().axes)
    if (const size_t i = size_t(int64_t(axis)); x.strides()[i] == 0 && once[i] > 1)
      times *= uint64_t(int64_t(once[i])), once[i] = 1;
  if (times == 1 || size_of(args.output().dtype()) != 8) return false;
  const Tensor view = make_view(x, once, x.strides(), 0);
  const Tensor* const in[] = {&view};
  reduce_sum(KernelArgs{in, args.out, args.attrs, nullptr});
  uint64_t* const out = args.out_data<uint64_t>();
  for (int64_t i = 0, n = args.output().size(); i < n; ++i) out[i] *= times;
  return true;
}
}  // namespace

void reduce_sum(const KernelArgs& args) {
  if (folds_repeated_rows(args, reduce_sum)) return;
  const ReduceTables& t = reduce_tables();
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (std::is_same_v<S, std::complex<float>>) fold_complex<float>(args, t.sum_f32);
    else if constexpr (std::is_same_v<S, std::complex<double>>) fold_complex<double>(args, t.sum_f64);
    else if constexpr (std::is_same_v<S, double>) fold_as<S, double>(args, t.sum_f64);
    else if constexpr (std::is_integral_v<S>) {
      if (sum_repeats_once(args)) return;
      using Number = std::conditional_t<std::is_same_v<S, bool>, uint8_t, S>;
      if constexpr (sizeof(S) <= 4)
        if (sum_in_memory_order(fold_axes(args, Order::free), args.in_data<Number>(0), args.out_data<int64_t>()))
          return;
      fold_as<S, int64_t>(args, t.sum_i64, Order::free);
    } else if constexpr (!std::is_same_v<S, std::string>) fold_as<S, float>(args, t.sum_f32);
  });
}

void reduce_prod(const KernelArgs& args) {
  if (folds_repeated_rows(args, reduce_prod)) return;
  const ReduceTables& t = reduce_tables();
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>)
      fold_as<S, S>(args, ComplexProd<S>::loops);
    else if constexpr (std::is_same_v<S, double>) fold_as<S, double>(args, t.prod_f64);
    else if constexpr (std::is_integral_v<S>) fold_as<S, int64_t>(args, t.prod_i64, Order::free);
    else if constexpr (!std::is_same_v<S, std::string>) fold_as<S, float>(args, t.prod_f32);
  });
}

// For bools the largest is `any`, and the smallest is `all`.
#define RILL_EXTREME(name, of_bools, is_max)                                                                     \
  void reduce_##name(const KernelArgs& args) {                                                                   \
    if (is_bool(args.input(0).dtype())) return of_bools(args);                                                   \
    if (folds_repeats_once(args, reduce_##name)) return;                                                         \
    const ReduceTables& t = reduce_tables();                                                                     \
    const auto fold = [&]<class S>(S, const auto& loops) {                                                       \
      using T = std::remove_const_t<decltype(loops.identity)>;                                                   \
      if constexpr (std::is_same_v<S, T>)                                                                        \
        if (extreme_of_rows(is_max, fold_axes(args, Order::idempotent), args.in_data<T>(0), args.out_data<T>())) \
          return;                                                                                                \
      fold_as<S, T>(args, loops, Order::idempotent);                                                             \
    };                                                                                                           \
    switch (args.input(0).dtype()) {                                                                             \
      case DType::u8: return fold(uint8_t(), t.name##_u8);                                                       \
      case DType::i8: return fold(int8_t(), t.name##_i8);                                                        \
      case DType::i16: return fold(int16_t(), t.name##_i16);                                                     \
      case DType::i32: return fold(int32_t(), t.name##_i32);                                                     \
      case DType::i64: return fold(int64_t(), t.name##_i64);                                                     \
      case DType::u16: return fold(uint16_t(), t.name##_u16);                                                    \
      case DType::u32: return fold(uint32_t(), t.name##_u32);                                                    \
      case DType::u64: return fold(uint64_t(), t.name##_u64);                                                    \
      case DType::f16: return fold(Half(), t.name##_f32);                                                        \
      case DType::bf16: return fold(BFloat16(), t.name##_f32);                                                   \
      case DType::f32: return fold(float(), t.name##_f32);                                                       \
      case DType::f64: return fold(double(), t.name##_f64);                                                      \
      default: return;                                                                                           \
    }                                                                                                            \
  }
RILL_EXTREME(max, reduce_any, true)
RILL_EXTREME(min, reduce_all, false)
#undef RILL_EXTREME

namespace {

void fold_truth(const KernelArgs& args, ReduceLoops<uint8_t> loops, bool all);

// For complex numbers: whether none is 0, or not all are.
void fold_complex_truth(const KernelArgs& args, bool all) {
  const Tensor& x = args.input(0);
  Tensor zero = empty_tensor(Spec{x.shape(), DType::boolean, false, x.device()});
  Tensor* const zeros[] = {&zero};
  run_elementwise(scalar_loops<"logical_not">, KernelArgs{args.in, zeros, {}, nullptr});
  const Tensor* const in[] = {&zero};
  const ReduceTables& t = reduce_tables();
  fold_truth(KernelArgs{in, args.out, args.attrs, nullptr}, all ? t.max_u8 : t.min_u8, !all);
  uint8_t* const out = args.out_data<uint8_t>();
  for (int64_t i = 0, n = args.output().size(); i < n; ++i) out[i] ^= 1;
}

void fold_truth(const KernelArgs& args, ReduceLoops<uint8_t> loops, bool all) {
  if (is_complex(args.input(0).dtype())) return fold_complex_truth(args, all);
  loops.identity = all;
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (!std::is_same_v<S, std::string>) {
      if constexpr (is_complex(dtype_of<S>())) return;
      else if (truth_in_memory_order<typename TruthBits<S>::U>(fold_axes(args, Order::idempotent),
                                                               args.in_data<char>(0), TruthBits<S>::mask, all,
                                                               args.out_data<uint8_t>()))
        return;
      else fold_as<S, uint8_t, true>(args, loops, Order::idempotent);
    }
  });
}
}  // namespace

// --- The norm --------------------------------------------------------------------------------------------------------

namespace {

// Squares of every dtype but f64 are far inside the range of f64. Those of large and small f64 are not: they are
// summed separately, scaled by powers of two, if a plain sum shows that there are some (Blue: A portable Fortran
// program to find the Euclidean norm of a vector, 1978; the constants are those of LAPACK's dnrm2).
enum class Part { all, large, middle, small };
constexpr double large_from = 0x1p486, small_below = 0x1p-511, shrink = 0x1p-538, enlarge = 0x1p537;
// If a sum is between these, no square that matters to it has lost digits.
constexpr double least_plain_sum = 0x1p-960, greatest_plain_sum = std::numeric_limits<double>::max();

// The type of a number's parts.
template <class S>
struct PartsOf {
  using type = S;
};
template <class T>
struct PartsOf<std::complex<T>> {
  using type = T;
};
template <class S>
using RealOf = typename PartsOf<S>::type;

template <Part part>
double square_of(double v) {
  const double size = std::abs(v);
  const bool is_large = size > large_from, is_small = size < small_below;
  if constexpr (part == Part::large) return is_large ? (v * shrink) * (v * shrink) : 0.0;
  if constexpr (part == Part::middle) return is_large || is_small ? 0.0 : v * v;
  if constexpr (part == Part::small) return is_small ? (v * enlarge) * (v * enlarge) : 0.0;
  return v * v;
}
template <class S, Part part>
void read_squares(const char* x, int64_t stride, int64_t n, double* y) {
  const S* p = reinterpret_cast<const S*>(x);
  const auto square = [](const S& element) {
    if constexpr (std::is_arithmetic_v<S>) return square_of<part>(double(element));
    else return square_of<part>(element.real()) + square_of<part>(element.imag());
  };
  if constexpr (std::is_same_v<S, float>)
    if (stride == 1) return reduce_tables().square_f32(p, n, y);
  for (int64_t i = 0; i < n; ++i) y[i] = square(p[i * stride]);
}

// The common case, dense rows: each in pieces of equal length.
template <class S>
void sum_square_rows(const S* x, int64_t rows, int64_t n, double* sums) {
  constexpr int64_t piece = 4096;
  const auto add = [](const S* from, int64_t stride, int64_t count, int64_t length, double* to) {
    if constexpr (std::is_same_v<S, float>) reduce_tables().square_rows_f32(from, stride, count, length, to);
    else reduce_tables().square_rows_f64(from, stride, count, length, to);
  };
  if (n <= piece)
    return parallel_for(rows, std::max<int64_t>(1, parallel_grain / std::max<int64_t>(n, 1)),
                        [&](int64_t begin, int64_t end) { add(x + begin * n, n, end - begin, n, sums + begin); });
  const int64_t pieces = (n + piece - 1) / piece;
  std::vector<double> parts(size_t(rows * pieces));
  parallel_for(rows * pieces, parallel_grain / piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * piece;
      add(x + i / pieces * n + first, 0, 1, std::min(piece, n - first), &parts[size_t(i)]);
    }
  });
  fold<double>({{rows, pieces, false}, {pieces, 1, true}}, reduce_tables().sum_f64,
               reinterpret_cast<const char*>(parts.data()), sizeof(double), nullptr, reinterpret_cast<char*>(sums),
               DType::f64, true);
}

// Contiguous columns: over the same tree as others, but a few squares at a time, which stay in the L1 cache.
template <class S>
void sum_square_columns(const S* x, const Columns& columns, double* sums) {
  const Produce<double> squares{
      [](const void* context, int64_t first, int64_t rows, int64_t step, int64_t width, double* to) {
        const S* from = static_cast<const S*>(context) + first;
        for (int64_t r = 0; r < rows; ++r, from += step, to += width)
          read_squares<S, Part::all>(reinterpret_cast<const char*>(from), 1, width, to);
      },
      x};
  Stage stage;
  stage.m.push_back({columns.rows, columns.step});
  stage.k.push_back({columns.count, 1});
  run_stage<double>(stage, reduce_tables().sum_f64, nullptr, 0, nullptr, sums, &squares);
}

template <class S, Part part>
std::vector<double> sum_squares(const KernelArgs& args) {
  FoldAxes axes = fold_axes(args);
  std::vector<double> sums(size_t(args.output().size()));
  if constexpr (part == Part::all && !std::is_integral_v<S>) {
    using T = RealOf<S>;
    int64_t rows = 1, n = sizeof(S) / sizeof(T);  // a complex number is two
    for (const FoldAxis& a : axes) (a.reduced ? n : rows) *= a.size;
    if (reduces_last(axes)) {
      sum_square_rows(args.in_data<T>(0), rows, n, sums.data());
      return sums;
    }
    if constexpr (std::is_same_v<S, T>)
      if (Columns columns; columns.find(axes) && columns.rows > 0 && columns.count > 0) {
        sum_square_columns(args.in_data<T>(0), columns, sums.data());
        return sums;
      }
  }
  fold<double>(std::move(axes), reduce_tables().sum_f64, args.in_data<char>(0), sizeof(S), read_squares<S, part>,
               reinterpret_cast<char*>(sums.data()), DType::f64, true);
  return sums;
}

double join_parts(double large, double middle, double small) {
  if (large > 0) return std::sqrt(large + middle * shrink * shrink) / shrink;
  if (small > 0) {
    const double a = std::sqrt(middle), b = std::sqrt(small) / enlarge;
    return middle == 0 ? b : std::hypot(a, b);  // keeps NaN
  }
  return std::sqrt(middle);
}

template <class S>
void norm_of(const KernelArgs& args) {
  std::vector<double> norms = sum_squares<S, Part::all>(args);
  const auto is_plain = [](double sum) { return !(sum < least_plain_sum || sum > greatest_plain_sum); };
  if constexpr (std::is_same_v<RealOf<S>, double>) {
    if (!std::all_of(norms.begin(), norms.end(), is_plain)) {  // the plain sum equals the sum without the others
      const std::vector<double> large = sum_squares<S, Part::large>(args), middle = sum_squares<S, Part::middle>(args),
                                small = sum_squares<S, Part::small>(args);
      for (size_t i = 0; i < norms.size(); ++i)
        norms[i] = is_plain(norms[i]) ? std::sqrt(norms[i]) : join_parts(large[i], middle[i], small[i]);
      return write(norms.data(), int64_t(norms.size()), args.output().dtype(), args.out_data<char>());
    }
  }
  for (double& sum : norms) sum = std::sqrt(sum);
  write(norms.data(), int64_t(norms.size()), args.output().dtype(), args.out_data<char>());
}

}  // namespace

void reduce_norm(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  const bool of_rows = reduces_last(fold_axes(args));            // summed in their own order, so
  if (of_rows && folds_repeats_once(args, reduce_norm)) return;  // each row is independent of the others
  if (!x.is_contiguous() && of_rows) {                           // rows, which are read in place
    Tensor dense = empty_tensor(x.spec());
    copy_elements(x, dense);
    const Tensor* const in[] = {&dense};
    return reduce_norm(KernelArgs{in, args.out, args.attrs, nullptr});
  }
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = decltype(zero);
    if constexpr (!std::is_same_v<S, std::string> && !is_half_type<S>) norm_of<S>(args);
  });
}

void reduce_all(const KernelArgs& args) {
  if (!folds_repeats_once(args, reduce_all)) fold_truth(args, reduce_tables().min_u8, true);
}
void reduce_any(const KernelArgs& args) {
  if (!folds_repeats_once(args, reduce_any)) fold_truth(args, reduce_tables().max_u8, false);
}

}  // namespace rill::cpu
