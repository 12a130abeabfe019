// See control_gradients.h.
#include "rill/trace/control/control_gradients.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "rill/autodiff/forward_impl.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/graph/rewriter.h"
#include "rill/trace/graph/value_key.h"
#include "rill/trace/passes.h"

namespace rill {

// --- A backward walk over a graph ------------------------------------------------------------------------------------

BackwardTrace::BackwardTrace(const std::string& role) : tracer_(inner_name(role), Tracer::Nesting::inside) {}

std::vector<Tensor> BackwardTrace::gradient(
    const Graph& g, std::vector<Tensor>& inputs, const std::vector<size_t>& sources, const std::vector<size_t>& same_as,
    const std::function<void(const std::vector<Tensor>& results)>& choose_targets) {
  GradientTape tape({.watch_variables = false});
  std::vector<Source> wanted;
  for (size_t k : sources) {
    tape.watch(inputs[k]);
    wanted.emplace_back(inputs[k]);
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (same_as[k] != k) identify(inputs[k], inputs[same_as[k]]);
  choose_targets(interpret(g, inputs));
  std::vector<Tensor> sums = GradientTape::Impl::partial_sums(tape, targets_, wanted, seeds_);
  for (size_t i = 0; i < sums.size(); ++i)
    if (!sums[i].defined()) sums[i] = zeros_like(inputs[sources[i]]);
  return sums;
}

Graph BackwardTrace::finish(std::vector<bool>* used) {
  const Graph g = eliminate_dead_code(with_kept(tracer_.finish(), used));
  for (const GraphInput& in : g.inputs)
    if (in.kind == GraphInput::Kind::variable)
      fail("custom_gradient",
           fmt::format("a rule inside cond(), while_loop() or scan() assigns variable '{}'{}", in.variable->name,
                       in.variable->name == "random/state" ? ", which is a random draw. give the draw a random::Key"
                                                           : ". assign it outside the rule"));
  return g;
}

Graph BackwardTrace::with_kept(const Graph& g, std::vector<bool>* used) const {
  if (kept_.empty()) return g;
  std::vector<bool> read(kept_.size());
  std::unordered_map<int64_t, size_t> by_value;     // index of the first of kept_ with this value
  std::unordered_map<int32_t, size_t> by_argument;  // index by the argument's node
  for (size_t k = 0; k < kept_.size(); ++k) {
    by_value.try_emplace(key_of(kept_[k].value), k);
    by_argument.emplace(kept_[k].argument.node, k);
  }
  const auto instead = [&](ValueId v) {
    const auto at = by_value.find(key_of(v));
    if (at == by_value.end()) return v;
    read[at->second] = true;
    return kept_[at->second].argument;
  };
  // From the end, over live nodes only, so that values that only kept ones were computed from get no readers.
  std::vector<char> live(g.nodes().size(), 0);
  std::vector<Node> nodes(g.nodes().begin(), g.nodes().end());
  std::vector<ValueId> outputs;
  for (ValueId v : g.outputs) outputs.push_back(instead(v)), live[size_t(outputs.back().node)] = 1;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!live[i] && !has_effect(nodes[i])) continue;
    for (ValueId& v : nodes[i].inputs) v = instead(v), live[size_t(v.node)] = 1;
  }
  Graph out;
  for (Node& n : nodes) out.append(std::move(n));
  out = rebuilt(g, std::move(out));
  out.outputs = std::move(outputs);
  std::erase_if(out.inputs, [&](const GraphInput& in) {
    const auto at = by_argument.find(in.node);
    return at != by_argument.end() && !read[at->second];
  });
  for (size_t k = 0; k < out.inputs.size(); ++k)
    if (out.inputs[k].kind == GraphInput::Kind::argument) out.inputs[k].argument = int(k);
  // Sizes are named by nodes of the graph that still had all inputs.
  if (!out.whole && has_open_sizes(out)) out.whole = Shared<const Graph>::make(g);
  *used = std::move(read);
  return out;
}

// --- Where gradients flow --------------------------------------------------------------------------------------------

bool wants_gradient(const VjpArgs& a, size_t operand) {
  return a.needs(int(operand)) && is_differentiable(a.in[operand].dtype());
}

namespace {

// The operands [first, last) of a node that the gradient of its results may flow into.
std::pair<size_t, size_t> reached_operands(const Node& n) {
  // No gradient flows into a marker's first operand, its value, nor into the tensors that a rule reads.
  if (!n.op->graphs) return {n.op->marker ? 1 : 0, n.inputs.size()};
  const RoleGroups roles = control_of(*n.op).roles(n.attrs, n.inputs.size()).operands;
  const size_t first = count_of(roles, Role::value);
  return {first, n.inputs.size() - count_of(roles, Role::read)};
}

}  // namespace

std::vector<bool> reached_by_gradients(const Graph& g) {
  std::vector<char> live(g.nodes().size(), 0);
  for (ValueId v : g.outputs) live[size_t(v.node)] |= is_differentiable(g.spec(v).dtype);
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    if (!live[i] || n.kind != Node::Kind::op || (!n.op->vjp && n.op != &known_as_op) || n.op->stops_gradient) continue;
    const auto [first, last] = reached_operands(n);
    for (size_t k = first; k < last; ++k)
      live[size_t(n.inputs[k].node)] |= is_differentiable(g.spec(n.inputs[k]).dtype);
  }
  std::vector<bool> by_input;
  for (const GraphInput& in : g.inputs) by_input.push_back(live[size_t(in.node)]);
  return by_input;
}

// --- Gradients that cannot be had ------------------------------------------------------------------------------------

namespace {

struct Refusal {
  std::string message;
  bool zeros_pass;  // no error if all cotangents are zeros
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("message", s.message);
    v("zeros_pass", s.zeros_pass);
  }
};

const ReadableAttrs readable_refusal(std::type_identity<Refusal>(), "no_gradient");

OutSpecs infer_nothing(const InferArgs&) { return {}; }

Tensors call_refusal(Operands in, AttrsView attrs) {
  const Refusal& r = attrs.as<Refusal>();
  bool zeros = r.zeros_pass;
  for (const Tensor* t : in) zeros = zeros && !any(*t != 0).item<bool>();
  if (!zeros) throw Error(r.message);
  return {};
}

const Op refusal_op({.name = "no_gradient",
                     .doc = "fails where a gradient flows back that cannot be had",
                     .dtypes = every_set,
                     .inputs = -1,
                     .outputs = 0,
                     .infer = infer_nothing,
                     .no_gradient = "it gives nothing",
                     .call = call_refusal,
                     .effect = true,
                     .listed = false});

// While a gradient is traced that may never be used, the error is left to a call that uses it.
void refuse(const Refusal& r, std::span<const Tensor> cotangents) {
  const EnclosingTrace* trace = EnclosingTrace::now();
  if (!trace || !trace->speculative()) throw Error(r.message);
  SmallVec<const Tensor*, 8> arrived;
  for (const Tensor& t : cotangents)
    if (t.defined()) arrived.push_back(&t);
  apply(refusal_op, Operands(arrived.data(), arrived.size()), r, Where::current());
}

}  // namespace

void refuse_gradient(const std::string& message) { refuse({message, false}, {}); }
void refuse_gradient_but_zeros(const std::string& message, std::span<const Tensor> cotangents) {
  refuse({message, true}, cotangents);
}

}  // namespace rill
