// A graph as text that reads back; see ../graph_text.h. Start at Writer::graph.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "rill/autodiff/recompute_policy.h"
#include "rill/devices/params/attr_list.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/stored_ops.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/graph_text_parts.h"
#include "rill/trace/graph/spec_text.h"
#include "rill/trace/graph/unique_names.h"
#include "rill/trace/graph_text.h"

namespace rill {
namespace {

using graph_text::in_quotes;

// The Variables of a graph and of those inside it, in the order of their first use, each with a unique name.
class VariableNames {
 public:
  explicit VariableNames(const Graph& g) { add(g); }
  const std::vector<std::pair<std::string, Shared<VariableState>>>& all() const { return all_; }
  const std::string& of(const Shared<VariableState>& v) const { return all_[number_of_.at(v.get())].first; }

 private:
  void add(const Graph& g) {
    for (const GraphInput& in : g.inputs)
      if (in.kind == GraphInput::Kind::variable) add(in.variable);
    for (const GraphAssign& a : g.assigns) add(a.variable);
    for (const Node& n : g.nodes())
      for (const auto& [role, inner] : inner_graphs(n)) add(*inner);
  }
  void add(const Shared<VariableState>& v) {
    if (!number_of_.emplace(v.get(), all_.size()).second) return;
    all_.emplace_back(names_.add(v->name), v);
  }

  std::vector<std::pair<std::string, Shared<VariableState>>> all_;
  std::unordered_map<const VariableState*, size_t> number_of_;
  UniqueNames names_;
};

std::string dim_text(Dim) { return "?"; }  // expressions of open sizes are also written so
std::string spec_of(const Spec& s) {
  std::string text = spec_text(s, dim_text);
  for (size_t at = 0; (at = text.find("-1", at)) != text.npos;) text.replace(at, 2, "?");  // open_size
  return text;
}

class Writer {
 public:
  Writer(const Graph& g, const GraphTextOptions& options, const Where& where)
      : options_(options), where_(where), variables_(g) {}

  std::string run(const Graph& g) {
    const std::string text = graph(g, "") + "\n";
    return regions_text_ + text;
  }

 private:
  [[noreturn]] void reject(const std::string& what) const { fail("to_text", what, where_); }

  std::string graph(const Graph& g, const std::string& indent) {
    std::map<int32_t, const GraphInput*> inputs;
    for (const GraphInput& in : g.inputs) inputs[in.node] = &in;
    std::string text = fmt::format("graph {} {{\n", in_quotes(g.name));
    const std::string inner = indent + "  ";
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      const auto in = inputs.find(int32_t(i));
      text += fmt::format("{}%{} = {}\n", inner, i,
                          node(g, g.nodes()[i], in == inputs.end() ? nullptr : in->second, inner));
    }
    if (!is_in_order(g)) text += inner + "inputs " + values(g, g.inputs) + "\n";
    text += inner + "return";
    for (size_t i = 0; i < g.outputs.size(); ++i) text += (i ? ", " : " ") + value(g, g.outputs[i]);
    for (const GraphAssign& a : g.assigns)
      text += fmt::format("\n{}{} <- {}", inner, in_quotes(variables_.of(a.variable)), value(g, a.value));
    return text + "\n" + indent + "}";
  }

  std::string node(const Graph& g, const Node& n, const GraphInput* in, const std::string& indent) {
    std::string text;
    if (n.kind == Node::Kind::input) text = input(n, in);
    else if (n.kind == Node::Kind::constant) text = "constant " + tensor(n.constant);
    else text = call(g, n);
    text += " :";
    for (size_t k = 0; k < n.outputs.size(); ++k) text += (k ? ", " : " ") + spec_of(n.outputs[k]);
    if (!n.scope.empty()) text += " scope " + in_quotes(n.scope);
    if (!n.where.empty()) text += " at " + in_quotes(n.where);
    if (!n.function.empty()) text += " in " + in_quotes(n.function);
    if (n.region) text += fmt::format(" region {}", region(n.region.get()));
    if (n.backward) text += " backward";
    if (n.kind == Node::Kind::op && n.op->graphs) text += graphs(n, indent);
    return text;
  }

  std::string input(const Node& n, const GraphInput* in) {
    if (!in) reject(fmt::format("node '{}' is no input of the graph", n.name));
    if (in->kind == GraphInput::Kind::argument) return fmt::format("argument {} {}", in->argument, in_quotes(n.name));
    if (in->kind == GraphInput::Kind::captured)
      return fmt::format("captured {} {}", tensor(in->captured), in_quotes(n.name));
    return fmt::format("variable {} {}", in_quotes(variables_.of(in->variable)), in_quotes(n.name));
  }

