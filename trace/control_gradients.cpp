// Backward rules of control flow. A branch's gradient is a branch, of the same choice; a loop's is a scan from the last
// step to the first. Each inner graph is traced again under a tape, from its operands, so the only thing that a forward
// loop has to keep is what was carried before each step, and rules of any order are made of the same nodes.
#include "rill/trace/control_gradients.h"

#include <fmt/format.h>

#include <functional>

#include "rill/autodiff/tape.h"
#include "rill/ops/ops.h"
#include "rill/trace/control_nodes.h"
#include "rill/trace/passes.h"
#include "rill/trace/tracer.h"

namespace rill {

Graph without_effects(const Graph& g) {
  bool any = false;
  for (const Node& n : g.nodes()) any |= has_effect(n);
  if (!any) return g;
  Graph out;
  out.name = g.name;
  std::vector<int32_t> now(g.nodes().size(), -1);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    Node n = g.nodes()[i];
    if (n.kind == Node::Kind::op && n.op->effect) continue;
    if (has_effect(n)) {
      ControlAttrs attrs = n.attrs.as<ControlAttrs>();
      for (auto& inner : attrs.graphs) inner = std::make_shared<InnerGraph>(inner->role, without_effects(inner->graph));
      n.attrs = attrs;
    }
    for (ValueId& v : n.inputs) v.node = now[size_t(v.node)];
    now[i] = out.append(std::move(n));
  }
  out.inputs = g.inputs;
  for (GraphInput& in : out.inputs) in.node = now[size_t(in.node)];
  for (ValueId v : g.outputs) out.outputs.push_back({now[size_t(v.node)], v.index});
  return out;
}

namespace {

// A graph's inputs and results as tensors of a trace, under a tape that watches some of the inputs.
class Again {
 public:
  explicit Again(const std::string& role) : tracer_(inner_name(role), Tracer::Nesting::inside) {}

  Tensor argument(const Spec& s, std::string name) { return tracer_.add_argument(s, std::move(name)); }
  // Cotangents of `sources`, where `targets` have `seeds`; gives nothing of what they do not depend on but zeros.
  std::vector<Tensor> gradient(const Graph& g, const std::vector<Tensor>& inputs, const std::vector<size_t>& sources,
                               const std::function<void(const std::vector<Tensor>& results)>& choose_targets) {
    GradientTape tape({.watch_variables = false});
    std::vector<Source> wanted;
    for (size_t k : sources) {
      tape.watch(inputs[k]);
      wanted.emplace_back(inputs[k]);
    }
    choose_targets(interpret(g, inputs));
    return tape.gradient(targets, wanted, {.unconnected = Unconnected::zero, .output_gradients = seeds});
  }
  void output(const Tensor& t) { tracer_.add_output(t); }
  Graph finish() { return eliminate_dead_code(tracer_.finish()); }

  std::vector<Tensor> targets, seeds;

 private:
  Tracer tracer_;
};

bool wants_gradient(const VjpArgs& a, size_t operand) {
  return a.needs(int(operand)) && is_differentiable(a.in[operand].dtype());
}

Tensors none_for(std::span<const Tensor> in) {
  Tensors back;
  for (size_t k = 0; k < in.size(); ++k) back.push_back(Tensor());
  return back;
}

SmallVec<const Tensor*, 8> pointers(const std::vector<Tensor>& ts) {
  SmallVec<const Tensor*, 8> p;
  for (const Tensor& t : ts) p.push_back(&t);
  return p;
}

Tensors apply_to(const Op& op, const std::vector<Tensor>& operands, ControlAttrs attrs) {
  auto in = pointers(operands);
  return apply_control(op, Operands(in.data(), in.size()), std::move(attrs), Where::current());
}

}  // namespace

// --- Branches --------------------------------------------------------------------------------------------------------

