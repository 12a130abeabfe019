// A graph as text that people read and write, and that reads back: parse_graph(to_text(g)) computes what g does, bit
// for bit.
//
//   const Graph g = f.graph(spec(f32, {2, 3}, "x"));
//   std::cout << to_text(g);
//   const Graph again = parse_graph(to_text(g), graph_variables(g));
//
//   graph "mlp" {
//     %0 = argument 0 "x" : f32[2,3]
//     %1 = variable "dense/w" : f32[3,2]
//     %2 = matmul(%0, %1) {transpose_a=false, ...} : f32[2,2] scope "dense" at "mlp.cpp:12"
//     %3 = captured [0.5, 0.25] : f32[2]
//     %4 = add(%2, %3) : f32[2,2]
//     return %4
//     "steps" <- %4                        # what a Variable is assigned
//   }
//
// Graphs inside nodes stand behind these, in braces; the line "inputs %1, %0" before "return" says in which order their
// nodes' operands are, where that is not the order of the nodes. '?' is an open size. to_string(g) is shorter, and for looking
// only.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// By the names that a text has.
using GraphVariables = std::vector<std::pair<std::string, Variable>>;
using GraphTensors = std::vector<std::pair<std::string, Tensor>>;

struct GraphTextOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Constants and captured tensors of more elements than `largest` go here, by names that the text has ("t0", ...), and
  // to parse_graph() with it. Null: all elements stand in the text.
  GraphTensors* tensors = nullptr;
  int64_t largest = 64;
};
// All that `g` is, as text. Throws rill::Error for ops and attributes that a text cannot name: those that passes make,
// and those of user libraries without ReadableAttrs (read_attrs.h).
std::string to_text(const Graph& g, const GraphTextOptions& options = {}, Where where = Where::current());

// The Variables that `g` reads or assigns, by what to_text() calls them: their names, "w_1" for a second one called
// "w".
GraphVariables graph_variables(const Graph& g);

// The graph that a text says. Variables and large tensors are looked up by name. Throws rill::Error, with line and
// column, where the text is none, where a name is missing, and where a node does not give what the text says of it:
// each is inferred again, but for graphs with open sizes, which are taken as they stand.
Graph parse_graph(std::string_view text, const GraphVariables& variables = {}, const GraphTensors& tensors = {},
                  Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
