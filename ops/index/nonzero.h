// The indices of a mask's true elements.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill {

// The indices of the true elements of the flattened `mask`, whose values must be known: i64 [count] on its device.
Tensor flat_nonzero(const Tensor& mask, const Where& where);

}  // namespace rill
