// Gradients of control flow. The gradient of a branch is a branch of the same choice; the gradient of a loop is a scan
// from the last step to the first. Each inner graph is traced again under a tape, from its operands, so a forward loop
// keeps only the carried values before each step, and derivatives of any order are made of the same nodes.
#include "rill/trace/control/control_gradients.h"

#include <fmt/format.h>

#include <functional>
#include <unordered_map>

#include "rill/autodiff/forward_impl.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/graph/rewriter.h"
#include "rill/trace/graph/tracer.h"
#include "rill/trace/graph/value_key.h"
#include "rill/trace/passes.h"

namespace rill {

void drop_effects(Node& n) {
  if (!has_effect(n)) return;
  ControlAttrs attrs = n.attrs.as<ControlAttrs>();
  for (auto& inner : attrs.graphs) inner = std::make_shared<InnerGraph>(inner->role, without_effects(inner->graph));
  n.attrs = attrs;
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
    if (n.kind == Node::Kind::op && n.op->effect) continue;
    drop_effects(n);
    for (ValueId& v : n.inputs) v = now(v);
    number[i] = out.append(std::move(n));
  }
  return rebuilt(g, std::move(out), Numbers::changed, now);
}

namespace {

// A graph's inputs and results as tensors of a trace, under a tape that watches some of the inputs.
class Again {
 public:
  explicit Again(const std::string& role) : tracer_(inner_name(role), Tracer::Nesting::inside) {}

  Tensor argument(const Spec& s, std::string name) { return tracer_.add_argument(s, std::move(name)); }
  // Cotangents of `sources`, where `targets` have `seeds`; gives nothing of what they do not depend on but zeros. Input
  // i counts as the same tensor as input alike[i].
  std::vector<Tensor> gradient(const Graph& g, std::vector<Tensor>& inputs, const std::vector<size_t>& sources,
                               const std::vector<size_t>& alike,
                               const std::function<void(const std::vector<Tensor>& results)>& choose_targets) {
    GradientTape tape({.watch_variables = false});
    std::vector<Source> wanted;
    for (size_t k : sources) {
      tape.watch(inputs[k]);
      wanted.emplace_back(inputs[k]);
    }
    for (size_t k = 0; k < inputs.size(); ++k)
      if (alike[k] != k) take_for(inputs[k], inputs[alike[k]]);
    choose_targets(interpret(g, inputs));
    return tape.gradient(targets_, wanted, {.unconnected = Unconnected::zero, .output_gradients = seeds_});
  }
  void seed(const Tensor& target, const Tensor& cotangent) {
    targets_.push_back(target);
    seeds_.push_back(cotangent);
  }
  void output(const Tensor& t) { tracer_.add_output(t); }
  // `kept`, an argument, has the elements that `value` has: who would read that reads this.
  void keep(const Tensor& value, const Tensor& kept) {
    kept_.push_back({tracer_.value_of(value, tracer_.name()), tracer_.value_of(kept, tracer_.name())});
  }
  // The graph, without arguments of keep() that nobody reads: `used` tells which are there.
  Graph finish(std::vector<bool>* used = nullptr) {
    const Graph g = eliminate_dead_code(with_kept(tracer_.finish(), used));
    for (const GraphInput& in : g.inputs)
      if (in.kind == GraphInput::Kind::variable)
        fail("custom_gradient",
             fmt::format("a rule inside cond(), while_loop() or scan() assigns variable '{}'{}", in.variable->name,
                         in.variable->name == "random/state" ? ", which is a random draw. give the draw a random::Key"
                                                             : ". assign it outside the rule"));
    return g;
  }

 private:
  Graph with_kept(const Graph& g, std::vector<bool>* used) const {
    if (kept_.empty()) return g;
    std::vector<bool> read(kept_.size());
    std::unordered_map<int64_t, size_t> by_value;     // the first of kept_ with it
    std::unordered_map<int32_t, size_t> by_argument;  // by its node
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
    // From the end, as far as the way back reaches: what only what is kept was computed from has no readers.
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
    *used = std::move(read);
    return out;
  }

