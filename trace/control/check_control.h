// Checks that a node fits its graphs, for nodes that are read from files or text. Shared by the checks of all nodes.
#pragma once
#include <span>
#include <string_view>

#include "rill/trace/control/control_nodes.h"

namespace rill {

class ControlCheck {
 public:
  ControlCheck(const Op& op, std::span<const Spec* const> in, const HeldGraphs& held) : in(in), op_(op), held_(held) {}

  void require(bool holds, std::string_view what) const;
  // Whether a value of spec `a` may stand in for one of spec `b`. Weak types, of C++ numbers, do not matter.
  static bool fits(const Spec& a, const Spec& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  }
  static bool is_scalar(const Spec& s, DType dtype) { return s.shape.empty() && s.dtype == dtype; }
  static const Spec& result(const Graph& g, size_t k) { return g.spec(g.outputs[k]); }
  static const Spec& input(const Graph& g, size_t k) { return g.spec({g.inputs[k].node, 0}); }
  const Graph& body() const { return held_.graphs[0]->graph; }

  // There are operands and graphs; the graphs' inputs are arguments in order, and the graphs assign nothing.
  void graphs_of_operands() const;
  // Inputs [from, from + n) of the graph match the operands from index `operand` on.
  void operands(const Graph& g, size_t from, size_t operand, size_t n) const;
  // The node's result `k` has the spec `want`.
  void gives(size_t k, const Spec& want) const;
  // The `n` carried values: the results of `g` from index `first` on, and the node's first results, match the operands
  // from index `operand` on.
  void carried(const Graph& g, size_t first, size_t operand, size_t n) const;
  // If the node `saves`: its results from index `first` on are the carried values before each step, stacked, and no
  // results follow.
  void saved(bool saves, Dim length, size_t first, size_t operand, size_t n) const;

  const std::span<const Spec* const> in;

 private:
  const Op& op_;
  const HeldGraphs& held_;
};

}  // namespace rill
