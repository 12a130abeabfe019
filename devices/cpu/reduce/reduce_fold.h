// From axes to stages of the reduction tree: which groups of axes fold in which order, into which dtype. Start at
// fold(). For reduce.cpp, whose operands are in memory, and fused_fold.cpp, whose operands a kernel computes.
#pragma once
#include "rill/devices/cpu/reduce/reduce_tree.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

// --- From axes to stages ---------------------------------------------------------------------------------------------

struct FoldAxis {
  int64_t size, stride;
  bool reduced;
};
using FoldAxes = SmallVec<FoldAxis, 8>;

// Takes the innermost group of reduced axes as a stage; `axes` becomes the remaining ones, those of a dense tensor.
inline Stage next_stage(FoldAxes& axes) {
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

inline bool any_reduced(const FoldAxes& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const FoldAxis& a) { return a.reduced; });
}

// Converts accumulators to the output's dtype.
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
// elements are of type T too. With `produce`, elements come from there, and the axes' strides count points.
template <class T>
void fold(FoldAxes&& axes, const ReduceLoops<T>& loops, const char* data, int64_t element, Read<T> read, char* out,
          DType dtype, bool same, const Produce<T>* produce = nullptr) {
  int64_t m = 1, n = 1;
  for (const FoldAxis& a : axes) (a.reduced ? m : n) *= a.size;
  if (n == 0) return;
  T few[64];
  std::unique_ptr<T[]> many, middle;
  T* result = reinterpret_cast<T*>(out);
  if (!same) result = n <= 64 ? few : (many = std::make_unique_for_overwrite<T[]>(size_t(n))).get();
  if (m == 0) {
    std::fill(result, result + n, loops.identity);
  } else if (!any_reduced(axes)) {  // nothing to fold: all reduced axes had size 1
    Stage stage;
    for (const FoldAxis& a : axes) join(stage.k, {a.size, a.stride});
    run_stage(stage, loops, data, element, read, result, produce);
  }
  while (m != 0 && any_reduced(axes)) {
    const Stage stage = next_stage(axes);
    if (!any_reduced(axes)) {
      run_stage(stage, loops, data, element, read, result, produce);
      break;
    }
    auto part = std::make_unique_for_overwrite<T[]>(size_t(count(stage.outer) * count(stage.k)));
    run_stage(stage, loops, data, element, read, part.get(), produce);
    middle = std::move(part);
    data = reinterpret_cast<const char*>(middle.get());
    element = sizeof(T);
    read = nullptr;
    produce = nullptr;
  }
  if (!same) write(result, n, dtype, out);
}

}  // namespace
}  // namespace rill::cpu
