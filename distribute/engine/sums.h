// Adds up ranks' tensors, in the one order that collectives.h states.
#pragma once
#include <cstdint>

#include "rill/distribute/collectives.h"

namespace rill::distribute {

// out[i] = the sum (or what `reduce` says) over the i-th elements of the n parts, of `count` elements each. `out` may
// be one of them.
void reduce_parts(const char* const* parts, int n, int64_t count, DType dtype, Reduce reduce, char* out);
// The mean of n, from their sum; not for halves, whose sums are rounded.
void divide_sum(char* sum, int64_t count, DType dtype, int n);

}  // namespace rill::distribute