  struct Kept {
    ValueId value, argument;
  };
  Tracer tracer_;
  std::vector<Tensor> targets_, seeds_;
  std::vector<Kept> kept_;
};

bool wants_gradient(const VjpArgs& a, size_t operand) {
  return a.needs(int(operand)) && is_differentiable(a.in[operand].dtype());
}

Tensors none_for(std::span<const Tensor> in) {
  Tensors back;
  for (size_t k = 0; k < in.size(); ++k) back.push_back(Tensor());
  return back;
}

// By input of the graph: whether a gradient of its results can flow there. Where none can, nothing is added to a sum,
// as nothing is eagerly.
std::vector<bool> connected(const Graph& g) {
  std::vector<char> live(g.nodes().size(), 0);
  for (ValueId v : g.outputs) live[size_t(v.node)] |= is_differentiable(g.spec(v).dtype);
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    if (!live[i] || n.kind != Node::Kind::op || (!n.op->vjp && n.op != &known_as_op) || n.op->stops_gradient) continue;
    // A marker's first operand is its value, which no gradient flows into.
    const size_t first = n.op->marker ? 1 : 0;
    const size_t last = n.op->marker && n.op->graphs ? 1 + size_t(n.attrs.as<ControlAttrs>().carried) : n.inputs.size();
    for (size_t k = first; k < last; ++k)
      live[size_t(n.inputs[k].node)] |= is_differentiable(g.spec(n.inputs[k]).dtype);
  }
  std::vector<bool> by_input;
  for (const GraphInput& in : g.inputs) by_input.push_back(live[size_t(in.node)]);
  return by_input;
}

}  // namespace

// --- Branches --------------------------------------------------------------------------------------------------------

namespace {

// What a backward walk passes to a choice, by number of the operand or result.
struct BranchArrivals {
  std::vector<size_t> sources, results, sums, alike;
};

// A branch's backward graph: (operands, cotangents, sums) -> sums with the branch's own terms added.
std::shared_ptr<const InnerGraph> backward_branch(const InnerGraph& branch, std::span<const Tensor> in,
                                                  const BranchArrivals& arrived) {
  Again again(branch.role + "_backward");
  std::vector<Tensor> inputs, cotangents, sums;
  for (const Tensor& t : in) inputs.push_back(again.argument(t.spec(), "operand"));
  const Graph g = without_effects(branch.graph);
  for (size_t k : arrived.results) cotangents.push_back(again.argument(g.spec(g.outputs[k]), "cotangent"));
  for (size_t k : arrived.sums) sums.push_back(again.argument(in[k].spec(), "sum"));
  std::vector<Tensor> gradients =
      again.gradient(g, inputs, arrived.sources, arrived.alike, [&](const std::vector<Tensor>& results) {
        for (size_t i = 0; i < sums.size(); ++i) again.seed(inputs[arrived.sums[i]], sums[i]);
        for (size_t i = cotangents.size(); i-- > 0;) again.seed(results[arrived.results[i]], cotangents[i]);
      });
  for (const Tensor& t : gradients) again.output(t);
  return std::make_shared<InnerGraph>(branch.role + "_backward", again.finish());
}

}  // namespace

