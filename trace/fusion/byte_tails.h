// Products and convolutions of bytes run the fused kernel that reads them on their sums while these are in the cache:
// scales, biases, activations, residuals and the rounding back to bytes. Bits are the same; the sums never lie in memory.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The record of such nodes. Operands: the product's four, then the fused kernel's others.
extern const Op byte_tail_op;

// After fuse(): where nobody else reads the product.
Graph join_byte_tails(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
