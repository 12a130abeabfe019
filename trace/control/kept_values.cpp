// See kept_values.h. Start at worth_keeping.
#include "rill/trace/control/kept_values.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "rill/autodiff/recompute_policy.h"
#include "rill/autodiff/tape.h"
#include "rill/ops/ops.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/tracer.h"
#include "rill/trace/graph/value_key.h"
#include "rill/trace/passes.h"

namespace rill {

namespace {

// Whether computing the node again costs about as much as reading its result.
bool is_cheap(const Node& n) {
  if (n.region) return !n.region->policy.keeps(*n.op, n.attrs);               // recompute()'s policy
  if (n.kind != Node::Kind::op || n.op->marker || n.op->graphs) return true;  // inner loops keep their own values
  return n.op->kind != OpKind::library && n.op->kind != OpKind::reduction;
}

// The outputs of nodes of `g` that its backward pass reads.
std::vector<ValueId> read_on_the_way_back(const Graph& g, const std::vector<bool>& wanted) {
  Tracer tracer(inner_name("kept"), Tracer::Nesting::inside);
  tracer.set_speculative();
  GradientTape tape({.watch_variables = false});
  std::vector<Tensor> inputs, targets, seeds;
  std::vector<Source> sources;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    inputs.push_back(tracer.add_argument(g.nodes()[size_t(g.inputs[k].node)].outputs[0], "operand"));
    if (!wanted[k] || !is_differentiable(inputs[k].dtype())) continue;
    tape.watch(inputs[k]);
    sources.emplace_back(inputs[k]);
  }
  const auto values = interpret_all(g, inputs);
  std::map<std::pair<int32_t, int32_t>, ValueId> own;  // keyed by value of the trace
  for (size_t i = 0; i < g.nodes().size(); ++i)
    for (size_t k = 0; k < g.nodes()[i].outputs.size(); ++k) {
      if (g.nodes()[i].kind != Node::Kind::op) continue;
      const ValueId v = tracer.value_of(values[i][k], g.name);
      own[{v.node, v.index}] = {int32_t(i), int32_t(k)};
    }
  const int32_t forward_end = int32_t(tracer.size());
  for (ValueId v : g.outputs) {
    const Tensor& t = values[size_t(v.node)][size_t(v.index)];
    if (!is_differentiable(t.dtype())) continue;
    targets.push_back(t);
    seeds.push_back(tracer.add_argument(t.spec(), "cotangent"));
  }
  if (targets.empty() || sources.empty()) return {};
  for (const Tensor& t : tape.gradient(targets, sources, {.unconnected = Unconnected::none, .output_gradients = seeds}))
    if (t.defined()) tracer.add_output(t);
  const Graph joint = tracer.finish();

  std::vector<char> live(joint.nodes().size(), 0);
  std::vector<ValueId> read;
  const auto reads = [&](ValueId v) {
    live[size_t(v.node)] = 1;
    if (v.node >= forward_end) return;
    if (const auto at = own.find({v.node, v.index}); at != own.end()) read.push_back(at->second);
  };
  for (ValueId v : joint.outputs) reads(v);
  for (size_t i = joint.nodes().size(); i-- > size_t(forward_end);)
    if (live[i])
      for (ValueId v : joint.nodes()[i].inputs) reads(v);
  return read;
}

// For each node, the only reader of its first output; -1 where there is none, or more than one.
std::vector<int32_t> only_readers(const Graph& g) {
  constexpr int32_t none = -1, several = -2;
  std::vector<int32_t> reader(g.nodes().size(), none);
  for (ValueId v : g.outputs) reader[size_t(v.node)] = several;
  for (size_t i = 0; i < g.nodes().size(); ++i)
    for (ValueId v : g.nodes()[i].inputs) {
      int32_t& r = reader[size_t(v.node)];
      r = r == none || r == int32_t(i) ? int32_t(i) : several;
    }
  for (int32_t& r : reader) r = std::max(r, none);
  return reader;
}

// The values of `read` that are expensive, and the expensive ones that cheap values of `read` are computed from. Where
// a bias is added to a product, and the backward pass does not read the product itself, the sum is kept: both are one
// kernel.
std::vector<ValueId> worth_keeping(const Graph& g, const std::vector<ValueId>& read) {
  const std::vector<int32_t> reader = only_readers(g);
  std::unordered_set<int64_t> known_read, known_kept;
  for (ValueId v : read) known_read.insert(key_of(v));
  const auto is_read = [&](ValueId v) { return known_read.contains(key_of(v)); };
  const auto last_of_kernel = [&](ValueId v) {
    for (int32_t r; !is_read(v) && (r = reader[size_t(v.node)]) >= 0; v = {r, 0})
      if (g.nodes()[size_t(r)].op->kind != OpKind::elementwise || !(g.spec({r, 0}) == g.spec(v))) break;
    return v;
  };
  std::vector<ValueId> kept, ask = read;
  std::vector<char> seen(g.nodes().size(), 0);
  while (!ask.empty()) {
    const ValueId v = ask.back();
    ask.pop_back();
    const Node& n = g.nodes()[size_t(v.node)];
    if (!is_cheap(n)) {
      const ValueId last = n.outputs.size() == 1 ? last_of_kernel(v) : v;
      if (known_kept.insert(key_of(last)).second) kept.push_back(last);
    } else if (!seen[size_t(v.node)]) {
      seen[size_t(v.node)] = 1;
      ask.insert(ask.end(), n.inputs.begin(), n.inputs.end());
    }
  }
  return kept;
}

}  // namespace

std::shared_ptr<const InnerGraph> keeping_values(const std::shared_ptr<const InnerGraph>& step,
                                                 const std::vector<bool>& wanted) {
  std::string key = "keeping ";
  for (const bool w : wanted) key += w ? '1' : '0';
  const auto more = step->variant(key, [&]() -> InnerGraph::Variant {
    Graph g = step->graph;
    for (const Node& n : g.nodes())
      if (has_effect(n)) return {};  // a node with an effect runs once; recomputing would repeat it
    std::vector<ValueId> kept = worth_keeping(g, read_on_the_way_back(g, wanted));
    std::unordered_set<int64_t> given;
    for (ValueId v : g.outputs) given.insert(key_of(v));
    std::erase_if(kept, [&](ValueId v) { return given.contains(key_of(v)); });
    if (kept.empty()) return {};
    std::sort(kept.begin(), kept.end(),
              [](ValueId a, ValueId b) { return a.node != b.node ? a.node < b.node : a.index < b.index; });
    g.outputs.insert(g.outputs.end(), kept.begin(), kept.end());
    return {std::make_shared<InnerGraph>(step->role, std::move(g))};
  });
  return more.graph ? more.graph : step;
}

}  // namespace rill