Tensors vjp_of_branches(const VjpArgs& a) {
  const ControlAttrs& forward = a.attrs.as<ControlAttrs>();
  std::span<const Tensor> in = a.in.subspan(1);
  BranchArrivals arrived;
  std::vector<bool> flows(in.size());  // into an operand or one that is the same tensor
  for (size_t k = 0; k < in.size(); ++k) arrived.alike.push_back(size_t(a.sums.first[k + 1]) - 1);
  for (const auto& branch : forward.graphs) {
    const std::vector<bool> here = connected(branch->graph);
    for (size_t k = 0; k < in.size(); ++k)
      if (here[k]) flows[arrived.alike[k]] = true;
  }
  for (size_t k = 0; k < in.size(); ++k) {
    if (!wants_gradient(a, k + 1) || !flows[k] || arrived.alike[k] != k) continue;
    arrived.sources.push_back(k);
    if (a.sums.of[k + 1].defined()) arrived.sums.push_back(k);
  }
  if (arrived.sources.empty()) return {};
  for (size_t k = 0; k < a.cotangent.size(); ++k)
    if (a.cotangent[k].defined()) arrived.results.push_back(k);

  ControlAttrs backward;
  for (const auto& branch : forward.graphs) backward.graphs.push_back(backward_branch(*branch, in, arrived));
  for (size_t k : arrived.sources) backward.outputs.push_back(in[k].spec());
  backward.place = forward.place;

  std::vector<Tensor> operands(a.in.begin(), a.in.end());
  for (size_t k : arrived.results) operands.push_back(a.cotangent[k]);
  for (size_t k : arrived.sums) operands.push_back(a.sums.of[k + 1]);
  Tensors gradients = apply_control(a.op, operands, std::move(backward), Where::current());
  for (size_t k = 0; k < arrived.sources.size(); ++k) a.sums.of[arrived.sources[k] + 1] = gradients[k];
  return {};
}

// --- Loops -----------------------------------------------------------------------------------------------------------

