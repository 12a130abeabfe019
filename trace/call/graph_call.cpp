// Differentiates a traced call: differentiate() traces the graph again under a tape, followed by the tape's backward
// walk, into one joint graph; pullback() and backward() split that where the backward part begins.
//
// A gradient has the same bits as without the call, because terms are added in the same order: the backward graph
// starts from the sums that the ops after the call have accumulated, and tensors with one identity on the tape (a
// result that is an argument, an argument given twice, a Variable read again) keep it.
#include "rill/trace/call/graph_call.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "rill/autodiff/body_scope.h"
#include "rill/autodiff/forward_impl.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/node_runner.h"
#include "rill/trace/graph/tracer.h"
#include "rill/trace/graph/value_key.h"
#include "rill/trace/passes.h"

namespace rill {

GraphCall::GraphCall(Graph traced)
    : traced_(eliminate_dead_code(traced)), aliases_(aliases_of(traced_)), tiers_(Tiers::make(std::move(traced))) {}

std::vector<GraphCall::Alias> GraphCall::aliases_of(const Graph& g) {
  std::vector<int> input_at(g.nodes().size(), -1);
  for (size_t k = g.inputs.size(); k-- > 0;) input_at[size_t(g.inputs[k].node)] = int(k);
  std::unordered_map<int64_t, int> first;  // index of the first output with a value, keyed by value
  std::vector<Alias> aliases;
  const auto look = [&](ValueId v) {
    const Node& n = g.nodes()[size_t(v.node)];
    Alias a;
    if (n.kind == Node::Kind::input) a.input = input_at[size_t(v.node)];
    if (const auto at = first.find(key_of(v)); at != first.end()) a.earlier = at->second;
    if (n.op == &known_as_op && g.nodes()[size_t(n.inputs[1].node)].kind == Node::Kind::input)
      a.known_as = input_at[size_t(n.inputs[1].node)];
    aliases.push_back(a);
  };
  for (ValueId v : g.outputs) {
    look(v);
    first.try_emplace(key_of(v), int(aliases.size()) - 1);
  }
  for (const GraphAssign& a : g.assigns) look(a.value);
  return aliases;
}

std::vector<Tensor> GraphCall::run(std::span<const Tensor> inputs) const {
  const Executable& e = tiers_->now();
  std::vector<Tensor> results(e.result_count());
  e.run(inputs, results);
  return results;
}

SmallVec<const Tensor*, 8> pointers(std::span<const Tensor> ts) {
  SmallVec<const Tensor*, 8> p;
  for (const Tensor& t : ts) p.push_back(&t);
  return p;
}

std::vector<bool> watched(Operands in) {
  std::vector<bool> found;
  for (TapeListener* tape : listeners().tapes)
    for (size_t k = 0; k < in.size(); ++k) {
      if (!is_differentiable(in[k]->dtype()) || !tape->watches(*in[k])) continue;
      found.resize(in.size());
      found[k] = true;
    }
  return found;
}

std::vector<std::vector<Tensor>> interpret_all(const Graph& g, std::span<const Tensor> inputs, const Tensor* exempt) {
  std::vector<std::vector<Tensor>> values(g.nodes().size());
  for (size_t k = 0; k < g.inputs.size(); ++k) values[size_t(g.inputs[k].node)] = {inputs[k]};
  NodeRunner runner;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (n.kind == Node::Kind::constant) values[i] = {make_alias(n.constant)};  // a constant of this trace
    if (n.kind != Node::Kind::op) continue;
    if (exempt && n.op->name == "assert_that") {
      Tensor& holds = values[size_t(n.inputs[0].node)][size_t(n.inputs[0].index)];
      const Tensor own = std::exchange(holds, logical_or(holds, exempt->to(holds.device())));
      runner.run(n, values);
      holds = own;
      continue;
    }
    Tensors out = runner.run(n, values);
    values[i].assign(out.begin(), out.end());
  }
  return values;
}

