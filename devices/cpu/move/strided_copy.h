// Strided copies in host memory, used by contiguous, concat, pad, slices and updates.
#pragma once
#include <span>

#include "rill/tensor/tensor.h"

namespace rill::cpu {

// Copies shape.numel() elements of `dtype` from `from` to `to`; strides in elements, of any sign (zero only in `from`).
// The two must not overlap. Strings are assigned.
void strided_copy(DType dtype, const Shape& shape, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides);
// Copies `from` to the dense `to`, repeated along the axes where only `from` has size 1.
void copy_repeated(const Tensor& from, Tensor& to);
// `t` if it is dense, else a dense copy. For kernels: Tensor::contiguous() is an op, which tapes and traces would
// record.
Tensor as_dense(const Tensor& t);
// The axes of `shape`, slowest first, in the order in which all of `in` are dense, if there is one and it is not
// row-major; else nothing. One element, broadcast or not, is dense in every order.
Ints common_order(std::span<const Tensor* const> in, const Shape& shape);
// `t` with its axes permuted to that order, and the inverse.
Tensor in_order(const Tensor& t, const Ints& order);
Tensor out_of_order(const Tensor& t, const Ints& order);
// Copies `n` elements of `element` bytes, `stride` bytes apart, to the dense `to`.
void gather_run(const char* from, int64_t stride, size_t element, void* to, int64_t n);

}  // namespace rill::cpu
