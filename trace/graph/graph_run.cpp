// Runs a graph, or a part of it, node by node; and finds the value that a text names. Start at GraphRun::prepare.
#include "rill/trace/graph_run.h"

#include <fmt/format.h>

#include <charconv>

#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph/graph_names.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/node_runner.h"
#include "rill/trace/graph/rewriter.h"
#include "rill/trace/graph/spec_text.h"
#include "rill/trace/graph/variable_values.h"

namespace rill {

// --- The value that a text names -------------------------------------------------------------------------------------

namespace {

// The number that `text` is, or -1.
int32_t number_of(std::string_view text) {
  int32_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : -1;
}

// `text` before and after its last `mark`; with the number 0 if there is none.
std::pair<std::string_view, int32_t> split(std::string_view text, char mark) {
  const size_t at = text.rfind(mark);
  if (at == text.npos) return {text, 0};
  return {text.substr(0, at), number_of(text.substr(at + 1))};
}

// "x: f32[2,3], y: f32[]".
std::string arguments_of(const Graph& g) {
  std::string text;
  for (const GraphInput& in : g.inputs) {
    const Node& n = g.nodes()[size_t(in.node)];
    if (in.kind == GraphInput::Kind::argument)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", n.name, to_string(n.outputs[0]));
  }
  return text.empty() ? "no arguments" : text;
}

// ", such as layer/relu, layer/relu_1": names with `part` in them.
std::string names_with(const GraphNames& names, const std::string& part) {
  constexpr int most = 5;
  std::string text;
  int found = 0;
  for (const NodeName& n : names.nodes)
    if (n.id.find(part) != n.id.npos && ++found <= most) text += (text.empty() ? ", such as " : ", ") + n.id;
  return text;
}

std::string describe_value(const Graph& g, ValueId v) {
  const Node& n = g.nodes()[size_t(v.node)];
  if (n.kind == Node::Kind::input && !n.name.empty()) return fmt::format("'{}'", n.name);
  return n.outputs.size() == 1 ? fmt::format("%{}", v.node) : fmt::format("%{}.{}", v.node, v.index);
}

}  // namespace

ValueId Graph::value(const GraphValue& v, Where where) const {
  auto exists = [&](ValueId id) {
    return id.node >= 0 && size_t(id.node) < nodes_.size() && id.index >= 0 &&
           size_t(id.index) < nodes_[size_t(id.node)].outputs.size();
  };
  const std::string& text = v.name_;
  if (text.empty()) {
    if (exists(v.value_)) return v.value_;
    fail("Graph.value",
         fmt::format("'{}' has no value %{}.{}; it has {} nodes", name, v.value_.node, v.value_.index, nodes_.size()),
         where);
  }
  for (const GraphInput& in : inputs)
    if (nodes_[size_t(in.node)].name == text) return {in.node, 0};
  if (text[0] == '%') {
    const auto [node, output] = split(std::string_view(text).substr(1), '.');
    if (const ValueId id{number_of(node), output}; exists(id)) return id;
  }
  const auto [id, output] = split(text, ':');
  const GraphNames names = name_graph(*this);
  for (size_t i = 0; i < names.nodes.size(); ++i)
    if (names.nodes[i].id == id && exists({int32_t(i), output})) return {int32_t(i), output};
  fail("Graph.value",
       fmt::format("'{}' has no value '{}'. a value is an input's name ({}), \"%3\" as to_string() prints it, or a "
                   "node's name as viewers show it{}",
                   name, text, arguments_of(*this), names_with(names, text)),
       where);
}

std::vector<Tensor> Graph::run(const GraphFeeds& feeds, const std::vector<GraphValue>& fetches, Where where) const {
  const CallerScope caller(where);
  return GraphRun(this, feeds, fetches, where).results();
}

// --- What has to run -------------------------------------------------------------------------------------------------

GraphRun::GraphRun(Graph graph, const GraphFeeds& feeds, const std::vector<GraphValue>& fetches, Where where)
    : own_(Shared<const Graph>::make(std::move(graph))), graph_(own_.get()), runner_(Shared<NodeRunner>::make()) {
  prepare(feeds, fetches, where);
}

GraphRun::GraphRun(const Graph* graph, const GraphFeeds& feeds, const std::vector<GraphValue>& fetches,
                   const Where& where)
    : graph_(graph), keeps_(false), runner_(Shared<NodeRunner>::make()) {
  prepare(feeds, fetches, where);
}

void GraphRun::prepare(const GraphFeeds& feeds, const std::vector<GraphValue>& fetches, const Where& where) {
  const Graph& g = *graph_;
  for (const Node& n : g.nodes()) values_.emplace_back(n.outputs.size());
  needed_.assign(g.nodes().size(), 0);
  readers_.assign(g.nodes().size(), 0);
  for (const auto& [value, x] : feeds) feed(g.value(value, where), x, where);
  for (const GraphValue& v : fetches) fetches_.push_back(g.value(v, where));
  if (fetches.empty()) fetches_ = g.outputs;
  find_needed(fetches.empty(), where);
  read_inputs(where);
}

void GraphRun::feed(ValueId v, const Tensor& x, const Where& where) {
  const Graph& g = *graph_;
  const Spec& s = g.spec(v);
  const std::string what = fmt::format("{} of '{}'", describe_value(g, v), g.name);
  require_defined("Graph::run", x, what, where);
  const Tensor t = x.spec().weak && s.shape.empty() ? full({}, x, s.dtype, where) : x;
  bool fits = t.dtype() == s.dtype && t.spec().device == s.device && t.shape().size() == s.shape.size();
  for (size_t i = 0; fits && i < s.shape.size(); ++i) fits = s.shape[i] == open_size || s.shape[i] == t.shape()[i];
  if (!fits)
    fail("Graph.run", fmt::format("{} is {}, and is fed {}", what, placed_text(s), placed_text(t.spec())), where);
  if (at(v).defined()) fail("Graph.run", fmt::format("{} is fed twice", what), where);
  at(v) = t;
}

void GraphRun::find_needed(bool effects, const Where& where) {
  const Graph& g = *graph_;
  auto need = [&](ValueId v) {
    ++readers_[size_t(v.node)];
    if (!at(v).defined()) needed_[size_t(v.node)] = 1;
  };
  for (ValueId v : fetches_) need(v);
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    needed_[i] |= effects && has_effect(n);
    if (!needed_[i]) continue;
    for (ValueId v : n.inputs) need(v);
    if (n.kind != Node::Kind::op) continue;
    ++steps_;
    bool open = n.op->graphs && holds_open_size(g, n);
    for (const Spec& s : n.outputs)
      for (Dim d : s.shape) open |= d == open_size;
    if (open)
      fail("Graph.run",
           fmt::format("%{} of '{}' is {}, and what gives it is known for the sizes of a call alone. run the graph "
                       "for these: f.graph(spec(f32, {{2, 8}}))",
                       i, g.name, n.outputs.empty() ? std::string(n.op_name()) : to_string(n.outputs[0])),
           where);
  }
}

