// Appends ops, reads and assignments to a graph; see tracer.h. Start at Tracer::append; value_of returns the value of a
// tensor in the graph.
#include "rill/trace/graph/tracer.h"

#include <fmt/format.h>

#include <map>

#include "rill/ops/call_replay.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/dim_table.h"

namespace rill {

Tracer::Tracer(std::string name, Nesting nesting)
    : first_variable_(VariableState::next_id()), level_(listeners().level_of(*this, nesting == Nesting::inside)) {
  const auto* outer = static_cast<const EnclosingTrace*>(level_.before().trace);
  if (nesting == Nesting::inside) parent_ = outer;
  else if (outer && outer->runs_now()) rows_ = outer;
  graph_.name = std::move(name);
  graph_.trace = serial = new_serial();
  trace_begins(serial, graph_.name);
}

Tracer::~Tracer() { trace_ends(serial); }

Tensor Tracer::stand_for(ValueId v) {
  Tensor t = make_stand_in(graph_.spec(v));
  t.mutable_rep()->trace = serial;
  t.mutable_rep()->trace_value = int32_t(values_.size());
  values_.push_back(v);
  return t;
}

Tensor Tracer::add_argument(const Spec& spec, std::string name) {
  GraphInput input;
  input.kind = GraphInput::Kind::argument;
  input.argument = arguments_++;
  Node node;
  node.kind = Node::Kind::input;
  node.outputs = {spec};
  node.name = std::move(name);
  input.node = graph_.append(std::move(node));
  graph_.inputs.push_back(input);
  return stand_for({input.node, 0});
}

ValueId Tracer::capture(const Tensor& t) {
  if (auto it = captured_.find(t.rep()->id); it != captured_.end()) return it->second;
  Node node;
  node.outputs = {t.spec()};
  // Tensors that the function itself made are constants; any other tensor is read again at each call.
  bool constant = !t.is_symbolic() && is_constant(t);
  node.kind = constant ? Node::Kind::constant : Node::Kind::input;
  node.scope = current_scope();
  if (constant) node.constant = t;
  else node.name = fmt::format("captured_{}", captured_.size());
  ValueId v{graph_.append(std::move(node)), 0};
  if (!constant) {
    GraphInput input;
    input.kind = GraphInput::Kind::captured;
    input.node = v.node;
    input.captured = t;
    graph_.inputs.push_back(input);
  }
  captured_.emplace(t.rep()->id, v);
  keep_.push_back(t);
  return v;
}

bool Tracer::is_constant(const Tensor& t) const {
  // A C++ scalar of the outer trace is one here too, so that a branch that reads it needs no operand.
  const bool scalar = t.spec().weak && t.ndim() == 0;
  return (scalar ? makes(t) : start_.made_since(t.rep()->id)) && !is_watched(t);
}

bool Tracer::makes(const Tensor& t) const { return start_.made_since(t.rep()->id) || (parent_ && parent_->makes(t)); }

bool Tracer::is_watched(const Tensor& t) const {
  for (const TapeListener* tape : level_.before().tapes)
    if (tape->watches(t)) return true;
  return parent_ && parent_->is_watched(t);
}

bool Tracer::sees(const Tensor& t) const {
  return t.rep()->trace == serial || (parent_ && parent_->sees(t)) || (rows_ && rows_->sees(t));
}

ValueId Tracer::value_of(const Tensor& t, std::string_view user, const Where& where) {
  if (!t.defined())
    fail(user, fmt::format("an undefined tensor is used in, or given by, '{}'. assign a value to it", graph_.name),
         where);
  const TensorRep* r = t.rep();
  if (r->trace == serial) return values_[size_t(r->trace_value)];
  if (r->trace && compute_delayed(t)) return capture(t);
  if (r->trace && trace_on_other_thread(r->trace)) fail_foreign(user, "a tensor", t, where);
  if (r->trace && !sees(t))
    fail(user,
         fmt::format("a tensor of another traced function, branch or loop body, {}, is used inside '{}'. pass it "
                     "as an argument, or return it from where it was made",
                     to_string(t.spec()), graph_.name),
         where);
  return capture(t);
}

// Sizes that the infer rule copied from operands and attributes are symbolic already, and its constants stay constant.
// Sizes that may be computed from open ones become "size of this value", and are evaluated by running the rule again.
void Tracer::name_sizes(Node& node) const {
  DimTable* dims = OpenDims::now();
  if (!dims || !dims->computed()) return;
  const auto at = int32_t(graph_.nodes().size());
  for (size_t k = 0; k < node.outputs.size(); ++k)
    for (size_t axis = 0; axis < node.outputs[k].shape.size(); ++axis)
      if (Dim& d = node.outputs[k].shape[axis]; !d.is_open())
        d = dims->size_at({serial, at, int32_t(k), int32_t(axis)}, d.hint());
}

Tensors Tracer::append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) {
  Node node;
  node.op = &op;
  for (const Tensor* t : in) node.inputs.push_back(value_of(*t, op.name, where));
  node.attrs = attrs;
  node.outputs.assign(specs.begin(), specs.end());
  if (listeners().open_sizes) name_sizes(node);
  node.scope = current_scope();
  node.where = place_of(where);
  node.function = called_function();
  if (detail::trace_marks.region) node.region = *detail::trace_marks.region;
  node.backward = detail::trace_marks.backward;
  int32_t at = graph_.append(std::move(node));
  Tensors out;
  for (size_t i = 0; i < specs.size(); ++i) out.push_back(stand_for({at, int32_t(i)}));
  return out;
}

