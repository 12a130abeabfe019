// Whether a node fits its graphs: nodes come from files and texts, and are checked before they run. What all the checks
// of ControlNode share.
#pragma once
#include <span>
#include <string_view>

#include "rill/trace/control/control_nodes.h"

namespace rill {

class ControlCheck {
 public:
  ControlCheck(const Op& op, std::span<const Spec* const> in, const HeldGraphs& held) : in(in), op_(op), held_(held) {}

  void require(bool holds, std::string_view what) const;
  // `a` in place of `b`: what values are, whether or not they came from C++ numbers.
  static bool fits(const Spec& a, const Spec& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  }
  static bool is_scalar(const Spec& s, DType dtype) { return s.shape.empty() && s.dtype == dtype; }
  static const Spec& result(const Graph& g, size_t k) { return g.spec(g.outputs[k]); }
  static const Spec& input(const Graph& g, size_t k) { return g.spec({g.inputs[k].node, 0}); }
  const Graph& body() const { return held_.graphs[0]->graph; }

  // There are operands and graphs, whose inputs are arguments in order and which assign nothing.
  void graphs_of_operands() const;
  // Inputs [from, from + n) of the graph are the operands from `operand` on.
  void operands(const Graph& g, size_t from, size_t operand, size_t n) const;
  // The node's result `k`.
  void gives(size_t k, const Spec& want) const;
  // Results of `g` from number `first` on, and of the node, are the `n` operands from `operand` on: carried values.
  void carried(const Graph& g, size_t first, size_t operand, size_t n) const;
  // The carried values before each step, stacked, as results from number `first` on, and nothing after them.
  void saved(bool saves, Dim length, size_t first, size_t operand, size_t n) const;

  const std::span<const Spec* const> in;

 private:
  const Op& op_;
  const HeldGraphs& held_;
};

}  // namespace rill