// The values of needed inputs and constants.
void GraphRun::read_inputs(const Where& where) {
  const Graph& g = *graph_;
  std::string missing;
  for (const GraphInput& in : g.inputs) {
    if (!needed_[size_t(in.node)]) continue;
    Tensor& value = values_[size_t(in.node)][0];
    switch (in.kind) {
      case GraphInput::Kind::variable: value = Variable(in.variable).value(); break;
      case GraphInput::Kind::captured: value = in.captured; break;
      case GraphInput::Kind::argument:
        missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", g.nodes()[size_t(in.node)].name);
    }
  }
  if (!missing.empty())
    fail("Graph.run", fmt::format("'{}' needs {}, which nothing feeds. it takes {}", g.name, missing, arguments_of(g)),
         where);
  for (size_t i = 0; i < g.nodes().size(); ++i)
    if (const Node& n = g.nodes()[i]; needed_[i] && n.kind == Node::Kind::constant)
      values_[i] = {make_alias(n.constant)};  // new, so that a trace takes it as a constant
}

// --- Running ---------------------------------------------------------------------------------------------------------

bool GraphRun::step() {
  const Graph& g = *graph_;
  while (next_ < needed_.size() && !(needed_[next_] && g.nodes()[next_].kind == Node::Kind::op)) ++next_;
  if (next_ == needed_.size()) return false;
  const Node& n = g.nodes()[next_];
  Tensors out = runner_->run(n, values_);
  if (out.size() != n.outputs.size())  // in a graph that was read with open sizes, which is not checked for this
    fail("Graph.run", fmt::format("%{} of '{}' gives {} values, not {}", next_, g.name, out.size(), n.outputs.size()),
         Where());
  for (size_t k = 0; k < out.size(); ++k)
    if (Tensor& value = values_[next_][k]; !value.defined()) value = std::move(out[k]);  // else it was fed
  node_ = int32_t(next_++);
  if (!keeps_) release_inputs_of(n);
  return true;
}

