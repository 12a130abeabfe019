// A unique name for every node, by which viewers show it and Graph::value finds it, and how things read in a viewer.
#pragma once
#include <string>
#include <vector>

#include "rill/devices/params/attr_list.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

struct NodeName {
  std::string scope;  // "layer1/dense", or ""
  std::string label;  // "matmul", an input's "x"; not unique
  std::string
      id;  // unique in the graph: "layer1/dense/matmul_1". Letters, digits and _ . - / alone, as TensorFlow asks
};

struct GraphNames {
  std::vector<NodeName> nodes;              // one a node
  std::vector<NodeName> outputs;            // one an output of the graph
  std::vector<NodeName> assigns;            // one a variable that the graph assigns
  std::vector<const GraphInput*> input_of;  // the node's entry in Graph::inputs, or null
};
GraphNames name_graph(const Graph& g);

// "true", "3", "0.5", "same", "f32", "[1,2]".
std::string to_string(const AttrValue& value);
// "argument 0", "variable", "captured tensor".
std::string to_string(const GraphInput& input);
// Whether a constant is small enough to be shown with its elements.
bool is_short(const Tensor& constant);

}  // namespace rill

#pragma GCC visibility pop
