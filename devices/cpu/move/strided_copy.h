// Strided copies in host memory, on which contiguous, concat, pad, slices and updates are built.
#pragma once
#include <span>

#include "rill/tensor/tensor.h"

namespace rill::cpu {

// Copies shape.numel() elements of `dtype` from `from` to `to`; strides in elements, of any sign (zero only in `from`).
// The two must not overlap. Strings are assigned.
void strided_copy(DType dtype, const Shape& shape, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides);
// Copies `from` to the dense `to`, repeated along the axes where it has size 1 and `to` has not.
void copy_repeated(const Tensor& from, Tensor& to);
// `t` where it is dense, else a dense copy. For kernels: Tensor::contiguous() is an op, which tapes and traces would see.
Tensor as_dense(const Tensor& t);
// The axes of `shape` in the order in which all of `in` are dense, from the slowest to the fastest, where that is one
// and the same and not `shape`'s own; else nothing. One element, broadcast or not, is dense in every order.
Ints common_order(std::span<const Tensor* const> in, const Shape& shape);
// `t` with its axes in that order, and with those of such a tensor in their own again.
Tensor in_order(const Tensor& t, const Ints& order);
Tensor out_of_order(const Tensor& t, const Ints& order);
// Copies `n` elements of `element` bytes, `stride` bytes apart, to the dense `to`.
void gather_run(const char* from, int64_t stride, size_t element, void* to, int64_t n);

}  // namespace rill::cpu
