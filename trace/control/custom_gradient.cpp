// custom_gradient and custom_jvp inside a trace: a node that returns the value and holds the rule as a graph; a rule
// for tangents beside the gradient rule that is its transpose.
//
// The ops of the user's function are in the trace as usual. The node says that the gradient of the value is given by
// the rule. Traced values that the rule reads are operands of the node, so that second derivatives flow through the
// rule into them. The node is dropped before the graph runs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rill/autodiff/batching.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/control/check_control.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

namespace {

// --- What it holds ---------------------------------------------------------------------------------------------------

NodeRoles roles_of_rule(AttrsView attrs, size_t operands) {
  const size_t arguments = size_t(attrs.as<RuleAttrs>().arguments);
  return {{{Role::value, 1}, {Role::argument, arguments}, {Role::read, operands - 1 - arguments}},
          {{Role::value, 1}},
          {},
          {}};
}

// The first graph takes a cotangent and what it reads, the second tangents of the arguments and what it reads.
int operand_of_rule(AttrsView attrs, size_t graph, size_t input) {
  const RuleAttrs& a = attrs.as<RuleAttrs>();
  const GraphInput& in = a.graphs[graph]->graph.inputs[input];
  const bool is_gradient = graph == 0;
  const int first_read = is_gradient ? 1 : a.arguments;
  if (in.kind != GraphInput::Kind::argument || in.argument < first_read) return -1;
  return in.argument + (is_gradient ? a.arguments : 1);
}

// An argument of a rule's graph matches the operand that it stands for.
void check_rule_inputs(const ControlCheck& check, const Graph& g, size_t shift, const Spec* first) {
  for (const GraphInput& i : g.inputs) {
    if (i.kind == GraphInput::Kind::variable) continue;
    check.require(i.kind == GraphInput::Kind::argument && i.argument >= 0, "arguments");
    const size_t operand = shift + size_t(i.argument);
    const bool is_first = first && i.argument == 0;
    check.require(is_first || operand < check.in.size(), "the number of operands");
    check.require(check.fits(g.spec({i.node, 0}), is_first ? *first : *check.in[operand]), "what the rule reads");
  }
}

void check_rule(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const RuleAttrs& a = attrs.as<RuleAttrs>();
  const ControlCheck check(op, in, a);
  const size_t arguments = size_t(a.arguments);
  check.require(!in.empty() && a.arguments >= 0 && arguments < in.size(), "the number of arguments");
  check.require(a.outputs.size() == 1, "the number of results");
  check.gives(0, *in[0]);
  check.require(!a.graphs.empty() || !a.fault.empty(), "the rule");
  check.require(a.graphs.size() <= 2, "the rule");
  if (a.graphs.empty()) return;
  const Graph& g = check.body();
  check_rule_inputs(check, g, arguments, in[0]);
  check.require(g.outputs.size() == a.gives.size(), "the number of cotangents");
  for (size_t k = 0; k < a.gives.size(); ++k) {
    const int64_t of = a.gives[k].plain();
    check.require(of >= 0 && size_t(of) < arguments, "the arguments");
    check.require(check.fits(check.result(g, k), *in[1 + size_t(of)]), "the cotangents");
  }
  if (a.graphs.size() < 2) return;
  const Graph& t = a.graphs[1]->graph;
  check_rule_inputs(check, t, 1, nullptr);
  check.require(t.outputs.size() == 1 && check.fits(check.result(t, 0), *in[0]) && t.assigns.empty(), "the tangent");
}

// --- Running ---------------------------------------------------------------------------------------------------------

OutSpecs infer_value(const InferArgs& args) { return OutSpecs{args[0]}; }

Tensors call_value(Operands in, AttrsView) { return {make_alias(*in[0])}; }

// Runs the rule during a backward walk, which reads and assigns the variables that the rule assigns.
Tensors pull_back(const VjpArgs& a) {
  const RuleAttrs& c = a.attrs.as<RuleAttrs>();
  Tensors back;
  for (size_t k = 0; k < a.in.size(); ++k) back.push_back(Tensor());
  if (!c.fault.empty()) {
    refuse_gradient(c.fault);
    return back;
  }
  const Graph& g = c.graphs[0]->graph;
  std::vector<Tensor> inputs;
  for (const GraphInput& in : g.inputs) {
    if (in.kind == GraphInput::Kind::variable) inputs.push_back(Variable(in.variable).value());
    else inputs.push_back(in.argument == 0 ? a.cotangent[0] : a.in[size_t(c.arguments) + size_t(in.argument)]);
  }
  const std::vector<Tensor> given = interpret(g, inputs);
  for (size_t k = 0; k < c.gives.size(); ++k) back[size_t(c.gives[k].plain()) + 1] = given[k];
  for (size_t k = 0; k < g.assigns.size(); ++k) Variable(g.assigns[k].variable).assign(given[c.gives.size() + k]);
  return back;
}

// The rule of a batch runs the rule of a row on batches, when a cotangent arrives.
Tensors batch_rule(const BatchArgs& a) {
  SmallVec<const Tensor*, 8> operands;
  if (std::find(a.batched.begin(), a.batched.end(), 1) == a.batched.end()) {
    for (const Tensor& t : a.in) operands.push_back(&t);
    return apply(a.op, operands, a.attrs, a.where);
  }
  const size_t arguments = size_t(a.attrs.as<RuleAttrs>().arguments);
  const GradientRule rule = [op = &a.op, attrs = Attrs(a.attrs), in = Tensors(a.in.begin(), a.in.end()),
                             flags = SmallVec<char, 8>(a.batched.begin(), a.batched.end()), size = a.size,
                             arguments](const Tensor& cotangent) {
    Tensors back, out;
    {
      Batcher batcher(size, "vmap");
      Tensors rows;
      for (size_t k = 0; k < in.size(); ++k) rows.push_back(flags[k] ? batcher.row_of(in[k]) : in[k]);
      const Tensor row = batcher.row_of(cotangent);
      back = op->vjp(VjpArgs{*op, attrs, {rows.data(), rows.size()}, {}, {&row, 1}});
      for (size_t k = 1; k <= arguments; ++k) out.push_back(back[k].defined() ? batcher.all_rows(back[k]) : Tensor());
    }
    for (size_t k = 0; k < arguments; ++k)
      if (out[k].defined() && !flags[k + 1]) out[k] = sum(out[k], 0);
    return out;
  };
  for (size_t k = 1; k <= arguments; ++k) operands.push_back(&a.in[k]);
  return {detail::with_rule(with_batch(a, 0), operands, rule, a.where)};
}

// The user's rule for tangents; without one the gradient rule is transposed.
Tensors push_forward(const JvpArgs& a) {
  const RuleAttrs& c = a.attrs.as<RuleAttrs>();
  if (!c.fault.empty()) return refuse_gradient(c.fault), Tensors();
  if (c.graphs.size() < 2) return transposed_rule(a);
  const Graph& g = c.graphs[1]->graph;
  const size_t arguments = size_t(c.arguments);
  bool any = false;
  for (size_t k = 0; k < arguments; ++k) any = any || a.tangent[1 + k].defined();
  if (!any) return {};  // tangents only of tensors that the rule reads
  std::vector<Tensor> inputs;
  for (const GraphInput& in : g.inputs) {
    const size_t operand = 1 + size_t(in.argument);
    const bool is_tangent = size_t(in.argument) < arguments;
    if (!is_tangent) inputs.push_back(a.in[operand]);
    else inputs.push_back(a.tangent[operand].defined() ? a.tangent[operand] : zeros_like(a.in[operand]));
  }
  return {interpret(g, inputs)[0]};
}

// The rule's graph; `gives` says which arguments' cotangents are its results.
Graph trace_rule(const Tensor& value, const GradientRule& rule, Dims& gives) {
  Tracer tracer(inner_name("gradient"), Tracer::Nesting::inside);
  const Tensors back = rule(tracer.add_argument(value.spec(), "cotangent"));
  for (size_t k = 0; k < back.size(); ++k)
    if (back[k].defined()) tracer.add_output(back[k]), gives.push_back(int64_t(k));
  return tracer.finish();
}

// The graph of a rule for tangents. It has an argument for each of the node's; those of integers are not read.
Graph trace_tangents(Operands in, const TangentRule& rule) {
  Tracer tracer(inner_name("tangent"), Tracer::Nesting::inside);
  std::vector<Tensor> tangents;
  for (const Tensor* t : in) {
    const Tensor argument = tracer.add_argument(t->spec(), "tangent");
    tangents.push_back(is_differentiable(t->dtype()) ? argument : Tensor());
  }
  tracer.add_output(rule(tangents));
  Graph g = tracer.finish();
  for (const GraphAssign& a : g.assigns)
    fail("custom_jvp",
         fmt::format("the rule assigns variable '{}'{}", a.variable->name,
                     a.variable->name == "random/state" ? ", which is a random draw. give the draw a random::Key"
                                                        : ". assign it outside the rule"));
  return g;
}

bool assigns(const Graph& g, const Shared<VariableState>& v) {
  for (const GraphAssign& a : g.assigns)
    if (a.variable == v) return true;
  return false;
}

// Turns the tensors that the graph reads into arguments, numbered from `first` on, and appends them to `read`.
void close_over(Graph& g, size_t first, std::vector<Tensor>& read) {
  for (GraphInput& i : g.inputs) {
    if (i.kind == GraphInput::Kind::argument) continue;
    if (i.kind == GraphInput::Kind::variable && assigns(g, i.variable)) continue;
    read.push_back(i.kind == GraphInput::Kind::variable ? Variable(i.variable).value() : i.captured);
    const int32_t node = std::exchange(i, GraphInput()).node;
    i.node = node;
    i.argument = int(first + read.size() - 1);
  }
}

}  // namespace

