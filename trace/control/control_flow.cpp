// Control flow, eager and traced. Eagerly: plain loops over the callables. Traced: each callable becomes an inner graph
// (trace_inner), the tensors that inner graphs read from outside become operands (Outside), and one node is appended.
// Running the nodes is in control_nodes.cpp.
#include "rill/trace/control_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/graph/tracer.h"

namespace rill::detail {

// --- Values ----------------------------------------------------------------------------------------------------------

void Flattener::tensor(Tensor& t) {
  flat.structure += 't';
  flat.tensors.push_back(t.defined() && t.spec().weak ? t.astype(t.dtype()) : t);
}
void Flattener::constant(const void* bytes, size_t n) {
  flat.structure += 'c';
  flat.structure.append(static_cast<const char*>(bytes), n);
}
void Flattener::structure(size_t n) {
  flat.structure += 's';
  flat.structure.append(reinterpret_cast<const char*>(&n), sizeof n);
}

namespace {

bool alike(const Spec& a, const Spec& b) { return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device; }

std::string print_spec(const Spec& s) {
  return s.device == Device() ? to_string(s) : to_string(s) + " on " + to_string(s.device);
}

// Operands of control flow and results of callables must be defined.
void require_all_defined(std::string_view op, const Flat& flat, std::string_view what, const Where& where) {
  for (size_t k = 0; k < flat.tensors.size(); ++k)
    if (!flat.tensors[k].defined()) require_defined(op, flat.tensors[k], fmt::format("{} {}", what, k), where);
}

Tensor checked_pred(std::string_view op, const Tensor& pred, const Where& where) {
  require_defined(op, pred, "the condition", where);
  if (pred.dtype() != DType::boolean || pred.ndim() != 0)
    fail(op,
         fmt::format("the condition is {} and must be a bool scalar. compare something, or reduce with all() or any()",
                     to_string(pred.spec())),
         where);
  return pred;
}

// Whether one is an integer and the other a float, of the same shape: n / 2 for an integer n.
bool whole_and_float(const Spec& a, const Spec& b) {
  bool mixed = (is_integer(a.dtype) && is_floating(b.dtype)) || (is_floating(a.dtype) && is_integer(b.dtype));
  return mixed && a.shape == b.shape && a.device == b.device;
}

// `t` as `dtype`; an error at run time where that changes a value.
Tensor exactly_as(const Tensor& t, DType dtype, const std::string& what, const char* op, const Where& where) {
  if (t.dtype() == dtype) return t;
  CallerScope caller(where, op);
  Tensor out = t.astype(dtype);
  rill::assert_that(rill::all(equal(out.astype(t.dtype()), t)),
                    fmt::format("{} is whole, or fits {} exactly (it is {}: start with {}, or convert the result with "
                                "astype({}))",
                                what, name(dtype), name(t.dtype()), name(t.dtype()), name(dtype)),
                    t);
  return out;
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
    fail(
        op,
        fmt::format("the carried values have another structure after a step: {} tensors were carried and {} came back, "
                    "or a size or C++ value among them changed. give back what was taken",
                    before.tensors.size(), after.tensors.size()),
        where);
  for (size_t k = 0; k < before.tensors.size(); ++k) {
    const Spec &was = before.tensors[k].spec(), &is = after.tensors[k].spec();
    if (alike(was, is)) continue;
    if (whole_and_float(was, is)) {
      after.tensors[k] = exactly_as(after.tensors[k], was.dtype, fmt::format("carried value {}", k), op, where);
      continue;
    }
    fail(op,
         fmt::format("carried value {} is {} before a step and {} after it, and must stay what it is. {}", k,
                     print_spec(was), print_spec(is), how_to_keep(was, is)),
         where);
  }
}

// --- Tracing callables into graphs -----------------------------------------------------------------------------------

Graph trace_inner(const std::string& role, const std::vector<Spec>& arguments, std::string_view argument_name,
                  const FlatFn& fn) {
  Tracer tracer(inner_name(role), Tracer::Nesting::inside);
  std::vector<Tensor> in;
  for (const Spec& s : arguments) in.push_back(tracer.add_argument(s, fmt::format("{}{}", argument_name, in.size())));
  for (const Tensor& t : fn(in).tensors) tracer.add_output(t);
  return tracer.finish();
}

std::vector<Spec> specs_of(std::span<const Tensor> tensors) {
  std::vector<Spec> specs;
  for (const Tensor& t : tensors) specs.push_back(t.spec());
  return specs;
}

// An operand of a node, and which input of an inner graph it is.
struct Slot {
  GraphInput::Kind kind;
  int argument = -1;
  Shared<VariableState> variable;
  Tensor tensor;  // the operand; for an argument, what has its spec
  std::string name;
  bool assigned = false;

