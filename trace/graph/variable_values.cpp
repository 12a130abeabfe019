// See variable_values.h.
#include "rill/trace/graph/variable_values.h"

#include <fmt/format.h>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/state/variable_lock.h"
#include "rill/trace/graph/variable_names.h"

namespace rill {

VariableValues::VariableValues(std::string_view op, std::span<const Graph* const> graphs, const NamedVariables& paths,
                               const Where& where) {
  const EnclosingTrace* trace = EnclosingTrace::now();
  std::vector<VariableState*> states;
  const auto add = [&](const Shared<VariableState>& v) {
    if (trace && trace->assigns(*v))
      fail(op,
           fmt::format("the function that is traced here has assigned the Variable '{}', whose value is known when the "
                       "function is called. do this outside of it",
                       v->name),
           where);
    if (values_.try_emplace(v.get()).second) states.push_back(v.get());
  };
  const auto add_graph = [&](const auto& self, const Graph& g) -> void {
    for (const GraphInput& in : g.inputs)
      if (in.kind == GraphInput::Kind::variable) add(in.variable);
    for (const GraphAssign& a : g.assigns) add(a.variable);
    for (const Node& n : g.nodes())  // a gradient rule may read Variables, and draw, by itself
      for (const auto& [role, inner] : inner_graphs(n)) self(self, *inner);
  };
  for (const Graph* g : graphs) add_graph(add_graph, *g);
  for (auto& [state, name] : unique_names(states, paths))
    if (const auto at = values_.find(const_cast<VariableState*>(state)); at != values_.end()) at->second.name = name;
  const LockVariables lock(std::move(states));
  for (auto& [state, held] : values_) held.value = state->value;
}

}  // namespace rill