std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> inputs, const Tensor* exempt) {
  return results_of(g, interpret_all(g, inputs, exempt));
}

std::vector<Tensor> results_of(const Graph& g, const std::vector<std::vector<Tensor>>& values) {
  std::vector<Tensor> results;
  for (ValueId v : g.outputs) results.push_back(values[size_t(v.node)][size_t(v.index)]);
  for (const GraphAssign& a : g.assigns) results.push_back(values[size_t(a.value.node)][size_t(a.value.index)]);
  return results;
}

// --- The pullback ----------------------------------------------------------------------------------------------------

namespace {

// Copies part of a joint graph into a new graph.
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
    return map_[key_of(v)] = {in.node, 0};
  }
  bool has(ValueId v) const { return map_.count(key_of(v)) != 0; }
  void add_constant(ValueId v, const Tensor& value) {
    Node n;
    n.kind = Node::Kind::constant;
    n.outputs = {value.spec()};
    n.constant = value;
    map_[key_of(v)] = {part_.append(std::move(n)), 0};
  }
  void add_node(int32_t i, bool silently = false) {
    Node n = joint_.nodes()[size_t(i)];
    if (silently) drop_effects(n);
    for (ValueId& v : n.inputs) v = map_.at(key_of(v));
    int32_t at = part_.append(n);
    for (int32_t k = 0; k < int32_t(n.outputs.size()); ++k) map_[key_of({i, k})] = {at, k};
  }
  void add_output(ValueId v) { part_.outputs.push_back(map_.at(key_of(v))); }
  Graph finish() { return std::move(part_); }

 private:
  const Graph& joint_;
  Graph part_;
  std::unordered_map<int64_t, ValueId> map_;
};

}  // namespace

// --- The joint graph -------------------------------------------------------------------------------------------------

// The forward graph and a backward walk after it.
struct GraphCall::Joint {
  Graph graph;
  int32_t forward_end;                                               // nodes before this index are the forward part
  std::vector<ValueId> inputs, results;                              // of the forward part
  std::vector<std::pair<int, ValueId>> cotangents, sums, gradients;  // cotangents by result; the others by input
};

void identify(Tensor& t, const Tensor& other) {
  const Tensor* in[] = {&t, &other};
  listeners().tapes.back()->record(known_as_op, in, {&t, 1}, {}, Where::current());
}

GraphCall::Joint GraphCall::differentiate(const Wanted& wanted, const Arrived& arrived) const {
  const Graph& g = traced_;
  Joint j;
  Tracer tracer(g.name);
  tracer.set_speculative();
  GradientTape tape({.persistent = true});
  std::vector<Tensor> inputs, targets, seeds;
  for (const GraphInput& in : g.inputs) {
    const Node& n = g.nodes()[size_t(in.node)];
    inputs.push_back(tracer.add_argument(n.outputs[0], n.name));
    j.inputs.push_back(tracer.value_of(inputs.back(), g.name));
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const size_t first = size_t(arrived.first[k]);
    if (first != k) identify(inputs[k], inputs[first]);
    else if (wanted[k]) tape.watch(inputs[k]);
  }
  std::vector<Tensor> results = interpret(g, inputs);
  for (const Tensor& r : results) j.results.push_back(tracer.value_of(r, g.name));
  j.forward_end = int32_t(tracer.size());
  auto arrive = [&](const Tensor& target, const Spec& spec, size_t k, std::vector<std::pair<int, ValueId>>& list,
                    const char* name) {
    seeds.push_back(tracer.add_argument(spec, name));
    targets.push_back(target);
    list.emplace_back(int(k), tracer.value_of(seeds.back(), g.name));
  };
  // An eager backward walk visits the ops after the call before the call's own ops.
  for (size_t k = 0; k < inputs.size(); ++k)
    if (arrived.sums[k]) arrive(inputs[k], detail::sum_spec(inputs[k].spec()), k, j.sums, "sum");
  for (size_t k = 0; k < results.size(); ++k)
    if (arrived.results[k]) arrive(results[k], results[k].spec(), k, j.cotangents, "cotangent");
  std::vector<Source> sources;
  std::vector<int> source_inputs;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (wanted[k] && arrived.first[k] == int32_t(k)) sources.emplace_back(inputs[k]), source_inputs.push_back(int(k));
  std::vector<Tensor> gradients = GradientTape::Impl::partial_sums(tape, targets, sources, seeds);
  for (size_t s = 0; s < sources.size(); ++s)
    if (gradients[s].defined()) j.gradients.emplace_back(source_inputs[s], tracer.value_of(gradients[s], g.name));
  std::vector<ValueId*> values;
  for (auto* list : {&j.inputs, &j.results})
    for (ValueId& v : *list) values.push_back(&v);
  for (auto* list : {&j.cotangents, &j.sums, &j.gradients})
    for (auto& [k, v] : *list) values.push_back(&v);
  j.graph = compute_again(tracer.finish(), values, &j.forward_end);
  return j;
}

