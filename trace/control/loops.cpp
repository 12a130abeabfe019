// while_loop and scan: eagerly plain loops over the callables; traced, the step becomes the graph of one node.
#include <fmt/format.h>

#include "rill/autodiff/body_scope.h"
#include "rill/trace/control/control_tracing.h"
#include "rill/trace/control/mismatch.h"
#include "rill/trace/graph/spec_text.h"

namespace rill::detail {

// --- Carried values --------------------------------------------------------------------------------------------------

namespace {

// Operands of control flow and results of callables must be defined.
void require_all_defined(std::string_view op, const Flat& flat, std::string_view what, const Where& where) {
  for (size_t k = 0; k < flat.tensors.size(); ++k)
    if (!flat.tensors[k].defined()) require_defined(op, flat.tensors[k], fmt::format("{} {}", what, k), where);
}

std::string how_to_keep(const Spec& was, const Spec& is) {
  if (was.shape != is.shape)
    return fmt::format("start with {} (broadcast_to(), zeros()), or give a result of {}", to_string(is.shape),
                       to_string(was.shape));
  if (was.dtype != is.dtype)
    return fmt::format("start with {}, or convert the result with astype({})", name(is.dtype), name(was.dtype));
  return "bring the result back with to()";
}

// A carried value must keep its shape and dtype from step to step.
void check_carried(const char* op, const Flat& before, Flat& after, const Where& where) {
  require_all_defined(op, after, "after a step, carried value", where);
  if (before.structure != after.structure)
    fail_as<ControlMismatch>(
        op,
        fmt::format("the carried values have another structure after a step: {} tensors were carried and {} came back, "
                    "or a size or C++ value among them changed. give back what was taken",
                    before.tensors.size(), after.tensors.size()),
        where);
  for (size_t k = 0; k < before.tensors.size(); ++k) {
    const Spec &was = before.tensors[k].spec(), &is = after.tensors[k].spec();
    if (same_spec(was, is)) continue;
    if (integer_and_float(was, is)) {
      after.tensors[k] = exactly_as(after.tensors[k], was.dtype, fmt::format("carried value {}", k), op, where);
      continue;
    }
    fail_as<ControlMismatch>(
        op,
        fmt::format("carried value {} is {} before a step and {} after it, and must stay what it is. {}", k,
                    placed_text(was), placed_text(is), how_to_keep(was, is)),
        where);
  }
}

std::vector<Spec> specs_of(std::span<const Tensor> tensors) {
  std::vector<Spec> specs;
  for (const Tensor& t : tensors) specs.push_back(t.spec());
  return specs;
}

Slots arguments_of(std::span<const Tensor> tensors, int first = 0) {
  Slots slots;
  for (const Tensor& t : tensors) slots.push_back({GraphInput::Kind::argument, first++, nullptr, t, "carried", false});
  return slots;
}

}  // namespace

// --- while_loop ------------------------------------------------------------------------------------------------------

namespace {

std::vector<Tensor> trace_while(const Flat& init, const Tensor& go_on, const FlatFn& cond_fn, const FlatFn& body_fn,
                                const WhileOptions& options, const Where& where) {
  // The body ends by computing the condition for the next step, so that a step is one graph.
  const Graph graph = trace_inner("body", specs_of(init.tensors), "carried", [&](std::span<const Tensor> in) {
    Flat next = body_fn(in);
    check_carried("while_loop", init, next, where);
    Tensor more = checked_pred("while_loop", cond_fn(next.tensors).tensors[0], where);
    next.tensors.insert(next.tensors.begin(), more);
    return next;
  });
  Outside outside({&graph, 1});
  size_t results = init.tensors.size();
  Slots operands = arguments_of(init.tensors);
  append(operands, outside.assigned);
  WhileAttrs attrs;
  attrs.carried = int(operands.size());
  for (const Slot& s : operands) attrs.outputs.push_back(s.tensor.spec());
  append(operands, outside.captured);
  append(operands, outside.read_only);
  attrs.length = options.max_steps.value_or(-1);
  attrs.graphs = {close("body", graph, operands, outside.assigned, results + 1, true)};
  std::vector<Tensor> out = append_node(while_loop_op, {&go_on, 1}, operands, attrs, where);
  outside.assign(std::span(out).subspan(results));
  out.resize(results);
  return out;
}

}  // namespace

std::vector<Tensor> run_while(const Flat& init, const FlatFn& cond_fn, const FlatFn& body_fn,
                              const WhileOptions& options, const Where& where) {
  if (options.max_steps && *options.max_steps < 0)
    fail("while_loop", fmt::format("max_steps is {} and must not be negative", *options.max_steps), where);
  require_all_defined("while_loop", init, "carried value", where);
  Tensor go_on = checked_pred("while_loop", cond_fn(init.tensors).tensors[0], where);
  if (!executing_eagerly()) return trace_while(init, go_on, cond_fn, body_fn, options, where);
  Flat now = init;
  now.tensors = distinct(std::move(now.tensors), where);
  int64_t limit = options.max_steps.value_or(-1);
  for (int64_t step = 0; step != limit && go_on.item<bool>(where); ++step) {
    const BodyScope body;
    Flat next = body_fn(now.tensors);
    check_carried("while_loop", init, next, where);
    now = std::move(next);
    now.tensors = distinct(std::move(now.tensors), where);
    go_on = checked_pred("while_loop", cond_fn(now.tensors).tensors[0], where);
  }
  return std::move(now.tensors);
}

// --- scan ------------------------------------------------------------------------------------------------------------

namespace {

Dim length_of(const Flat& xs, const ScanOptions& options, const Where& where) {
  std::optional<Dim> n = options.length;
  if (n && *n < 0) fail("scan", fmt::format("the length is {} and must not be negative", *n), where);
  for (size_t k = 0; k < xs.tensors.size(); ++k) {
    const Spec& s = xs.tensors[k].spec();
    if (s.shape.empty())
      fail("scan", fmt::format("tensor {} of xs is {} and has no axis to scan along", k, to_string(s)), where);
    if (n && *n != s.shape[0])
      fail("scan",
           fmt::format("tensor {} of xs is {}, and {} {} rows. the first axes must be equal", k, to_string(s),
                       options.length ? "the length asks for" : "tensor 0 has", *n),
           where);
    n = s.shape[0];
  }
  if (!n) fail("scan", "there are no xs and no length. give one: {.length = ...}", where);
  return *n;
}

struct ScanBody {
  Graph graph;
  size_t ys;
};

ScanBody trace_step(const Flat& init, const Flat& xs, const FlatStepFn& fn, const Where& where) {
  std::vector<Spec> arguments = specs_of(init.tensors);
  for (const Tensor& t : xs.tensors) arguments.push_back(row_spec(t.spec()));
  size_t ys = 0;
  Graph g = trace_inner("body", arguments, "carried", [&](std::span<const Tensor> in) {
    FlatStep step = fn(in);
    check_carried("scan", init, step.carried, where);
    require_all_defined("scan", step.y, "y", where);
    ys = step.y.tensors.size();
    Flat all = std::move(step.carried);
    all.tensors.insert(all.tensors.end(), step.y.tensors.begin(), step.y.tensors.end());
    return all;
  });
  return {std::move(g), ys};
}

// Room for `n` rows of each y.
std::vector<std::vector<Tensor>> room_for_rows(size_t ys, int64_t n, const Where& where) {
  try {
    return std::vector<std::vector<Tensor>>(ys, std::vector<Tensor>(ys ? size_t(n) : 0));
  } catch (const std::exception&) {
    fail("scan", fmt::format("{} rows of y are more than memory holds", n), where);
  }
}

using ScanResult = std::pair<std::vector<Tensor>, std::vector<Tensor>>;

ScanResult trace_scan(const Flat& init, const Flat& xs, Dim n, const FlatStepFn& fn, const ScanOptions& options,
                      const Where& where) {
  ScanBody body = trace_step(init, xs, fn, where);
  Outside outside({&body.graph, 1});
  size_t carried = init.tensors.size();
  Slots operands = arguments_of(init.tensors);
  append(operands, outside.assigned);
  ScanAttrs attrs;
  attrs.carried = int(operands.size());
  attrs.scanned = int(xs.tensors.size());
  attrs.length = n;
  attrs.reverse = options.reverse;
  for (const Slot& s : operands) attrs.outputs.push_back(s.tensor.spec());
  for (size_t k = 0; k < body.ys; ++k)
    attrs.outputs.push_back(stacked_spec(body.graph.spec(body.graph.outputs[carried + k]), n));
  append(operands, arguments_of(xs.tensors, int(carried)));
  append(operands, outside.captured);
  append(operands, outside.read_only);
  attrs.graphs = {close("body", std::move(body.graph), operands, outside.assigned, carried, true)};
  std::vector<Tensor> out = append_node(scan_op, {}, operands, attrs, where);
  auto ys = out.end() - long(body.ys);
  outside.assign(std::span(out).subspan(carried));
  return {{out.begin(), out.begin() + long(carried)}, {ys, out.end()}};
}

}  // namespace

std::pair<std::vector<Tensor>, std::vector<Tensor>> run_scan(const Flat& init, const Flat& xs, const FlatStepFn& fn,
                                                             const ScanOptions& options, const Where& where) {
  require_all_defined("scan", init, "carried value", where);
  require_all_defined("scan", xs, "of xs, tensor", where);
  const Dim n = length_of(xs, options, where);
  if (!executing_eagerly()) return trace_scan(init, xs, n, fn, options, where);
  ScanResult out{init.tensors, {}};
  if (n == 0) {
    ScanBody body = trace_step(init, xs, fn, where);
    for (size_t k = 0; k < body.ys; ++k) {
      const Spec s = stacked_spec(body.graph.spec(body.graph.outputs[init.tensors.size() + k]), 0);
      out.second.push_back(zeros(s.shape, {.dtype = s.dtype, .device = s.device}, where));
    }
    return out;
  }
  std::vector<std::vector<Tensor>> rows;  // rows[k]: of y number k
  Flat now = init;
  now.tensors = distinct(std::move(now.tensors), where);
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = options.reverse ? int64_t(n) - 1 - step : step;
    std::vector<Tensor> in = now.tensors;
    {
      CallerScope caller(where, "scan");  // errors in xs name this call; errors in the step name their own lines
      for (const Tensor& t : xs.tensors) in.push_back(t(i));
    }
    const BodyScope body;
    FlatStep next = fn(in);
    check_carried("scan", init, next.carried, where);
    require_all_defined("scan", next.y, "y", where);
    next.carried.tensors = distinct(std::move(next.carried.tensors), where);
    next.y.tensors = distinct(std::move(next.y.tensors), where);
    if (step == 0) rows = room_for_rows(next.y.tensors.size(), n, where);
    if (next.y.tensors.size() != rows.size())
      fail("scan", fmt::format("y has {} tensors in one step and {} in another", rows.size(), next.y.tensors.size()),
           where);
    for (size_t k = 0; k < rows.size(); ++k) rows[k][size_t(i)] = next.y.tensors[k];
    now = std::move(next.carried);
  }
  for (const auto& r : rows) out.second.push_back(stack(r, 0, where));
  out.first = std::move(now.tensors);
  return out;
}

}  // namespace rill::detail
