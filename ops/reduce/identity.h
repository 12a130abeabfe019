// What reductions begin with.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill::detail {

// What a maximum (or minimum) over nothing is, as a scalar: the least (the largest) number of `d`, infinite where it
// can be.
[[gnu::visibility("default")]] Tensor identity_of_extreme(DType d, bool of_max);

}  // namespace rill::detail
