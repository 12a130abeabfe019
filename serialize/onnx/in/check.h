// Checks before a model is run: that names exist, that functions do not call themselves, that each operator is known;
// and finds the uses of each name.
#pragma once
#include <set>
#include <string>

#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/tensors.h"

namespace rill::onnx_import {

struct Names {
  std::set<std::string> fixed;       // whose elements a rule has to know: never Variables
  std::set<std::string> statistics;  // Variables that no optimizer changes
};
// Throws one error that lists every missing operator with its nodes.
Names check(const Program& program, const Source& source);

// Calls f(tensor, name, is_initializer) for every tensor of the file: initializers and attributes, also in inner graphs
// and functions. `name` is that of an initializer or of a graph's Constant, by which nodes refer to it; others have
// none.
template <class F>
void each_tensor(const onnx::GraphProto& graph, F&& f);
template <class Nodes, class F>
void each_tensor_of_nodes(const Nodes& nodes, F&& f, bool named = false) {
  for (const onnx::NodeProto& node : nodes)
    for (const onnx::AttributeProto& a : node.attribute()) {
      const bool constant = named && node.op_type() == "Constant" && a.name() == "value" && node.output_size() == 1;
      if (a.has_t()) f(a.t(), constant ? node.output(0) : std::string(), false);
      for (const onnx::TensorProto& t : a.tensors()) f(t, std::string(), false);
      if (a.has_g()) each_tensor(a.g(), f);
      for (const onnx::GraphProto& g : a.graphs()) each_tensor(g, f);
    }
}
template <class F>
void each_tensor(const onnx::GraphProto& graph, F&& f) {
  for (const onnx::TensorProto& t : graph.initializer()) f(t, t.name(), true);
  each_tensor_of_nodes(graph.node(), f, true);
}

// The same for sparse tensors.
template <class F>
void each_sparse_tensor(const onnx::GraphProto& graph, F&& f);
template <class Nodes, class F>
void each_sparse_tensor_of_nodes(const Nodes& nodes, F&& f) {
  for (const onnx::NodeProto& node : nodes)
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.has_sparse_tensor()) f(a.sparse_tensor());
      if (a.has_g()) each_sparse_tensor(a.g(), f);
      for (const onnx::GraphProto& g : a.graphs()) each_sparse_tensor(g, f);
    }
}
template <class F>
void each_sparse_tensor(const onnx::GraphProto& graph, F&& f) {
  for (const onnx::SparseTensorProto& t : graph.sparse_initializer()) f(t);
  each_sparse_tensor_of_nodes(graph.node(), f);
}

}  // namespace rill::onnx_import
