// Appends and prints nodes; see ../graph.h. graph_text.h has the text that reads back.
#include "rill/trace/graph.h"

#include <fmt/format.h>

#include "rill/ops/apply.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/text.h"
#include "rill/trace/graph/spec_text.h"

namespace rill {

std::string_view Node::op_name() const {
  return kind == Kind::op ? op->name : kind == Kind::input ? "input" : "constant";
}

std::vector<std::pair<std::string, const Graph*>> inner_graphs(const Node& n) {
  if (n.kind != Node::Kind::op || !n.op->graphs) return {};
  return n.op->graphs(n.attrs);
}

bool has_effect(const Node& n) {
  if (n.kind != Node::Kind::op || !n.op->call || n.op->marker) return false;
  if (n.op->effect) return true;
  for (const auto& [role, inner] : inner_graphs(n))
    for (const Node& m : inner->nodes())
      if (has_effect(m)) return true;
  return false;
}

std::vector<int32_t> control_dependencies(const Graph& g) {
  std::vector<int32_t> before(g.nodes().size(), -1);
  int32_t latest = -1;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (!has_effect(g.nodes()[i])) continue;
    before[i] = latest;
    latest = int32_t(i);
  }
  return before;
}

int32_t Graph::append(Node node) {
  for (ValueId v : node.inputs)
    if (v.node < 0 || size_t(v.node) >= nodes_.size() || size_t(v.index) >= nodes_[size_t(v.node)].outputs.size())
      fail("Graph.append",
           fmt::format("node '{}' takes value %{}.{}, which no earlier node gives", node.op_name(), v.node, v.index));
  nodes_.push_back(std::move(node));
  return int32_t(nodes_.size()) - 1;
}

namespace {
std::string print_value(const Graph& g, ValueId v) {
  return g.nodes()[size_t(v.node)].outputs.size() == 1 ? fmt::format("%{}", v.node)
                                                       : fmt::format("%{}.{}", v.node, v.index);
}

std::string print_node(const Graph& g, size_t i, int32_t after) {
  const Node& n = g.nodes()[i];
  std::string line = fmt::format("%{} = {}(", i, n.op_name());
  for (size_t k = 0; k < n.inputs.size(); ++k) line += (k ? ", " : "") + print_value(g, n.inputs[k]);
  if (n.kind == Node::Kind::input) line += one_line(n.name);
  if (n.kind == Node::Kind::constant && n.constant.size() == 1 && n.constant.dtype() != DType::string) {
    EagerScope eager;
    line += to_string(n.constant);
  }
  line += ")";
  if (std::string a = with_open_sizes(n.attrs); !a.empty()) line += " {" + a + "}";
  if (after >= 0) line += fmt::format(" after %{}", after);
  line += " :";
  for (const Spec& s : n.outputs) line += " " + to_string(s);
  if (!n.scope.empty()) line += "  " + one_line(n.scope);
  if (!n.where.empty()) line += "  " + one_line(n.where);
  return line + "\n";
}

std::string print_graph(const Graph& g, const std::string& indent) {
  std::string text;
  std::vector<int32_t> after = control_dependencies(g);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    text += indent + print_node(g, i, after[i]);
    for (const auto& [role, inner] : inner_graphs(g.nodes()[i]))
      text += fmt::format("{}  {}:\n{}", indent, role, print_graph(*inner, indent + "    "));
  }
  text += indent + "return";
  for (size_t i = 0; i < g.outputs.size(); ++i) text += (i ? ", " : " ") + print_value(g, g.outputs[i]);
  for (const GraphAssign& a : g.assigns)
    text += fmt::format("\n{}{} <- {}", indent, one_line(a.variable->name), print_value(g, a.value));
  return text + "\n";
}
}  // namespace

std::string to_string(const Graph& g) { return one_line(g.name) + ":\n" + print_graph(g, "  "); }

}  // namespace rill
