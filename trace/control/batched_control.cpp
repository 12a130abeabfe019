// vmap of control flow: the inner graphs are traced again, on batches. What rows do not differ in stays as it is, so
// that a loop over a counter is a loop still.
//
// Where rows differ in the condition, all branches run and each row takes its own; a while_loop runs until all rows are
// done, and those that are keep what they have. A row is not to fail at what it would not run: a branch's checks are of
// the rows that take it, and a step runs, for rows that are done, on the operands of one that goes on. Start at
// batch_choice, batch_while and batch_scan.
#include "rill/trace/control/batched_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/autodiff/batching.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

namespace {

using Flags = std::vector<char>;  // by value, 1: it has the batch

Spec with_rows(Spec s, Dim size, size_t at = 0) {
  s.shape.insert(at, size);
  return s;
}

bool some(std::span<const char> flags) { return std::find(flags.begin(), flags.end(), 1) != flags.end(); }

// As many as the node has outputs; what a tape outside has added goes.
Tensors first_of(const Tensors& out, size_t count) { return Tensors(out.begin(), out.begin() + long(count)); }

// A condition, a number a row, as what broadcasts against `like`, which has the batch.
Tensor beside(const Tensor& by_row, const Tensor& like) {
  Shape s = by_row.shape();
  while (s.size() < like.shape().size()) s.push_back(1);
  return reshape(by_row, s);
}

// --- Graphs of batches -----------------------------------------------------------------------------------------------

// Traces what `body` makes of arguments of these specs, of which `in` have the batch. Its results are rows; those that
// differ, and those of `out`, are given with the batch, and `out` says which.
using RowBody = Callback<std::vector<Tensor>(Batcher& batcher, std::span<const Tensor> rows)>;
std::shared_ptr<const InnerGraph> trace_rows(const std::string& role, std::span<const Spec> specs, const Flags& in,
                                             Flags& out, Dim size, const RowBody& body) {
  Tracer tracer(inner_name(role), Tracer::Nesting::inside);
  std::vector<Tensor> rows, results;
  for (size_t k = 0; k < specs.size(); ++k)
    rows.push_back(tracer.add_argument(in[k] ? with_rows(specs[k], size) : specs[k], "operand"));
  {
    Batcher batcher(size, "vmap");
    for (size_t k = 0; k < rows.size(); ++k)
      if (in[k]) rows[k] = batcher.row_of(rows[k]);
    results = body(batcher, rows);
    out.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) {
      out[k] = out[k] || batcher.is_batched(results[k]);
      if (out[k]) results[k] = batcher.all_rows(results[k]);
    }
  }
  for (const Tensor& t : results) tracer.add_output(t);
  return std::make_shared<InnerGraph>(role, tracer.finish());
}

std::vector<Spec> inputs_of(const Graph& g) {
  std::vector<Spec> specs;
  for (const GraphInput& in : g.inputs) specs.push_back(g.nodes()[size_t(in.node)].outputs[0]);
  return specs;
}

// The same, made once for each graph `of`, `what`, flags and size, which may be an open one of a trace.
std::shared_ptr<const InnerGraph> rows_of(const InnerGraph& of, std::string what, std::span<const Spec> specs,
                                          const Flags& in, Flags& out, Dim size, const RowBody& body) {
  const DimTable* dims = OpenDims::now();
  const bool open = dims && dims->knows(size);
  what += open ? fmt::format(" {} of {} ", size.number(), dims->serial()) : fmt::format(" {} ", size.hint());
  for (const char f : in) what += f ? '1' : '0';
  what += ' ';
  for (const char f : out) what += f ? '1' : '0';
  const InnerGraph::Variant made = of.variant(what, [&] {
    auto graph = trace_rows(of.role, specs, in, out, size, body);
    return InnerGraph::Variant{std::move(graph), out};
  });
  out = made.results;
  return made.graph;
}

std::shared_ptr<const InnerGraph> batched_graph(const InnerGraph& g, const Flags& in, Flags& out, Dim size) {
  return rows_of(g, "batched", inputs_of(g.graph), in, out, size,
                 [&](Batcher&, std::span<const Tensor> rows) { return interpret(g.graph, rows); });
}

