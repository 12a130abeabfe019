// How a traced call is differentiated: Pullback traces the graph again under a tape, then the tape's backward walk
// after it, into one joint graph, and cuts that in two where the backward begins.
#include "rill/trace/graph_call.h"

#include <algorithm>
#include <map>

#include "rill/autodiff/tape.h"
#include "rill/ops/ops.h"
#include "rill/trace/control_gradients.h"
#include "rill/trace/control_nodes.h"
#include "rill/trace/passes.h"
#include "rill/trace/tracer.h"

namespace rill {

GraphCall::GraphCall(Graph traced) : traced_(eliminate_dead_code(traced)), tiers_(Tiers::make(std::move(traced))) {}

std::vector<Tensor> GraphCall::run(std::span<const Tensor> inputs) const {
  const Executable& e = tiers_->now();
  std::vector<Tensor> results(e.result_count());
  e.run(inputs, results);
  return results;
}

namespace {

// The inputs that a tape may ask the gradient of; empty where there are none.
std::vector<bool> watched(std::span<const Tensor> inputs) {
  std::vector<bool> found;
  for (TapeListener* tape : thread_state().tapes)
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!is_differentiable(inputs[k].dtype()) || !tape->watches(inputs[k])) continue;
      found.resize(inputs.size());
      found[k] = true;
    }
  return found;
}

std::vector<const Tensor*> pointers(std::span<const Tensor> ts) {
  std::vector<const Tensor*> p;
  for (const Tensor& t : ts) p.push_back(&t);
  return p;
}

}  // namespace

std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs) {
  std::vector<std::vector<Tensor>> values(g.nodes().size());
  for (size_t k = 0; k < g.inputs.size(); ++k) values[size_t(g.inputs[k].node)] = {inputs[k]};
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (n.kind == Node::Kind::constant) values[i] = {make_alias(n.constant)};  // new, so a constant of this trace
    if (n.kind != Node::Kind::op) continue;
    NameScope scope(n.scope);
    ReplayScope place(n.where);
    SmallVec<const Tensor*, 8> in;
    for (ValueId v : n.inputs) in.push_back(&values[size_t(v.node)][size_t(v.index)]);
    Operands operands(in.data(), in.size());
    Tensors out = n.op->graphs ? apply_control(*n.op, operands, n.attrs.as<ControlAttrs>(), Where::current())
                               : apply(*n.op, operands, n.attrs, Where::current());
    values[i].assign(out.begin(), out.end());
  }
  std::vector<Tensor> results;
  for (ValueId v : g.outputs) results.push_back(values[size_t(v.node)][size_t(v.index)]);
  for (const GraphAssign& a : g.assigns) results.push_back(values[size_t(a.value.node)][size_t(a.value.index)]);
  return results;
}

// --- The pullback ----------------------------------------------------------------------------------------------------

namespace {

// Copies part of a joint graph into one of its own.
class Cutter {
 public:
  Cutter(const Graph& joint, std::string name) : joint_(joint) { part_.name = std::move(name); }

  ValueId add_input(ValueId v, std::string name) {
    Node n;
    n.kind = Node::Kind::input;
    n.outputs = {joint_.spec(v)};
    n.name = std::move(name);
    GraphInput in;
    in.argument = int(part_.inputs.size());
    in.node = part_.append(std::move(n));
    part_.inputs.push_back(in);
    return map_[key(v)] = {in.node, 0};
  }
  bool has(ValueId v) const { return map_.count(key(v)) != 0; }
  void add_node(int32_t i) {
    Node n = joint_.nodes()[size_t(i)];
    for (ValueId& v : n.inputs) v = map_.at(key(v));
    int32_t at = part_.append(n);
    for (int32_t k = 0; k < int32_t(n.outputs.size()); ++k) map_[key({i, k})] = {at, k};
  }
  void add_output(ValueId v) { part_.outputs.push_back(map_.at(key(v))); }
  Graph finish() { return std::move(part_); }

