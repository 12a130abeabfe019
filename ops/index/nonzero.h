// Where a mask is set.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill {

// The places of the true elements of `mask`, which is known, counted in row-major order: i64[how many] on its device.
Tensor flat_nonzero(const Tensor& mask, const Where& where);

}  // namespace rill
