// Products and convolutions of bytes run the fused kernel that reads them on their sums while these are in the cache:
// scales, biases, activations, residuals and the rounding back to bytes. The bits are the same; the sums are never
// stored.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The record of such nodes. Operands: the product's four, then the fused kernel's others.
extern const Op byte_tail_op;

// Runs after fuse(), on products that nothing else reads.
Graph join_byte_tails(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