// --- Cutting it in two -----------------------------------------------------------------------------------------------

// A backward graph: (residuals kept by the forward graph, cotangents, partial sums) -> sums with the call's terms
// added.
struct GraphCall::Backward {
  std::shared_ptr<GraphCall> graph;
  std::vector<int> residuals;  // its first arguments: indices of residuals
  std::vector<int> inputs;     // then inputs of the call that it reads directly
  std::vector<int> cotangents,
      sums;  // then these; last, variables that a rule reads
  std::vector<Shared<VariableState>> read, assigned;
  std::vector<int> gradients;  // its results, indices of inputs; then the values assigned to variables
};

// The forward graph with the values that the backward graphs read (residuals) as further outputs, and those graphs.
struct GraphCall::Pullback {
  Wanted wanted;
  std::shared_ptr<GraphCall> forward;
  std::vector<ValueId> residuals;             // values of the joint graph
  std::unordered_map<int64_t, int> index_of;  // index in residuals, keyed by key_of()
  std::map<Arrived, std::unique_ptr<Backward>> backward;
  int residual(ValueId v) const {
    const auto at = index_of.find(key_of(v));
    return at == index_of.end() ? -1 : at->second;
  }
};

namespace {

// The live nodes of the backward part.
std::vector<char> live_nodes(const Graph& joint, int32_t forward_end, std::vector<ValueId> outputs) {
  std::vector<char> live(joint.nodes().size(), 0);
  for (const GraphAssign& a : joint.assigns) outputs.push_back(a.value);
  for (ValueId v : outputs) live[size_t(v.node)] = 1;
  for (size_t i = joint.nodes().size(); i-- > size_t(forward_end);) {
    live[i] |= has_effect(joint.nodes()[i]);
    if (live[i])
      for (ValueId v : joint.nodes()[i].inputs) live[size_t(v.node)] = 1;
  }
  return live;
}

// The values of the forward part that the backward part reads, each once, constants excepted.
std::vector<ValueId> crossing(const Graph& joint, int32_t forward_end, const std::vector<ValueId>& outputs) {
  std::vector<ValueId> found;
  std::unordered_set<int64_t> known;
  auto need = [&](ValueId v) {
    const bool crosses = v.node < forward_end && joint.nodes()[size_t(v.node)].kind != Node::Kind::constant;
    if (crosses && known.insert(key_of(v)).second) found.push_back(v);
  };
  const std::vector<char> live = live_nodes(joint, forward_end, outputs);
  for (size_t i = size_t(forward_end); i < joint.nodes().size(); ++i)
    if (live[i])
      for (ValueId v : joint.nodes()[i].inputs) need(v);
  for (ValueId v : outputs) need(v);
  for (const GraphAssign& a : joint.assigns) need(a.value);
  return found;
}

std::vector<ValueId> values_of(const std::vector<std::pair<int, ValueId>>& list) {
  std::vector<ValueId> values;
  for (auto [k, v] : list) values.push_back(v);
  return values;
}

}  // namespace