namespace {

// A loop to differentiate, seen as a scan. Operands of the body: carried, rows of xs, constants.
struct Loop {
  const Graph* body;  // (carried, x, constants) -> (carried, y)
  size_t carried, scanned, constants;
  std::span<const Tensor> operands;                       // in that order, without a count
  std::span<const Tensor> carried_bar, y_bar, saved_bar;  // cotangents; undefined where none arrived
  std::span<const Tensor> saved;                          // carried before each step, stacked
  std::span<const Tensor> ys;                             // results of each step, stacked
  Tensor count;                                           // steps, where the number is known at run time only
  Dim length;
  bool reverse;
  std::span<const int32_t> first;  // by operand of the node, the first one that the tape takes for the same tensor
  size_t offset;                   // of `operands` among those of the node
  // By operand the one that stands for it: of constants that are the same tensor the first, of others itself. What is
  // summed up for one tensor is one sum.
  std::vector<size_t> stands_for() const {
    std::vector<size_t> found;
    std::unordered_map<int32_t, size_t> known;
    for (size_t k = 0; k < operands.size(); ++k)
      found.push_back(k < carried + scanned ? k : known.try_emplace(first[k + offset], k).first->second);
    return found;
  }
};

// The operands of the backward scan: what it carries, what it scans over and what stays, by the forward operand that
// each belongs to.
struct BackwardScan {
  std::vector<size_t> carried, constants, rows;  // carried: differentiable ones; constants, xs: those asked for
  std::vector<size_t> y_arrived, saved_arrived;  // by number of y and of carried
  std::vector<size_t> ys;                        // those that the step back reads, in place of computing them again
  std::vector<Tensor> operands;
  ControlAttrs attrs;
};

// x + start = x for every x, the negative zero included, which 0 would turn positive.
Tensor start_of_sum(const Spec& s) { return full(s.shape, -0.0, {.dtype = s.dtype, .device = s.device}); }

BackwardScan choose(const Loop& l, const std::function<bool(size_t)>& wanted) {
  BackwardScan b;
  const std::vector<bool> flows = connected(*l.body);
  for (size_t k = 0; k < l.carried; ++k)
    if (is_differentiable(l.operands[k].dtype())) b.carried.push_back(k);
  for (size_t k = 0; k < l.scanned; ++k)
    if (wanted(l.carried + k) && flows[l.carried + k]) b.rows.push_back(l.carried + k);
  const std::vector<size_t> stands_for = l.stands_for();
  std::vector<char> any(l.operands.size(), 0);
  for (size_t k = 0; k < any.size(); ++k) any[stands_for[k]] |= flows[k];
  for (size_t at = l.carried + l.scanned; at < any.size(); ++at)
    if (any[at] && wanted(at)) b.constants.push_back(at);
  for (size_t k = 0; k < l.y_bar.size(); ++k)
    if (l.y_bar[k].defined()) b.y_arrived.push_back(k);
  for (size_t k = 0; k < l.saved_bar.size(); ++k)
    if (l.saved_bar[k].defined()) b.saved_arrived.push_back(k);
  return b;
}

// One backward step: from the cotangents of what the step gave, and what it took, to those of what it took.
Graph backward_step(const Loop& l, BackwardScan& b) {
  Again again("body_backward");
  const std::vector<Tensor> ends(l.operands.begin(), l.operands.end());
  std::vector<Tensor> carried_bar, constants_bar, inputs, y_bar, saved_bar, kept;
  for (size_t k : b.carried) carried_bar.push_back(again.argument(ends[k].spec(), "cotangent"));
  for (size_t k : b.constants) constants_bar.push_back(again.argument(ends[k].spec(), "sum"));
  for (size_t k = 0; k < l.carried; ++k) inputs.push_back(again.argument(ends[k].spec(), "carried"));
  for (size_t k = 0; k < l.scanned; ++k) inputs.push_back(again.argument(row_spec(ends[l.carried + k].spec()), "x"));
  for (size_t k : b.y_arrived) y_bar.push_back(again.argument(row_spec(l.y_bar[k].spec()), "cotangent"));
  for (size_t k : b.saved_arrived) saved_bar.push_back(again.argument(row_spec(l.saved_bar[k].spec()), "cotangent"));
  for (const Tensor& t : l.ys) kept.push_back(again.argument(row_spec(t.spec()), "kept"));
  for (size_t k = 0; k < l.constants; ++k)
    inputs.push_back(again.argument(ends[l.carried + l.scanned + k].spec(), "constant"));

  std::vector<size_t> sources = b.carried;
  sources.insert(sources.end(), b.constants.begin(), b.constants.end());
  sources.insert(sources.end(), b.rows.begin(), b.rows.end());
  auto choose_targets = [&](const std::vector<Tensor>& results) {
    // Sums go on where the step before left them, in the order in which an eager backward walk adds.
    for (size_t k = 0; k < b.constants.size(); ++k) again.seed(inputs[b.constants[k]], constants_bar[k]);
    for (size_t k = 0; k < b.saved_arrived.size(); ++k) again.seed(inputs[b.saved_arrived[k]], saved_bar[k]);
    for (size_t k = b.y_arrived.size(); k-- > 0;) again.seed(results[l.carried + b.y_arrived[k]], y_bar[k]);
    for (size_t k = b.carried.size(); k-- > 0;) again.seed(results[b.carried[k]], carried_bar[k]);
    for (size_t k = 0; k < kept.size(); ++k) again.keep(results[l.carried + k], kept[k]);
  };
  std::vector<Tensor> gradients = again.gradient(*l.body, inputs, sources, l.stands_for(), choose_targets);
  for (const Tensor& t : gradients) again.output(t);
  std::vector<bool> used;
  Graph g = again.finish(&used);
  for (size_t k = 0; k < used.size(); ++k)
    if (used[k]) b.ys.push_back(k);
  return g;
}

// The backward scan of a loop: adds to the sums of the node's operands.
void backward_scan(const Loop& l, const std::function<bool(size_t)>& wanted, std::span<Tensor> sums,
                   const std::string& place) {
  auto sum_of = [&](size_t k) -> Tensor& { return sums[size_t(l.first[k + l.offset])]; };
  auto add = [&](size_t k, const Tensor& term) {
    if (wanted(k)) sum_of(k) = sum_of(k).defined() ? sum_of(k) + term : term;
  };
  BackwardScan b = choose(l, wanted);
  if (!l.count.defined() && !l.length.is_open() && l.length.plain() == 0) {  // as eagerly, only what passes through
    for (size_t i = b.carried.size(); i-- > 0;)
      if (l.carried_bar[b.carried[i]].defined()) add(b.carried[i], l.carried_bar[b.carried[i]]);
    return;
  }
  ControlAttrs attrs;
  attrs.graphs = {std::make_shared<InnerGraph>("body_backward", backward_step(l, b))};
  attrs.length = l.length;
  attrs.reverse = !l.reverse;
  attrs.counted = l.count.defined();
  attrs.place = place;

  std::vector<Tensor> operands;
  if (attrs.counted) operands.push_back(l.count);
  for (size_t k : b.carried)
    operands.push_back(l.carried_bar[k].defined() ? l.carried_bar[k] : start_of_sum(l.operands[k].spec()));
  for (size_t k : b.constants) operands.push_back(sum_of(k).defined() ? sum_of(k) : start_of_sum(l.operands[k].spec()));
  attrs.carried = int(b.carried.size() + b.constants.size());
  operands.insert(operands.end(), l.saved.begin(), l.saved.end());
  operands.insert(operands.end(), l.operands.begin() + long(l.carried),
                  l.operands.begin() + long(l.carried + l.scanned));
  for (size_t k : b.y_arrived) operands.push_back(l.y_bar[k]);
  for (size_t k : b.saved_arrived) operands.push_back(l.saved_bar[k]);
  for (size_t k : b.ys) operands.push_back(l.ys[k]);
  attrs.scanned = int(l.saved.size() + l.scanned + b.y_arrived.size() + b.saved_arrived.size() + b.ys.size());
  operands.insert(operands.end(), l.operands.end() - long(l.constants), l.operands.end());

  std::vector<size_t> order = b.carried;
  order.insert(order.end(), b.constants.begin(), b.constants.end());
  order.insert(order.end(), b.rows.begin(), b.rows.end());
  for (size_t k : order) attrs.outputs.push_back(l.operands[k].spec());

  Tensors gradients = apply_control(scan_op, operands, std::move(attrs), Where::current());
  const size_t constants = b.carried.size(), rows = constants + b.constants.size();
  for (size_t i = 0; i < b.constants.size(); ++i) sum_of(b.constants[i]) = gradients[constants + i];
  // Eagerly each row's cotangent is added to zeros elsewhere, which turns negative zeros positive.
  for (size_t i = 0; i < b.rows.size(); ++i)
    add(b.rows[i], l.length > 1 && !l.count.defined() ? gradients[rows + i] + 0 : gradients[rows + i]);
  for (size_t i = b.carried.size(); i-- > 0;) add(b.carried[i], gradients[i]);
}

}  // namespace

