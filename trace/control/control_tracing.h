// What choices and loops share: checks of the values that callables take and give, and tracing callables into the
// graphs of one node. Tensors that such a graph reads from outside become operands of the node (Outside). Start at
// trace_inner.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/control_flow.h"

namespace rill::detail {

// --- Values ----------------------------------------------------------------------------------------------------------

bool alike(const Spec& a, const Spec& b);
// Whether one is an integer and the other a float, of the same shape: n / 2 for an integer n.
bool whole_and_float(const Spec& a, const Spec& b);
// `pred`, which must be a bool scalar.
Tensor checked_pred(std::string_view op, const Tensor& pred, const Where& where);
// `t` as `dtype`; an error at run time where that changes a value.
Tensor exactly_as(const Tensor& t, DType dtype, const std::string& what, const char* op, const Where& where);
// What goes into a loop's step and comes out of a choice or a step, as tensors of their own to the tapes, as they are
// where this is a node: cotangents are then added in the same order.
std::vector<Tensor> apart(std::vector<Tensor> tensors, const Where& where);

// --- Tracing callables into graphs -----------------------------------------------------------------------------------

// The graph of `fn` on arguments of these specs, which are named after `argument_name`.
Graph trace_inner(const std::string& role, const std::vector<Spec>& arguments, std::string_view argument_name,
                  const FlatFn& fn);

// An operand of a node, and which input of an inner graph it is.
struct Slot {
  GraphInput::Kind kind;
  int argument = -1;
  Shared<VariableState> variable;
  Tensor tensor;  // the operand; for an argument, what has its spec
  std::string name;
  bool assigned = false;
};
using Slots = std::vector<Slot>;

// The values that the graphs of a node read from outside, each once, and the Variables that they assign.
struct Outside {
  Slots captured, read_only, assigned;

  explicit Outside(std::span<const Graph> graphs);
  // Gives the outer trace the values that the node has for the Variables.
  void assign(std::span<const Tensor> values) const;

 private:
  void add_inputs(const Graph& g);
  Slot& of_variable(const Shared<VariableState>& v);

  Slots variables_;
  std::unordered_map<const VariableState*, size_t> variable_at_;  // in variables_
  std::unordered_set<uint64_t> captured_ids_;
};

inline void append(Slots& slots, const Slots& more) { slots.insert(slots.end(), more.begin(), more.end()); }

// The graph with the node's operands as its inputs, in order, and the values that Variables get as outputs, put in at
// `place` among its own.
std::shared_ptr<const InnerGraph> close(std::string role, Graph g, const Slots& operands, const Slots& assigned,
                                        size_t place, bool is_step);

// Appends the node to the trace; returns its outputs without those that are kept for a gradient. The attributes lack the
// user's line.
std::vector<Tensor> append_node(const Op& op, std::span<const Tensor> first, const Slots& operands, AttrsView attrs,
                                const Where& where);

}  // namespace rill::detail