  // Whether the inputs are in the order of their nodes. Those of a graph inside a node are in the order of its
  // operands.
  static bool is_in_order(const Graph& g) { return std::ranges::is_sorted(g.inputs, {}, &GraphInput::node); }
  std::string values(const Graph& g, const std::vector<GraphInput>& inputs) const {
    std::string text;
    for (const GraphInput& in : inputs) text += (text.empty() ? "" : ", ") + value(g, {in.node, 0});
    return text;
  }

  std::string tensor(const Tensor& t) {
    if (options_.tensors && t.size() > options_.largest) {
      const auto [at, is_new] = kept_.try_emplace(t.rep()->id, fmt::format("t{}", kept_.size()));
      if (is_new) options_.tensors->emplace_back(at->second, t);
      return "tensor " + in_quotes(at->second);
    }
    const std::vector<std::string> elements = graph_text::element_texts(t);
    if (t.ndim() == 0 && elements.size() == 1) return elements[0];
    std::string text = "[";
    for (size_t i = 0; i < elements.size(); ++i) text += (i ? ", " : "") + elements[i];
    return text + "]";
  }

  std::string value(const Graph& g, ValueId v) const {
    return g.nodes()[size_t(v.node)].outputs.size() == 1 ? fmt::format("%{}", v.node)
                                                         : fmt::format("%{}.{}", v.node, v.index);
  }

  std::string call(const Graph& g, const Node& n) const {
    if (find_stored_op(n.op->name) != n.op)
      reject(fmt::format("a text cannot hold a call of '{}': it is no op that is found by its name", n.op->name));
    std::string text = fmt::format("{}(", n.op->name);
    for (size_t k = 0; k < n.inputs.size(); ++k) text += (k ? ", " : "") + value(g, n.inputs[k]);
    text += ")";
    const std::string a = n.op->graphs ? control(n) : attrs(n);
    return a.empty() ? text : text + " {" + a + "}";
  }

  static void add(std::string& list, std::string_view key, const std::string& value) {
    list += fmt::format("{}{}={}", list.empty() ? "" : ", ", key, value);
  }

  static std::string attr(const AttrValue& value) {
    return std::visit(
        [](const auto& v) -> std::string {
          using V = std::remove_cvref_t<decltype(v)>;
          if constexpr (std::is_same_v<V, Dims>) return dims_text(v, dim_text);
          else if constexpr (std::is_same_v<V, DType>) return std::string(name(v));
          else if constexpr (std::is_same_v<V, std::string>) return in_quotes(v);
          else return fmt::format("{}", v);
        },
        value);
  }
  std::string attrs(const Node& n) const {
    attributes_of(*n.op);  // throws if a text cannot represent them
    std::string list;
    for (const auto& [key, value] : list_of(n.attrs)) add(list, key, attr(value));
    return list;
  }

  // The attributes that differ from their defaults.
  std::string control(const Node& n) const {
    const ControlAttrs& of = control_of(*n.op).attrs;
    const AttrList stored = of.stored(n.attrs), plain = of.defaults();
    const auto open = open_fields(n.attrs);
    std::string list, outputs;
    for (size_t k = 0; k < stored.size(); ++k) {
      const auto& [key, value] = stored[k];
      if (std::ranges::count(open, key, &std::pair<std::string, Dim>::first)) add(list, key, "-1");
      else if (value != plain[k].second) add(list, key, attr(value));
    }
    const HeldGraphs& held = of.held(n.attrs);
    if (std::equal(held.outputs.begin(), held.outputs.end(), n.outputs.begin(), n.outputs.end())) return list;
    for (const Spec& s : held.outputs) outputs += (outputs.empty() ? "" : "; ") + spec_of(s);
    add(list, "outputs", in_quotes(outputs));
    return list;
  }

  std::string graphs(const Node& n, const std::string& indent) {
    std::string text = " {\n";
    for (const auto& inner : held_by(n).graphs)
      text += fmt::format("{}  {} = {}\n", indent, in_quotes(inner->role), graph(inner->graph, indent + "  "));
    return text + indent + "}";
  }

  int region(const detail::RecomputeRegion* r) {
    const auto [at, is_new] = regions_.try_emplace(r, int(regions_.size()));
    if (!is_new) return at->second;
    regions_text_ +=
        fmt::format("region {} keeps {}", at->second, r->policy.kept == Kept::products ? "products" : "nothing");
    for (const std::string& name : r->policy.names) regions_text_ += " " + in_quotes(name);
    regions_text_ += "\n";
    return at->second;
  }

  const GraphTextOptions& options_;
  const Where& where_;
  const VariableNames variables_;
  std::map<uint64_t, std::string> kept_;
  std::map<const detail::RecomputeRegion*, int> regions_;
  std::string regions_text_;
};

}  // namespace

std::string to_text(const Graph& g, const GraphTextOptions& options, Where where) {
  return Writer(g, options, where).run(g);
}

GraphVariables graph_variables(const Graph& g) {
  GraphVariables all;
  const VariableNames names(g);
  for (const auto& [name, state] : names.all()) all.emplace_back(name, Variable(state));
  return all;
}

}  // namespace rill
