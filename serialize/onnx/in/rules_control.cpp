// If, Loop and Scan, as cond, while_loop and scan; or as C++'s, if the condition or the number of steps is known here.
#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/scopes.h"
#include "rill/serialize/model/imported_control.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

using imported::Tensors;
using imported::tensors_of;
using imported::truth;

Values values_of(const Tensors& tensors) { return imported::values_of<Values>(tensors); }

Values if_rule(const Call& c) {
  const onnx::GraphProto* const graphs[] = {&c.graph("then_branch"), &c.graph("else_branch")};
  auto run = [&](size_t i) { return run_inner(c, *graphs[i], {}); };
  // For sizes, a trace is made for each outcome: branches often differ in the number of axes of their results. Only a
  // model for all sizes contains both, if they fit together.
  if (c.has(0) && c.in[0].kind == Value::Kind::sizes) {
    const auto both = [&] { return imported::chosen(c, imported::as_condition(c.x(0)), 2, run); };
    return imported::for_all_sizes(both, [&] { return run(imported::decided(c.dim(0)) ? 0 : 1); });
  }
  if (c.knows(0)) return run(truth(c.known(0)) ? 0 : 1);
  return imported::chosen(c, imported::as_condition(c.x(0)), 2, run);
}

// Whether a loop's body returns its condition unchanged, or always true.
bool keeps_condition(const Call& c, const onnx::GraphProto& body) {
  std::string name = body.output_size() ? body.output(0).name() : "";
  const std::string& given = body.input_size() > 1 ? body.input(1).name() : "";
  for (int i = body.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& n = body.node(i);
    if (n.output_size() != 1 || n.output(0) != name) continue;
    if (n.op_type() == "Identity" && n.input_size() == 1) {
      name = n.input(0);
    } else if (n.op_type() == "Constant" && n.attribute_size() == 1 && n.attribute(0).has_t()) {
      return truth(c.program.weights->at(n.attribute(0).t()).tensor);
    } else {
      return false;
    }
  }
  for (const onnx::TensorProto& t : body.initializer())
    if (t.name() == name) return truth(c.program.weights->at(t).tensor);
  return name == given;
}

struct Loop {
  const Call& c;
  const onnx::GraphProto& body;
  Values carried;
  size_t scanned;  // the number of stacked outputs

  // One step: the condition, then the carried values, then a row of each stacked output.
  Values step(const Value& i, const Value& condition, const Values& state) const {
    Values in = {i, condition};
    in.insert(in.end(), state.begin(), state.end());
    Values out = run_inner(c, body, in);
    if (out.size() != 1 + state.size() + scanned) c.reject("its body gives another number of values than it should");
    return out;
  }
};

Value counter(int64_t i) {
  const EagerScope eager;
  return {tensor(i), true};
}
Value always() {
  const EagerScope eager;
  return {tensor(true), true};
}

// Step by step, here: for a loop whose condition can be read.
Values run_here(const Loop& loop, std::optional<int64_t> steps, Value condition) {
  Values state = loop.carried;
  std::vector<Tensors> rows(loop.scanned);
  for (int64_t i = 0; (!steps || i < *steps); ++i) {
    if (condition.kind != Value::Kind::absent && !truth(as_tensor(condition, "the condition"))) break;
    Values out = loop.step(counter(i), condition.kind == Value::Kind::absent ? always() : condition, state);
    condition = out[0];
    state.assign(out.begin() + 1, out.begin() + 1 + std::ptrdiff_t(state.size()));
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(as_tensor(out[1 + state.size() + k], "a row"));
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    if (!rows[k].empty()) {
      state.emplace_back(stack(rows[k]));
      continue;
    }
    const auto& type = loop.body.output(int(1 + loop.carried.size() + k)).type().tensor_type();
    Shape shape = {0};
    for (const auto& d : type.shape().dim()) shape.push_back(d.has_dim_value() ? d.dim_value() : 0);
    state.emplace_back(zeros(shape, dtype_of(type.elem_type(), "a stacked output of a loop")));
  }
  return state;
}

