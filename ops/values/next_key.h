// The key of a draw from the process's generator, for who keeps it to draw the same again.
#pragma once
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::random {

// u64[2], {seed, draw}: a key that no other draw has, on whichever thread.
Tensor next_key();

}  // namespace rill::random

#pragma GCC visibility pop