Tensors vjp_of_branches(const VjpArgs& a) {
  const ControlAttrs& forward = a.attrs.as<ControlAttrs>();
  std::span<const Tensor> in = a.in.subspan(1);
  std::vector<size_t> sources, arrived;
  for (size_t k = 0; k < in.size(); ++k)
    if (wants_gradient(a, k + 1)) sources.push_back(k);
  for (size_t k = 0; k < a.cotangent.size(); ++k)
    if (a.cotangent[k].defined()) arrived.push_back(k);

  ControlAttrs backward;
  for (const auto& branch : forward.graphs) {
    Again again(branch->role + "_backward");
    std::vector<Tensor> inputs;
    for (const Tensor& t : in) inputs.push_back(again.argument(t.spec(), "operand"));
    for (size_t k : arrived) again.seeds.push_back(again.argument(a.cotangent[k].spec(), "cotangent"));
    std::vector<Tensor> gradients =
        again.gradient(without_effects(branch->graph), inputs, sources, [&](const std::vector<Tensor>& results) {
          for (size_t k : arrived) again.targets.push_back(results[k]);
        });
    for (const Tensor& t : gradients) again.output(t);
    backward.graphs.push_back(std::make_shared<InnerGraph>(branch->role + "_backward", again.finish()));
  }
  for (size_t k : sources) backward.outputs.push_back(in[k].spec());
  backward.place = forward.place;

  std::vector<Tensor> operands(a.in.begin(), a.in.end());
  for (size_t k : arrived) operands.push_back(a.cotangent[k]);
  Tensors gradients = apply_to(a.op, operands, std::move(backward)), back = none_for(a.in);
  for (size_t k = 0; k < sources.size(); ++k) back[sources[k] + 1] = gradients[k];
  return back;
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
  Tensor count;                                           // steps, where the number is known at run time only
  Dim length;
  bool reverse;
};

Spec row_spec(const Tensor& stacked) {
  Spec s = stacked.spec();
  s.shape = Shape(s.shape.begin() + 1, s.shape.end());
  return s;
}

// The operands of the backward scan: what it carries, what it scans over and what stays, by the forward operand that
// each belongs to.
struct BackwardScan {
  std::vector<size_t> carried, constants, rows;  // carried: differentiable ones; constants, xs: those asked for
  std::vector<size_t> y_arrived, saved_arrived;  // by number of y and of carried
  std::vector<Tensor> operands;
  ControlAttrs attrs;
};

// x + start = x for every x, the negative zero included, which 0 would turn positive.
Tensor start_of_sum(const Spec& s) { return full(s.shape, -0.0, {.dtype = s.dtype, .device = s.device}); }

BackwardScan choose(const Loop& l, const std::function<bool(size_t)>& wanted) {
  BackwardScan b;
  for (size_t k = 0; k < l.carried; ++k)
    if (is_differentiable(l.operands[k].dtype())) b.carried.push_back(k);
  for (size_t k = 0; k < l.scanned; ++k)
    if (wanted(l.carried + k)) b.rows.push_back(l.carried + k);
  for (size_t k = 0; k < l.constants; ++k)
    if (wanted(l.carried + l.scanned + k)) b.constants.push_back(l.carried + l.scanned + k);
  for (size_t k = 0; k < l.y_bar.size(); ++k)
    if (l.y_bar[k].defined()) b.y_arrived.push_back(k);
  for (size_t k = 0; k < l.saved_bar.size(); ++k)
    if (l.saved_bar[k].defined()) b.saved_arrived.push_back(k);
  return b;
}

// One backward step: from the cotangents of what the step gave, and what it took, to those of what it took.
Graph backward_step(const Loop& l, const BackwardScan& b) {
  Again again("body_backward");
  const std::vector<Tensor> ends(l.operands.begin(), l.operands.end());
  std::vector<Tensor> carried_bar, constants_bar, inputs, y_bar, saved_bar;
  for (size_t k : b.carried) carried_bar.push_back(again.argument(ends[k].spec(), "cotangent"));
  for (size_t k : b.constants) constants_bar.push_back(again.argument(ends[k].spec(), "sum"));
  for (size_t k = 0; k < l.carried; ++k) inputs.push_back(again.argument(ends[k].spec(), "carried"));
  for (size_t k = 0; k < l.scanned; ++k) inputs.push_back(again.argument(row_spec(ends[l.carried + k]), "x"));
  for (size_t k : b.y_arrived) y_bar.push_back(again.argument(row_spec(l.y_bar[k]), "cotangent"));
  for (size_t k : b.saved_arrived) saved_bar.push_back(again.argument(row_spec(l.saved_bar[k]), "cotangent"));
  for (size_t k = 0; k < l.constants; ++k)
    inputs.push_back(again.argument(ends[l.carried + l.scanned + k].spec(), "constant"));

  std::vector<size_t> sources = b.carried;
  sources.insert(sources.end(), b.constants.begin(), b.constants.end());
  sources.insert(sources.end(), b.rows.begin(), b.rows.end());
  auto seed = [&](const Tensor& target, const Tensor& cotangent) {
    again.targets.push_back(target);
    again.seeds.push_back(cotangent);
  };
  std::vector<Tensor> gradients = again.gradient(*l.body, inputs, sources, [&](const std::vector<Tensor>& results) {
    // Sums go on where the step before left them, in the order in which an eager backward walk adds.
    for (size_t k = 0; k < b.constants.size(); ++k) seed(inputs[b.constants[k]], constants_bar[k]);
    for (size_t k = 0; k < b.saved_arrived.size(); ++k) seed(inputs[b.saved_arrived[k]], saved_bar[k]);
    for (size_t k = 0; k < b.carried.size(); ++k) seed(results[b.carried[k]], carried_bar[k]);
    for (size_t k = 0; k < b.y_arrived.size(); ++k) seed(results[l.carried + b.y_arrived[k]], y_bar[k]);
  });
  for (const Tensor& t : gradients) again.output(t);
  return again.finish();
}

