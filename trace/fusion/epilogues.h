// Library epilogues: what follows a product of matrices or a convolution element by element (a bias, a residual, a
// scaled gradient taken from a weight, an activation) becomes part of the kernel that makes the product, and is done
// before the product leaves the cache. Only where that gives the same bits as the ops run in turn.
#pragma once
#include "rill/trace/graph.h"

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
