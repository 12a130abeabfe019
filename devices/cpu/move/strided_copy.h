// Strided copies in host memory, on which contiguous, concat, pad, slices and updates are built.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill::cpu {

// Copies shape.numel() elements of `dtype` from `from` to `to`; strides in elements, of any sign (zero only in `from`).
// The two must not overlap. Strings are assigned.
void strided_copy(DType dtype, const Shape& shape, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides);

}  // namespace rill::cpu
