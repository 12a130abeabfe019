// The initial values of reductions.
#pragma once
#include "rill/tensor/tensor.h"

namespace rill::detail {

// The maximum (or minimum) of no elements, as a scalar: the least (the largest) number of `d`, infinite if it
// has infinities.
[[gnu::visibility("default")]] Tensor identity_of_extreme(DType d, bool of_max);

}  // namespace rill::detail