// --- Branches --------------------------------------------------------------------------------------------------------

// The rows that run what this thread runs for all rows: those that take a branch. `outside`: who listens where the
// batch's calls are made; under others it says nothing.
struct Taking {
  TraceListener* outside;
  Tensor rows;
};
thread_local const Taking* taking = nullptr;

Tensor also_taking(const Tensor& by_row) {
  if (!taking || taking->outside != listeners().trace) return by_row;
  return logical_and(taking->rows.to(by_row.device()), by_row);
}

// The results of one branch for all rows, of which those that are `chosen` take it.
std::vector<Tensor> run_branch(const BatchArgs& a, const Graph& g, const Tensor& chosen) {
  const Taking now{listeners().trace, chosen};
  struct Scope {
    const Taking* outer;
    ~Scope() { taking = outer; }
  } scope{std::exchange(taking, &now)};
  Batcher batcher(a.size, "vmap");
  std::vector<Tensor> rows;
  for (size_t k = 1; k < a.in.size(); ++k) rows.push_back(a.batched[k] ? batcher.row_of(a.in[k]) : a.in[k]);
  const Tensor exempt = logical_not(batcher.row_of(chosen));
  std::vector<Tensor> out = interpret(g, rows, &exempt);
  for (Tensor& t : out) t = batcher.all_rows(t);
  return out;
}

// The last branch serves every index that has none of its own; of cond, `true` is the first.
Tensors choose_by_row(const BatchArgs& a) {
  const ControlAttrs& c = a.attrs.as<ControlAttrs>();
  const Tensor& which = a.in[0];
  const size_t last = c.graphs.size() - 1;
  std::vector<Tensor> chosen;
  Tensor rest = is_bool(which.dtype()) ? logical_not(which) : logical_or(which < 0, which >= int64_t(last));
  for (size_t i = 0; i < last; ++i) chosen.push_back(is_bool(which.dtype()) ? which : which == int64_t(i));
  const std::vector<Tensor> otherwise = run_branch(a, c.graphs[last]->graph, also_taking(rest));
  Tensors out(otherwise.begin(), otherwise.end());
  for (size_t i = last; i-- > 0;) {
    const std::vector<Tensor> here = run_branch(a, c.graphs[i]->graph, also_taking(chosen[i]));
    for (size_t k = 0; k < out.size(); ++k) out[k] = where(beside(chosen[i], out[k]), here[k], out[k]);
  }
  return out;
}

}  // namespace