Tracer::VariableValue& Tracer::variable(const Shared<VariableState>& v) {
  const auto [known, is_new] = variable_at_.try_emplace(v.get(), variables_.size());
  if (!is_new) return variables_[known->second];
  Node node;
  node.kind = Node::Kind::input;
  node.outputs = {v->spec};
  node.name = v->name;
  node.scope = current_scope();
  GraphInput input;
  input.kind = GraphInput::Kind::variable;
  input.variable = v;
  input.node = graph_.append(std::move(node));
  graph_.inputs.push_back(input);
  return variables_.emplace_back(VariableValue{v, {input.node, 0}, stand_for({input.node, 0}), {}, false});
}

Tensor Tracer::read(const Shared<VariableState>& v) {
  VariableValue& known = variable(v);
  if (!known.fresh) return known.now;
  known.fresh = false;
  return known.now = variable_alias(known.now, known);
}

// A tape treats every read as the variable itself, never as the assigned value.
Tensor Tracer::variable_alias(const Tensor& value, const VariableValue& v) {
  if (!is_differentiable(value.dtype())) return value;
  Node node;
  node.op = &known_as_op;
  node.inputs = {value_of(value, "assign"), v.input};
  node.outputs = {value.spec()};
  node.scope = current_scope();
  node.backward = detail::trace_marks.backward;
  return stand_for({graph_.append(std::move(node)), 0});
}

Tensor Tracer::as_reading(const Shared<VariableState>& v, const Tensor& value) {
  return is_differentiable(value.dtype()) ? variable_alias(value, variable(v)) : value;
}

void Tracer::assign(const Shared<VariableState>& v, const Tensor& value) {
  Tensor now = stand_for(value_of(value, "assign"));
  VariableValue& known = variable(v);
  known.now = known.assigned = now;
  known.fresh = true;
}

bool Tracer::assigns(const VariableState& v) const {
  const auto known = variable_at_.find(&v);
  if (known != variable_at_.end() && variables_[known->second].assigned.defined()) return true;
  return (parent_ && parent_->assigns(v)) || (rows_ && rows_->assigns(v));
}

bool Tracer::made_by(const Tensor& t, const Op& op, AttrsView& attrs) const {
  if (t.rep()->trace != serial) return parent_ && parent_->made_by(t, op, attrs);
  const Node& n = graph_.nodes()[size_t(values_[size_t(t.rep()->trace_value)].node)];
  if (n.op != &op) return false;
  attrs = n.attrs;
  return true;
}

Tensor Tracer::constant_value(const Tensor& t) const {
  if (t.rep()->trace != serial) return parent_ ? parent_->constant_value(t) : Tensor();
  const ValueId value = values_[size_t(t.rep()->trace_value)];
  const std::vector<Node>& nodes = graph_.nodes();
  std::map<int32_t, Tensors> values;  // of the nodes that it depends on
  std::vector<int32_t> ask{value.node};
  while (!ask.empty()) {
    const int32_t i = ask.back();
    ask.pop_back();
    if (!values.try_emplace(i).second) continue;
    const Node& n = nodes[size_t(i)];
    if (n.kind == Node::Kind::input || (n.kind == Node::Kind::op && (n.op->graphs || n.op->effect))) return {};
    for (const Spec& s : n.outputs)
      for (const Dim d : s.shape)
        if (d.is_open()) return {};
    for (const ValueId v : n.inputs) ask.push_back(v.node);
  }
  EagerScope eager;
  const PauseTapes pause;
  for (auto& [i, results] : values) {
    const Node& n = nodes[size_t(i)];
    if (n.kind == Node::Kind::constant) {
      results = {n.constant};
      continue;
    }
    SmallVec<const Tensor*, 8> in;
    for (const ValueId v : n.inputs) in.push_back(&values.at(v.node)[size_t(v.index)]);
    results = apply(*n.op, Operands(in.data(), in.size()), n.attrs, Where());
  }
  return values.at(value.node)[size_t(value.index)];
}

void Tracer::fail_read(std::string_view what, const Where& where) {
  fail(graph_.name,
       fmt::format(
           "{}() reads a tensor's value inside the traced function '{}', where it has none yet. choose with "
           "where() or cond(), loop with while_loop() or scan(), look at values with print(), or return the tensor",
           what, graph_.name),
       where);
}

void Tracer::add_output(const Tensor& t, const Where& where) { graph_.outputs.push_back(value_of(t, "return", where)); }

void Tracer::fail_created_each_call(const VariableState& v, const std::string& function, const Where& where) {
  fail("function",
       fmt::format("variable '{}' is made in each call of the traced function '{}'; a replay would keep the first one. "
                   "make it, or its layer, outside of the function, or once, where the next call finds it",
                   v.name, function),
       to_string(v.made).empty() ? where : v.made);
}

// Eager code creates such a variable in each call, whereas a replay would keep using that of the trace.
void Tracer::reject_lost_variables() const {
  constexpr uint32_t own = 2;  // references: in variables_ and in the graph's inputs
  for (const VariableValue& v : variables_)
    if (v.variable->id >= first_variable_ && v.variable.holders() == own)
      fail_created_each_call(*v.variable, graph_.name);
}

Graph Tracer::finish() {
  reject_lost_variables();
  for (const VariableValue& v : variables_)
    if (v.assigned.defined()) graph_.assigns.push_back({v.variable, value_of(v.assigned, "assign")});
  return std::move(graph_);
}

}  // namespace rill