Values run_counted(const Loop& loop, Dim steps) {
  const Tensors start = tensors_of(loop.c, loop.carried);
  auto [last, rows] = scan(
      [&](const Tensors& state, const Tensor& i) {
        const Tensors out = tensors_of(loop.c, loop.step(Value(i), always(), values_of(state)));
        const auto middle = out.begin() + 1 + std::ptrdiff_t(state.size());
        return std::pair<Tensors, Tensors>({out.begin() + 1, middle}, {middle, out.end()});
      },
      start, iota({larger(steps, 0)}), {});
  Values out = values_of(last);
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

Values run_while_true(const Loop& loop, std::optional<Tensor> steps, const Tensor& condition) {
  Tensors start = tensors_of(loop.c, loop.carried);
  start.push_back(tensor(int64_t(0)));
  start.push_back(condition);
  const size_t n = loop.carried.size();
  const Tensors last = while_loop(
      [&](const Tensors& s) { return steps ? logical_and(s[n + 1], less(s[n], *steps)) : s[n + 1]; },
      [&](const Tensors& s) {
        const Tensors out = tensors_of(
            loop.c, loop.step(Value(s[n]), Value(s[n + 1]), values_of({s.begin(), s.begin() + std::ptrdiff_t(n)})));
        Tensors next(out.begin() + 1, out.end());
        next.push_back(s[n] + 1);
        next.push_back(reshape(out[0], {}));
        return next;
      },
      start);
  return values_of({last.begin(), last.begin() + std::ptrdiff_t(n)});
}

Values loop_rule(const Call& c) {
  const onnx::GraphProto& body = c.graph("body");
  Loop loop{c, body, {}, 0};
  for (size_t i = 2; i < c.count(); ++i) loop.carried.push_back(c.in[i]);
  const size_t results = size_t(body.output_size());
  if (results < 1 + loop.carried.size()) c.reject("its body gives fewer values than are carried");
  loop.scanned = results - 1 - loop.carried.size();
  const Value condition = c.has(1) ? c.in[1] : Value();
  const bool sized = c.has(1) && c.in[1].kind == Value::Kind::sizes;
  const bool starts = !c.has(1) || (sized ? imported::decided(c.dim(1)) : c.knows(1) && truth(c.known(1)));
  if (!EnclosingTrace::now()) {
    std::optional<int64_t> steps;
    if (c.has(0)) steps = int64_t(c.dim(0));
    return run_here(loop, steps, condition);
  }
  return imported::fitting(c, [&] {
    if (starts && c.has(0) && c.knows(0) && keeps_condition(c, body)) return run_counted(loop, c.dim(0));
    if (loop.scanned) c.needs_values("its condition, which decides how many rows it stacks");
    std::optional<Tensor> steps;
    if (c.has(0)) steps = reshape(c.x(0), {});
    return run_while_true(loop, steps, c.has(1) ? reshape(c.x(1), {}) : tensor(true));
  });
}

// The rows of Scan's operands come first, in the order of the steps.
Tensor rows_first(const Call& c, const Tensor& x, int64_t axis, bool backward) {
  const Tensor rows = moveaxis(x, axis_of(c, axis, x.ndim()), 0);
  return backward ? flip(rows, 0) : rows;
}
int64_t entry(const Dims& d, size_t i) { return i < d.size() ? int64_t(d[i]) : 0; }

Values scan_once(const Call& c, const onnx::GraphProto& body, const Values& operands, size_t rows_count) {
  const size_t state_count = operands.size() - rows_count;
  const Dims in_axes = c.integers("scan_input_axes"), out_axes = c.integers("scan_output_axes");
  const Dims in_back = c.integers(c.opset < 9 ? "directions" : "scan_input_directions"),
             out_back = c.integers("scan_output_directions");
  const Tensors start = tensors_of(c, Values(operands.begin(), operands.begin() + std::ptrdiff_t(state_count)));
  Tensors xs;
  for (size_t i = 0; i < rows_count; ++i)
    xs.push_back(
        rows_first(c, as_tensor(operands[state_count + i], "an operand"), entry(in_axes, i), entry(in_back, i)));
  auto [last, ys] = scan(
      [&](const Tensors& state, const Tensors& row) {
        Values in = values_of(state);
        in.insert(in.end(), row.begin(), row.end());
        const Tensors out = tensors_of(c, run_inner(c, body, in));
        if (out.size() < state_count) c.reject("its body gives fewer values than are carried");
        const auto middle = out.begin() + std::ptrdiff_t(state_count);
        return std::pair<Tensors, Tensors>({out.begin(), middle}, {middle, out.end()});
      },
      start, xs, {});
  Values out = values_of(last);
  for (size_t i = 0; i < ys.size(); ++i) {
    const Tensor y = entry(out_back, i) ? flip(ys[i], 0) : ys[i];
    out.emplace_back(moveaxis(y, 0, axis_of(c, entry(out_axes, i), y.ndim())));
  }
  return out;
}

Values scan_rule(const Call& c) {
  const onnx::GraphProto& body = c.graph("body");
  const int64_t rows = c.integer("num_scan_inputs", 0);
  const size_t first = c.opset < 9 ? 1 : 0;
  if (rows < 1 || size_t(rows) > c.count() - std::min(c.count(), first))
    c.reject("num_scan_inputs is not that of its operands");
  if (c.opset >= 9) return scan_once(c, body, c.in, size_t(rows));
  // Before opset 9 all operands have a first axis of batches, and lengths come before them.
  if (c.has(0)) c.reject("lengths of sequences are not understood");
  std::vector<Tensors> parts;
  const int64_t batches = c.x(1).dim(0);
  for (int64_t b = 0; b < batches; ++b) {
    Values operands;
    for (size_t i = 1; i < c.count(); ++i) operands.emplace_back(c.x(i)(b));
    parts.push_back(tensors_of(c, scan_once(c, body, operands, size_t(rows))));
  }
  Values out;
  for (size_t k = 0; !parts.empty() && k < parts[0].size(); ++k) {
    Tensors all;
    for (const Tensors& p : parts) all.push_back(p[k]);
    out.emplace_back(stack(all));
  }
  return out;
}

}  // namespace

const RuleTable& control_rules() {
  static const RuleTable table = {
      {"If", {if_rule}},
      {"Loop", {loop_rule}},
      {"Scan", {scan_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
