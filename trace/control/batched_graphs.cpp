// See batched_graphs.h.
#include "rill/trace/control/batched_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/tensor/dim_table.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

bool any_batched(std::span<const char> flags) { return std::find(flags.begin(), flags.end(), 1) != flags.end(); }

Tensor condition_beside(const Tensor& by_row, const Tensor& like) {
  Shape s = by_row.shape();
  while (s.size() < like.shape().size()) s.push_back(1);
  return reshape(by_row, s);
}

// --- Graphs of batches -----------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<const InnerGraph> trace_rows(const std::string& role, std::span<const Spec> specs, const RowFlags& in,
                                             RowFlags& out, Dim size, const RowBody& body) {
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

}  // namespace

std::vector<Spec> inputs_of(const Graph& g) {
  std::vector<Spec> specs;
  for (const GraphInput& in : g.inputs) specs.push_back(g.nodes()[size_t(in.node)].outputs[0]);
  return specs;
}

std::shared_ptr<const InnerGraph> graph_of_row_body(const InnerGraph& of, std::string what, std::span<const Spec> specs,
                                                    const RowFlags& in, RowFlags& out, Dim size, const RowBody& body) {
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

std::shared_ptr<const InnerGraph> graph_of_rows(const InnerGraph& g, const RowFlags& in, RowFlags& out, Dim size) {
  return graph_of_row_body(g, "batched", inputs_of(g.graph), in, out, size,
                           [&](Batcher&, std::span<const Tensor> rows) { return interpret(g.graph, rows); });
}

// --- Rows that take a branch -----------------------------------------------------------------------------------------

namespace {
thread_local const BranchRows* taking = nullptr;
}

BranchRows::BranchRows(TraceListener* outside, Tensor rows)
    : outside_(outside), rows_(std::move(rows)), outer_(std::exchange(taking, this)) {}
BranchRows::~BranchRows() { taking = outer_; }

Tensor within_branch(const Tensor& by_row) {
  if (!taking || taking->outside_ != listeners().trace) return by_row;
  return logical_and(taking->rows_.to(by_row.device()), by_row);
}

// --- Loops -----------------------------------------------------------------------------------------------------------

RowFlags carried_flags(const InnerGraph& step, RowFlags in, size_t carried, size_t first, Dim size) {
  for (bool changed = true; changed;) {
    RowFlags out(step.graph.outputs.size());
    graph_of_rows(step, in, out, size);
    changed = false;
    for (size_t k = 0; k < carried; ++k)
      if (out[first + k] && !in[k]) in[k] = 1, changed = true;
  }
  return in;
}

Tensor batched_operand(const BatchArgs& a, size_t i, bool flagged, int64_t at) {
  if (!flagged) return a.in[i];
  const Tensor t = with_batch(a, i);
  return at == 0 ? t : moveaxis(t, 0, at);
}

void batch_to_front(Tensors& out, std::span<const char> flags, size_t first) {
  for (size_t k = first; k < out.size(); ++k)
    if (flags[k]) out[k] = moveaxis(out[k], 1, 0);
}

void replace_done(Batcher& batcher, const Tensor& active, std::span<Tensor> operands) {
  const Tensor rows = batcher.all_rows(active);
  if (rows.size() == 0) return;
  const Tensor first = argmax(astype(rows, DType::i8));
  for (Tensor& t : operands) {
    if (!batcher.is_batched(t)) continue;
    const Tensor other = take(batcher.all_rows(t), first.to(t.device()), 0);
    t = where(active.to(t.device()), t, is_differentiable(t.dtype()) ? stop_gradient(other) : other);
  }
}

}  // namespace rill
