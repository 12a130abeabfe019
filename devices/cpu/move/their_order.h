// The memory layout of results of elementwise functions. An axis along which every operand is broadcast is computed
// once, and broadcast in the result too. If all operands are dense in the same other order than row-major, such as
// transposed ones, the result has that order. So nothing is computed twice, and nothing is transposed.
// Small results are always dense: that costs nothing, and what reads them may need it. So are f16 and bf16: oneDNN sums
// their products in an order that depends on an operand's layout, and results in traced code are dense.
#pragma once
#include <algorithm>
#include <span>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/registry.h"

namespace rill::cpu {

inline constexpr int64_t worth_an_order = 4096;  // elements
inline bool may_lie_otherwise(const Spec& out) { return out.shape.numel() >= worth_an_order && !is_half(out.dtype); }

// `shape` with size 1 for each axis along which all of `in`, which broadcast to it, are broadcast.
inline Shape computed_shape(std::span<const Tensor* const> in, const Shape& shape) {
  Shape computed = shape;
  for (int i = 0; i < shape.ndim(); ++i) {
    const auto is_still = [&](const Tensor* t) {
      const int axis = i - (shape.ndim() - t->ndim());
      return axis < 0 || t->shape()[size_t(axis)] == 1 || t->strides()[size_t(axis)] == 0;
    };
    if (std::all_of(in.begin(), in.end(), is_still)) computed[size_t(i)] = 1;
  }
  return computed;
}

// The result of the elementwise run(operands, result), which writes a new dense tensor and gets the operands permuted.
template <class F>
Tensor run_in_their_order(std::span<const Tensor* const> in, const Spec& out, F&& run) {
  const auto run_all = [&](std::span<const Tensor* const> some, const Shape& shape) {
    Spec spec = out;
    spec.shape = shape;
    Tensor y = empty_tensor(std::move(spec));
    run(some, y);
    return y;
  };
  if (!may_lie_otherwise(out)) return run_all(in, out.shape);
  SmallVec<Tensor, 4> views;
  SmallVec<const Tensor*, 4> pointers;
  const auto run_views = [&](const Shape& shape) {
    for (const Tensor& t : views) pointers.push_back(&t);
    return run_all(pointers, shape);
  };
  if (const Ints order = common_order(in, out.shape); !order.empty()) {
    for (const Tensor* t : in) views.push_back(in_order(*t, order));
    Shape permuted = out.shape;
    for (size_t i = 0; i < order.size(); ++i) permuted[i] = out.shape[size_t(order[i])];
    return out_of_order(run_views(permuted), order);
  }
  const Shape once = computed_shape(in, out.shape);
  if (once == out.shape) return run_all(in, out.shape);
  for (const Tensor* t : in) {
    Shape shape = t->shape();
    for (size_t i = 0, skipped = once.size() - shape.size(); i < shape.size(); ++i)
      if (once[skipped + i] == 1) shape[i] = 1;
    views.push_back(make_view(*t, shape, t->strides(), 0));
  }
  const Tensor y = run_views(once);
  Strides strides = y.strides();
  for (size_t i = 0; i < once.size(); ++i)
    if (once[i] != out.shape[i]) strides[i] = 0;
  return make_view(y, out.shape, strides, 0);
}

}  // namespace rill::cpu