 private:
  static int64_t key(ValueId v) { return int64_t(v.node) << 32 | v.index; }
  const Graph& joint_;
  Graph part_;
  std::map<int64_t, ValueId> map_;
};

}  // namespace

const GraphCall::Pullback& GraphCall::pullback(const Wanted& wanted) {
  std::lock_guard lock(pullback_mutex_);
  std::unique_ptr<Pullback>& p = pullbacks_[wanted];
  if (!p) p = make_pullback(wanted);
  return *p;
}

std::unique_ptr<GraphCall::Pullback> GraphCall::make_pullback(const Wanted& wanted) const {
  const Graph& g = traced_;
  auto p = std::make_unique<Pullback>();
  Tracer tracer(g.name);
  tracer.set_speculative();
  std::vector<Tensor> inputs, results, cotangents, targets, gradients;
  std::vector<Source> sources;
  std::vector<ValueId> input_values, cotangent_values, result_values, gradient_values;
  int32_t forward_end;
  {
    GradientTape tape({.persistent = true});
    for (size_t k = 0; k < g.inputs.size(); ++k) {
      const Node& n = g.nodes()[size_t(g.inputs[k].node)];
      inputs.push_back(tracer.add_argument(n.outputs[0], n.name));
      input_values.push_back(tracer.value_of(inputs.back(), g.name));
      if (!wanted[k]) continue;
      tape.watch(inputs.back());
      sources.emplace_back(inputs.back());
      p->inputs.push_back(int(k));
    }
    results = interpret(g, inputs);
    for (const Tensor& r : results) result_values.push_back(tracer.value_of(r, g.name));
    forward_end = int32_t(tracer.size());
    for (size_t k = 0; k < results.size(); ++k) {
      if (!is_differentiable(results[k].dtype())) continue;
      cotangents.push_back(tracer.add_argument(results[k].spec(), "cotangent"));
      cotangent_values.push_back(tracer.value_of(cotangents.back(), g.name));
      targets.push_back(results[k]);
      p->results.push_back(int(k));
    }
    gradients = tape.gradient(targets, sources, {.unconnected = Unconnected::zero, .output_gradients = cotangents});
  }
  for (const Tensor& t : gradients) gradient_values.push_back(tracer.value_of(t, g.name));
  Graph joint = tracer.finish();

  Cutter forward(joint, g.name), backward(joint, g.name + "_backward");
  for (size_t k = 0; k < input_values.size(); ++k)
    forward.add_input(input_values[k], joint.nodes()[size_t(input_values[k].node)].name);
  for (int32_t i = 0; i < forward_end; ++i)
    if (joint.nodes()[size_t(i)].kind != Node::Kind::input) forward.add_node(i);
  for (ValueId v : result_values) forward.add_output(v);

  // What the backward part reads of the forward one becomes a residual; constants are copied.
  auto need = [&](ValueId v) {
    if (backward.has(v) || v.node >= forward_end) return;
    if (joint.nodes()[size_t(v.node)].kind == Node::Kind::constant) return backward.add_node(v.node);
    backward.add_input(v, "residual");
    forward.add_output(v);
  };
  std::vector<char> live(joint.nodes().size(), 0);
  for (ValueId v : gradient_values) live[size_t(v.node)] = 1;
  for (size_t i = joint.nodes().size(); i-- > size_t(forward_end);) {
    live[i] |= has_effect(joint.nodes()[i]);
    if (live[i])
      for (ValueId v : joint.nodes()[i].inputs) live[size_t(v.node)] = 1;
  }
  for (size_t i = size_t(forward_end); i < joint.nodes().size(); ++i)
    if (live[i])
      for (ValueId v : joint.nodes()[i].inputs) need(v);
  for (ValueId v : gradient_values) need(v);
  for (ValueId v : cotangent_values) backward.add_input(v, "cotangent");
  for (size_t i = size_t(forward_end); i < joint.nodes().size(); ++i)
    if (live[i] && joint.nodes()[i].kind != Node::Kind::input) backward.add_node(int32_t(i));
  for (ValueId v : gradient_values) backward.add_output(v);

  const Graph forward_graph = forward.finish();
  p->forward = std::make_shared<GraphCall>(forward_graph);
  const bool effects = std::any_of(forward_graph.nodes().begin(), forward_graph.nodes().end(), has_effect);
  p->silent = effects ? std::make_shared<GraphCall>(without_effects(forward_graph)) : p->forward;
  p->backward = std::make_shared<GraphCall>(backward.finish());
  return p;
}

