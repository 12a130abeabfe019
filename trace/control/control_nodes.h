// The nodes that control flow is traced into: their records and attributes. Each node has a file that says what its
// operands are and how it runs, is checked, batched and differentiated: choice_nodes.cpp, while_node.cpp,
// scan_node.cpp, custom_gradient.cpp. ../graph/control_node.h is the interface that passes over graphs use.
//
// A node's attributes hold graphs, whose inputs are the node's operands in order. Tensors that a graph reads from
// outside are operands too; Variables that it assigns are operands and outputs. choices.cpp and loops.cpp make the
// nodes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/trace/graph/control_node.h"

#pragma GCC visibility push(default)

namespace rill {

// cond, switch_case. Operands: the branch index (or condition), then the inputs of each graph. One graph per branch;
// the outputs are those of the branch that ran.
struct ChoiceAttrs : HeldGraphs {
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
  }
  template <class S, class V>
  static void stored(S& s, V&& v) {
    v("place", s.place);
  }
};

// while_loop. Operands: condition, carried, constants. Graph: (carried, constants) -> (condition, carried). Outputs:
// carried; with `saves` also the number of steps and the carried values before each step, stacked.
struct WhileAttrs : HeldGraphs {
  int carried = 0;     // number of carried operands
  Dim length = -1;     // upper bound of steps; -1: unbounded
  bool saves = false;  // keeps what a gradient needs: the carried values before each step
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
    if (s.length.hint() >= 0) v("length", s.length);
    if (s.saves) v("saves", s.saves);
  }
  template <class S, class V>
  static void stored(S& s, V&& v) {
    v("carried", s.carried), v("length", s.length), v("saves", s.saves), v("place", s.place);
  }
};

// scan. Operands: [number of steps if `counted`], carried, xs, constants. Graph: (carried, x, constants) -> (carried,
// y). Outputs: carried, ys; with `saves` also the carried values before each step, stacked; the last ys are then those
// that keeping_values() has added.
struct ScanAttrs : HeldGraphs {
  int carried = 0, scanned = 0;  // number of carried operands, and of those scanned over
  Dim length = -1;               // number of rows
  bool reverse = false;          // from the last row to the first
  bool counted = false;          // the number of rows is operand 0, known at run time; the other rows of ys are 0
  bool saves = false;            // keeps what a gradient needs: the carried values before each step
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
    if (s.length.hint() >= 0) v("length", s.length);
    if (s.reverse) v("reverse", s.reverse);
    if (s.counted) v("counted", s.counted);
    if (s.saves) v("saves", s.saves);
  }
  template <class S, class V>
  static void stored(S& s, V&& v) {
    v("carried", s.carried), v("scanned", s.scanned), v("length", s.length), v("reverse", s.reverse);
    v("counted", s.counted), v("saves", s.saves), v("place", s.place);
  }
};

// custom_gradient. Operands: the value, the arguments, and the tensors that the rule reads. Graphs: (cotangent, tensors
// read) -> cotangents of the arguments listed in `gives`; and, where the user gave a rule for tangents, (tangents of
// the arguments, tensors read) -> tangent. Output: the value.
struct RuleAttrs : HeldGraphs {
  int arguments = 0;  // number of argument operands
  Dims gives = {};    // the argument that each result of the first graph belongs to
  std::string fault;  // if there is no graph, the error of a call that asks for a gradient
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
  }
  template <class S, class V>
  static void stored(S& s, V&& v) {
    v("carried", s.arguments), v("place", s.place), v("gives", s.gives), v("fault", s.fault);
  }
};

extern const Op cond_op, switch_case_op, while_loop_op, scan_op, custom_gradient_op;

// The spec of one row of a stacked value, and of `n` rows stacked.
Spec row_spec(Spec stacked);
Spec stacked_spec(Spec row, Dim n);

// "step/body": the name of a graph inside the one that is being traced.
std::string inner_name(const std::string& role);

// For OpSpec::graphs and OpSpec::infer of a record with attributes A.
template <class A>
std::vector<std::pair<std::string, const Graph*>> graphs_in(AttrsView attrs) {
  std::vector<std::pair<std::string, const Graph*>> all;
  for (const auto& g : attrs.as<A>().graphs) all.emplace_back(g->role, &g->graph);
  return all;
}
template <class A>
OutSpecs infer_recorded(const InferArgs& args) {
  const std::vector<Spec>& outputs = args.attrs.as<A>().outputs;
  return OutSpecs(outputs.begin(), outputs.end());
}
// What the records of control flow have in common.
template <class A>
OpSpec control_flow(std::string_view name, std::string_view doc, Tensors (*call)(Operands, AttrsView), Vjp vjp,
                    Batch batch, std::string_view tensorflow) {
  return {.name = name,
          .doc = doc,
          .dtypes = every_set,
          .inputs = -1,
          .infer = infer_recorded<A>,
          .vjp = vjp,
          .saves_in = save_all,
          .saves_out = save_all,
          .batch = batch,
          .call = call,
          .graphs = graphs_in<A>,
          .exported = {"", tensorflow}};
}

// Applies a control-flow node. If a tape watches an operand, the node is changed to save what its gradient needs; the
// saved values are further outputs at the end.
Tensors apply_control(const Op& op, Operands in, AttrsView attrs, const Where& where);
Tensors apply_control(const Op& op, std::span<const Tensor> in, AttrsView attrs, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