GraphCall::Pullback& GraphCall::pullback(const Wanted& wanted) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Pullback>& p = pullbacks_[wanted];
  if (p) return *p;
  // The residuals are what a backward walk from all results reads; walks from fewer results read no others.
  Arrived all{std::vector<bool>(executable().result_count()), std::vector<bool>(wanted.size()), {}};
  for (size_t k = 0; k < traced_.outputs.size(); ++k)
    all.results[k] = is_differentiable(traced_.spec(traced_.outputs[k]).dtype);
  for (size_t k = 0; k < wanted.size(); ++k) all.first.push_back(int32_t(k));
  const Joint j = differentiate(wanted, all);
  auto made = std::make_shared<Pullback>();
  made->wanted = wanted;
  made->residuals = crossing(j.graph, j.forward_end, values_of(j.gradients));
  for (size_t k = 0; k < made->residuals.size(); ++k) made->index_of.emplace(key_of(made->residuals[k]), int(k));
  Cutter forward(j.graph, traced_.name);
  for (ValueId v : j.inputs) forward.add_input(v, j.graph.nodes()[size_t(v.node)].name);
  for (int32_t i = 0; i < j.forward_end; ++i)
    if (j.graph.nodes()[size_t(i)].kind != Node::Kind::input) forward.add_node(i);
  for (ValueId v : j.results) forward.add_output(v);
  for (ValueId v : made->residuals) forward.add_output(v);
  made->forward = std::make_shared<GraphCall>(forward.finish());
  p = std::move(made);
  return *p;
}

GraphCall::Backward& GraphCall::backward(Pullback& p, const Arrived& arrived) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Backward>& known = p.backward[arrived];
  if (known) return *known;
  const Joint j = differentiate(p.wanted, arrived);
  const std::vector<ValueId> outputs = values_of(j.gradients), read = crossing(j.graph, j.forward_end, outputs);
  const std::vector<char> live = live_nodes(j.graph, j.forward_end, outputs);
  auto b = std::make_unique<Backward>();
  Cutter cut(j.graph, traced_.name + "_backward");
  std::vector<char> again(size_t(j.forward_end), 0);  // forward nodes to recompute, whose results were not kept
  for (ValueId v : read) {
    const int k = p.residual(v);
    if (k < 0) again[size_t(v.node)] = 1;
    else cut.add_input(v, "residual"), b->residuals.push_back(k);
  }
  for (size_t i = again.size(); i-- > 0;)
    if (again[i])
      for (ValueId v : j.graph.nodes()[i].inputs)
        if (!cut.has(v)) again[size_t(v.node)] = 1;
  for (size_t k = 0; k < j.inputs.size(); ++k)
    if (again[size_t(j.inputs[k].node)] && !cut.has(j.inputs[k]))
      cut.add_input(j.inputs[k], "input"), b->inputs.push_back(int(k));
  for (auto [k, v] : j.cotangents) cut.add_input(v, "cotangent"), b->cotangents.push_back(k);
  for (auto [k, v] : j.sums) cut.add_input(v, "sum"), b->sums.push_back(k);
  for (const GraphInput& in : j.graph.inputs) {
    if (in.kind == GraphInput::Kind::variable) {
      cut.add_input({in.node, 0}, in.variable->name);
      b->read.push_back(in.variable);
    }
    if (in.kind == GraphInput::Kind::captured) cut.add_constant({in.node, 0}, in.captured);
  }
  for (size_t i = 0; i < j.graph.nodes().size(); ++i) {
    const Node& n = j.graph.nodes()[i];
    const bool forward = int32_t(i) < j.forward_end;
    if (n.kind == Node::Kind::input || (n.kind == Node::Kind::op && !(forward ? again[i] : live[i]))) continue;
    cut.add_node(int32_t(i), forward);
  }
  for (auto [k, v] : j.gradients) cut.add_output(v), b->gradients.push_back(k);
  for (const GraphAssign& a : j.graph.assigns) cut.add_output(a.value), b->assigned.push_back(a.variable);
  b->graph = std::make_shared<GraphCall>(eliminate_dead_code(cut.finish()));
  known = std::move(b);
  return *known;
}
// --- Calling ---------------------------------------------------------------------------------------------------------

