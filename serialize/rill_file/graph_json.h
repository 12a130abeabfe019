// A traced function as JSON, both ways. The fields are documented here, once.
//
// A function:
//   "name"     what it is called by
//   "sizes"    sizes that are open, and numbers that are computed from them. Entry k is written "sK" wherever a number
//              stands: {"symbol": "x.dim(0)"}, a size of an argument; {"op": "add", "a": N, "b": N}; {"place": [trace,
//              node, output, axis]}, a size of a node's output that its op infers. "value" is what it was when traced.
//   "guards"   what must hold of them for the trace to serve: {"test": "less", "a": N, "b": N, "outcome": true,
//              "where": "train.cpp:12"}; with "costs": true it is right where it does not hold, too, and may be slow
//   "regions"  of recompute(): {"products": true, "names": [...]}, what is kept
//   "graphs"   graphs, each before those whose nodes hold it; the last one is the function's
//   "outputs"  the names of its results
// A graph:
//   "name", "trace" (a number that places name), "whole" (the graph as it was traced, where this is a part of it)
//   "nodes", in program order; values are named N or [N, K], output K of node N:
//     "op"        the record's name; or "input", the name of an argument, captured tensor or Variable; or "constant",
//                 a tensor
//     "in"        operands
//     "out"       "f32[s0,8]", one an output
//     "attrs"     by name, as the op's struct lists them
//     "control"   of control flow and gradient rules in place of these: what trace/control/control_nodes.h says is stored of each, its graphs and
//                 what it gives
//     "scope", "where", "function", "region", "backward": of Node, where they are set
//   "inputs"   {"node": N, "argument": K}, or "captured": a tensor, or "variable": a Variable of the file
//   "outputs"  values
//   "assigns"  {"variable": V, "value": value}
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "rill/ops/variable.h"
#include "rill/serialize/rill_file/tensor_table.h"
#include "rill/trace/function.h"
#include "rill/trace/graph/variable_values.h"

namespace rill::rill_file {

// The Variables of a file that is written, each once.
class VariableWriter {
 public:
  VariableWriter(TensorWriter& tensors, const VariableValues& values) : tensors_(tensors), values_(values) {}
  // Stores it as trainable or not, whatever it is in this program.
  void note_trainable(const Variable& v, bool trainable) { trainable_[&v.state()] = trainable; }
  int add(const Shared<VariableState>& v);
  // The list "variables": {"name", "trainable", "frozen", "value": a tensor}.
  const json& list() const { return list_; }

 private:
  TensorWriter& tensors_;
  const VariableValues& values_;
  std::map<const VariableState*, bool> trainable_;
  json list_ = json::array();
  std::vector<Shared<VariableState>> held_;              // those in known_
  std::unordered_map<const VariableState*, int> known_;  // index in the list
};

json write_function(const std::string& name, const FunctionCore::OpenGraph& traced,
                    const std::vector<std::string>& outputs, TensorWriter& tensors, VariableWriter& variables);

// Throws rill::Error if the JSON is not valid. The graph is complete, but not inferred again: GraphFunction::check.
FunctionCore::OpenGraph read_function(const json& function, const TensorReader& tensors,
                                      const std::vector<Variable>& variables);

}  // namespace rill::rill_file
