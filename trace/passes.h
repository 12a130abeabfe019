// The passes between a traced graph and its executable. A pass is `Graph pass(const Graph&)`; `pipeline` is the whole
// list, in order. Inputs, outputs and assignments keep their number and order through every pass.
#pragma once
#include <span>
#include <string_view>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

struct Pass {
  std::string_view name;
  Graph (*run)(const Graph&);
};

// Drops nodes that no output and no assignment depends on; graph inputs stay.
Graph eliminate_dead_code(const Graph& g);
// Replaces marker nodes, which matter to tapes only, by their first operand.
Graph drop_markers(const Graph& g);
// Evaluates nodes that depend on constants only and whose results have at most 1 MiB.
Graph fold_constants(const Graph& g);
// Merges equal expressions (same op, attributes and operands).
Graph share_common_subexpressions(const Graph& g);
// Computes the values of recompute()'s regions again where the backward part reads them, and drops the names of values.
Graph rematerialize(const Graph& g);
// The same of a graph that is not optimized, names stay: `values`, and the node at which a part of the graph begins,
// are renumbered.
Graph compute_again(Graph g, std::span<ValueId* const> values, int32_t* boundary);
// Makes operands dense by an explicit copy where a view op cannot alias their layout, so that the memory plan sees it.
Graph insert_copies(const Graph& g);

// Folding and merging for a graph with open sizes, which are named by the numbers of nodes: these stay as they are, and
// a node that nothing reads any more stays in the list.
Graph fold_in_place(const Graph& g);

std::span<const Pass> pipeline();
// optimize() of graph.h runs all of them; debug builds verify each result.
// The passes after those, for the compiled tier: fusion, with each kernel compiled. Throws where there is no compiler.
Graph compile_graph(const Graph& g);
// Throws rill::Error where a node takes a later value, or where infer disagrees with its recorded outputs.
void verify(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
