// The nodes that control flow is traced into: their records and attributes. Each has a file, which says what its
// operands are, how it runs, is checked, batched and differentiated: choice_nodes.cpp, while_node.cpp, scan_node.cpp,
// custom_gradient.cpp. What walks over graphs ask of them is said in ../graph/control_node.h.
//
// A node's attributes hold graphs, whose inputs are the node's operands in order. What a graph reads from outside is an
// operand; Variables that it assigns are operands and outputs. choices.cpp and loops.cpp make them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/trace/graph/control_node.h"

#pragma GCC visibility push(default)

namespace rill {

// cond, switch_case. Operands: which, then each graph's inputs. One graph a branch; outputs are the branch's.
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

// while_loop. Operands: go on?, carried, constants. Graph: (carried, constants) -> (go on?, carried). Outputs: carried;
// where it `saves`, the number of steps and, stacked, carried before each step.
struct WhileAttrs : HeldGraphs {
  int carried = 0;     // how many operands
  Dim length = -1;     // at most so many steps; -1: without end
  bool saves = false;  // keeps what a gradient needs: carried before each step
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

// scan. Operands: [steps if counted], carried, xs, constants. Graph: (carried, x, constants) -> (carried, y). Outputs:
// carried, ys; where it `saves`, stacked, carried before each step; the last ys are then what keeping_values() adds.
struct ScanAttrs : HeldGraphs {
  int carried = 0, scanned = 0;  // how many operands are carried and scanned over
  Dim length = -1;               // rows
  bool reverse = false;          // from the last row to the first
  bool counted = false;          // only the first `steps` rows, a number known at run time; other rows of ys are 0
  bool saves = false;            // keeps what a gradient needs: carried before each step
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

// custom_gradient. Operands: the value, the arguments, what the rule reads. Graphs: (cotangent, what it reads) ->
// cotangents of the arguments that `gives` names; and, where the user gave a rule for tangents, (tangents of the
// arguments, what it reads) -> tangent. Output: the value.
struct RuleAttrs : HeldGraphs {
  int arguments = 0;  // how many operands
  Dims gives = {};    // which argument each result of the first graph belongs to
  std::string fault;  // why there is no graph, for who asks for a gradient
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

// A row of what a scan goes over, and `n` such rows stacked.
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

// Applies a control-flow node to operands, in the form that keeps what a gradient needs where a tape watches one of
// them; its further outputs come last.
Tensors apply_control(const Op& op, Operands in, AttrsView attrs, const Where& where);
Tensors apply_control(const Op& op, std::span<const Tensor> in, AttrsView attrs, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
