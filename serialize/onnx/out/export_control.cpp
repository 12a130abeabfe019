// Control flow: cond and switch_case as If, while_loop as Loop, scan as Scan (as Loop where there is nothing to scan
// over). The graphs inside read the operands that they share by name, as ONNX lets them. And what ONNX has no word for.
#include <limits>

#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"
#include "rill/trace/control/control_nodes.h"

namespace rill::onnx_out {

namespace {

// A graph inside a node, while it is written.
struct Inner {
  Exporter& e;
  onnx::GraphProto proto;
  Scope scope{&proto, nullptr};
  explicit Inner(Exporter& exporter, const std::string& name) : e(exporter) {
    scope.outer = &e.scope();
    proto.set_name(e.fresh(name));
  }
  Value input(const std::string& name, const Spec& spec) {
    const Value v{e.fresh(name), spec.dtype};
    e.fill(*proto.add_input(), v.name, spec);
    return v;
  }
  void output(const Value& v, const Spec& spec) { e.fill(*proto.add_output(), v.name, spec); }
  void outputs(const Values& values, std::span<const Spec> specs) {
    for (size_t i = 0; i < values.size(); ++i) output(values[i], specs[i]);
  }
};

// --- Choices ---------------------------------------------------------------------------------------------------------

Values chosen(Call& c, const Value& which, onnx::GraphProto& yes, onnx::GraphProto& no) {
  return c.e.ops("If", {which}, {{"then_branch", &yes}, {"else_branch", &no}}, dtypes_of(c.node.outputs));
}
void fill_branch(Call& c, Inner& inner, size_t i) {
  Values results;
  c.e.write_inner(inner.scope, c.attrs<ChoiceAttrs>().graphs[i]->graph, {c.in.begin() + 1, c.in.end()}, results);
  inner.outputs(results, c.node.outputs);
}
Values write_cond(Call& c) {
  if (c.node.outputs.empty()) return {};
  Inner yes(c.e, "then"), no(c.e, "else");
  fill_branch(c, yes, 0);
  fill_branch(c, no, 1);
  return chosen(c, c.in[0], yes.proto, no.proto);
}

// Number `i` or one of those after it; the last serves every other index.
Values choose_from(Call& c, const Value& index, size_t i) {
  Exporter& e = c.e;
  const size_t last = c.attrs<ChoiceAttrs>().graphs.size() - 1;
  const Value is = e.op("Equal", {index, e.number(double(i), index.dtype)}, {}, DType::boolean);
  Inner yes(e, "branch"), no(e, "otherwise");
  fill_branch(c, yes, i);
  if (i + 1 == last) {
    fill_branch(c, no, last);
  } else {
    const Exporter::Inside inside(e, no.scope);
    no.outputs(choose_from(c, index, i + 1), c.node.outputs);
  }
  return chosen(c, is, yes.proto, no.proto);
}
Values write_switch(Call& c) {
  if (c.node.outputs.empty()) return {};
  if (c.attrs<ChoiceAttrs>().graphs.size() > 1) return choose_from(c, c.e.cast(c.in[0], DType::i64), 0);
  Inner yes(c.e, "branch"), no(c.e, "otherwise");
  fill_branch(c, yes, 0);
  fill_branch(c, no, 0);
  return chosen(c, c.e.op("Equal", {c.in[0], c.in[0]}, {}, DType::boolean), yes.proto, no.proto);
}

// --- Loops -----------------------------------------------------------------------------------------------------------

const Spec flag{Shape{}, DType::boolean, false, Device()}, counter{Shape{}, DType::i64, false, Device()};

Values write_while(Call& c) {
  Exporter& e = c.e;
  const WhileAttrs& a = plain_while(c);
  const size_t carried = size_t(a.carried);
  Inner body(e, "body");
  body.input("step", counter);
  body.input("go_on", flag);
  Values inputs;
  for (size_t i = 0; i < carried; ++i) inputs.push_back(body.input("carried", c.specs[i + 1]));
  inputs.insert(inputs.end(), c.in.begin() + 1 + long(carried), c.in.end());
  Values results;
  e.write_inner(body.scope, a.graphs[0]->graph, inputs, results);
  body.output(results[0], flag);
  for (size_t i = 0; i < carried; ++i) body.output(results[i + 1], c.specs[i + 1]);
  Values operands{Value{}, c.in[0]};
  if (a.length.is_open() || a.length >= 0) operands[0] = e.op("Squeeze", {e.size(a.length)});
  operands.insert(operands.end(), c.in.begin() + 1, c.in.begin() + 1 + long(carried));
  std::vector<Spec> specs(c.node.outputs.begin(), c.node.outputs.begin() + long(carried));
  return e.ops("Loop", operands, {{"body", &body.proto}}, dtypes_of(specs));
}

Values write_scan(Call& c) {
  Exporter& e = c.e;
  const ScanAttrs& a = plain_scan(c);
  const size_t carried = size_t(a.carried), scanned = size_t(a.scanned), all = carried + scanned;
  const size_t ys = c.node.outputs.size() - carried;
  if (!a.length.is_open() && a.length == 0) {  // which Scan does not take
    Values out(c.in.begin(), c.in.begin() + long(carried));
    for (size_t i = carried; i < c.node.outputs.size(); ++i)
      out.push_back(e.op("Expand", {e.number(0, c.out(i).dtype), e.sizes(c.out(i).shape)}));
    return out;
  }
  Inner body(e, "body");
  if (scanned == 0) {
    body.input("step", counter);
    body.input("go_on", flag);
  }
  Values inputs;
  for (size_t i = 0; i < all; ++i)
    inputs.push_back(body.input(i < carried ? "carried" : "row", i < carried ? c.specs[i] : row_spec(c.specs[i])));
  inputs.insert(inputs.end(), c.in.begin() + long(all), c.in.end());
  Values results;
  e.write_inner(body.scope, a.graphs[0]->graph, inputs, results);
  if (scanned == 0) {
    const Exporter::Inside inside(e, body.scope);
    const Value go_on = e.op("Identity", {e.number(1, DType::boolean)});
    body.output(go_on, flag);
  }
  const Graph& g = a.graphs[0]->graph;
  for (size_t i = 0; i < results.size(); ++i) body.output(results[i], g.spec(g.outputs[i]));
  Values operands(c.in.begin(), c.in.begin() + long(all));
  if (scanned == 0) {
    const Value n = e.op("Squeeze", {e.size(a.length)});
    operands.insert(operands.begin(), {n, e.number(1, DType::boolean)});
    Values out = e.ops("Loop", operands, {{"body", &body.proto}}, dtypes_of(c.node.outputs));
    for (size_t i = carried; a.reverse && i < out.size(); ++i)
      out[i] = e.op("Slice",
                    {out[i], e.ints({-1}), e.ints({std::numeric_limits<int64_t>::min()}), e.ints({0}), e.ints({-1})});
    return out;
  }
  const int64_t direction = a.reverse;
  return e.ops("Scan", operands,
               {{"body", &body.proto},
                {"num_scan_inputs", int64_t(scanned)},
                {"scan_input_directions", std::vector<int64_t>(scanned, direction)},
                {"scan_output_directions", std::vector<int64_t>(ys, direction)}},
               dtypes_of(c.node.outputs));
}

}  // namespace

std::span<const Rule> control_rules() {
  static const Rule rules[] = {
      {"cond", write_cond, nullptr, "", true},
      {"switch_case", write_switch, nullptr, "", true},
      {"while_loop", write_while, nullptr, "", true},
      {"scan", write_scan, nullptr, "", true},
      {.op = "random_bits",
       .refusal =
           "it draws random numbers, and a model's results depend on its inputs alone. pass them as an argument"},
      {.op = "print", .refusal = "it prints, and ONNX has no operator that does"},
      {.op = "assert_that", .refusal = "it may fail, and ONNX has no operator that does. check before the call"},
  };
  return rules;
}

}  // namespace rill::onnx_out
