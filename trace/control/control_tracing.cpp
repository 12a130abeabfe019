// What choices and loops share when they are traced; see control_tracing.h. Start at trace_inner, then close, which
// makes operands of what a graph reads from outside.
#include "rill/trace/control/control_tracing.h"

#include <fmt/format.h>

#include <utility>

#include "rill/autodiff/body_scope.h"
#include "rill/devices/registry.h"
#include "rill/trace/graph/tracer.h"

namespace rill::detail {

// --- Values ----------------------------------------------------------------------------------------------------------

void Flattener::tensor(Tensor& t) {
  flat.structure += 't';
  const bool is_number = t.defined() && t.spec().weak;
  flat.tensors.push_back(is_number ? t.astype(t.dtype()).to(default_device()) : t);
}
void Flattener::constant(const void* bytes, size_t n) {
  flat.structure += 'c';
  flat.structure.append(static_cast<const char*>(bytes), n);
}
void Flattener::structure(size_t n) {
  flat.structure += 's';
  flat.structure.append(reinterpret_cast<const char*>(&n), sizeof n);
}

bool alike(const Spec& a, const Spec& b) { return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device; }

bool whole_and_float(const Spec& a, const Spec& b) {
  bool mixed = (is_integer(a.dtype) && is_floating(b.dtype)) || (is_floating(a.dtype) && is_integer(b.dtype));
  return mixed && a.shape == b.shape && a.device == b.device;
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

std::vector<Tensor> apart(std::vector<Tensor> tensors, const Where& where) {
  if (!listeners().tapes.empty())
    for (Tensor& t : tensors)
      if (is_differentiable(t.dtype())) t = identity(t, where);
  return tensors;
}

// --- Tracing callables into graphs -----------------------------------------------------------------------------------

Graph trace_inner(const std::string& role, const std::vector<Spec>& arguments, std::string_view argument_name,
                  const FlatFn& fn) {
  Tracer tracer(inner_name(role), Tracer::Nesting::inside);
  const BodyScope body;
  std::vector<Tensor> in;
  for (const Spec& s : arguments) in.push_back(tracer.add_argument(s, fmt::format("{}{}", argument_name, in.size())));
  for (const Tensor& t : fn(in).tensors) tracer.add_output(t);
  return tracer.finish();
}

Outside::Outside(std::span<const Graph> graphs) {
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

void Outside::assign(std::span<const Tensor> values) const {
  for (size_t k = 0; k < assigned.size(); ++k) listeners().variables->assign(assigned[k].variable, values[k]);
}

void Outside::add(const Graph& g, const GraphInput& in) {
  if (in.kind == GraphInput::Kind::variable) add_variable(read_only, in.variable);
  if (in.kind != GraphInput::Kind::captured) return;
  for (const Slot& s : captured)
    if (s.is(in)) return;
  captured.push_back({in.kind, -1, nullptr, in.captured, g.nodes()[size_t(in.node)].name, false});
}

Slot& Outside::add_variable(Slots& slots, const Shared<VariableState>& v) {
  for (Slot& s : slots)
    if (s.variable == v) return s;
  return slots.emplace_back(Slot{GraphInput::Kind::variable, -1, v, Tensor(), v->name, false});
}

std::shared_ptr<const InnerGraph> close(std::string role, Graph g, const Slots& operands, const Slots& assigned,
                                        size_t place, bool is_step) {
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
    const ValueId before = value;
    for (const GraphAssign& a : g.assigns)
      if (a.variable == s.variable) value = a.value;
    const bool assigns = value.node != before.node || value.index != before.index;
    if (is_step && assigns && is_differentiable(g.spec(value).dtype)) {
      // The next step reads it: the Variable itself to a tape, as every reading is, never what was assigned.
      Node known;
      known.op = &known_as_op;
      known.inputs = {value, before};
      known.outputs = {g.spec(value)};
      value = {g.append(std::move(known)), 0};
    }
    values.push_back(value);
  }
  g.outputs.insert(g.outputs.begin() + long(place), values.begin(), values.end());
  g.inputs = std::move(inputs);
  g.assigns.clear();
  return std::make_shared<InnerGraph>(std::move(role), std::move(g));
}

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

}  // namespace rill::detail
