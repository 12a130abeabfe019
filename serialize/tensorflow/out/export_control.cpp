// Control flow: cond as StatelessIf, switch_case as StatelessCase, while_loop and scan as StatelessWhile, whose
// branches, bodies and conditions are functions of the graph's library.
#include <functional>

#include "rill/ops/ops.h"
#include "rill/serialize/tensorflow/out/rules.h"
#include "rill/trace/control/control_nodes.h"

namespace rill::tensorflow_out {

namespace {

using onnx_out::dtypes_of, onnx_out::plain_scan, onnx_out::plain_while;

std::vector<DType> dtypes_of(const Values& values) {
  std::vector<DType> out;
  for (const Value& v : values) out.push_back(v.dtype);
  return out;
}

// --- Choices ---------------------------------------------------------------------------------------------------------

// A function for each graph, all of which take the operands and then the captured values of any of them.
struct Branches {
  std::vector<std::string> names;
  Values operands;

  explicit Branches(Call& c) : operands(c.in.begin() + 1, c.in.end()) {
    GraphWriter& w = writer(c);
    const auto& graphs = c.attrs<ChoiceAttrs>().graphs;
    Values before;
    std::vector<std::unique_ptr<GraphWriter::Function>> functions;
    std::vector<Values> results(graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) {
      functions.push_back(w.open_function(graphs[i]->role));
      GraphWriter::Function& f = *functions.back();
      Values arguments;
      for (const Value& v : operands) arguments.push_back(w.argument(f, "operand", v.dtype));
      w.pad_arguments(f, before);
      w.write_inner(f.scope, graphs[i]->graph, arguments, results[i]);
      before.insert(before.end(), f.captured.begin(), f.captured.end());
    }
    size_t own = 0;
    for (size_t i = 0; i < graphs.size(); ++i) {
      own += functions[i]->captured.size();
      w.pad_arguments(*functions[i], Values(before.begin() + long(own), before.end()));
      names.push_back(w.close_function(*functions[i], results[i]));
    }
    operands.insert(operands.end(), before.begin(), before.end());
  }
};

Values choose(Call& c, std::string_view op, const Value& which, NodeAttributes attributes, const Branches& branches) {
  Values in{which};
  in.insert(in.end(), branches.operands.begin(), branches.operands.end());
  attributes.emplace_back("Tin", types_attr(dtypes_of(branches.operands)));
  attributes.emplace_back("Tout", types_attr(dtypes_of(c.node.outputs)));
  return writer(c).nodes(op, in, attributes, dtypes_of(c.node.outputs));
}
Values write_cond(Call& c) {
  if (c.node.outputs.empty()) return {};
  const Branches b(c);
  return choose(c, "StatelessIf", c.in[0],
                {{"then_branch", function_attr(b.names[0])}, {"else_branch", function_attr(b.names[1])}}, b);
}
Values write_switch(Call& c) {
  if (c.node.outputs.empty()) return {};
  const Branches b(c);
  proto::AttrValue list;
  for (const std::string& name : b.names) list.mutable_list()->add_func()->set_name(name);
  // An index that does not fit i32 is out of range, as -1 is.
  GraphWriter& w = writer(c);
  const Value wide = c.e.cast(c.in[0], DType::i64), most = c.e.number(double(b.names.size()), DType::i64);
  const Value fits = w.bools(
      "LogicalAnd", {w.bools("GreaterEqual", {wide, c.e.number(0, DType::i64)}), w.bools("Less", {wide, most})});
  const Value index = c.e.cast(w.select(fits, wide, c.e.number(-1, DType::i64)), DType::i32);
  return choose(c, "StatelessCase", index, {{"branches", list}}, b);
}

// --- Loops -----------------------------------------------------------------------------------------------------------

// StatelessWhile: its carried values, the last `lists` of which are TensorLists. Both functions get all of them.
using Inner = std::function<Values(const Values& arguments)>;
Values write_loop(Call& c, const Values& first, size_t lists, const Inner& go_on, const Inner& step) {
  GraphWriter& w = writer(c);
  auto arguments_of = [&](GraphWriter::Function& f) {
    Values arguments;
    for (size_t i = 0; i < first.size(); ++i) {
      arguments.push_back(w.argument(f, "carried", first[i].dtype));
      if (i + lists >= first.size())
        f.proto.mutable_signature()->mutable_input_arg()->rbegin()->set_type(proto::DT_VARIANT);
    }
    return arguments;
  };
  auto body = w.open_function("body"), condition = w.open_function("condition");
  Values results;
  {
    const Values arguments = arguments_of(*body);
    const onnx_out::Exporter::Inside inside(w, body->scope);
    results = step(arguments);
  }
  Values operands = first;
  operands.insert(operands.end(), body->captured.begin(), body->captured.end());
  results.insert(results.end(), body->captured.begin(), body->captured.end());
  const std::string body_name = w.close_function(*body, results, first.size() - lists, first.size());
  Values test;
  {
    const Values arguments = arguments_of(*condition);
    const onnx_out::Exporter::Inside inside(w, condition->scope);
    test = go_on(arguments);
    w.pad_arguments(*condition, body->captured);
  }
  const std::string condition_name = w.close_function(*condition, test);
  proto::AttrValue types = types_attr(dtypes_of(operands));
  for (size_t i = first.size() - lists; i < first.size(); ++i)
    types.mutable_list()->set_type(int(i), proto::DT_VARIANT);
  return w.nodes("StatelessWhile", operands,
                 {{"T", types}, {"cond", function_attr(condition_name)}, {"body", function_attr(body_name)}},
                 dtypes_of(operands));
}

Value plus_one(Call& c, const Value& i) { return writer(c).node("AddV2", {i, c.e.number(1, i.dtype)}); }
void append(Values& to, const Values& from, size_t first = 0) {
  to.insert(to.end(), from.begin() + long(first), from.end());
}

// Carried: the number of steps done and its limit, whether to continue, and the record's values.
Values write_while(Call& c) {
  GraphWriter& w = writer(c);
  const WhileAttrs& a = plain_while(c);
  const size_t carried = size_t(a.carried);
  const bool limited = a.length.is_open() || a.length >= 0;
  const Value limit = limited ? w.scalar(c.e.size(a.length)) : c.e.number(0, DType::i64);
  Values first{c.e.number(0, DType::i64), limit};
  append(first, c.in);
  auto go_on = [&](const Values& v) {
    return Values{limited ? w.bools("LogicalAnd", {v[2], w.bools("Less", {v[0], v[1]})}) : w.node("Identity", {v[2]})};
  };
  auto step = [&](const Values& v) {
    Values inner(v.begin() + 3, v.end()), results, out{plus_one(c, v[0]), v[1]};
    w.write_inner(w.scope(), a.graphs[0]->graph, inner, results);
    append(out, results);
    append(out, v, 3 + carried);
    return out;
  };
  const Values all = write_loop(c, first, 0, go_on, step);
  return {all.begin() + 3, all.begin() + 3 + long(carried)};
}

// The shape of result `k` of the loop in each row. TensorFlow only stacks zero rows if it knows all sizes: those that
// no operator outside of the loop computes are -1.
Value row_shape(Call& c, size_t k) {
  Dims sizes;
  for (Dim d : Dims(c.node.outputs[k].shape.begin() + 1, c.node.outputs[k].shape.end()))
    sizes.push_back(c.e.can_write(d) ? d : Dim(-1));
  return c.e.cast(c.e.sizes(sizes), DType::i32);
}

// Carried: the row's index, the number of rows, and then the record's values; results of the rows are TensorLists.
Values write_scan(Call& c) {
  GraphWriter& w = writer(c);
  const ScanAttrs& a = plain_scan(c);
  const Graph& g = a.graphs[0]->graph;
  const size_t carried = size_t(a.carried), scanned = size_t(a.scanned), results = c.node.outputs.size() - carried;
  const Value count = w.scalar(c.e.size(a.length)), count32 = c.e.cast(count, DType::i32);
  Values first{c.e.number(0, DType::i64), count};
  append(first, c.in);
  for (size_t i = 0; i < results; ++i) {
    const Spec row = g.spec(g.outputs[carried + i]);
    first.push_back(w.node("TensorListReserve", {row_shape(c, carried + i), count32},
                           {{"element_dtype", type_attr(row.dtype)}, {"shape_type", type_attr(DType::i32)}},
                           row.dtype));
  }
  const size_t lists_at = 2 + c.in.size();
  auto go_on = [&](const Values& v) { return Values{w.bools("Less", {v[0], v[1]})}; };
  auto step = [&](const Values& v) {
    const Value last = w.node("Sub", {v[1], c.e.number(1, DType::i64)});
    const Value i = a.reverse ? w.node("Sub", {last, v[0]}) : v[0];
    const Value i32_index = c.e.cast(i, DType::i32);
    Values inner(v.begin() + 2, v.begin() + 2 + long(carried)), out{plus_one(c, v[0]), v[1]}, given;
    for (size_t k = 0; k < scanned; ++k)
      inner.push_back(w.node("GatherV2", {v[2 + carried + k], i, w.scalar(w.i32s({0}))}));
    for (size_t k = carried + scanned; k < c.in.size(); ++k) inner.push_back(v[2 + k]);
    w.write_inner(w.scope(), g, inner, given);
    out.insert(out.end(), given.begin(), given.begin() + long(carried));
    out.insert(out.end(), v.begin() + 2 + long(carried), v.begin() + long(lists_at));
    for (size_t k = 0; k < results; ++k)
      out.push_back(w.node("TensorListSetItem", {v[lists_at + k], i32_index, given[carried + k]},
                           {{"element_dtype", type_attr(given[carried + k].dtype)}}));
    return out;
  };
  const Values all = write_loop(c, first, results, go_on, step);
  Values out(all.begin() + 2, all.begin() + 2 + long(carried));
  for (size_t k = 0; k < results; ++k) {
    const Spec row = g.spec(g.outputs[carried + k]);
    out.push_back(w.node("TensorListStack", {all[lists_at + k], row_shape(c, carried + k)},
                         {{"element_dtype", type_attr(row.dtype)}, {"num_elements", number_attr(-1)}}, row.dtype));
  }
  return out;
}

}  // namespace

std::span<const onnx_out::Rule> control_rules() {
  static const onnx_out::Rule rules[] = {
      {"cond", write_cond, nullptr, "", true},
      {"switch_case", write_switch, nullptr, "", true},
      {"while_loop", write_while, nullptr, "", true},
      {"scan", write_scan, nullptr, "", true},
      {.op = "print", .refusal = "it prints, which a model that is served should not"},
      {.op = "assert_that", .refusal = "it may fail. check before the call"},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
