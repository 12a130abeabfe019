// Inner graphs spread out next to their nodes; see control_view.h. Start at Spreader::run.
#include "rill/trace/control/control_view.h"

#include <fmt/format.h>

#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {
namespace {

class Spreader {
 public:
  explicit Spreader(const Graph& g) : from_(g) {}

  SpreadGraph run() {
    const std::vector<int32_t> now = add(from_, "", "", {});
    all_.graph = rebuilt(from_, std::move(all_.graph), Numbers::changed,
                         [&](ValueId v) { return ValueId{now[size_t(v.node)], v.index}; });
    return std::move(all_);
  }

 private:
  // Appends the nodes of `g`, whose scopes begin with `outer`, below `scope`. `operands` are values for its inputs,
  // with node -1 for an input without one. Returns the new index of each node.
  std::vector<int32_t> add(const Graph& g, const std::string& outer, const std::string& scope,
                           const std::vector<ValueId>& operands) {
    std::vector<int32_t> now, after = control_dependencies(g);
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      Node n = g.nodes()[i];
      for (ValueId& v : n.inputs) v.node = now[size_t(v.node)];
      for (size_t k = 0; k < operands.size(); ++k)
        if (g.inputs[k].node == int32_t(i) && operands[k].node >= 0) n.inputs = {operands[k]};
      if (!scope.empty()) {
        std::string own = n.scope.starts_with(outer) ? n.scope.substr(outer.size()) : n.scope;
        n.scope = fmt::format("{}{}{}", scope, own.empty() || own[0] == '/' ? "" : "/", own);
      }
      add_inner(n, g.nodes()[i].scope);
      now.push_back(all_.graph.append(std::move(n)));
      all_.after.resize(all_.graph.nodes().size(), -1);
      if (after[i] >= 0) all_.after.back() = now[size_t(after[i])];
    }
    return now;
  }

  void add_inner(Node& n, const std::string& scope_before) {
    if (n.kind != Node::Kind::op || !n.op->graphs) return;
    const HeldGraphs& held = held_by(n);
    const std::string place = fmt::format("{}{}{}_{}", n.scope, n.scope.empty() ? "" : "/", n.op->name, ++count_);
    const std::vector<ValueId> operands = n.inputs;  // before results of inner graphs are added to them
    for (size_t k = 0; k < held.graphs.size(); ++k) {
      const Graph& inner = held.graphs[k]->graph;
      std::vector<ValueId> given;
      for (size_t i = 0; i < inner.inputs.size(); ++i) {
        const int operand = operand_of_input(*n.op, n.attrs, operands.size(), k, i);
        given.push_back(operand < 0 ? ValueId() : operands[size_t(operand)]);
      }
      std::vector<int32_t> now = add(inner, scope_before, place + "/" + held.graphs[k]->role, given);
      for (ValueId v : inner.outputs) n.inputs.push_back({now[size_t(v.node)], v.index});
    }
  }

  const Graph& from_;
  SpreadGraph all_;
  int count_ = 0;
};

}  // namespace

SpreadGraph spread_out(const Graph& g) { return Spreader(g).run(); }

}  // namespace rill
