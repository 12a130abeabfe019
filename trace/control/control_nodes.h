// The nodes that control flow is traced into, and how they run and are differentiated.
//
// A node's attributes hold graphs, whose inputs are the node's operands in order. What a graph reads from outside is an
// operand; Variables that it assigns are operands and outputs. Start at ControlAttrs; choices.cpp and loops.cpp make
// them.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rill/tensor/fork_mutex.h"
#include "rill/trace/call/graph_call.h"

#pragma GCC visibility push(default)

namespace rill {

// A graph inside a node: all its inputs are arguments and it assigns nothing. Compiled when it first runs.
class InnerGraph {
 public:
  InnerGraph(std::string role, Graph graph);
  std::vector<Tensor> run(std::span<const Tensor> in) const;
  // The same, with `results` as Executable::run takes them.
  void run(std::span<const Tensor> in, std::vector<Tensor>& results) const;
  // The same as the steps of a loop, on inputs that stay what they are from number `first_fixed` on: those of products
  // are packed once the loop has gone on for some steps.
  class Steps {
   public:
    Steps(const InnerGraph& graph, size_t first_fixed) : graph_(graph), first_fixed_(first_fixed) {}
    void run(std::span<const Tensor> in, std::vector<Tensor>& results);

   private:
    const InnerGraph& graph_;
    const size_t first_fixed_;
    int steps_ = 0;
    const Executable* packed_for_ = nullptr;
    Executable::Packs packs_;
  };
  // The graph ready to run: made at the first run, or here.
  const GraphCall& call() const;
  // The same, or null where it has not been made.
  const GraphCall* if_made() const { return made_.load(std::memory_order_acquire); }
  // Another graph that stands for this one, by what it is made for: "tangents 101". Made once: what is made of a graph
  // that holds graphs makes those of them, and where each level asked twice, the innermost would be made 2^depth times.
  struct Variant {
    std::shared_ptr<const InnerGraph> graph;  // null, too, is remembered
    std::vector<char> results = {};           // by result of this graph: what it has become
  };
  Variant variant(const std::string& key, const std::function<Variant()>& make) const;

  const std::string role;  // "then", "body"
  const Graph graph;
  const int64_t number;  // of its own, so that nodes with other graphs never look equal

 private:
  mutable ForkMutex making_;  // guards call_
  mutable std::shared_ptr<GraphCall> call_;
  mutable std::atomic<const GraphCall*> made_{nullptr};
  mutable ForkMutex mutex_;  // guards variants_
  mutable std::map<std::string, Variant> variants_;
};

// A row of what a scan goes over, and `n` such rows stacked.
Spec row_spec(Spec stacked);
Spec stacked_spec(Spec row, Dim n);

// "step/body": the name of a graph inside the one that is being traced.
std::string inner_name(const std::string& role);

// What every control-flow node holds.
//   cond, switch_case  operands: which, then each graph's inputs.  One graph a branch; outputs are the branch's.
//   while_loop         operands: go on?, carried, constants. Graph: (carried, constants) -> (go on?, carried).
//                      Outputs: carried; where `saves`, the number of steps and, stacked, carried before each step.
//   scan               operands: [steps if counted], carried, xs, constants. Graph: (carried, x, constants) ->
//                      (carried, y). Outputs: carried, ys; where `saves`, stacked, carried before each step; the last
//                      ys are then what keeping_values() adds.
//   custom_gradient    operands: the value, the arguments (`carried` of them), what the rule reads. Graph: (cotangent,
//                      what it reads) -> cotangents of the arguments that `gives` names. Output: the value.
struct ControlAttrs {
  std::vector<std::shared_ptr<const InnerGraph>> graphs;
  std::vector<Spec> outputs;
  int carried = 0, scanned = 0;  // how many operands are carried and scanned over
  Dim length = -1;               // scan: rows; while_loop: at most so many steps, -1: without end
  bool reverse = false;          // scan: from the last row to the first
  bool counted = false;         // scan: only the first `steps` rows, a number known at run time; other rows of ys are 0
  bool saves = false;           // keeps what a gradient needs: carried before each step
  std::string place;            // the user's line
  std::vector<int> gives = {};  // custom_gradient: which argument each result of the graph belongs to
  std::string fault = {};       // custom_gradient: why there is no graph, for who asks for a gradient

  // "then#3,else#4".
  std::string names() const;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
    if (s.length >= 0) v("length", s.length);
    if (s.reverse) v("reverse", s.reverse);
    if (s.counted) v("counted", s.counted);
    if (s.saves) v("saves", s.saves);
  }
};

extern const Op cond_op, switch_case_op, while_loop_op, scan_op, custom_gradient_op;

// Which operand of the node input `input` of graph number `graph` is; -1 where it is none: a cotangent, a tangent, a
// Variable that a rule assigns.
int operand_of_input(const Op& op, const ControlAttrs& attrs, size_t graph, size_t input);

// Applies a control-flow node to operands, in the form that keeps what a gradient needs where a tape watches one of
// them; its further outputs come last.
Tensors apply_control(const Op& op, Operands in, ControlAttrs attrs, const Where& where);
Tensors apply_control(const Op& op, std::span<const Tensor> in, ControlAttrs attrs, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
