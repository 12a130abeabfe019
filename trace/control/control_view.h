// Control flow for viewers: a graph in which the inner graphs are expanded next to the node that holds them.
#pragma once
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

struct SpreadGraph {
  // The nodes of inner graphs stand before the node that runs them, in a scope below its own: "layer/cond_3/then". An
  // inner input has the operand that it stands for as its input, and the node has the inner results as further inputs.
  // It can be looked at, not run.
  Graph graph;
  std::vector<int32_t> after;  // for each node: the one before it that has an effect, in the same graph; else -1
};
SpreadGraph spread_out(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
