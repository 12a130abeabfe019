// Strided copies in host memory, on which contiguous, concat, pad, slices and updates are built.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill::cpu {

// Copies shape.numel() elements of `dtype` from `from` to `to`; strides in elements, of any sign (zero only in `from`).
// The two must not overlap. Strings are assigned.
void strided_copy(DType dtype, const Shape& shape, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides);
// Copies `from` to the dense `to`, repeated along the axes where it has size 1 and `to` has not.
void copy_repeated(const Tensor& from, Tensor& to);
// Copies `n` elements of `element` bytes, `stride` bytes apart, to the dense `to`.
void gather_run(const char* from, int64_t stride, size_t element, void* to, int64_t n);

}  // namespace rill::cpu
