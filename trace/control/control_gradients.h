// Backward rules of control flow: the gradient of a node is a node of the same kind.
#pragma once
#include <string>

#include "rill/ops/op.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

Tensors vjp_of_branches(const VjpArgs& a);
Tensors vjp_of_while(const VjpArgs& a);
Tensors vjp_of_scan(const VjpArgs& a);

// Throws, or, in a trace of a gradient that may never be asked for, appends what throws when it runs.
void refuse_gradient(const std::string& message);

// The graph without what prints or asserts, here and in its inner graphs: a backward walk repeats values, not effects.
Graph without_effects(const Graph& g);
// The same for the graphs inside one node.
void drop_effects(Node& n);

}  // namespace rill

#pragma GCC visibility pop
