// Runs of equal elements, which sorting makes: what unique() and mode() count. In sorting.cpp.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill {

// Which elements along the last axis begin a run: the first, and those that differ from the one before them. NaN does
// not differ from NaN. Bool, of the operand's shape.
Tensor starts_of_runs(const Tensor& x);

}  // namespace rill
