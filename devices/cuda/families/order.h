// Sorting, for families that need an order.
#pragma once
#include "rill/devices/cuda/families/families.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Stably sorts the keys, dense u32, whose bits from `bits` on are 0, and the u32 numbers in `order` along with them.
void sort_keys(Tensor& keys, Tensor& order, int bits);

}  // namespace rill::cuda
