#include "rill/ops/batch_rules.h"

#include <algorithm>

#include "rill/ops/ops.h"

namespace rill {

Shape row_shape(const BatchArgs& a, size_t i) {
  Shape s = a.in[i].shape();
  if (a.batched[i]) s.erase(0);
  return s;
}

Tensor with_batch(const BatchArgs& a, size_t i) {
  if (a.batched[i]) return a.in[i];
  Shape s = a.in[i].shape();
  s.insert(0, a.size);
  return broadcast_to(a.in[i], s);
}

Tensors call_with_batch(const BatchArgs& a, AttrsView attrs) {
  Tensors in;
  SmallVec<const Tensor*, 8> pointers;
  for (size_t i = 0; i < a.in.size(); ++i) in.push_back(with_batch(a, i));
  for (const Tensor& t : in) pointers.push_back(&t);
  return apply(a.op, Operands(pointers.data(), pointers.size()), attrs, a.where);
}

Tensor merge_batch(const Tensor& t, int64_t axis) {
  const Tensor moved = axis == 0 ? t : moveaxis(t, 0, axis);
  Shape s = moved.shape();
  s[size_t(axis)] = s[size_t(axis)] * s[size_t(axis) + 1];
  s.erase(size_t(axis) + 1);
  return reshape(moved, s);
}

Tensor split_batch(const Tensor& t, int64_t axis, Dim size, Dim rest) {
  Shape s = t.shape();
  s[size_t(axis)] = rest;
  s.insert(size_t(axis), size);
  const Tensor apart = reshape(t, s);
  return axis == 0 ? apart : moveaxis(apart, axis, 0);
}

OutSpecs row_outputs(const BatchArgs& a) {
  SmallVec<Spec, 4> rows;
  SmallVec<const Spec*, 8> pointers;
  for (size_t i = 0; i < a.in.size(); ++i) {
    rows.push_back(a.in[i].spec());
    rows.back().shape = row_shape(a, i);
  }
  for (const Spec& s : rows) pointers.push_back(&s);
  return infer(a.op, pointers, a.attrs, a.where);
}

Tensors batch_elementwise(const BatchArgs& a) {
  size_t rank = 0;
  for (size_t i = 0; i < a.in.size(); ++i) rank = std::max(rank, a.in[i].shape().size() - (a.batched[i] ? 1 : 0));
  Tensors in;
  SmallVec<const Tensor*, 8> pointers;
  for (size_t i = 0; i < a.in.size(); ++i) {
    in.push_back(a.in[i]);
    Shape s = a.in[i].shape();
    if (!a.batched[i] || s.size() == rank + 1) continue;
    while (s.size() < rank + 1) s.insert(1, 1);
    in.back() = reshape(a.in[i], s);
  }
  for (const Tensor& t : in) pointers.push_back(&t);
  return apply(a.op, Operands(pointers.data(), pointers.size()), a.attrs, a.where);
}

Tensors batch_by_loop(const BatchArgs& a) {
  std::vector<std::vector<Tensor>> rows(size_t(a.op.outputs));
  for (int64_t r = 0; r < a.size; ++r) {
    Tensors in;
    SmallVec<const Tensor*, 8> pointers;
    for (size_t i = 0; i < a.in.size(); ++i) in.push_back(a.batched[i] ? a.in[i](r) : a.in[i]);
    for (const Tensor& t : in) pointers.push_back(&t);
    const Tensors out = apply(a.op, Operands(pointers.data(), pointers.size()), a.attrs, a.where);
    for (size_t k = 0; k < out.size(); ++k) rows[k].push_back(out[k]);
  }
  Tensors out;
  if (a.size == 0) {
    for (Spec& s : row_outputs(a)) {
      s.shape.insert(0, 0);
      out.push_back(zeros(s.shape, {s.dtype, s.device}));
    }
    return out;
  }
  for (const std::vector<Tensor>& r : rows) out.push_back(stack(r));
  return out;
}

}  // namespace rill
