// The table of nodes that hold graphs, and functions that use it; see control_node.h. The records are in ../control/.
#include "rill/trace/graph/control_node.h"

#include <fmt/format.h>

#include <mutex>

#include "rill/trace/graph/rewriter.h"

namespace rill {

// --- Graphs in nodes -------------------------------------------------------------------------------------------------

namespace {
std::atomic<int64_t> next_number{1};
}

InnerGraph::InnerGraph(std::string r, Graph g) : role(std::move(r)), graph(std::move(g)), number(next_number++) {}

InnerGraph::Variant InnerGraph::variant(const std::string& key, const std::function<Variant()>& make) const {
  const std::lock_guard hold(mutex_);
  if (const auto at = variants_.find(key); at != variants_.end()) return at->second;
  return variants_[key] = make();
}

std::string HeldGraphs::names() const {
  std::string text;
  for (const auto& g : graphs) text += fmt::format("{}{}#{}", text.empty() ? "" : ",", g->role, g->number);
  return text;
}

// --- The table -------------------------------------------------------------------------------------------------------

namespace {
constinit const ControlNode* first_control = nullptr;
}

ControlNode::ControlNode(const ControlNodeSpec& spec) : ControlNodeSpec(spec), next(first_control) {
  first_control = this;
}

const ControlNode& control_of(const Op& op) {
  for (const ControlNode* c = first_control; c; c = c->next)
    if (&c->op == &op) return *c;
  fail(op.name, "its nodes hold graphs, and no ControlNode says what they are to it", Where());
}

size_t count_of(const RoleGroups& groups, Role role) {
  size_t n = 0;
  for (const RoleGroup& p : groups)
    if (p.role == role) n += p.count;
  return n;
}

void check_control(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  control_of(op).check(op, in, attrs);
}

int operand_of_input(const Op& op, AttrsView attrs, size_t operands, size_t graph, size_t input) {
  const ControlNode& c = control_of(op);
  if (c.operand_of) return c.operand_of(attrs, graph, input);
  return int(count_of(c.roles(attrs, operands).operands, Role::steers) + input);
}

Attrs with_graphs(const Op& op, AttrsView attrs,
                  const Callback<std::shared_ptr<const InnerGraph>(const std::shared_ptr<const InnerGraph>&)>& graph,
                  AttrRewriter* sizes) {
  const Attrs changed = control_of(op).attrs.changed(attrs, [&](HeldGraphs& held) {
    for (auto& inner : held.graphs) inner = graph(inner);
    if (!sizes) return;
    for (Spec& s : held.outputs) sizes->field("outputs", s.shape);
  });
  return sizes ? changed.rewritten(*sizes) : changed;
}

Tensors apply_any(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  const auto own = op.graphs ? control_of(op).apply : nullptr;
  return own ? own(op, in, attrs, where) : apply(op, in, attrs, where);
}

void detail::check_count(const char* key, int64_t n) {
  constexpr int64_t most = 1 << 20;
  if (n < 0 || n > most)
    fail("attributes", fmt::format("'{}' is {}, and counts or names operands: 0 to {}", key, n, most), Where());
}

// --- Effects ---------------------------------------------------------------------------------------------------------

void drop_effects(Node& n) {
  if (n.kind != Node::Kind::op || !n.op->graphs || !has_effect(n)) return;
  n.attrs = with_graphs(*n.op, n.attrs, [](const std::shared_ptr<const InnerGraph>& inner) {
    return std::make_shared<const InnerGraph>(inner->role, without_effects(inner->graph));
  });
}

Graph without_effects(const Graph& g) {
  bool any = false;
  for (const Node& n : g.nodes()) any |= has_effect(n);
  if (!any) return g;
  Graph out;
  std::vector<int32_t> number(g.nodes().size(), -1);
  const auto now = [&](ValueId v) { return ValueId{number[size_t(v.node)], v.index}; };
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    Node n = g.nodes()[i];
    if (n.kind == Node::Kind::op && n.op->effect && n.outputs.empty()) continue;
    drop_effects(n);
    for (ValueId& v : n.inputs) v = now(v);
    number[i] = out.append(std::move(n));
  }
  return rebuilt(g, std::move(out), Numbers::changed, now);
}

}  // namespace rill