Tensors vjp_of_scan(const VjpArgs& a) {
  const ControlAttrs& s = a.attrs.as<ControlAttrs>();
  size_t first = s.counted ? 1 : 0, carried = size_t(s.carried), scanned = size_t(s.scanned);
  Graph body = without_effects(s.graphs[0]->graph);
  size_t ys = body.outputs.size() - carried;
  Loop l{.body = &body,
         .carried = carried,
         .scanned = scanned,
         .constants = a.in.size() - first - carried - scanned,
         .operands = a.in.subspan(first),
         .carried_bar = a.cotangent.subspan(0, carried),
         .y_bar = a.cotangent.subspan(carried, ys),
         .saved_bar = a.cotangent.subspan(carried + ys),
         .saved = a.out.subspan(carried + ys),
         .ys = a.out.subspan(carried, ys),
         .count = s.counted ? a.in[0] : Tensor(),
         .length = s.length,
         .reverse = s.reverse,
         .first = a.sums.first,
         .offset = first};
  backward_scan(l, [&](size_t k) { return wants_gradient(a, first + k); }, a.sums.of, s.place);
  return {};
}

namespace {

struct Refusal {
  std::string message;
  bool zeros_pass;  // where all operands, cotangents, are zeros
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

// Where a gradient is traced that may never be asked for, the error is thrown only by a call that asks for it.
void refuse(const Refusal& r, std::span<const Tensor> cotangents) {
  const EnclosingTrace* trace = EnclosingTrace::now();
  if (!trace || !trace->speculative()) throw Error(r.message);
  SmallVec<const Tensor*, 8> arrived;
  for (const Tensor& t : cotangents)
    if (t.defined()) arrived.push_back(&t);
  apply(refusal_op, Operands(arrived.data(), arrived.size()), r, Where::current());
}

void refuse_unbounded(const VjpArgs& a) {
  try {
    fail("while_loop",
         fmt::format("the gradient of the loop at {} is asked for in a traced function or in vmap, where all its "
                     "steps must be kept and their number has no bound. give one: WhileOptions{{.max_steps = ...}}",
                     a.attrs.as<ControlAttrs>().place));
  } catch (const Error& e) {
    refuse({e.what(), true}, a.cotangent);
  }
}

// The steps of such a loop are not kept. Its cotangents cannot be computed, but what they depend on is known: their map
// is the transpose of the loop's tangents, which need no steps, and is all that linearize() asks for.
Tensors vjp_of_unbounded(const VjpArgs& a) {
  if (!linearizing()) refuse_unbounded(a);
  const Tensors in(a.in);
  SmallVec<const Tensor*, 8> arrived;
  SmallVec<size_t, 8> of;  // the numbers of the results whose cotangents have
  for (size_t k = 0; k < a.out.size(); ++k)
    if (a.cotangent[k].defined()) arrived.push_back(&a.cotangent[k]), of.push_back(k);
  Tensors found = none_for(a.in);
  for (size_t i = 0; i < in.size() && !arrived.empty(); ++i) {
    if (!is_differentiable(in[i].dtype()) || !a.needs(int(i))) continue;
    const GradientRule rule = [&op = a.op, attrs = a.attrs.as<ControlAttrs>(), in, of, i](const Tensor& tangent) {
      const Tensor moving = identity(in[i]);
      const ForwardAccumulator along(moving, tangent);
      SmallVec<const Tensor*, 8> operands;
      for (size_t k = 0; k < in.size(); ++k) operands.push_back(k == i ? &moving : &in[k]);
      const Tensors out = apply_control(op, Operands(operands.data(), operands.size()), attrs, Where::current());
      Tensors given;
      for (size_t k : of) given.push_back(along.jvp(out[k], Unconnected::zero));
      return given;
    };
    found[i] = detail::with_rule(zeros_like(in[i]), Operands(arrived.data(), arrived.size()), rule, Where::current());
  }
  return found;
}

}  // namespace

void refuse_gradient(const std::string& message) { refuse({message, false}, {}); }

Tensors vjp_of_while(const VjpArgs& a) {
  const ControlAttrs& s = a.attrs.as<ControlAttrs>();
  if (s.length < 0) return vjp_of_unbounded(a);
  size_t carried = size_t(s.carried);
  Graph body = without_effects(s.graphs[0]->graph);
  body.outputs.erase(body.outputs.begin());  // whether to go on
  Loop l{.body = &body,
         .carried = carried,
         .scanned = 0,
         .constants = a.in.size() - 1 - carried,
         .operands = a.in.subspan(1),
         .carried_bar = a.cotangent.subspan(0, carried),
         .y_bar = {},
         .saved_bar = a.cotangent.subspan(carried + 1),
         .saved = a.out.subspan(carried + 1),
         .ys = {},
         .count = a.out[carried],
         .length = s.length,
         .reverse = false,
         .first = a.sums.first,
         .offset = 1};
  backward_scan(l, [&](size_t k) { return wants_gradient(a, 1 + k); }, a.sums.of, s.place);
  return {};
}

}  // namespace rill
