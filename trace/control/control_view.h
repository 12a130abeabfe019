// Control flow for viewers: a graph in which the inner graphs are expanded next to the node that holds them.
#pragma once
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

struct SpreadGraph {
  // The nodes of inner graphs come before the node that runs them, in a scope below its own: "layer/cond_3/then". An
  // inner input has the matching operand as its input, and the node has the inner results as further inputs. For
  // display only; it cannot be run.
  Graph graph;
  std::vector<int32_t> after;  // for each node: the previous node of the same graph that has an effect, or -1
};
SpreadGraph spread_out(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