// The backward scan of a loop; gives a cotangent for each operand of it.
std::vector<Tensor> backward_scan(const Loop& l, const std::function<bool(size_t)>& wanted, const std::string& place) {
  BackwardScan b = choose(l, wanted);
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
  for (size_t k : b.constants) operands.push_back(start_of_sum(l.operands[k].spec()));
  attrs.carried = int(b.carried.size() + b.constants.size());
  operands.insert(operands.end(), l.saved.begin(), l.saved.end());
  operands.insert(operands.end(), l.operands.begin() + long(l.carried),
                  l.operands.begin() + long(l.carried + l.scanned));
  for (size_t k : b.y_arrived) operands.push_back(l.y_bar[k]);
  for (size_t k : b.saved_arrived) operands.push_back(l.saved_bar[k]);
  attrs.scanned = int(l.saved.size() + l.scanned + b.y_arrived.size() + b.saved_arrived.size());
  operands.insert(operands.end(), l.operands.end() - long(l.constants), l.operands.end());

  std::vector<size_t> order = b.carried;
  order.insert(order.end(), b.constants.begin(), b.constants.end());
  order.insert(order.end(), b.rows.begin(), b.rows.end());
  for (size_t k : order) attrs.outputs.push_back(l.operands[k].spec());

  Tensors gradients = apply_to(scan_op, operands, std::move(attrs));
  std::vector<Tensor> back(l.operands.size());
  for (size_t k = 0; k < order.size(); ++k) back[order[k]] = gradients[k];
  return back;
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
         .count = s.counted ? a.in[0] : Tensor(),
         .length = s.length,
         .reverse = s.reverse};
  std::vector<Tensor> gradients = backward_scan(l, [&](size_t k) { return wants_gradient(a, first + k); }, s.place);
  Tensors back = none_for(a.in);
  for (size_t k = 0; k < gradients.size(); ++k) back[first + k] = gradients[k];
  return back;
}

namespace {

struct LoopPlace {
  std::string place;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("place", s.place);
  }
};

[[noreturn]] void fail_unbounded(const std::string& place) {
  fail("while_loop",
       fmt::format("the gradient of the loop at {} is asked for in a traced function, where all its steps "
                   "must be kept and their number has no bound. give one: WhileOptions{{.max_steps = ...}}",
                   place));
}

OutSpecs infer_nothing(const InferArgs&) { return {}; }

Tensors call_unbounded(Operands in, AttrsView attrs) {
  for (const Tensor* t : in)
    if (any(*t != 0).item<bool>()) fail_unbounded(attrs.as<LoopPlace>().place);
  return {};
}

const Op unbounded_op({.name = "no_gradient",
                       .doc = "fails unless all operands are zeros: what flows back into a loop without a bound",
                       .dtypes = every_set,
                       .inputs = -1,
                       .outputs = 0,
                       .infer = infer_nothing,
                       .no_gradient = "it gives nothing",
                       .call = call_unbounded,
                       .effect = true,
                       .listed = false});

// The steps of such a loop are not kept. Who traces a gradient that may never be asked for gets an error only at a call
// where one arrives.
Tensors vjp_of_unbounded(const VjpArgs& a) {
  const std::string& place = a.attrs.as<ControlAttrs>().place;
  const auto* trace = static_cast<const Tracer*>(thread_state().trace);
  if (!trace || !trace->speculative()) fail_unbounded(place);
  SmallVec<const Tensor*, 8> arrived;
  for (const Tensor& t : a.cotangent)
    if (t.defined()) arrived.push_back(&t);
  apply(unbounded_op, Operands(arrived.data(), arrived.size()), LoopPlace{place}, Where::current());
  return none_for(a.in);
}

}  // namespace

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
         .count = a.out[carried],
         .length = s.length,
         .reverse = false};
  std::vector<Tensor> gradients = backward_scan(l, [&](size_t k) { return wants_gradient(a, 1 + k); }, s.place);
  Tensors back = none_for(a.in);
  for (size_t k = 0; k < gradients.size(); ++k) back[1 + k] = gradients[k];
  return back;
}

}  // namespace rill
