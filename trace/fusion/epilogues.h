// Epilogues of library kernels: elementwise ops after a matrix product or a convolution (a bias, a residual, a scaled
// gradient subtracted from a weight, an activation) become part of the kernel that computes the product, while the
// product is still in the cache. Only if that gives the same bits as running the ops one by one.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The record of such nodes. Operands: the product's two, then one for each step that has one.
extern const Op epilogue_op;

// A chain is fused as long as nothing else reads its intermediate values. f32 on the CPU only.
Graph fuse_epilogues(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
