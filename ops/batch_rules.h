// Rules for OpSpec::batch: what records share. A rule makes the calls of a batch of rows in one; BatchArgs says what it
// gets.
//
//   .batch = batch_rows                         operands of any rank, whose leading axes are rows already
//   .batch = batch_axes<&ReduceParams::axes>    the attributes that are axes, which move back by one
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/op.h"

#pragma GCC visibility push(default)

namespace rill {

// Operand `i` with the batch as its first axis; repeated, as a view, where the rows do not differ in it.
Tensor with_batch(const BatchArgs& a, size_t i);
// The op called with all operands so and other attributes.
Tensors call_with_batch(const BatchArgs& a, AttrsView attrs);
// The shape of a row of operand `i`.
Shape row_shape(const BatchArgs& a, size_t i);
// The first axis of a batched tensor merged with the axis that is `axis` of a row, the batch outside; and taken apart
// again, where `axis` of `t` holds `size` blocks of `rest`.
Tensor merge_batch(const Tensor& t, int64_t axis);
Tensor split_batch(const Tensor& t, int64_t axis, Dim size, Dim rest);
// The outputs of a call of one row, by inference.
OutSpecs row_outputs(const BatchArgs& a);

// Elementwise ops.
Tensors batch_elementwise(const BatchArgs& a);
// Row by row, and stacked.
Tensors batch_by_loop(const BatchArgs& a);

inline Tensors batch_rows(const BatchArgs& a) { return call_with_batch(a, a.attrs); }

namespace detail {
template <class P, class M>
P params_of(M P::*);
inline void move_back(Dims& axes) {
  for (Dim& axis : axes) axis += 1;
}
template <class A>
  requires(!std::is_base_of_v<Dims, A>)
void move_back(A& axis) {
  axis = A(int64_t(axis) + 1);
}
}  // namespace detail

template <auto first, auto... more>
Tensors batch_axes(const BatchArgs& a) {
  using Params = decltype(detail::params_of(first));
  Params p = a.attrs.as<Params>();
  detail::move_back(p.*first);
  (detail::move_back(p.*more), ...);
  return call_with_batch(a, p);
}

}  // namespace rill

#pragma GCC visibility pop
