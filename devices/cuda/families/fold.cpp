// Starts the kernels of fold.cuh: chooses one for a shape, and the rule of a record.
#include "rill/devices/cuda/families/fold.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "rill/devices/axes.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/kernel/ir.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/op.h"

namespace rill::cuda {

bool append(Axes& axes, int64_t size, int64_t stride) {
  if (size == 1) return true;
  if (axes.count > 0) {
    const size_t last = size_t(axes.count) - 1;
    if (is_one_run(axes.stride[last], stride, size)) {
      axes.size[last] *= size;
      axes.stride[last] = stride;
      return true;
    }
  }
  if (axes.count == Axes::most) return false;
  axes.size[axes.count] = size;
  axes.stride[axes.count++] = stride;
  return true;
}

namespace {

constexpr int64_t block_points = 1024;  // of the tree

// Whether neighbouring rows are closer in memory than neighbouring points of a row.
bool rows_are_nearer(const Folding& s) {
  if (s.kept.count == 0 || s.reduced.count == 0) return false;
  return std::abs(s.kept.stride[s.kept.count - 1]) < std::abs(s.reduced.stride[s.reduced.count - 1]);
}

// Cuts rows into pieces, at least `least` points each, so that there are about `wanted` in total.
void cut(Folding& s, int64_t rows, int64_t least, int64_t wanted) {
  s.piece = least;
  while (s.piece < s.n && rows * ((s.n + s.piece - 1) / s.piece) > wanted) s.piece *= 2;
  s.pieces = (s.n + s.piece - 1) / s.piece;
}

}  // namespace

void start_fold(Gpu& gpu, const Family& family, std::string_view rule, size_t accumulator_bytes, Folding s,
                int64_t rows, int64_t n) {
  s.rows = rows, s.n = n, s.pieces = 1;
  if (rows == 0) return;
  const auto function = [&](std::string_view kernel, std::string_view more = "") {
    return kernel_of(gpu, {family, "Folding", fmt::format("{}<{}{}>", kernel, rule, more)});
  };
  const bool side_by_side = rows_are_nearer(s);
  if (n <= 32) {
    const int64_t width = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(n, 1))));
    const std::string more = fmt::format(", {}", width);
    if (side_by_side) gpu.launch(function("fold_threads", more), s, rows);
    else gpu.launch(function("fold_groups", more), s, rows * width);
    return;
  }
  const std::string one_axis = s.reduced.count <= 1 ? ", true" : ", false";
  const int64_t enough = int64_t(gpu.processors) * 8;  // blocks of 256 threads
  Tensor parts;
  const auto make_parts = [&] {
    if (s.pieces == 1) return;
    parts = empty_tensor(
        Spec{Shape({Dim(rows * s.pieces * 32 * int64_t(accumulator_bytes))}), DType::u8, false, gpu.device});
    s.parts = address(parts);
  };
  if (side_by_side) {
    const int columns = rows < 16 ? 8 : 16;
    const int64_t groups = (rows + columns - 1) / columns;
    cut(s, groups, block_points, enough * 8 / columns);
    make_parts();
    gpu.launch_blocks(function("fold_columns", fmt::format("{}, {}", one_axis, columns)), s,
                      std::min<int64_t>(groups * s.pieces, enough * 8), 32 * columns);
  } else if (n <= 2 * block_points || rows >= enough * 4) {
    gpu.launch(function("fold_warps", one_axis), s, rows * 32);
  } else {
    cut(s, rows, 8 * block_points, enough);
    make_parts();
    gpu.launch_blocks(function("fold_blocks", one_axis), s, std::min<int64_t>(rows * s.pieces, enough * 8), 256);
  }
  if (s.pieces == 1) return;
  // Warps of a block: with 32, some rules would need more registers than a multiprocessor has.
  const int warps = s.pieces <= 64 ? 8 : 16;
  gpu.launch_blocks(function("fold_parts", fmt::format(", {}", warps)), s, std::min<int64_t>(rows, enough * 8),
                    32 * warps);
}

