// See control_tangents.h. Start at apply_with_tangents. Operands and results come in groups (carried, xs, constants;
// carried, ys, ...). The tangents of a group's members, where they have one, follow the group. Tracing finds which
// results have a tangent. A carried value that gets a tangent in any step has one in every step, starting from zeros.
#include "rill/trace/control/control_tangents.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

namespace {

using HasTangent = std::vector<bool>;  // by operand or result

// Group sizes, and for each member whether it has a tangent.
struct Groups {
  std::vector<size_t> sizes;
  HasTangent moving;

  // Calls value(k) for each member k in turn, and tangent(k) for those that have one behind each group.
  template <class V, class T>
  void walk(V&& value, T&& tangent) const {
    size_t first = 0;
    for (size_t n : sizes) {
      for (size_t k = first; k < first + n; ++k) value(k);
      for (size_t k = first; k < first + n; ++k)
        if (moving[k]) tangent(k);
      first += n;
    }
  }
  size_t count() const {
    size_t n = 0;
    walk([&](size_t) { ++n; }, [&](size_t) { ++n; });
    return n;
  }
};

std::shared_ptr<const InnerGraph> trace_with_tangents(const InnerGraph& inner, const Groups& in, Groups& out) {
  const Graph& g = inner.graph;
  Tracer tracer(inner_name(inner.role), Tracer::Nesting::inside);
  ForwardAccumulator along;
  std::vector<Tensor> inputs;
  const auto name = [&](size_t k) { return g.nodes()[size_t(g.inputs[k].node)].name; };
  const auto spec = [&](size_t k) { return g.nodes()[size_t(g.inputs[k].node)].outputs[0]; };
  in.walk([&](size_t k) { inputs.push_back(tracer.add_argument(spec(k), name(k))); },
          [&](size_t k) { along.watch(inputs[k], tracer.add_argument(spec(k), "tangent")); });
  const std::vector<Tensor> results = interpret(g, inputs);
  std::vector<Tensor> tangents(results.size());
  for (size_t k = 0; k < results.size(); ++k) {
    if (!is_differentiable(results[k].dtype())) continue;
    tangents[k] = along.jvp(results[k], out.moving[k] ? Unconnected::zero : Unconnected::none);
    if (tangents[k].defined()) out.moving[k] = true;
  }
  out.walk([&](size_t k) { tracer.add_output(results[k]); }, [&](size_t k) { tracer.add_output(tangents[k]); });
  Graph with = tracer.finish();
  for (const GraphInput& i : with.inputs)
    if (i.kind == GraphInput::Kind::variable)
      fail(
          "custom_gradient",
          fmt::format("a rule inside cond(), while_loop() or scan() reads variable '{}', which the loop does not. read "
                      "it outside the rule",
                      i.variable->name));
  return std::make_shared<InnerGraph>(inner.role, std::move(with));
}

// `inner` with tangents, cached. `out.moving` says on entry which results must have a tangent, and on return which do.
std::shared_ptr<const InnerGraph> with_tangents(const InnerGraph& inner, const Groups& in, Groups& out) {
  std::string key = "tangents";
  for (const Groups* groups : {&in, static_cast<const Groups*>(&out)}) {
    key += fmt::format(" {} ", fmt::join(groups->sizes, ","));
    for (const bool moves : groups->moving) key += moves ? '1' : '0';
  }
  const InnerGraph::Variant made = inner.variant(key, [&] {
    auto graph = trace_with_tangents(inner, in, out);
    return InnerGraph::Variant{std::move(graph), {out.moving.begin(), out.moving.end()}};
  });
  out.moving.assign(made.results.begin(), made.results.end());
  return made.graph;
}

// The operands in the order of `groups`, each group followed by its tangents; a missing tangent is zeros.
std::vector<Tensor> operands_of(Operands in, const Groups& groups, const ForwardAccumulator::Impl& along) {
  std::vector<Tensor> operands;
  groups.walk([&](size_t k) { operands.push_back(*in[k]); },
              [&](size_t k) {
                const Tensor& t = along.tangent_of(*in[k]);
                operands.push_back(t.defined() ? t : zeros_like(*in[k]));
              });
  return operands;
}

// The groups of a node's operands and results, and of its graphs' inputs and results.
struct NodeGroups {
  Groups operands, results, inputs, outputs;
  size_t lead = 0;     // operands before the graphs' inputs: the branch, the condition or the number of steps
  size_t go_on = 0;    // results of the graphs before the node's: the condition of a while_loop
  size_t carried = 0;  // the first `carried` of each correspond to each other
};

Groups groups_of(const RoleGroups& roles) {
  Groups groups;
  size_t members = 0;
  for (const RoleGroup& p : roles) groups.sizes.push_back(p.count), members += p.count;
  groups.moving.resize(members);
  return groups;
}

NodeGroups groups_of(const NodeRoles& roles) {
  NodeGroups n{groups_of(roles.operands), groups_of(roles.outputs), groups_of(roles.inputs), groups_of(roles.results)};
  n.lead = count_of(roles.operands, Role::steers);
  n.go_on = count_of(roles.results, Role::steers);
  n.carried = count_of(roles.operands, Role::carried);
  return n;
}

// The size of each group, its tangents included.
std::vector<size_t> sizes_with_tangents(const Groups& groups) {
  std::vector<size_t> sizes;
  size_t first = 0;
  for (const size_t n : groups.sizes) {
    const auto from = groups.moving.begin() + long(first);
    sizes.push_back(n + size_t(std::count(from, from + long(n), true)));
    first += n;
  }
  return sizes;
}

}  // namespace