const Op custom_gradient_op({.name = "custom_gradient",
                             .doc = "x, whose gradient is what the rule says",
                             .dtypes = every_set,
                             .inputs = -1,
                             .infer = infer_value,
                             .vjp = pull_back,
                             .saves_in = save_all & ~save(0),
                             .jvp = push_forward,
                             .batch = batch_rule,
                             .call = call_value,
                             .marker = true,
                             .graphs = graphs_in<RuleAttrs>,
                             .exported = {"Identity", "IdentityN"},
                             .listed = false});

static const ControlNode custom_gradient_node({.op = custom_gradient_op,
                                               .attrs = control_attrs<RuleAttrs>,
                                               .roles = roles_of_rule,
                                               .check = check_rule,
                                               .operand_of = operand_of_rule});

Tensor Tracer::append_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) {
  return append_marked(value, in, rule, nullptr, where);
}

Tensor Tracer::append_tangent_rule(const Tensor& value, Operands in, const TangentRule& rule,
                                   const GradientRule& gradient, const Where& where) {
  return append_marked(value, in, gradient, rule, where);
}

Tensor Tracer::append_marked(const Tensor& value, Operands in, const GradientRule& gradient,
                             const TangentRule& tangents, const Where& where) {
  RuleAttrs attrs;
  attrs.arguments = int(in.size());
  attrs.outputs = {value.spec()};
  attrs.place = place_of(where);
  std::vector<Tensor> read;
  try {
    Graph g = trace_rule(value, gradient, attrs.gives);
    close_over(g, 1, read);
    attrs.graphs = {std::make_shared<InnerGraph>("gradient", std::move(g))};
    if (tangents) {
      Graph t = trace_tangents(in, tangents);
      close_over(t, in.size(), read);
      attrs.graphs.push_back(std::make_shared<InnerGraph>("tangent", std::move(t)));
    }
  } catch (const Error& e) {
    attrs.fault = e.what();
  }
  SmallVec<const Tensor*, 8> operands{&value};
  for (const Tensor* t : in) operands.push_back(t);
  for (const Tensor& t : read) operands.push_back(&t);
  return apply(custom_gradient_op, Operands(operands.data(), operands.size()), attrs, where)[0];
}

}  // namespace rill