std::shared_ptr<GraphCall> GraphCall::silent() {
  if (std::none_of(traced_.nodes().begin(), traced_.nodes().end(), has_effect)) return shared_from_this();
  std::lock_guard lock(mutex_);
  if (!silent_) silent_ = std::make_shared<GraphCall>(without_effects(traced_));
  return silent_;
}

std::vector<int> GraphCall::name_results(std::span<const Tensor> inputs, std::vector<Tensor>& results,
                                         bool all_distinct) const {
  std::vector<int> fresh;
  for (size_t k = 0; k < results.size(); ++k) {
    const Alias& a = aliases_[k];
    if (a.input >= 0) {
      results[k] = inputs[size_t(a.input)];
    } else if (a.earlier >= 0) {
      results[k] = results[size_t(a.earlier)];
    } else if (a.known_as >= 0) {
      results[k] = make_alias(results[k]);
      const Tensor* in[] = {&results[k], &inputs[size_t(a.known_as)]};
      for (TapeListener* tape : listeners().tapes)
        tape->record(known_as_op, in, {&results[k], 1}, {}, Where::current());
    } else {
      // Passes may have merged several values, or a result and a value that others hold.
      if (!all_distinct && !results[k].ref().unique()) results[k] = make_alias(results[k]);
      fresh.push_back(int(k));
    }
  }
  return fresh;
}

std::vector<Tensor> GraphCall::call(std::span<const Tensor> inputs, const Where& where) {
  // Under vmap, or in the batched walk of a Jacobian: op by op.
  if (!executing_eagerly()) {
    const detail::BodyScope body;
    return interpret(listeners().repeats ? silent()->traced_ : traced_, inputs);
  }
  const auto unrecorded = [&] { return listeners().repeats ? silent()->run(inputs) : run(inputs); };
  if (listeners().tapes.empty()) return unrecorded();
  const auto listed = pointers(inputs);
  const Operands in(listed.data(), listed.size());
  const Wanted wanted = watched(in);
  if (wanted.empty()) return unrecorded();
  TapeListener& innermost = *innermost_watching(in);
  if (auto* along = dynamic_cast<ForwardAccumulator::Impl*>(&innermost)) return call_forward(*along, inputs, where);
  if (carried_outside(innermost, in)) return call_on_tape(innermost, inputs, where);
  Pullback& p = pullback(wanted);
  std::vector<Tensor> kept(inputs.begin(), inputs.end());  // held during the call, so that no result overwrites them
  std::vector<Tensor> all = listeners().repeats ? p.forward->silent()->run(inputs) : p.forward->run(inputs), outputs;
  std::vector<int> fresh = p.forward->name_results(kept, all);
  for (int k : fresh) outputs.push_back(all[size_t(k)]);
  CustomVjp vjp = vjp_of_call(p, std::move(kept), all, std::move(fresh));
  for (TapeListener* tape : listeners().tapes) tape->record_custom(in, outputs, vjp, where);
  all.resize(executable().result_count());
  return all;
}

// The tape gets its entry as above. Listeners outside of it see a call of the graph that returns the residuals, so that
// these may have tangents.
std::vector<Tensor> GraphCall::call_on_tape(TapeListener& tape, std::span<const Tensor> inputs, const Where& where) {
  Wanted wanted;
  for (const Tensor& t : inputs) wanted.push_back(is_differentiable(t.dtype()) && tape.watches(t));
  Pullback& p = pullback(wanted);
  std::vector<Tensor> kept(inputs.begin(), inputs.end()), all, outputs;
  {
    const ForwardAccumulator::Impl::Outside outside(tape);
    all = p.forward->call(kept, where);
  }
  std::vector<int> fresh = p.forward->name_results(kept, all, true);
  for (int k : fresh) outputs.push_back(all[size_t(k)]);
  const auto in = pointers(inputs);
  tape.record_custom(Operands(in.data(), in.size()), outputs, vjp_of_call(p, std::move(kept), all, std::move(fresh)),
                     where);
  all.resize(executable().result_count());
  return all;
}

