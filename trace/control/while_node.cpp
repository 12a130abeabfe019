// The node of while_loop: how it runs, is checked, batched and differentiated.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/autodiff/forward_impl.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/trace/control/batched_graphs.h"
#include "rill/trace/control/check_control.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/loop_gradients.h"
#include "rill/trace/control/loop_steps.h"

namespace rill {

namespace {

// --- Running ---------------------------------------------------------------------------------------------------------

Tensors call_while(Operands in, AttrsView view) {
  const WhileAttrs& a = view.as<WhileAttrs>();
  size_t carried = size_t(a.carried);
  std::vector<Tensor> arguments = copies_of(in.subspan(1)), results;
  Rows saved(a.saves ? std::span(a.outputs).subspan(carried + 1) : std::span<const Spec>());
  bool go_on = in[0]->item<bool>();
  InnerSteps body(*a.graphs[0], carried);
  int64_t steps = 0;
  for (; go_on && steps != a.length; ++steps) {
    if (a.saves) saved.put(steps, arguments);
    results.assign(1 + carried, {});
    if (a.saves && steps + 1 < a.length)
      for (size_t k = 0; k < carried; ++k) results[1 + k] = saved.place(steps + 1, k);
    body.run(arguments, results);
    move_carried(arguments, results, 1, carried);
    go_on = results[0].item<bool>();
  }
  Tensors out = carried_results(arguments, carried, steps > 0, {&saved});
  if (!a.saves) return out;
  saved.clear(steps, a.length);
  out.push_back(tensor(steps, {.device = Device()}));
  saved.append_to(out);
  return out;
}

// --- What it holds ---------------------------------------------------------------------------------------------------

NodeRoles roles_of_while(AttrsView attrs, size_t operands) {
  const WhileAttrs& a = attrs.as<WhileAttrs>();
  const size_t carried = size_t(a.carried), fixed = operands - 1 - carried;
  NodeRoles roles{{{Role::steers, 1}, {Role::carried, carried}, {Role::fixed, fixed}},
                  {{Role::carried, carried}},
                  {{Role::carried, carried}, {Role::fixed, fixed}},
                  {{Role::steers, 1}, {Role::carried, carried}}};
  if (a.saves) roles.outputs.insert(roles.outputs.end(), {{Role::steers, 1}, {Role::rows, carried}});
  return roles;
}

Attrs resized_while(AttrsView attrs, std::span<const size_t> sizes) {
  WhileAttrs a = attrs.as<WhileAttrs>();
  a.carried = int(sizes[1]);
  return a;
}

// Adds results: the number of steps, and the carried tensors before each step.
Attrs saving_while(AttrsView attrs, Operands in, const std::vector<bool>&) {
  WhileAttrs a = attrs.as<WhileAttrs>();
  if (a.length < 0 || a.saves) return {};
  a.saves = true;
  a.outputs.push_back(Spec{{}, DType::i64, false, Device()});
  for (size_t k = 0; k < size_t(a.carried); ++k) a.outputs.push_back(stacked_spec(in[1 + k]->spec(), a.length));
  return a;
}

void check_while(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const WhileAttrs& a = attrs.as<WhileAttrs>();
  const ControlCheck check(op, in, a);
  check.graphs_of_operands();
  const size_t carried = size_t(a.carried);
  check.require(check.is_scalar(*in[0], DType::boolean), "the condition");
  check.require(a.carried >= 0 && a.graphs.size() == 1 && carried < in.size(), "the number of operands");
  const Graph& body = check.body();
  check.require(body.inputs.size() + 1 == in.size(), "the number of operands");
  check.operands(body, 0, 1, body.inputs.size());
  check.require(body.outputs.size() == 1 + carried && check.is_scalar(check.result(body, 0), DType::boolean),
                "the condition");
  check.carried(body, 1, 1, carried);
  if (a.saves) check.gives(carried, Spec{{}, DType::i64, false, Device()});
  check.saved(a.saves, a.length, carried + (a.saves ? 1 : 0), 1, carried);
}

// --- vmap ------------------------------------------------------------------------------------------------------------

// The graph with its first result, a condition for each row, reduced to whether it holds for any row.
std::shared_ptr<const InnerGraph> first_for_any(const InnerGraph& g) {
  Tracer tracer(inner_name(g.role), Tracer::Nesting::inside);
  std::vector<Tensor> in;
  for (const Spec& s : inputs_of(g.graph)) in.push_back(tracer.add_argument(s, "operand"));
  std::vector<Tensor> results = interpret(g.graph, in);
  results[0] = rill::any(results[0]);
  for (const Tensor& t : results) tracer.add_output(t);
  return std::make_shared<InnerGraph>(g.role, tracer.finish());
}

// Each row goes on while its own condition holds. The node also carries the conditions and the number of steps of each
// row, and runs while any condition holds.
Tensors while_by_row(const BatchArgs& a) {
  const WhileAttrs& c = a.attrs.as<WhileAttrs>();
  const InnerGraph& step = *c.graphs[0];
  constexpr size_t own = 2;
  const size_t carried = size_t(c.carried);
  const Device device = a.in[0].device();
  const Spec condition{{}, DType::boolean, false, device}, steps{{}, DType::i64, false, device};
  std::vector<Spec> specs = inputs_of(step.graph);
  specs.insert(specs.begin(), {condition, steps});
  RowFlags in(a.batched.begin(), a.batched.end()), out(own + carried + 1, 1);
  in.insert(in.begin(), 1);
  std::fill_n(in.begin(), own + carried, 1);  // as soon as some rows stop, all carried values differ between rows
  const auto body = [&](Batcher& batcher, std::span<const Tensor> rows) {
    const Tensor& active = rows[0];
    std::vector<Tensor> operands(rows.begin() + own, rows.end());
    replace_done(batcher, active, operands);
    std::vector<Tensor> next = interpret(step.graph, operands);
    const Tensor more = logical_and(active, next[0]);
    next[0] = rows[1] + astype(active, DType::i64);
    for (size_t k = 0; k < carried; ++k) next[k + 1] = where(active, next[k + 1], rows[k + own]);
    next.insert(next.begin(), {more, more});
    return next;
  };
  const auto rows = graph_of_row_body(step, "steps of rows on " + to_string(device), specs, in, out, a.size, body);
  WhileAttrs b = c;
  b.graphs = {rows->variant("first for any", [&] { return InnerGraph::Variant{first_for_any(*rows)}; }).graph};
  b.carried = int(own + carried);
  b.outputs.clear();
  for (size_t k = 0; k < own + carried; ++k) b.outputs.push_back(with_rows(specs[k], a.size));
  if (c.saves) b.outputs.push_back(Spec{{}, DType::i64, false, Device()});  // the node's own count
  for (size_t k = 0; c.saves && k < own + carried; ++k) b.outputs.push_back(stacked_spec(b.outputs[k], c.length));
  const Tensor going = within_branch(with_batch(a, 0));
  std::vector<Tensor> operands{rill::any(going), going, zeros({a.size}, {DType::i64, device})};
  for (size_t k = 1; k < a.in.size(); ++k) operands.push_back(batched_operand(a, k, in[k + 1]));
  const Tensors given = apply_control(a.op, operands, b, a.where);
  Tensors result(given.begin() + own, given.begin() + long(own + carried));
  if (!c.saves) return result;
  result.push_back(given[1].to(Device()));  // by row
  const auto saved = given.begin() + long(own + carried + 1 + own);
  for (size_t k = 0; k < carried; ++k) result.push_back(moveaxis(saved[long(k)], 1, 0));
  return result;
}

Tensors batch_while(const BatchArgs& a) {
  WhileAttrs c = a.attrs.as<WhileAttrs>();
  if (!any_batched(a.batched)) return first_results(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  const InnerGraph& step = *c.graphs[0];
  const size_t carried = size_t(c.carried);
  const RowFlags in = carried_flags(step, RowFlags(a.batched.begin() + 1, a.batched.end()), carried, 1, a.size);
  RowFlags out(carried + 1);
  std::copy_n(in.begin(), carried, out.begin() + 1);
  const auto graph = graph_of_rows(step, in, out, a.size);
  if (a.batched[0] || out[0]) return while_by_row(a);
  c.graphs = {graph};
  RowFlags results(c.outputs.size());
  for (size_t k = 0; k < carried; ++k) {
    if (!in[k]) continue;
    c.outputs[k] = with_rows(c.outputs[k], a.size);
    results[k] = 1;
    if (!c.saves) continue;
    Spec& saved = c.outputs[carried + 1 + k];
    saved = with_rows(saved, a.size, 1);
    results[carried + 1 + k] = 1;
  }
  std::vector<Tensor> operands{a.in[0]};
  for (size_t k = 0; k < in.size(); ++k) operands.push_back(batched_operand(a, k + 1, in[k]));
  Tensors given = first_results(apply_control(a.op, operands, c, a.where), results.size());
  batch_to_front(given, results, carried);
  return given;
}

// --- The gradient ----------------------------------------------------------------------------------------------------

Tensors none_for(std::span<const Tensor> in) {
  Tensors back;
  for (size_t k = 0; k < in.size(); ++k) back.push_back(Tensor());
  return back;
}

void refuse_unbounded(const VjpArgs& a) {
  try {
    fail("while_loop",
         fmt::format("the gradient of the loop at {} is asked for in a traced function or in vmap, where all its "
                     "steps must be kept and their number has no bound. give one: WhileOptions{{.max_steps = ...}}",
                     a.attrs.as<WhileAttrs>().place));
  } catch (const Error& e) {
    refuse_gradient_but_zeros(e.what(), a.cotangent);
  }
}

// The steps of an unbounded loop are not kept, so its cotangents cannot be computed. linearize() needs only their
// dependence on the operands: that is the transpose of the loop's tangents, which can be computed without kept steps.
Tensors vjp_of_unbounded(const VjpArgs& a) {
  if (!linearizing()) refuse_unbounded(a);
  const Tensors in(a.in);
  SmallVec<const Tensor*, 8> arrived;
  SmallVec<size_t, 8> of;  // the indices of the results that have a cotangent
  for (size_t k = 0; k < a.out.size(); ++k)
    if (a.cotangent[k].defined()) arrived.push_back(&a.cotangent[k]), of.push_back(k);
  Tensors found = none_for(a.in);
  for (size_t i = 0; i < in.size() && !arrived.empty(); ++i) {
    if (!is_differentiable(in[i].dtype()) || !a.needs(int(i))) continue;
    const GradientRule rule = [&op = a.op, attrs = a.attrs.as<WhileAttrs>(), in, of, i](const Tensor& tangent) {
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

Tensors vjp_of_while(const VjpArgs& a) {
  const WhileAttrs& s = a.attrs.as<WhileAttrs>();
  if (s.length < 0) return vjp_of_unbounded(a);
  size_t carried = size_t(s.carried);
  Graph body = without_effects(s.graphs[0]->graph);
  body.outputs.erase(body.outputs.begin());  // whether to go on
  const LoopToScan l{.body = &body,
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

}  // namespace

const Op while_loop_op(control_flow<WhileAttrs>("while_loop",
                                                "runs a graph on what it gave before, while its first result is true",
                                                call_while, vjp_of_while, batch_while, "While"));

static const ControlNode while_loop_node({.op = while_loop_op,
                                          .attrs = control_attrs<WhileAttrs>,
                                          .roles = roles_of_while,
                                          .check = check_while,
                                          .apply = apply_control,
                                          .saving = saving_while,
                                          .resized = resized_while,
                                          .endless = [](AttrsView a) { return a.as<WhileAttrs>().length < 0; }});

}  // namespace rill
