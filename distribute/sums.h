// What ranks' tensors are added up by, in the one order that collectives.h states.
#pragma once
#include <cstdint>

#include "rill/distribute/collectives.h"

namespace rill::distribute {

// out[i] = the sum (or what `reduce` says) over the i-th elements of the n parts, of `count` elements each. `out` may be
// one of them.
void reduce_parts(const char* const* parts, int n, int64_t count, DType dtype, Reduce reduce, char* out);
// The mean of n, of their sum; not of halves, whose sums are rounded.
void divide_sum(char* sum, int64_t count, DType dtype, int n);

}  // namespace rill::distribute