void GraphRun::release_inputs_of(const Node& n) {
  for (ValueId v : n.inputs)
    if (--readers_[size_t(v.node)] == 0)
      for (Tensor& t : values_[size_t(v.node)]) t = Tensor();
}

std::vector<Tensor> GraphRun::results() {
  while (step()) {
  }
  std::vector<Tensor> out;
  for (ValueId v : fetches_) out.push_back(at(v));
  return out;
}

const Tensor& GraphRun::value(Where where) const& {
  if (node_ < 0) fail("GraphRun.value", "no node has run yet. call step() first", where);
  return value(ValueId{node_, 0}, where);
}

const Tensor& GraphRun::value(const GraphValue& v, Where where) const& {
  const ValueId id = graph_->value(v, where);
  const Tensor& t = values_[size_t(id.node)][size_t(id.index)];
  if (!t.defined())
    fail("GraphRun.value",
         fmt::format("{} is not known: {}", describe_value(*graph_, id),
                     needed_[size_t(id.node)] ? "its node has not run yet" : "no fetch needs it"),
         where);
  return t;
}

bool GraphRun::has(const GraphValue& v, Where where) const {
  const ValueId id = graph_->value(v, where);
  return values_[size_t(id.node)][size_t(id.index)].defined();
}

// --- Freezing --------------------------------------------------------------------------------------------------------

Graph freeze(const Graph& g, Where where) {
  const Graph* graphs[] = {&g};
  return freeze(g, VariableValues("freeze", graphs, {}, where), where);
}

Graph freeze(const Graph& g, const VariableValues& values, const Where& where) {
  if (!g.assigns.empty())
    fail("freeze",
         fmt::format("'{}' assigns the Variable '{}', which a constant cannot replace. freeze the part that only reads "
                     "it",
                     g.name, g.assigns[0].variable->name),
         where);
  const EagerScope eager;
  Graph out;
  std::vector<const GraphInput*> inputs(g.nodes().size());
  for (const GraphInput& in : g.inputs) inputs[size_t(in.node)] = &in;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (!inputs[i] || inputs[i]->kind == GraphInput::Kind::argument) {
      out.append(n);
      continue;
    }
    const bool variable = inputs[i]->kind == GraphInput::Kind::variable;
    const Tensor value = variable ? values.of(inputs[i]->variable) : inputs[i]->captured;
    if (value.is_symbolic())
      fail("freeze", fmt::format("'{}' reads a tensor of a function that is being traced", g.name), where);
    Node constant = constant_node(n, value);
    constant.name = variable ? values.name_of(inputs[i]->variable) : n.name;
    out.append(std::move(constant));
  }
  out = rebuilt(g, std::move(out));
  std::erase_if(out.inputs, [](const GraphInput& in) { return in.kind != GraphInput::Kind::argument; });
  return out;
}

}  // namespace rill
