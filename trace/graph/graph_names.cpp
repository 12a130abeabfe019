// Names of nodes; see graph_names.h.
#include "rill/trace/graph/graph_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/params/attr_list.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph/unique_names.h"

namespace rill {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// The parts between slashes, without empty ones.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    size_t end = std::min(path.find('/'), path.size());
    if (end) parts.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "/")); }

// TensorFlow's rule for the name of a node: [A-Za-z0-9.][A-Za-z0-9_.\-/]*
std::string legal(std::string text) {
  for (char& c : text)
    if (!is_letter_or_digit(c) && c != '_' && c != '.' && c != '-' && c != '/') c = '_';
  return is_letter_or_digit(text[0]) || text[0] == '.' ? text : "." + text;
}

class Namer {
 public:
  NodeName operator()(const std::string& scope, const std::string& name) {
    std::vector<std::string> parts = parts_of(scope + "/" + name);
    std::string label = parts.empty() ? "node" : parts.back();
    if (!parts.empty()) parts.pop_back();
    NodeName n{join(parts), label, ""};
    n.id = ids_.add(legal(n.scope.empty() ? label : n.scope + "/" + label));
    return n;
  }

 private:
  UniqueNames ids_;
};

std::string name_of(const Node& node, const GraphInput* input) {
  if (node.kind != Node::Kind::input || !node.name.empty())
    return node.name.empty() ? std::string(node.op_name()) : node.name;
  if (!input) return "input";
  if (input->kind == GraphInput::Kind::variable && input->variable) return input->variable->name;
  return input->kind == GraphInput::Kind::captured ? "captured" : "input";
}

}  // namespace

GraphNames name_graph(const Graph& g) {
  GraphNames names;
  Namer unique;
  names.input_of.resize(g.nodes().size());
  for (const GraphInput& input : g.inputs)
    if (input.node >= 0 && size_t(input.node) < names.input_of.size()) names.input_of[size_t(input.node)] = &input;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& node = g.nodes()[i];
    // An input's name is a complete path; the scope in which it was first read is irrelevant. Inputs of a
    // graph inside a node have an operand.
    const bool own_path = node.kind == Node::Kind::input && node.inputs.empty();
    names.nodes.push_back(unique(own_path ? "" : node.scope, name_of(node, names.input_of[i])));
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) names.outputs.push_back(unique("", "output"));
  for (const GraphAssign& a : g.assigns) {
    std::string variable = a.variable ? a.variable->name : "variable";
    size_t leaf = variable.rfind('/') + 1;  // 0 without a slash
    names.assigns.push_back(unique(variable.substr(0, leaf), "assign " + variable.substr(leaf)));
  }
  return names;
}

std::string to_string(const AttrValue& value) {
  struct Text {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return s; }
    std::string operator()(DType d) const { return std::string(name(d)); }
    std::string operator()(const Dims& d) const {
      return fmt::format("[{}]", fmt::join(d, ","));
    }  // a Shape would print -1 as ?
  };
  return std::visit(Text(), value);
}

std::string to_string(const GraphInput& input) {
  switch (input.kind) {
    case GraphInput::Kind::argument: return "argument " + std::to_string(input.argument);
    case GraphInput::Kind::captured: return "captured tensor";
    case GraphInput::Kind::variable: break;
  }
  return "variable";
}

bool is_short(const Tensor& constant) { return constant.defined() && !constant.is_symbolic() && constant.size() <= 64; }

}  // namespace rill
