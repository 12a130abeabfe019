// Where a mask is set.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill {

// The indices of the true elements of the flattened `mask`, which is known: i64[how many] on its device.
Tensor flat_nonzero(const Tensor& mask, const Where& where);

}  // namespace rill
