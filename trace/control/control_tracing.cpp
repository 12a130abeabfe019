// See control_tracing.h. Start at trace_inner, then close, which turns what a graph reads from outside into operands.
#include "rill/trace/control/control_tracing.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>
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

bool same_spec(const Spec& a, const Spec& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
}

bool integer_and_float(const Spec& a, const Spec& b) {
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

std::vector<Tensor> distinct(std::vector<Tensor> tensors, const Where& where) {
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
  for (const Graph& g : graphs) add_inputs(g);
  for (const Graph& g : graphs)
    for (const GraphAssign& a : g.assigns) of_variable(a.variable).assigned = true;
  for (Slot& s : std::exchange(variables_, {})) {
    s.tensor = Variable(s.variable).value();
    (s.assigned ? assigned : read_only).push_back(std::move(s));
  }
}

void Outside::assign(std::span<const Tensor> values) const {
  for (size_t k = 0; k < assigned.size(); ++k) listeners().variables->assign(assigned[k].variable, values[k]);
}

void Outside::add_inputs(const Graph& g) {
  for (const GraphInput& in : g.inputs) {
    if (in.kind == GraphInput::Kind::variable) of_variable(in.variable);
    if (in.kind == GraphInput::Kind::captured && captured_ids_.insert(in.captured.rep()->id).second)
      captured.push_back({in.kind, -1, nullptr, in.captured, g.nodes()[size_t(in.node)].name, false});
  }
}

Slot& Outside::of_variable(const Shared<VariableState>& v) {
  const auto [at, is_new] = variable_at_.try_emplace(v.get(), variables_.size());
  if (is_new) variables_.push_back({GraphInput::Kind::variable, -1, v, Tensor(), v->name, false});
  return variables_[at->second];
}

namespace {

// Identifies an input of a graph, or its slot, among those of its kind: by argument index, Variable or captured tensor.
uint64_t identity_of(const GraphInput& in) {
  if (in.kind == GraphInput::Kind::argument) return uint64_t(in.argument);
  return in.kind == GraphInput::Kind::variable ? in.variable->id : in.captured.rep()->id;
}
uint64_t identity_of(const Slot& s) {
  if (s.kind == GraphInput::Kind::argument) return uint64_t(s.argument);
  return s.kind == GraphInput::Kind::variable ? s.variable->id : s.tensor.rep()->id;
}

}  // namespace

std::shared_ptr<const InnerGraph> close(std::string role, Graph g, const Slots& operands, const Slots& assigned,
                                        size_t place, bool is_step) {
  std::map<std::pair<GraphInput::Kind, uint64_t>, int32_t> nodes;
  for (const GraphInput& in : g.inputs) nodes.emplace(std::pair(in.kind, identity_of(in)), in.node);
  const auto node_of = [&](const Slot& s) {
    const auto at = nodes.find({s.kind, identity_of(s)});
    return at == nodes.end() ? -1 : at->second;
  };
  std::unordered_map<const VariableState*, int32_t> read;  // the node of a Variable's value
  std::unordered_map<const VariableState*, ValueId> given;
  for (const GraphAssign& a : g.assigns) given.emplace(a.variable.get(), a.value);
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
    if (s.variable) read[s.variable.get()] = in.node;
  }
  for (const Slot& s : assigned) {
    const ValueId before{read.at(s.variable.get()), 0};
    const auto found = given.find(s.variable.get());
    ValueId value = found == given.end() ? before : found->second;
    const bool assigns = value.node != before.node || value.index != before.index;
    if (is_step && assigns && is_differentiable(g.spec(value).dtype)) {
      // To a tape, the next step reads the Variable, as every read does, and not the tensor that was assigned.
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

std::vector<Tensor> append_node(const Op& op, std::span<const Tensor> first, const Slots& operands, AttrsView attrs,
                                const Where& where) {
  SmallVec<const Tensor*, 8> in;
  for (const Tensor& t : first) in.push_back(&t);
  for (const Slot& s : operands) in.push_back(&s.tensor);
  const ControlAttrs& of = control_of(op).attrs;
  const size_t count = of.held(attrs).outputs.size();
  const Attrs placed = of.changed(attrs, [&](HeldGraphs& held) { held.place = place_of(where); });
  Tensors out = apply_control(op, Operands(in.data(), in.size()), placed, where);
  return {out.begin(), out.begin() + long(count)};
}

}  // namespace rill::detail
