// Epilogues of library kernels: elementwise ops after a matrix product or a convolution (a bias, a residual, a scaled
// gradient subtracted from a weight, an activation) become part of the kernel that computes the product, while the
// product is still in cache. Only where that gives the same bits as running the ops one by one.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The record of such nodes. Operands: the product's two, then one for each step that has one.
extern const Op epilogue_op;

// A chain is taken up as long as nobody else reads what is between. f32 on the CPU; others stay as they are.
Graph fuse_epilogues(const Graph& g);

// Whether the result may be written over operand v: one that is added to it, or that it is taken from.
bool epilogue_may_overwrite(const Node& n, ValueId v);

// The product in such a node, as a node of its own.
Node epilogue_product(const Node& n);
// "matmul, add, relu" of such a node.
std::string epilogue_ops(const Node& n);

}  // namespace rill

#pragma GCC visibility pop
