// A unique name for every node, by which viewers show it and Graph::value finds it, and texts for viewers.
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
      id;  // unique in the graph: "layer1/dense/matmul_1". Only letters, digits and _ . - /, as TensorFlow requires
};

struct GraphNames {
  std::vector<NodeName> nodes;              // one for each node
  std::vector<NodeName> outputs;            // one for each output of the graph
  std::vector<NodeName> assigns;            // one for each variable that the graph assigns
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