  bool is(const GraphInput& in) const {
    if (in.kind != kind) return false;
    if (kind == GraphInput::Kind::argument) return in.argument == argument;
    return kind == GraphInput::Kind::variable ? in.variable == variable : in.captured.rep()->id == tensor.rep()->id;
  }
};
using Slots = std::vector<Slot>;

Slots arguments_of(std::span<const Tensor> tensors, int first = 0) {
  Slots slots;
  for (const Tensor& t : tensors) slots.push_back({GraphInput::Kind::argument, first++, nullptr, t, "carried", false});
  return slots;
}

// The values that the graphs of a node read from outside, each once, and the Variables that they assign.
struct Outside {
  Slots captured, read_only, assigned;

  explicit Outside(std::span<const Graph> graphs) {
    for (const Graph& g : graphs)
      for (const GraphInput& in : g.inputs) add(g, in);
    Slots all = std::exchange(read_only, {});
    for (const Graph& g : graphs)
      for (const GraphAssign& a : g.assigns) add_variable(all, a.variable).assigned = true;
    for (Slot& s : all) {
      s.tensor = Variable(s.variable).value();
      (s.assigned ? assigned : read_only).push_back(std::move(s));
    }
  }

  // Gives the outer trace the values that the node has for the Variables.
  void assign(std::span<const Tensor> values) const {
    for (size_t k = 0; k < assigned.size(); ++k) thread_state().trace->assign(assigned[k].variable, values[k]);
  }