Tensors apply_with_tangents(const Op& op, Operands in, AttrsView attrs, ForwardAccumulator::Impl& along,
                            const Where& where) {
  const ControlNode& node = control_of(op);
  const HeldGraphs& held = node.attrs.held(attrs);
  NodeGroups n = groups_of(node.roles(attrs, in.size()));
  for (size_t k = n.lead; k < in.size(); ++k)
    n.inputs.moving[k - n.lead] = is_differentiable(in[k]->dtype()) && along.watches(*in[k]);

  InnerGraphs graphs;
  const ForwardAccumulator::Impl::Outside outside(along);
  // Repeated until the graphs agree: a step takes the tangents that the one before it gives, and all branches give the
  // same ones.
  for (bool settled = false; !settled;) {
    for (size_t k = 0; k < n.carried; ++k) {
      const bool moves = n.inputs.moving[k] || n.outputs.moving[n.go_on + k];
      n.inputs.moving[k] = n.outputs.moving[n.go_on + k] = moves;
    }
    graphs.clear();
    for (const auto& g : held.graphs) graphs.push_back(with_tangents(*g, n.inputs, n.outputs));
    settled = true;
    for (const auto& g : graphs) settled = settled && g->graph.outputs.size() == n.outputs.count();
    for (size_t k = 0; k < n.carried; ++k) settled = settled && n.inputs.moving[k] == n.outputs.moving[n.go_on + k];
  }
  for (size_t k = n.lead; k < in.size(); ++k) n.operands.moving[k] = n.inputs.moving[k - n.lead];
  // The last results of a loop that saves are the carried values before each step.
  const size_t own = n.outputs.moving.size() - n.go_on;
  for (size_t k = 0; k < own; ++k) n.results.moving[k] = n.outputs.moving[n.go_on + k];
  const size_t saved = n.results.moving.size() > own ? n.results.moving.size() - n.carried : n.results.moving.size();
  for (size_t k = saved; k < n.results.moving.size(); ++k) n.results.moving[k] = n.inputs.moving[k - saved];

  const std::vector<Tensor> operands = operands_of(in, n.operands, along);
  std::vector<Spec> specs;
  const auto add = [&](size_t k) { specs.push_back(held.outputs[k]); };
  n.results.walk(add, add);
  const Attrs joint = node.attrs.changed(node.resized(attrs, sizes_with_tangents(n.operands)), [&](HeldGraphs& with) {
    with.graphs = std::move(graphs);
    with.outputs = std::move(specs);
  });
  const Tensors all = apply_control(op, operands, joint, where);
  Tensors out(held.outputs.size());
  size_t next = 0;
  n.results.walk([&](size_t k) { out[k] = all[next++]; }, [&](size_t k) { along.set(out[k], all[next++]); });
  return out;
}

}  // namespace rill