namespace {

// Only under an outer tape: there the residuals have cotangents, so the forward graph, with all its results, is
// differentiated as a call of its own.
void pull_through_residuals(GraphCall& forward, const std::vector<bool>& wanted, std::span<const Tensor> inputs,
                            std::span<const int> numbers, std::span<const Tensor> cotangents,
                            const CotangentSums& sums) {
  GradientTape tape({.persistent = false, .watch_variables = false});
  std::vector<Tensor> again, targets, seeds;
  std::vector<Source> sources;
  std::vector<size_t> source_inputs;
  for (size_t k = 0; k < inputs.size(); ++k) {
    again.push_back(known_as(inputs[k], inputs[k], Where::current()));
    const size_t first = size_t(sums.first[k]);
    if (first != k) {
      identify(again[k], again[first]);
    } else if (wanted[k]) {
      tape.watch(again[k]);
      sources.emplace_back(again[k]);
      source_inputs.push_back(k);
    }
    if (sums.of[k].defined()) targets.push_back(again[k]), seeds.push_back(sums.of[k]);
  }
  std::vector<Tensor> results = forward.call(again, Where::current());
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i].defined()) targets.push_back(results[size_t(numbers[i])]), seeds.push_back(cotangents[i]);
  std::vector<Tensor> gradients = GradientTape::Impl::partial_sums(tape, targets, sources, seeds);
  for (size_t s = 0; s < sources.size(); ++s) sums.of[source_inputs[s]] = gradients[s];
}

}  // namespace

CustomVjp GraphCall::vjp_of_call(Pullback& p, std::vector<Tensor> inputs, std::vector<Tensor> all,
                                 std::vector<int> fresh) {
  const size_t results = executable().result_count();
  std::vector<Tensor> residuals(all.begin() + long(results), all.end());
  std::vector<Tensor> keeps = inputs;
  keeps.insert(keeps.end(), residuals.begin(), residuals.end());
  auto rule = [self = shared_from_this(), &p, inputs = std::move(inputs), residuals = std::move(residuals),
               fresh = std::move(fresh),
               results](std::span<const Tensor> cotangents, uint64_t, const CotangentSums& sums) {
    Arrived arrived{std::vector<bool>(results), {}, {sums.first.begin(), sums.first.end()}};
    std::vector<Tensor> by_result(results);
    for (const Tensor& t : sums.of) arrived.sums.push_back(t.defined());
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i].defined()) continue;
      if (size_t(fresh[i]) >= results)
        return pull_through_residuals(*p.forward->silent(), p.wanted, inputs, fresh, cotangents, sums);
      arrived.results[size_t(fresh[i])] = true;
      by_result[size_t(fresh[i])] = cotangents[i];
    }
    const Backward& b = self->backward(p, arrived);
    std::vector<Tensor> arguments;
    for (int k : b.residuals) arguments.push_back(residuals[size_t(k)]);
    for (int k : b.inputs) arguments.push_back(inputs[size_t(k)]);
    for (int k : b.cotangents) arguments.push_back(std::move(by_result[size_t(k)]));
    for (int k : b.sums) arguments.push_back(detail::as_partial_sum(std::move(sums.of[size_t(k)])));
    for (const auto& v : b.read) arguments.push_back(Variable(v).value());
    std::vector<Tensor> given = b.graph->call(arguments, Where::current());
    for (size_t k = 0; k < b.gradients.size(); ++k) sums.of[size_t(b.gradients[k])] = given[k];
    for (size_t k = 0; k < b.assigned.size(); ++k) Variable(b.assigned[k]).assign(given[b.gradients.size() + k]);
  };
  return {std::move(rule), std::move(keeps)};
}

}  // namespace rill