 private:
  void add(const Graph& g, const GraphInput& in) {
    if (in.kind == GraphInput::Kind::variable) add_variable(read_only, in.variable);
    if (in.kind != GraphInput::Kind::captured) return;
    for (const Slot& s : captured)
      if (s.is(in)) return;
    captured.push_back({in.kind, -1, nullptr, in.captured, g.nodes()[size_t(in.node)].name, false});
  }
  static Slot& add_variable(Slots& slots, const Shared<VariableState>& v) {
    for (Slot& s : slots)
      if (s.variable == v) return s;
    return slots.emplace_back(Slot{GraphInput::Kind::variable, -1, v, Tensor(), v->name, false});
  }
};

void append(Slots& slots, const Slots& more) { slots.insert(slots.end(), more.begin(), more.end()); }

// The graph with the node's operands as its inputs, in order, and the values that Variables get as outputs, put in at
// `place` among its own.
std::shared_ptr<const InnerGraph> close(std::string role, Graph g, const Slots& operands, const Slots& assigned,
                                        size_t place) {
  auto node_of = [&](const Slot& s) {
    for (const GraphInput& in : g.inputs)
      if (s.is(in)) return in.node;
    return -1;
  };
  std::vector<GraphInput> inputs;
  std::vector<ValueId> values;
  for (const Slot& s : operands) {
    GraphInput in;
    in.argument = int(inputs.size());
    in.node = node_of(s);
    if (in.node < 0) {
      Node unused;
      unused.kind = Node::Kind::input;
      unused.outputs = {s.tensor.spec()};
      unused.name = s.name;
      in.node = g.append(std::move(unused));
    }
    inputs.push_back(in);
  }
  for (const Slot& s : assigned) {
    ValueId value;
    for (size_t k = 0; k < operands.size(); ++k)
      if (operands[k].variable == s.variable) value = {inputs[k].node, 0};
    for (const GraphAssign& a : g.assigns)
      if (a.variable == s.variable) value = a.value;
    values.push_back(value);
  }
  g.outputs.insert(g.outputs.begin() + long(place), values.begin(), values.end());
  g.inputs = std::move(inputs);
  g.assigns.clear();
  return std::make_shared<InnerGraph>(std::move(role), std::move(g));
}

// Appends the node to the trace; returns its outputs without those that are kept for a gradient.
std::vector<Tensor> append_node(const Op& op, std::span<const Tensor> first, const Slots& operands, ControlAttrs attrs,
                                const Where& where) {
  SmallVec<const Tensor*, 8> in;
  for (const Tensor& t : first) in.push_back(&t);
  for (const Slot& s : operands) in.push_back(&s.tensor);
  attrs.place = place_of(where);
  size_t count = attrs.outputs.size();
  Tensors out = apply_control(op, Operands(in.data(), in.size()), std::move(attrs), where);
  return {out.begin(), out.begin() + long(count)};
}

}  // namespace

namespace {

// What goes into a loop's step and comes out of a choice or a step, as tensors of their own to the tapes, as they are
// where this is a node: cotangents are then added in the same order.
std::vector<Tensor> apart(std::vector<Tensor> tensors, const Where& where) {
  if (!thread_state().tapes.empty())
    for (Tensor& t : tensors)
      if (is_differentiable(t.dtype())) t = identity(t, where);
  return tensors;
}

}  // namespace

// --- Choices ---------------------------------------------------------------------------------------------------------

namespace {

std::string branch_name(Choice kind, size_t i) {
  if (kind == Choice::cond) return i == 0 ? "then" : "else";
  return fmt::format("branch_{}", i);
}

std::string print_outputs(const Graph& g) {
  std::string text;
  for (ValueId v : g.outputs) text += (text.empty() ? "" : ", ") + print_spec(g.spec(v));
  return "(" + text + ")";
}

void check_results(Choice kind, const Flat& results, const std::string& branch, const Where& where) {
  for (size_t k = 0; k < results.tensors.size(); ++k)
    if (!results.tensors[k].defined())
      require_defined(kind == Choice::cond ? "cond" : "switch_case", results.tensors[k],
                      fmt::format("result {} of {}", k, branch), where);
}

// A branch as a graph, whose results have these dtypes where they are given.
Graph trace_branch(Choice kind, const std::string& role, const FlatFn& branch, std::span<const DType> dtypes,
                   std::string& structure, const Where& where) {
  return trace_inner(role, {}, "", [&](std::span<const Tensor> in) {
    Flat flat = branch(in);
    check_results(kind, flat, role, where);
    for (size_t k = 0; k < dtypes.size(); ++k)
      flat.tensors[k] = exactly_as(flat.tensors[k], dtypes[k], fmt::format("result {} of {}", k, role),
                                   kind == Choice::cond ? "cond" : "switch_case", where);
    structure = flat.structure;
    return flat;
  });
}

// The dtypes of the results: an integer beside a float becomes one, as in where().
std::vector<DType> common_dtypes(Choice kind, std::span<const Graph> graphs, std::span<const std::string> structures,
                                 const Where& where) {
  std::vector<DType> dtypes;
  for (ValueId v : graphs[0].outputs) dtypes.push_back(graphs[0].spec(v).dtype);
  for (size_t i = 1; i < graphs.size(); ++i) {
    bool equal = graphs[i].outputs.size() == dtypes.size() && structures[i] == structures[0];
    for (size_t k = 0; equal && k < dtypes.size(); ++k) {
      const Spec &a = graphs[0].spec(graphs[0].outputs[k]), &b = graphs[i].spec(graphs[i].outputs[k]);
      equal = alike(a, b) || whole_and_float(a, b);
      if (is_floating(b.dtype)) dtypes[k] = b.dtype;
    }
    if (!equal)
      fail(kind == Choice::cond ? "cond" : "switch_case",
           fmt::format("the branches must give the same structure, shapes and dtypes: {} gives {} and {} gives {}",
                       branch_name(kind, 0), print_outputs(graphs[0]), branch_name(kind, i), print_outputs(graphs[i])),
           where);
  }
  return dtypes;
}

bool gives(const Graph& g, std::span<const DType> dtypes) {
  for (size_t k = 0; k < dtypes.size(); ++k)
    if (g.spec(g.outputs[k]).dtype != dtypes[k]) return false;
  return true;
}

std::vector<Tensor> trace_choice(Choice kind, const Tensor& which, std::span<const FlatFn> branches,
                                 const Where& where) {
  std::vector<Graph> graphs;
  std::vector<std::string> structures(branches.size());
  for (size_t i = 0; i < branches.size(); ++i)
    graphs.push_back(trace_branch(kind, branch_name(kind, i), branches[i], {}, structures[i], where));
  std::vector<DType> dtypes = common_dtypes(kind, graphs, structures, where);
  for (size_t i = 0; i < branches.size(); ++i)
    if (!gives(graphs[i], dtypes))
      graphs[i] = trace_branch(kind, branch_name(kind, i), branches[i], dtypes, structures[i], where);
  Outside outside(graphs);
  Slots operands = outside.captured;
  append(operands, outside.read_only);
  append(operands, outside.assigned);
  ControlAttrs attrs;
  size_t results = graphs[0].outputs.size();
  for (ValueId v : graphs[0].outputs) attrs.outputs.push_back(graphs[0].spec(v));
  for (const Slot& s : outside.assigned) attrs.outputs.push_back(s.tensor.spec());
  for (size_t i = 0; i < graphs.size(); ++i)
    attrs.graphs.push_back(close(branch_name(kind, i), std::move(graphs[i]), operands, outside.assigned, results));
  std::vector<Tensor> out =
      append_node(kind == Choice::cond ? cond_op : switch_case_op, {&which, 1}, operands, std::move(attrs), where);
  outside.assign(std::span(out).subspan(results));
  out.resize(results);
  return out;
}

}  // namespace

std::vector<Tensor> run_choice(Choice kind, const Tensor& which, std::span<const FlatFn> branches, const Where& where) {
  if (kind == Choice::cond) checked_pred("cond", which, where);
  require_defined("switch_case", which, "the index", where);
  if (kind == Choice::switch_case && (!is_integer(which.dtype()) || which.ndim() != 0))
    fail("switch_case", fmt::format("the index is {} and must be an integer scalar", to_string(which.spec())), where);
  if (branches.empty()) fail("switch_case", "there are no branches. give one or more", where);
  if (!executing_eagerly()) return trace_choice(kind, which, branches, where);
  int64_t last = int64_t(branches.size()) - 1;
  int64_t i = kind == Choice::cond ? (which.item<bool>(where) ? 0 : 1) : which.item<int64_t>(where);
  const size_t chosen = size_t(i < 0 || i > last ? last : i);
  Flat result = branches[chosen]({});
  check_results(kind, result, branch_name(kind, chosen), where);
  return apart(std::move(result.tensors), where);
}

// --- while_loop ------------------------------------------------------------------------------------------------------

namespace {

std::vector<Tensor> trace_while(const Flat& init, const Tensor& go_on, const FlatFn& cond_fn, const FlatFn& body_fn,
                                const WhileOptions& options, const Where& where) {
  // The condition for the next step is the body's last act, so that a step is one graph.
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
  ControlAttrs attrs;
  attrs.carried = int(operands.size());
  for (const Slot& s : operands) attrs.outputs.push_back(s.tensor.spec());
  append(operands, outside.captured);
  append(operands, outside.read_only);
  attrs.length = options.max_steps.value_or(-1);
  attrs.graphs = {close("body", graph, operands, outside.assigned, results + 1)};
  std::vector<Tensor> out = append_node(while_loop_op, {&go_on, 1}, operands, std::move(attrs), where);
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
  now.tensors = apart(std::move(now.tensors), where);
  int64_t limit = options.max_steps.value_or(-1);
  for (int64_t step = 0; step != limit && go_on.item<bool>(where); ++step) {
    Flat next = body_fn(now.tensors);
    check_carried("while_loop", init, next, where);
    now = std::move(next);
    now.tensors = apart(std::move(now.tensors), where);
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

Spec row_spec(const Tensor& t) {
  Spec s = t.spec();
  s.shape = Shape(s.shape.begin() + 1, s.shape.end());
  return s;
}

struct ScanBody {
  Graph graph;
  size_t ys;
};

ScanBody trace_step(const Flat& init, const Flat& xs, const FlatStepFn& fn, const Where& where) {
  std::vector<Spec> arguments = specs_of(init.tensors);
  for (const Tensor& t : xs.tensors) arguments.push_back(row_spec(t));
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

// For `n` rows of each of so many ys.
std::vector<std::vector<Tensor>> room_for_rows(size_t ys, int64_t n, const Where& where) {
  try {
    return std::vector<std::vector<Tensor>>(ys, std::vector<Tensor>(ys ? size_t(n) : 0));
  } catch (const std::exception&) {
    fail("scan", fmt::format("{} rows of y are more than memory holds", n), where);
  }
}

Spec stacked_spec(const Spec& y, Dim n) {
  Spec s = y;
  s.shape.insert(0, n);
  return s;
}

using ScanResult = std::pair<std::vector<Tensor>, std::vector<Tensor>>;

ScanResult trace_scan(const Flat& init, const Flat& xs, Dim n, const FlatStepFn& fn, const ScanOptions& options,
                      const Where& where) {
  ScanBody body = trace_step(init, xs, fn, where);
  Outside outside({&body.graph, 1});
  size_t carried = init.tensors.size();
  Slots operands = arguments_of(init.tensors);
  append(operands, outside.assigned);
  ControlAttrs attrs;
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
  attrs.graphs = {close("body", std::move(body.graph), operands, outside.assigned, carried)};
  std::vector<Tensor> out = append_node(scan_op, {}, operands, std::move(attrs), where);
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
  std::vector<std::vector<Tensor>> rows;  // of each y
  Flat now = init;
  now.tensors = apart(std::move(now.tensors), where);
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = options.reverse ? int64_t(n) - 1 - step : step;
    std::vector<Tensor> in = now.tensors;
    for (const Tensor& t : xs.tensors) in.push_back(t(i));
    FlatStep next = fn(in);
    check_carried("scan", init, next.carried, where);
    require_all_defined("scan", next.y, "y", where);
    next.carried.tensors = apart(std::move(next.carried.tensors), where);
    next.y.tensors = apart(std::move(next.y.tensors), where);
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
