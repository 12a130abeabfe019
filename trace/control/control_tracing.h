// Shared by choices and loops: checks of the arguments and results of callables, and tracing callables into the graphs
// of one node. Tensors that such a graph reads from outside become operands of the node (Outside). Start at
// trace_inner.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/control_flow.h"

namespace rill::detail {

// --- Values ----------------------------------------------------------------------------------------------------------

// Equal shape, dtype and device.
bool same_spec(const Spec& a, const Spec& b);
// Whether one is an integer and the other a float of the same shape, as n and n / 2 are.
bool integer_and_float(const Spec& a, const Spec& b);
// `pred`, which must be a bool scalar.
Tensor checked_pred(std::string_view op, const Tensor& pred, const Where& where);
// `t` converted to `dtype`, with an assertion at run time that no value changes.
Tensor exactly_as(const Tensor& t, DType dtype, const std::string& what, const char* op, const Where& where);
// The tensors as values that tapes tell apart from the originals. A node's operands and results are such values; the
// eager form makes them too, so that cotangents are added in the same order.
std::vector<Tensor> distinct(std::vector<Tensor> tensors, const Where& where);

// --- Tracing callables into graphs -----------------------------------------------------------------------------------

// Traces `fn` on arguments of these specs, named `argument_name` and a number.
Graph trace_inner(const std::string& role, const std::vector<Spec>& arguments, std::string_view argument_name,
                  const FlatFn& fn);

// An operand of a node, and the input of the inner graphs that it is.
struct Slot {
  GraphInput::Kind kind;
  int argument = -1;
  Shared<VariableState> variable;
  Tensor tensor;  // the operand; for an argument, a tensor of its spec
  std::string name;
  bool assigned = false;
};
using Slots = std::vector<Slot>;

// What the graphs of a node read from outside, each value once, and the Variables that they assign.
struct Outside {
  Slots captured, read_only, assigned;

  explicit Outside(std::span<const Graph> graphs);
  // Assigns `values`, the node's results for the assigned Variables, in the outer trace.
  void assign(std::span<const Tensor> values) const;

 private:
  void add_inputs(const Graph& g);
  Slot& of_variable(const Shared<VariableState>& v);

  Slots variables_;
  std::unordered_map<const VariableState*, size_t> variable_at_;  // in variables_
  std::unordered_set<uint64_t> captured_ids_;
};

inline void append(Slots& slots, const Slots& more) { slots.insert(slots.end(), more.begin(), more.end()); }

// Makes the node's operands the inputs of the graph, in order, and inserts the new values of assigned Variables at
// index `place` of its outputs.
std::shared_ptr<const InnerGraph> close(std::string role, Graph g, const Slots& operands, const Slots& assigned,
                                        size_t place, bool is_step);

// Appends the node to the trace, with the user's line added to its attributes; returns its outputs without those saved
// for a gradient.
std::vector<Tensor> append_node(const Op& op, std::span<const Tensor> first, const Slots& operands, AttrsView attrs,
                                const Where& where);

}  // namespace rill::detail
