// See check_control.h.
#include "rill/trace/control/check_control.h"

#include <fmt/format.h>

namespace rill {

void ControlCheck::require(bool holds, std::string_view what) const {
  if (!holds) fail(op_.name, fmt::format("the node and its graphs disagree about {}", what), Where());
}

void ControlCheck::graphs_of_operands() const {
  require(!in.empty() && !held_.graphs.empty(), "operands and graphs");
  for (const auto& inner : held_.graphs) {
    const Graph& g = inner->graph;
    for (size_t k = 0; k < g.inputs.size(); ++k)
      require(g.inputs[k].kind == GraphInput::Kind::argument && g.inputs[k].argument == int(k), "arguments");
    require(g.assigns.empty(), "assigned variables");
  }
}

void ControlCheck::operands(const Graph& g, size_t from, size_t operand, size_t n) const {
  require(from + n <= g.inputs.size() && operand + n <= in.size(), "the number of operands");
  for (size_t k = 0; k < n; ++k)
    require(fits(input(g, from + k), *in[operand + k]), fmt::format("operand {}", operand + k));
}

void ControlCheck::gives(size_t k, const Spec& want) const {
  require(k < held_.outputs.size() && fits(held_.outputs[k], want), fmt::format("result {}", k));
}

void ControlCheck::carried(const Graph& g, size_t first, size_t operand, size_t n) const {
  for (size_t k = 0; k < n; ++k) {
    require(fits(result(g, first + k), *in[operand + k]), fmt::format("carried value {}", k));
    gives(k, *in[operand + k]);
  }
}

void ControlCheck::saved(bool saves, Dim length, size_t first, size_t operand, size_t n) const {
  require(held_.outputs.size() == first + (saves ? n : 0), "the number of results");
  require(!saves || length >= 0, "the number of steps");
  for (size_t k = 0; saves && k < n; ++k) gives(first + k, stacked_spec(*in[operand + k], length));
}

}  // namespace rill
