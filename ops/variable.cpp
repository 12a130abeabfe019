// Variables: reading tells the tapes, assigning replaces the tensor (in place when nobody else holds the old one), and
// inside a trace both become inputs and outputs of the graph.
#include "rill/ops/variable.h"

#include <fmt/format.h>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/variable_state.h"

namespace rill {

extern const Op add_op, bitwise_or_op, subtract_op;

namespace {
std::string scoped_name(const std::string& name) {
  return current_scope().empty() ? name : current_scope() + "/" + name;
}

// What is stored: strong, of the variable's dtype and shape.
Tensor fitted(const VariableState& v, const Spec& spec, const Tensor& value, std::string_view op, const Where& where) {
  Tensor t = value;
  if (t.spec().weak || t.dtype() == spec.dtype) t = t.astype(spec.dtype);
  else
    fail(op,
         fmt::format("variable '{}' is {} and the value is {}: dtypes differ. convert the value with astype({})",
                     v.name, to_string(spec), to_string(t.spec()), name(spec.dtype)),
         where);
  if (t.shape() == spec.shape) return t;
  try {
    return broadcast_to(t, spec.shape);
  } catch (const Error&) {
    fail(op,
         fmt::format("variable '{}' is {} and the value is {}: the value does not broadcast to the variable's shape",
                     v.name, to_string(spec), to_string(t.spec())),
         where);
  }
}

Spec spec_of(const VariableState& v) {
  std::lock_guard lock(v.mutex);
  return v.value.spec();
}

bool in_place_possible(const Tensor& t) { return t.exclusive() && t.is_contiguous() && t.dtype() != DType::string; }

// value = op(value, delta), in value's own buffer where nobody else can see it.
void update(VariableState& v, const Op& op, const Tensor& delta) {
  std::lock_guard lock(v.mutex);
  const Tensor* in[] = {&v.value, &delta};
  if (in_place_possible(v.value)) {
    Tensor* out[] = {&v.value};
    run_kernel(op, in, out, {});
  } else {
    Spec spec = v.value.spec();
    v.value = run_op1(op, in, {}, OutSpecs{spec});
  }
}
}  // namespace

Variable::Variable(const Tensor& initial, VariableOptions options) : state_(Shared<VariableState>::make()) {
  state_->name = scoped_name(options.name);
  state_->trainable = options.trainable;
  EagerScope eager;
  if (initial.is_symbolic())
    fail("Variable",
         fmt::format("'{}' is made inside a traced function from a traced value. make Variables outside, once",
                     state_->name));
  Tensor value = initial.contiguous();
  // A value of its own: a scalar loses its weakness, and in-place updates never meet the caller's tensor.
  Spec spec = value.spec();
  spec.weak = false;
  state_->value = make_tensor(std::move(spec), value.rep()->buffer);
  if (state_->value.rep()->data != value.rep()->data) state_->value.mutable_rep()->data = value.rep()->data;
}

Tensor Variable::value() const {
  ThreadState& ts = thread_state();
  Tensor t;
  if (ts.trace) {
    t = ts.trace->read(state_);
  } else {
    std::lock_guard lock(state_->mutex);
    t = state_->value;
  }
  if (ts.tapes.empty()) return t;
  // A fresh alias, so that a tape knows this reading as the variable and not as what was once assigned to it.
  t = make_alias(t);
  if (state_->trainable)
    for (TapeListener* tape : ts.tapes) tape->watch_variable(state_, t);
  return t;
}

const std::string& Variable::name() const { return state_->name; }
bool Variable::trainable() const { return state_->trainable; }
Shape Variable::shape() const { return spec_of(*state_).shape; }
DType Variable::dtype() const { return spec_of(*state_).dtype; }
Device Variable::device() const { return spec_of(*state_).device; }

Variable& Variable::assign(const Tensor& value, Where where) {
  CallerScope caller(where);
  Tensor t = fitted(*state_, spec_of(*state_), value, "assign", where);
  ThreadState& ts = thread_state();
  if (ts.trace) {
    ts.trace->assign(state_, t);
  } else {
    t = make_alias(t.contiguous());
    std::lock_guard lock(state_->mutex);
    state_->value = std::move(t);
  }
  return *this;
}

Variable& Variable::assign_add(const Tensor& delta, Where where) {
  CallerScope caller(where);
  Tensor t = fitted(*state_, spec_of(*state_), delta, "assign_add", where);
  if (TraceListener* trace = thread_state().trace) trace->assign(state_, trace->read(state_) + t);
  else update(*state_, is_bool(t.dtype()) ? bitwise_or_op : add_op, t);  // as operator+ does
  return *this;
}

Variable& Variable::assign_sub(const Tensor& delta, Where where) {
  CallerScope caller(where);
  Tensor t = fitted(*state_, spec_of(*state_), delta, "assign_sub", where);
  if (TraceListener* trace = thread_state().trace) trace->assign(state_, trace->read(state_) - t);
  else if (is_bool(t.dtype())) subtract(t, t, where);  // throws
  else update(*state_, subtract_op, t);
  return *this;
}

}  // namespace rill