Tensors batch_choice(const BatchArgs& a) {
  ControlAttrs c = a.attrs.as<ControlAttrs>();
  if (!some(a.batched)) return first_of(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  if (a.batched[0]) return choose_by_row(a);
  const Flags in(a.batched.begin() + 1, a.batched.end());
  Flags out(c.outputs.size());
  for (const auto& g : c.graphs) batched_graph(*g, in, out, a.size);  // to see which results differ
  for (auto& g : c.graphs) g = batched_graph(*g, in, out, a.size);
  for (size_t k = 0; k < out.size(); ++k)
    if (out[k]) c.outputs[k] = with_rows(c.outputs[k], a.size);
  return first_of(apply_control(a.op, a.in, c, a.where), out.size());
}

// --- Loops -----------------------------------------------------------------------------------------------------------

namespace {

// Which carried values differ: those that do at first, and those that a step makes so of others. `first`: of the
// graph's results, where the carried ones begin.
Flags carried_flags(const InnerGraph& step, Flags in, size_t carried, size_t first, Dim size) {
  for (bool changed = true; changed;) {
    Flags out(step.graph.outputs.size());
    batched_graph(step, in, out, size);
    changed = false;
    for (size_t k = 0; k < carried; ++k)
      if (out[first + k] && !in[k]) in[k] = 1, changed = true;
  }
  return in;
}

// Operands with the batch where `flags` say so; `at` is the axis where it then stands.
Tensor operand(const BatchArgs& a, size_t i, bool flagged, int64_t at = 0) {
  if (!flagged) return a.in[i];
  const Tensor t = with_batch(a, i);
  return at == 0 ? t : moveaxis(t, 0, at);
}

// Stacked results have the batch behind the axis of steps.
void batch_to_front(Tensors& out, std::span<const char> flags, size_t first) {
  for (size_t k = first; k < out.size(); ++k)
    if (flags[k]) out[k] = moveaxis(out[k], 1, 0);
}

// The graph whose first result, a condition a row, is whether it holds in any.
std::shared_ptr<const InnerGraph> first_for_any(const InnerGraph& g) {
  Tracer tracer(inner_name(g.role), Tracer::Nesting::inside);
  std::vector<Tensor> in;
  for (const Spec& s : inputs_of(g.graph)) in.push_back(tracer.add_argument(s, "operand"));
  std::vector<Tensor> results = interpret(g.graph, in);
  results[0] = rill::any(results[0]);
  for (const Tensor& t : results) tracer.add_output(t);
  return std::make_shared<InnerGraph>(g.role, tracer.finish());
}

// The operands of a step: those of rows that are done are the ones of the first row that goes on, which the step may
// run on; what it gives of them is not used.
void replace_done(Batcher& batcher, const Tensor& active, std::span<Tensor> operands) {
  const Tensor first = argmax(astype(batcher.all_rows(active), DType::i8));
  for (Tensor& t : operands) {
    if (!batcher.is_batched(t)) continue;
    const Tensor other = take(batcher.all_rows(t), first.to(t.device()), 0);
    t = where(active.to(t.device()), t, is_differentiable(t.dtype()) ? stop_gradient(other) : other);
  }
}

// Rows go on for as long as their own condition holds. The node carries that as well, with how many steps each row has
// taken, and runs while it holds in one.
Tensors while_by_row(const BatchArgs& a) {
  const ControlAttrs& c = a.attrs.as<ControlAttrs>();
  const InnerGraph& step = *c.graphs[0];
  constexpr size_t own = 2;
  const size_t carried = size_t(c.carried);
  const Device device = a.in[0].device();
  const Spec condition{{}, DType::boolean, false, device}, steps{{}, DType::i64, false, device};
  std::vector<Spec> specs = inputs_of(step.graph);
  specs.insert(specs.begin(), {condition, steps});
  Flags in(a.batched.begin(), a.batched.end()), out(own + carried + 1, 1);
  in.insert(in.begin(), 1);
  std::fill_n(in.begin(), own + carried, 1);  // a step of one row only makes all differ
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
  const auto rows = rows_of(step, "steps of rows on " + to_string(device), specs, in, out, a.size, body);
  ControlAttrs b = c;
  b.graphs = {rows->variant("first for any", [&] { return InnerGraph::Variant{first_for_any(*rows)}; }).graph};
  b.carried = int(own + carried);
  b.outputs.clear();
  for (size_t k = 0; k < own + carried; ++k) b.outputs.push_back(with_rows(specs[k], a.size));
  if (c.saves) b.outputs.push_back(Spec{{}, DType::i64, false, Device()});  // the node's own
  for (size_t k = 0; c.saves && k < own + carried; ++k) b.outputs.push_back(stacked_spec(b.outputs[k], c.length));
  const Tensor going = also_taking(with_batch(a, 0));
  std::vector<Tensor> operands{rill::any(going), going, zeros({a.size}, {DType::i64, device})};
  for (size_t k = 1; k < a.in.size(); ++k) operands.push_back(operand(a, k, in[k + 1]));
  const Tensors given = apply_control(a.op, operands, b, a.where);
  Tensors result(given.begin() + own, given.begin() + long(own + carried));
  if (!c.saves) return result;
  result.push_back(given[1].to(Device()));  // by row
  const auto saved = given.begin() + long(own + carried + 1 + own);
  for (size_t k = 0; k < carried; ++k) result.push_back(moveaxis(saved[long(k)], 1, 0));
  return result;
}

// As many steps as the row with the most of them takes; the others keep what they have, and their further ys are 0.
Tensors scan_by_row(const BatchArgs& a) {
  const ControlAttrs& c = a.attrs.as<ControlAttrs>();
  const InnerGraph& step = *c.graphs[0];
  const size_t carried = size_t(c.carried), scanned = size_t(c.scanned), ys = step.graph.outputs.size() - carried;
  const Spec number{{}, a.in[0].dtype(), false, a.in[0].device()};
  std::vector<Spec> specs = inputs_of(step.graph);
  specs.insert(specs.begin(), number);
  specs.push_back(number);
  Flags in(a.batched.begin(), a.batched.end()), out(1 + carried + ys, 1);
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
  ControlAttrs b = c;
  b.graphs = {
      rows_of(step, (c.reverse ? "rows backwards on " : "rows on ") + to_string(number), specs, in, out, a.size, body)};
  b.carried = c.carried + 1;
  for (size_t k = 0; k < c.outputs.size(); ++k) b.outputs[k] = with_rows(c.outputs[k], a.size, k < carried ? 0 : 1);
  b.outputs.insert(b.outputs.begin(), number);
  if (c.saves) b.outputs.insert(b.outputs.begin() + long(1 + carried + ys), stacked_spec(number, c.length));
  const Tensor most = max(a.in[0]);
  std::vector<Tensor> operands{most, c.reverse ? most - 1 : zeros_like(most)};
  for (size_t k = 1; k < a.in.size(); ++k)
    operands.push_back(operand(a, k, in[k], k > carried && k <= carried + scanned ? 1 : 0));
  operands.push_back(a.in[0]);
  Tensors given = first_of(apply_control(a.op, operands, b, a.where), b.outputs.size());
  if (c.saves) given.erase(1 + carried + ys);
  given.erase(0);
  for (size_t k = carried; k < given.size(); ++k) given[k] = moveaxis(given[k], 1, 0);
  return given;
}

}  // namespace

Tensors batch_while(const BatchArgs& a) {
  ControlAttrs c = a.attrs.as<ControlAttrs>();
  if (!some(a.batched)) return first_of(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  const InnerGraph& step = *c.graphs[0];
  const size_t carried = size_t(c.carried);
  const Flags in = carried_flags(step, Flags(a.batched.begin() + 1, a.batched.end()), carried, 1, a.size);
  Flags out(carried + 1);
  std::copy_n(in.begin(), carried, out.begin() + 1);
  const auto graph = batched_graph(step, in, out, a.size);
  if (a.batched[0] || out[0]) return while_by_row(a);
  c.graphs = {graph};
  Flags results(c.outputs.size());
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
  for (size_t k = 0; k < in.size(); ++k) operands.push_back(operand(a, k + 1, in[k]));
  Tensors given = first_of(apply_control(a.op, operands, c, a.where), results.size());
  batch_to_front(given, results, carried);
  return given;
}

Tensors batch_scan(const BatchArgs& a) {
  ControlAttrs c = a.attrs.as<ControlAttrs>();
  if (!some(a.batched)) return first_of(apply_control(a.op, a.in, c, a.where), c.outputs.size());
  if (c.counted && a.batched[0]) return scan_by_row(a);
  const InnerGraph& step = *c.graphs[0];
  const size_t first = c.counted ? 1 : 0, carried = size_t(c.carried), scanned = size_t(c.scanned);
  const Flags in = carried_flags(step, Flags(a.batched.begin() + long(first), a.batched.end()), carried, 0, a.size);
  Flags out(step.graph.outputs.size());
  std::copy_n(in.begin(), carried, out.begin());
  c.graphs = {batched_graph(step, in, out, a.size)};
  const size_t own = out.size();
  for (size_t k = own; k < c.outputs.size(); ++k) out.push_back(in[k - own]);  // carried before each step
  for (size_t k = 0; k < out.size(); ++k)
    if (out[k]) c.outputs[k] = with_rows(c.outputs[k], a.size, k < carried ? 0 : 1);
  std::vector<Tensor> operands;
  if (c.counted) operands.push_back(a.in[0]);
  for (size_t k = 0; k < in.size(); ++k)
    operands.push_back(operand(a, k + first, in[k], k >= carried && k < carried + scanned ? 1 : 0));
  Tensors given = first_of(apply_control(a.op, operands, c, a.where), out.size());
  batch_to_front(given, out, carried);
  return given;
}

}  // namespace rill