// --- Calling ---------------------------------------------------------------------------------------------------------

std::vector<Tensor> GraphCall::call(std::span<const Tensor> inputs, const Where& where) {
  const Wanted wanted = watched(inputs);
  if (wanted.empty()) return run(inputs);
  const Pullback& p = pullback(wanted);
  size_t results = executable().result_count();
  std::vector<Tensor> kept(inputs.begin(), inputs.end());  // before the call, so that nothing is written over them
  std::vector<Tensor> all = p.forward->run(inputs);
  CustomVjp vjp = vjp_of_call(p, std::move(kept), all);
  std::vector<const Tensor*> in = pointers(inputs);
  for (TapeListener* tape : thread_state().tapes) tape->record_custom(in, all, vjp, where);
  all.resize(results);
  return all;
}

CustomVjp GraphCall::vjp_of_call(const Pullback& p, std::vector<Tensor> inputs, std::vector<Tensor> all) {
  auto self = shared_from_this();
  size_t results = executable().result_count();
  // Stand-ins keep the shapes of the results; the residuals are kept whole.
  std::vector<Spec> specs;
  for (size_t k = 0; k < results; ++k) specs.push_back(all[k].spec());
  std::vector<Tensor> residuals(all.begin() + long(results), all.end());
  std::vector<Tensor> keeps = inputs;
  keeps.insert(keeps.end(), residuals.begin(), residuals.end());
  auto rule = [self, &p, inputs = std::move(inputs), residuals = std::move(residuals), specs = std::move(specs),
               results](std::span<const Tensor> cotangents, uint64_t) {
    Tensors back;
    for (size_t k = 0; k < inputs.size(); ++k) back.push_back(Tensor());
    bool through_residuals = false;
    for (size_t k = results; k < cotangents.size(); ++k) through_residuals |= cotangents[k].defined();
    std::vector<Tensor> arguments, gradients;
    if (through_residuals) {
      // Only under an outer tape: the residuals have cotangents of their own, so the forward part with all its results
      // is differentiated as a call itself.
      GradientTape tape({.persistent = false, .watch_variables = false});
      std::vector<Tensor> fresh;
      std::vector<Source> sources;
      for (const Tensor& t : inputs) fresh.push_back(identity(t));
      for (int k : p.inputs) {
        tape.watch(fresh[size_t(k)]);
        sources.emplace_back(fresh[size_t(k)]);
      }
      std::vector<Tensor> again = p.silent->call(fresh, Where::current()), targets, seeds;
      for (size_t k = 0; k < cotangents.size(); ++k)
        if (cotangents[k].defined()) targets.push_back(again[k]), seeds.push_back(cotangents[k]);
      gradients = tape.gradient(targets, sources, {.unconnected = Unconnected::none, .output_gradients = seeds});
    } else {
      arguments = residuals;
      for (int k : p.results) {
        const Tensor& c = cotangents[size_t(k)];
        const Spec& s = specs[size_t(k)];
        arguments.push_back(c.defined() ? c : zeros(s.shape, {.dtype = s.dtype, .device = s.device}));
      }
      gradients = p.backward->call(arguments, Where::current());
    }
    for (size_t k = 0; k < p.inputs.size(); ++k) back[size_t(p.inputs[k])] = gradients[k];
    return back;
  };
  return {std::move(rule), std::move(keeps)};
}

}  // namespace rill
