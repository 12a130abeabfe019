// Backward rules of control flow: the gradient of a node is a node of the same kind.
#pragma once
#include "rill/ops/op.h"
#include "rill/trace/graph.h"

namespace rill {

Tensors vjp_of_branches(const VjpArgs& a);
Tensors vjp_of_while(const VjpArgs& a);
Tensors vjp_of_scan(const VjpArgs& a);

// The graph without what prints or asserts, here and in its inner graphs: a backward walk repeats values, not effects.
// `g` assigns nothing.
Graph without_effects(const Graph& g);

}  // namespace rill
