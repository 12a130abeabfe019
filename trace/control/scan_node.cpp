// The node of scan: how it runs, is checked, batched and differentiated.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/trace/control/batched_graphs.h"
#include "rill/trace/control/check_control.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/kept_values.h"
#include "rill/trace/control/loop_gradients.h"
#include "rill/trace/control/loop_steps.h"

namespace rill {

namespace {

// --- Running ---------------------------------------------------------------------------------------------------------

Tensors call_scan(Operands in, AttrsView view) {
  const ScanAttrs& a = view.as<ScanAttrs>();
  size_t carried = size_t(a.carried), scanned = size_t(a.scanned);
  int64_t steps = a.counted ? in[0]->item<int64_t>() : int64_t(a.length);
  if (steps < 0 || steps > a.length)
    fail("scan", fmt::format("{} steps over {} rows", steps, int64_t(a.length)), Where());
  Operands operands = in.subspan(a.counted ? 1 : 0);
  std::vector<Tensor> arguments = copies_of(operands), results;
  size_t ys = a.graphs[0]->graph.outputs.size() - carried;
  Rows stacked(std::span(a.outputs).subspan(carried, ys));
  Rows saved(std::span(a.outputs).subspan(carried + ys));
  InnerSteps body(*a.graphs[0], carried + scanned);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t i = a.reverse ? steps - 1 - step : step;
    for (size_t k = 0; k < scanned; ++k) arguments[carried + k] = row_of(*operands[carried + k], i);
    if (a.saves) saved.put(i, arguments);
    results.assign(carried + ys, {});
    for (size_t k = 0; k < ys; ++k) results[carried + k] = stacked.place(i, k);
    if (a.saves && step + 1 < steps)
      for (size_t k = 0; k < carried; ++k) results[k] = saved.place(a.reverse ? i - 1 : i + 1, k);
    body.run(arguments, results);
    stacked.put(i, std::span(results).subspan(carried));
    move_carried(arguments, results, 0, carried);
  }
  Tensors out = carried_results(arguments, carried, steps > 0, {&stacked, &saved});
  stacked.clear(steps, a.length);
  saved.clear(steps, a.length);
  stacked.append_to(out);
  saved.append_to(out);
  return out;
}

// --- What it holds ---------------------------------------------------------------------------------------------------

NodeRoles roles_of_scan(AttrsView attrs, size_t operands) {
  const ScanAttrs& a = attrs.as<ScanAttrs>();
  const size_t lead = a.counted ? 1 : 0, carried = size_t(a.carried), scanned = size_t(a.scanned);
  const size_t fixed = operands - lead - carried - scanned, ys = a.graphs[0]->graph.outputs.size() - carried;
  const RoleGroups results{{Role::carried, carried}, {Role::rows, ys}};
  NodeRoles roles{{{Role::steers, lead}, {Role::carried, carried}, {Role::rows, scanned}, {Role::fixed, fixed}},
                  results,
                  {{Role::carried, carried}, {Role::rows, scanned}, {Role::fixed, fixed}},
                  results};
  if (a.saves) roles.outputs.push_back({Role::rows, carried});
  return roles;
}

Attrs resized_scan(AttrsView attrs, std::span<const size_t> sizes) {
  ScanAttrs a = attrs.as<ScanAttrs>();
  a.carried = int(sizes[1]), a.scanned = int(sizes[2]);
  return a;
}

// Adds results: the values of each step that the gradient reads, and the carried tensors before each step.
Attrs saving_scan(AttrsView attrs, Operands in, const std::vector<bool>& wanted) {
  ScanAttrs a = attrs.as<ScanAttrs>();
  if (a.saves) return {};
  a.saves = true;
  const size_t lead = a.counted ? 1 : 0, own = a.graphs[0]->graph.outputs.size();
  const auto stacked = [&](const Spec& s) { a.outputs.push_back(stacked_spec(s, a.length)); };
  a.graphs = {keeping_values(a.graphs[0], {wanted.begin() + long(lead), wanted.end()})};
  const Graph& g = a.graphs[0]->graph;
  for (size_t k = own; k < g.outputs.size(); ++k) stacked(g.spec(g.outputs[k]));
  for (size_t k = 0; k < size_t(a.carried); ++k) stacked(in[lead + k]->spec());
  return a;
}

void check_scan(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const ScanAttrs& a = attrs.as<ScanAttrs>();
  const ControlCheck check(op, in, a);
  check.graphs_of_operands();
  const size_t lead = a.counted ? 1 : 0, carried = size_t(a.carried), scanned = size_t(a.scanned);
  check.require(!a.counted || check.is_scalar(*in[0], DType::i64), "the number of steps");
  check.require(a.graphs.size() == 1 && a.length >= 0, "the number of steps");
  check.require(a.carried >= 0 && a.scanned >= 0 && lead + carried + scanned <= in.size(), "the number of operands");
  const Graph& body = check.body();
  check.require(body.inputs.size() + lead == in.size(), "the number of operands");
  check.operands(body, 0, lead, carried);
  for (size_t k = 0; k < scanned; ++k) {
    const Spec& xs = *in[lead + carried + k];
    check.require(!xs.shape.empty() && xs.shape[0] == a.length, "the number of rows");
    check.require(check.fits(check.input(body, carried + k), row_spec(xs)), "the rows");
  }
  const size_t fixed = in.size() - lead - carried - scanned;
  check.operands(body, carried + scanned, lead + carried + scanned, fixed);
  const size_t results = body.outputs.size();
  check.require(results >= carried, "the number of results");
  check.carried(body, 0, lead, carried);
  for (size_t k = carried; k < results; ++k) check.gives(k, stacked_spec(check.result(body, k), a.length));
  check.saved(a.saves, a.length, results, lead, carried);
}

// --- vmap ------------------------------------------------------------------------------------------------------------

// Runs as many steps as the row with the most; finished rows keep their carried values, and their remaining ys are 0.
Tensors scan_by_row(const BatchArgs& a) {
  const ScanAttrs& c = a.attrs.as<ScanAttrs>();
  const InnerGraph& step = *c.graphs[0];
  const size_t carried = size_t(c.carried), scanned = size_t(c.scanned), ys = step.graph.outputs.size() - carried;
  const Spec number{{}, a.in[0].dtype(), false, a.in[0].device()};
  std::vector<Spec> specs = inputs_of(step.graph);
  specs.insert(specs.begin(), number);
  specs.push_back(number);
  RowFlags in(a.batched.begin(), a.batched.end()), out(1 + carried + ys, 1);
  in[0] = out[0] = 0;
  std::fill_n(in.begin() + 1, carried, 1);
  in.push_back(1);
  const auto body = [&](Batcher& batcher, std::span<const Tensor> rows) {
    const Tensor active = rows[0] < rows.back();
    std::vector<Tensor> operands(rows.begin() + 1, rows.end() - 1);
    replace_done(batcher, active, operands);
    std::vector<Tensor> next = interpret(step.graph, operands);
    for (size_t k = 0; k < next.size(); ++k)
      next[k] = where(active.to(next[k].device()), next[k],
                      k < carried ? rows[k + 1] : zeros({}, {next[k].dtype(), next[k].device()}));
    next.insert(next.begin(), c.reverse ? rows[0] - 1 : rows[0] + 1);
    return next;
  };
  ScanAttrs b = c;
  b.graphs = {graph_of_row_body(step, (c.reverse ? "rows backwards on " : "rows on ") + to_string(number), specs, in,
                                out, a.size, body)};
  b.carried = c.carried + 1;
  for (size_t k = 0; k < c.outputs.size(); ++k) b.outputs[k] = with_rows(c.outputs[k], a.size, k < carried ? 0 : 1);
  b.outputs.insert(b.outputs.begin(), number);
  if (c.saves) b.outputs.insert(b.outputs.begin() + long(1 + carried + ys), stacked_spec(number, c.length));
  const Tensor most = max(a.in[0]);
  std::vector<Tensor> operands{most, c.reverse ? most - 1 : zeros_like(most)};
  for (size_t k = 1; k < a.in.size(); ++k)
    operands.push_back(batched_operand(a, k, in[k], k > carried && k <= carried + scanned ? 1 : 0));
  operands.push_back(a.in[0]);
  Tensors given = first_results(apply_control(a.op, operands, b, a.where), b.outputs.size());
  if (c.saves) given.erase(1 + carried + ys);
  given.erase(0);
  for (size_t k = carried; k < given.size(); ++k) given[k] = moveaxis(given[k], 1, 0);
  return given;
}

Tensors batch_scan(const BatchArgs& a) {
  ScanAttrs c = a.attrs.as<ScanAttrs>();
  if (!any_batched(a.batched)) return first_results(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  if (c.counted && a.batched[0]) return scan_by_row(a);
  const InnerGraph& step = *c.graphs[0];
  const size_t first = c.counted ? 1 : 0, carried = size_t(c.carried), scanned = size_t(c.scanned);
  const RowFlags in =
      carried_flags(step, RowFlags(a.batched.begin() + long(first), a.batched.end()), carried, 0, a.size);
  RowFlags out(step.graph.outputs.size());
  std::copy_n(in.begin(), carried, out.begin());
  c.graphs = {graph_of_rows(step, in, out, a.size)};
  const size_t own = out.size();
  for (size_t k = own; k < c.outputs.size(); ++k) out.push_back(in[k - own]);  // carried before each step
  for (size_t k = 0; k < out.size(); ++k)
    if (out[k]) c.outputs[k] = with_rows(c.outputs[k], a.size, k < carried ? 0 : 1);
  std::vector<Tensor> operands;
  if (c.counted) operands.push_back(a.in[0]);
  for (size_t k = 0; k < in.size(); ++k)
    operands.push_back(batched_operand(a, k + first, in[k], k >= carried && k < carried + scanned ? 1 : 0));
  Tensors given = first_results(apply_control(a.op, operands, c, a.where), out.size());
  batch_to_front(given, out, carried);
  return given;
}

// --- The gradient ----------------------------------------------------------------------------------------------------

Tensors vjp_of_scan(const VjpArgs& a) {
  const ScanAttrs& s = a.attrs.as<ScanAttrs>();
  size_t first = s.counted ? 1 : 0, carried = size_t(s.carried), scanned = size_t(s.scanned);
  Graph body = without_effects(s.graphs[0]->graph);
  size_t ys = body.outputs.size() - carried;
  const LoopToScan l{.body = &body,
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

}  // namespace

const Op scan_op(control_flow<ScanAttrs>("scan",
                                         "runs a graph on what it gave before and on each row of xs; stacks what it "
                                         "gives",
                                         call_scan, vjp_of_scan, batch_scan, ""));

static const ControlNode scan_node({.op = scan_op,
                                    .attrs = control_attrs<ScanAttrs>,
                                    .roles = roles_of_scan,
                                    .check = check_scan,
                                    .apply = apply_control,
                                    .saving = saving_scan,
                                    .resized = resized_scan});

}  // namespace rill
