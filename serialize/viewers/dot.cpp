// Graphviz: the graph top to bottom, each name scope a cluster. Start at to_dot.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rill/devices/params/attr_list.h"
#include "rill/serialize/graph_formats.h"
#include "rill/trace/control/control_view.h"
#include "rill/trace/graph/graph_names.h"

namespace rill {
namespace {

// A DOT string: quotes and backslashes are escaped, lines are parted by \n, which Graphviz centres.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else if (c != '\r' && c != '\0') out += c;
  }
  return out + "\"";
}

// The tree of scopes: what to write inside each cluster, in order.
struct Scope {
  std::vector<std::string> lines;
  std::map<std::string, Scope> inner;
};

Scope& descend(Scope& root, std::string_view path) {
  Scope* at = &root;
  while (!path.empty()) {
    size_t end = std::min(path.find('/'), path.size());
    at = &at->inner[std::string(path.substr(0, end))];
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return *at;
}

void write(const Scope& scope, const std::string& indent, int& clusters, std::string& out) {
  for (const std::string& line : scope.lines) out += indent + line + "\n";
  for (const auto& [name, inner] : scope.inner) {
    out += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, clusters++, indent, in_quotes(name));
    write(inner, indent + "  ", clusters, out);
    out += indent + "}\n";
  }
}

const char* colour_of(const Node& node, const GraphInput* input) {
  if (node.kind == Node::Kind::constant) return "#eeeeee";
  if (node.kind == Node::Kind::op) return "#ffffff";
  return input && input->kind == GraphInput::Kind::variable ? "#fff3c4" : "#d6e8ff";
}

std::string line_of(const Node& node, const NodeName& name, const GraphInput* input, size_t index) {
  std::string label = name.label;
  for (const auto& [key, value] : list_of(node.attrs)) label += "\n" + key + "=" + to_string(value);
  if (node.kind == Node::Kind::constant && is_short(node.constant) && node.constant.size() == 1)
    label += "\n" + to_string(node.constant);
  std::string tip = name.id + (input ? "\n" + to_string(*input) : "") + (node.where.empty() ? "" : "\n" + node.where);
  return fmt::format("n{} [label={}, fillcolor=\"{}\", tooltip={}];", index, in_quotes(label), colour_of(node, input),
                     in_quotes(tip));
}

std::string edge(const Graph& g, ValueId from, const std::string& to) {
  return fmt::format("  n{} -> {} [label={}];\n", from.node, to, in_quotes(to_string(g.spec(from))));
}

}  // namespace

std::string to_dot(const Graph& traced) {
  const SpreadGraph spread = spread_out(traced);
  const Graph& g = spread.graph;
  GraphNames names = name_graph(g);
  Scope root;
  for (size_t i = 0; i < g.nodes().size(); ++i)
    descend(root, names.nodes[i].scope).lines.push_back(line_of(g.nodes()[i], names.nodes[i], names.input_of[i], i));
  for (size_t i = 0; i < g.outputs.size(); ++i)
    root.lines.push_back(fmt::format("out{} [label={}, fillcolor=\"#d9f2d9\"];", i, in_quotes(names.outputs[i].label)));
  for (size_t i = 0; i < g.assigns.size(); ++i)
    descend(root, names.assigns[i].scope)
        .lines.push_back(
            fmt::format("assign{} [label={}, fillcolor=\"#fff3c4\"];", i, in_quotes(names.assigns[i].label)));

  std::string out = fmt::format("digraph {} {{\n", in_quotes(g.name.empty() ? "graph" : g.name));
  out += "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];\n";
  out += "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#666666\"];\n";
  out += "  graph [fontname=\"Helvetica\", fontsize=11, style=rounded, color=\"#999999\"];\n";
  int clusters = 0;
  write(root, "  ", clusters, out);
  for (size_t i = 0; i < g.nodes().size(); ++i)
    for (const ValueId& input : g.nodes()[i].inputs) out += edge(g, input, fmt::format("n{}", i));
  for (size_t i = 0; i < spread.after.size(); ++i)
    if (spread.after[i] >= 0) out += fmt::format("  n{} -> n{} [style=dashed];\n", spread.after[i], i);
  for (size_t i = 0; i < g.outputs.size(); ++i) out += edge(g, g.outputs[i], fmt::format("out{}", i));
  for (size_t i = 0; i < g.assigns.size(); ++i) out += edge(g, g.assigns[i].value, fmt::format("assign{}", i));
  return out + "}\n";
}

}  // namespace rill
