// A control-flow node with tangents. Operands and results come in groups (carried, xs, constants; carried, ys, ...),
// and behind each group stand the tangents of those of its members that have one. Which results have one is found by
// tracing; in a loop a carried value has a tangent in every step where it has one in any, so that starts from zeros.
#include "rill/trace/control/control_tangents.h"

#include <fmt/format.h>

#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

namespace {

using Moving = std::vector<bool>;  // by operand or result: whether it has a tangent

// Group sizes, and for each member whether it has a tangent.
struct Groups {
  std::vector<size_t> sizes;
  Moving moving;

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

// `inner` with tangents; sets which results have one, besides those that are said to. Made once.
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

// The operands, as `groups` has them; those without a tangent that must have one start from zeros.
std::vector<Tensor> operands_of(Operands in, const Groups& groups, const ForwardAccumulator::Impl& along) {
  std::vector<Tensor> operands;
  groups.walk([&](size_t k) { operands.push_back(*in[k]); },
              [&](size_t k) {
                const Tensor& t = along.tangent_of(*in[k]);
                operands.push_back(t.defined() ? t : zeros_like(*in[k]));
              });
  return operands;
}

// Of a node: the groups of its operands and results, and of its graphs' inputs and results.
struct NodeGroups {
  Groups operands, results, inputs, outputs;
  size_t lead = 0;     // operands that are no inputs of the graphs: which branch, whether to go on, how many steps
  size_t go_on = 0;    // results of the graph that are none of the node
  size_t carried = 0;  // of each, the first so many belong together
};

NodeGroups groups_of(const Op& op, const ControlAttrs& a, size_t operands) {
  NodeGroups n;
  const size_t carried = size_t(a.carried), scanned = size_t(a.scanned), own = a.graphs[0]->graph.outputs.size();
  if (&op == &cond_op || &op == &switch_case_op) {
    n.lead = 1;
    n.operands.sizes = {1, operands - 1};
    n.inputs.sizes = {operands - 1};
    n.results.sizes = n.outputs.sizes = {a.outputs.size()};
  } else if (&op == &while_loop_op) {
    n.lead = n.go_on = 1, n.carried = carried;
    n.operands.sizes = {1, carried, operands - 1 - carried};
    n.inputs.sizes = {carried, operands - 1 - carried};
    n.outputs.sizes = {1, carried};
    n.results.sizes = {carried};
    if (a.saves) n.results.sizes.insert(n.results.sizes.end(), {1, carried});
  } else {
    n.lead = a.counted ? 1 : 0, n.carried = carried;
    n.operands.sizes = {n.lead, carried, scanned, operands - n.lead - carried - scanned};
    n.inputs.sizes = {carried, scanned, operands - n.lead - carried - scanned};
    n.outputs.sizes = n.results.sizes = {carried, own - carried};
    if (a.saves) n.results.sizes.push_back(carried);
  }
  n.operands.moving.resize(operands);
  n.inputs.moving.resize(operands - n.lead);
  n.outputs.moving.resize(own);
  n.results.moving.resize(a.outputs.size());
  return n;
}

}  // namespace

Tensors apply_with_tangents(const Op& op, Operands in, const ControlAttrs& attrs, ForwardAccumulator::Impl& along,
                            const Where& where) {
  NodeGroups n = groups_of(op, attrs, in.size());
  for (size_t k = n.lead; k < in.size(); ++k)
    n.inputs.moving[k - n.lead] = is_differentiable(in[k]->dtype()) && along.watches(*in[k]);

  ControlAttrs joint = attrs;
  const ForwardAccumulator::Impl::Outside outside(along);
  // Until every graph takes and gives the tangents that the steps before it, and the other branches, have brought.
  for (bool settled = false; !settled;) {
    for (size_t k = 0; k < n.carried; ++k) {
      const bool moves = n.inputs.moving[k] || n.outputs.moving[n.go_on + k];
      n.inputs.moving[k] = n.outputs.moving[n.go_on + k] = moves;
    }
    joint.graphs.clear();
    for (const auto& g : attrs.graphs) joint.graphs.push_back(with_tangents(*g, n.inputs, n.outputs));
    settled = true;
    for (const auto& g : joint.graphs) settled = settled && g->graph.outputs.size() == n.outputs.count();
    for (size_t k = 0; k < n.carried; ++k) settled = settled && n.inputs.moving[k] == n.outputs.moving[n.go_on + k];
  }
  for (size_t k = n.lead; k < in.size(); ++k) n.operands.moving[k] = n.inputs.moving[k - n.lead];
  for (size_t k = n.go_on; k < n.outputs.moving.size(); ++k) n.results.moving[k - n.go_on] = n.outputs.moving[k];
  // What a loop saves for a walk back: carried values before each step.
  const size_t saved = attrs.saves ? n.results.moving.size() - n.carried : n.results.moving.size();
  for (size_t k = saved; k < n.results.moving.size(); ++k) n.results.moving[k] = n.inputs.moving[k - saved];

  const std::vector<Tensor> operands = operands_of(in, n.operands, along);
  std::vector<Spec> specs;
  const auto add = [&](size_t k) { specs.push_back(attrs.outputs[k]); };
  n.results.walk(add, add);
  joint.outputs = std::move(specs);
  if (n.carried)
    for (size_t k = 0; k < n.carried; ++k) joint.carried += n.inputs.moving[k];
  for (size_t k = 0; k < size_t(attrs.scanned); ++k) joint.scanned += n.inputs.moving[n.carried + k];

  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(&t);
  const Tensors all = apply_control(op, pointers, std::move(joint), where);
  Tensors out(attrs.outputs.size());
  size_t next = 0;
  n.results.walk([&](size_t k) { out[k] = all[next++]; }, [&](size_t k) { along.set(out[k], all[next++]); });
  return out;
}

}  // namespace rill