namespace {

struct Rule {
  std::string text;
  size_t accumulator_bytes;
};

// Folds the last `reduced` axes of `x` into the dense `out`.
void fold_last(const Tensor& x, const Tensor& out, size_t reduced, const Rule& rule) {
  Folding s{};
  s.from = address(x);
  s.to = address(out);
  int64_t rows = 1, n = 1;
  bool fits = true;
  for (size_t i = 0; i < size_t(x.ndim()); ++i) {
    const bool kept = i + reduced < size_t(x.ndim());
    const int64_t size = x.shape()[i];
    (kept ? rows : n) *= size;
    fits = fits && append(kept ? s.kept : s.reduced, size, x.strides()[i] * int64_t(size_of(x.dtype())));
  }
  if (!fits) return fold_last(dense_copy(x), out, reduced, rule);
  start_fold(gpu_of(x.device()), fold_family, rule.text, rule.accumulator_bytes, s, rows, n);
}

// The remaining axes, then the others; a view on the same memory.
Tensor reduced_last(const Tensor& x, const Dims& axes) {
  Shape shape;
  Strides strides;
  for (const bool reduced : {false, true})
    for (int64_t i = 0; i < x.ndim(); ++i) {
      if ((std::find(axes.begin(), axes.end(), i) != axes.end()) != reduced) continue;
      shape.push_back(x.shape()[size_t(i)]);
      strides.push_back(x.strides()[size_t(i)]);
    }
  return make_view(x, std::move(shape), std::move(strides), 0);
}

std::string type_name(DType d) {
  if (is_complex(d)) return fmt::format("Complex<{}>", name(real_of(d)));
  return d == DType::boolean ? "bool" : std::string(name(d));
}
DType accumulator(DType d) { return is_half(d) ? DType::f32 : d; }

Rule plain_rule(kernel::Code code, DType in, DType out) {
  const std::string_view fold = code == kernel::Code::reduce_sum    ? "Sum"
                                : code == kernel::Code::reduce_prod ? "Prod"
                                : code == kernel::Code::reduce_max  ? "Max"
                                                                    : "Min";
  const std::string acc = type_name(accumulator(out));
  return {fmt::format("Plain<{}, {}, rill::{}<{}>, {}>", type_name(in), acc, fold, acc, type_name(out)),
          size_of(accumulator(out))};
}

Rule norm_rule(DType in, DType out) {
  if (real_of(in) == DType::f64) return {fmt::format("WideNorm<{}>", type_name(in)), 24};
  return {fmt::format("Norm<{}, {}>", type_name(in), name(out)), 8};
}

void run(const KernelArgs& a, const Dims& axes, const Rule& rule) {
  fold_last(reduced_last(*a.in[0], axes), *a.out[0], axes.size(), rule);
}

void run_fold(const KernelArgs& a) {
  run(a, a.attrs.as<ReduceParams>().axes, plain_rule(*a.op->fold, a.in[0]->dtype(), a.out[0]->dtype()));
}
template <bool all>
void run_truth(const KernelArgs& a) {
  run(a, a.attrs.as<ReduceParams>().axes, {fmt::format("Truth<{}, {}>", type_name(a.in[0]->dtype()), all), 4});
}
void run_norm(const KernelArgs& a) {
  run(a, a.attrs.as<ReduceParams>().axes, norm_rule(a.in[0]->dtype(), a.out[0]->dtype()));
}
template <bool largest>
void run_extreme_index(const KernelArgs& a) {
  const DType d = a.in[0]->dtype();
  run(a, {Dim(a.attrs.as<ArgReduceParams>().axis)},
      {fmt::format("Extreme<{}, {}, {}>", type_name(d), type_name(accumulator(d)), largest), 16});
}

template <Kernel kernel, bool complex_too>
Kernel numbers(DType d) {
  return d == DType::string || (is_complex(d) && !complex_too) ? nullptr : kernel;
}

}  // namespace

void fold_last_axes(const Op& op, const Tensor& x, Tensor& out, size_t reduced) {
  fold_last(x, out, reduced, plain_rule(*op.fold, x.dtype(), out.dtype()));
}

std::span<const NamedKernel> fold_kernels() {
  static const NamedKernel all[] = {
      {"all", numbers<run_truth<true>, true>},
      {"any", numbers<run_truth<false>, true>},
      {"argmax", numbers<run_extreme_index<true>, false>},
      {"argmin", numbers<run_extreme_index<false>, false>},
      {"max", numbers<run_fold, false>},
      {"min", numbers<run_fold, false>},
      {"norm", numbers<run_norm, true>},
      {"prod", numbers<run_fold, false>},
      {"sum", numbers<run_fold, false>},
  };
  return all;
}

}  // namespace rill::cuda
