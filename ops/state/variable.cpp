// Variables: a read notifies the tapes, an assignment replaces the tensor (in place if nothing else holds the old
// one), and inside a trace both become inputs and outputs of the graph.
#include "rill/ops/variable.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/run_errors.h"
#include "rill/ops/run_watch.h"
#include "rill/ops/state/variable_answers.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/tree.h"
#include "rill/tensor/lent_memory.h"

namespace rill {

extern const Op add_op, bitwise_or_op, subtract_op;

// --- Aliases that tapes treat as one tensor --------------------------------------------------------------------------

namespace {
OutSpecs infer_first(const InferArgs& args) { return OutSpecs{args[0]}; }
}  // namespace

const Op known_as_op({.name = "known_as",
                      .doc = "x, which tapes take for the second operand: an assigned Variable, read again",
                      .kind = OpKind::view,
                      .dtypes = every_set,
                      .inputs = 2,
                      .infer = infer_first,
                      .no_gradient = "a tape gives its result the number of the second operand",
                      .view = [](const Tensor& in, AttrsView, const Spec&) { return make_alias(in); },
                      .marker = true,
                      .exported = {"Identity", "Identity"},
                      .listed = false});

Tensor known_as(const Tensor& value, const Tensor& other, const Where& where) {
  return apply1(known_as_op, {&value, &other}, {}, where);
}

// --- Variables -------------------------------------------------------------------------------------------------------

namespace {
std::string scoped_name(const std::string& name) {
  return current_scope().empty() ? name : current_scope() + "/" + name;
}

// A new value, or a part of one, of the variable's dtype, on its device and strong, that broadcasts to `shape`.
Tensor fitted(const VariableState& v, const Tensor& value, const Shape& shape, std::string_view op,
              const Where& where) {
  if (value.is_symbolic() && executing_eagerly() && !compute_delayed(value))
    fail_foreign(op, fmt::format("the value for variable '{}'", v.name), value, where);
  Tensor t = value;
  if (elementwise::overflows(t, v.spec.dtype) || elementwise::loses_digits(t, v.spec.dtype, true))
    fail(op,
         fmt::format("variable '{}' is {}, which cannot hold {}. give it a wider dtype, or convert the value with "
                     "astype({}), which {}",
                     v.name, to_string(v.spec), to_string(t), name(v.spec.dtype),
                     is_integer(t.dtype()) ? "wraps" : "cuts it"),
         where);
  elementwise::check_argument(op, t, v.spec.dtype, where, true);
  if (t.spec().weak || t.dtype() == v.spec.dtype) t = t.astype(v.spec.dtype);
  else
    fail(op,
         fmt::format("variable '{}' is {} and the value is {}: dtypes differ. convert the value with astype({})",
                     v.name, to_string(v.spec), to_string(t.spec()), name(v.spec.dtype)),
         where);
  if (!(t.device() == v.spec.device)) t = t.to(v.spec.device);
  if (t.shape() == shape) return t;
  try {
    return broadcast_to(t, shape);
  } catch (const Error&) {
    fail(op,
         fmt::format("variable '{}' is {} and the value is {}: the value does not broadcast to {}", v.name,
                     to_string(v.spec), to_string(t.spec()),
                     shape == v.spec.shape ? "the variable's shape" : "the shape " + to_string(shape)),
         where);
  }
}
Tensor fitted(const VariableState& v, const Tensor& value, std::string_view op, const Where& where) {
  return fitted(v, value, v.spec.shape, op, where);
}

using Rest = std::span<const Tensor* const>;

SmallVec<const Tensor*, 8> operands(const Tensor& value, Rest rest) {
  SmallVec<const Tensor*, 8> in{&value};
  for (const Tensor* t : rest) in.push_back(t);
  return in;
}

// op(value, rest...), such as value + delta, in a new tensor.
Tensor updated(const VariableState& v, const Op& op, Rest rest, AttrsView attrs = {}) {
  Tensor to = empty_tensor(v.spec);
  Tensor* out[] = {&to};
  run_kernel(op, operands(v.value, rest), out, attrs);
  return to;
}

bool in_place_possible(const Tensor& t) { return may_write(t) && t.is_contiguous() && t.dtype() != DType::string; }

void report(const VariableState& v, const Op& op, Rest rest) {
  const Tensor value = make_stand_in(v.spec);
  report_placement(op.name, operands(value, rest), v.spec.device);
}

// value = op(value, rest...), in value's own buffer if nothing else can see it.
void update(const Shared<VariableState>& state, const Op& op, Rest rest, AttrsView attrs = {}) {
  VariableState& v = *state;
  if (placement_is_logged()) [[unlikely]]
    report(v, op, rest);  // before locking: an observer may read the variable
  const std::lock_guard lock(v);
  VariableNotes* const notes = listeners().notes;
  if (notes) [[unlikely]] {
    notes->was_read(state, v.value);
    notes->was_assigned(state, Tensor());  // so that they do not hold the overwritten memory
  }
  if (runs_are_watched()) [[unlikely]] {
    Tensor next = updated(v, op, rest, attrs);
    show_results(op, operands(v.value, rest), {&next, 1}, Where());
    v.value = std::move(next);
  } else if (in_place_possible(v.value)) {
    Tensor* out[] = {&v.value};
    run_kernel(op, operands(v.value, rest), out, attrs);
  } else {
    v.value = updated(v, op, rest, attrs);
  }
  if (notes) [[unlikely]]
    notes->was_assigned(state, v.value);
}
void update(const Shared<VariableState>& v, const Op& op, const Tensor& delta) {
  const Tensor* rest[] = {&delta};
  update(v, op, rest);
}

// The same if a listener answers for it. Tapes treat the result of a read as the Variable, however it was computed.
template <class F>
void update_answer(const Shared<VariableState>& v, const F& next) {
  const PauseTapes pause;
  assign_answer(listeners(), v, next(read_answer(listeners(), v)));
}

// The first value of a new variable as a separate tensor: a weak scalar becomes strong, and in-place updates cannot
// change the caller's tensor.
Tensor strong(const Tensor& t) {
  Spec spec = t.spec();
  spec.weak = false;
  Tensor own = make_tensor(std::move(spec), t.rep()->buffer);
  own.mutable_rep()->data = t.rep()->data;
  return own;
}

std::atomic<uint64_t> last_id{0};

Shared<VariableState> new_state(const Tensor& initial, const VariableOptions& options, const Where& where) {
  const std::string name = scoped_name(options.name);
  const TraceListener* trace = listeners().trace;
  EagerScope eager;
  if (!initial.defined()) require_defined("Variable", initial, fmt::format("the first value of '{}'", name), where);
  if (initial.is_symbolic() && trace) {
    // Created in the first call: its initial value is not part of the graph, so it must not depend on the call.
    if (const Tensor value = trace->constant_value(initial); value.defined()) return new_state(value, options, where);
    fail("Variable",
         static_cast<const EnclosingTrace*>(trace)->runs_now()
             ? fmt::format("'{}' is made in vmap from a value that may differ from row to row. make it outside", name)
             : fmt::format("'{}' is made inside a traced function from a value that each call has anew (an argument, a "
                           "captured tensor, a random draw). make it outside, once",
                           name),
         where);
  }
  if (initial.is_symbolic() && !compute_delayed(initial))
    fail_foreign("Variable", fmt::format("the first value of '{}'", name), initial, where);
  auto state = Shared<VariableState>::make(where);
  state->name = name;
  state->trainable = options.trainable;
  state->value = strong(initial.spec().weak ? initial.to(default_device()) : initial.contiguous());
  state->spec = state->value.spec();
  return state;
}

}  // namespace

// --- The state, as threads share it ----------------------------------------------------------------------------------

std::atomic<uint64_t> freeze_count{0};

VariableState::VariableState(const Where& where) : id(++last_id), made(caller_or(where)) {}
uint64_t VariableState::next_id() { return last_id + 1; }

void VariableState::lock() {
  const void* me = this_thread();
  if (holder_.load(std::memory_order_relaxed) == me)
    fail("Variable", fmt::format("'{}' is read or assigned by what a call that assigns it runs meanwhile, such as the "
                                 "sink of log_placement(). do that before the call, or after it",
                                 name));
  mutex_.lock();
  holder_.store(me, std::memory_order_relaxed);
}

void VariableState::unlock() {
  holder_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

void fail_deferred(const VariableState& v, const Where& where) {
  fail("Variable",
       fmt::format("'{}' has no value yet: the sizes of its layer are found at the first call. call the model once, or "
                   "nn::build(model, spec(f32, {{any, ...}}))",
                   v.name),
       where);
}

Tensor value_of(VariableState& v) {
  require_built(v, Where());
  std::lock_guard lock(v);
  return v.value;
}

std::pair<Tensor, Tensor> take_and_add(VariableState& v, const Tensor& delta) {
  const Tensor* rest[] = {&delta};
  std::lock_guard lock(v);
  const Tensor next = updated(v, add_op, rest);
  return {std::exchange(v.value, next), next};
}

// --- Variable --------------------------------------------------------------------------------------------------------

Variable::Variable(const Tensor& initial, VariableOptions options, Where where)
    : state_(new_state(initial, options, where)) {}

Variable Variable::deferred(VariableOptions options, DType dtype, Where where) {
  auto state = Shared<VariableState>::make(where);
  state->name = scoped_name(options.name);
  state->trainable = options.trainable;
  state->spec.dtype = dtype;
  state->spec.device = default_device();
  state->built.store(false, std::memory_order_relaxed);
  return Variable(std::move(state));
}

Variable& Variable::build(const Tensor& value, Where where) {
  VariableState& v = state(where);
  require_defined("Variable.build", value, fmt::format("the value of '{}'", v.name), where);
  const EagerScope eager;
  const PauseTapes pause;
  if (value.is_symbolic() && !compute_delayed(value))
    fail_foreign("Variable.build", fmt::format("the first value of '{}'", v.name), value, where);
  Tensor first = strong(value.astype(v.spec.dtype).to(v.spec.device).contiguous());
  const std::lock_guard lock(v);
  if (!v.built.load(std::memory_order_relaxed)) {
    v.spec = first.spec();
    v.value = std::move(first);
    v.built.store(true, std::memory_order_release);
  } else if (v.spec.shape != first.shape()) {
    fail("Variable.build",
         fmt::format("'{}' was built as {} and is to be {}", v.name, to_string(v.spec), to_string(first.spec())),
         where);
  }
  return *this;
}

bool Variable::is_built(Where where) const { return state(where).built.load(std::memory_order_acquire); }

void Variable::fail_moved(const Where& where) {
  fail("Variable", "it was moved from, and holds nothing. copy it instead: copies share the same value", where);
}

namespace {
// A new alias, so that a tape identifies this read with the variable, not with the tensor that was assigned to it.
Tensor alias_for_tapes(const Listeners& now, const Shared<VariableState>& v, const Tensor& value) {
  Tensor own = make_alias(value);
  for (TapeListener* tape : now.tapes) tape->watch_variable(v, own);
  return own;
}
}  // namespace

Tensor as_reading(const Shared<VariableState>& v, const Tensor& value) {
  const Listeners& now = listeners();
  const Tensor here = now.trace ? now.trace->as_reading(v, value) : value;
  return now.tapes.empty() ? here : alias_for_tapes(now, v, here);
}

Tensor Variable::value(Where where) const {
  const Listeners& now = listeners();
  VariableState& v = state(where);
  require_built(v, where);
  Tensor t = now.variables ? now.variables->read(state_) : value_of(v);
  if (now.notes) [[unlikely]]
    now.notes->was_read(state_, t);
  if (!now.tapes.empty() && !dynamic_cast<const ComputedAnswers*>(now.variables)) t = alias_for_tapes(now, state_, t);
  return t;
}

const std::string& Variable::name(Where where) const { return state(where).name; }
bool Variable::trainable(Where where) const { return state(where).trains(); }
Shape Variable::shape(Where where) const {
  require_built(state(where), where);
  return state(where).spec.shape;
}
DType Variable::dtype(Where where) const { return state(where).spec.dtype; }
Device Variable::device(Where where) const { return state(where).spec.device; }

namespace {
void set_frozen(VariableState& v, bool frozen, std::string_view op, const Where& where) {
  if (listeners().trace)
    fail(op,
         fmt::format("'{}' is frozen or unfrozen inside a traced function, which would happen once and not at each "
                     "call. do it outside",
                     v.name),
         where);
  if (v.frozen.exchange(frozen) != frozen) ++freeze_count;
}
}  // namespace

Variable& Variable::freeze(Where where) {
  set_frozen(state(where), true, "freeze", where);
  return *this;
}
Variable& Variable::unfreeze(Where where) {
  set_frozen(state(where), false, "unfreeze", where);
  return *this;
}

Variable& Variable::assign(const Tensor& value, Where where) {
  CallerScope caller(where);
  require_built(state(where), where);
  Tensor t = fitted(state(where), value, "assign", where);
  const Listeners& now = listeners();
  if (now.variables) {
    assign_answer(now, state_, t);
  } else {
    t = make_alias(t.contiguous());
    if (now.notes) [[unlikely]]
      now.notes->was_assigned(state_, t);
    std::lock_guard lock(*state_);
    std::swap(state_->value, t);  // the old one is freed after unlocking
  }
  return *this;
}

Variable& Variable::assign_add(const Tensor& delta, Where where) {
  CallerScope caller(where);
  require_built(state(where), where);
  Tensor t = fitted(state(where), delta, "assign_add", where);
  if (t.dtype() == DType::string || is_float8(t.dtype())) add(t, t, where);  // throws
  else if (listeners().variables) update_answer(state_, [&](const Tensor& now) { return now + t.to(now.device()); });
  else update(state_, is_bool(t.dtype()) ? bitwise_or_op : add_op, t);  // as operator+ does
  return *this;
}

Variable& Variable::assign_sub(const Tensor& delta, Where where) {
  CallerScope caller(where);
  require_built(state(where), where);
  Tensor t = fitted(state(where), delta, "assign_sub", where);
  if (listeners().variables) update_answer(state_, [&](const Tensor& now) { return now - t.to(now.device()); });
  else if (is_bool(t.dtype()) || t.dtype() == DType::string || is_float8(t.dtype())) subtract(t, t, where);  // throws
  else update(state_, subtract_op, t);
  return *this;
}

// --- Rows of a variable ----------------------------------------------------------------------------------------------

namespace detail {
void scatter_rows(const Variable& variable, const Tensor& indices, const Tensor& rows, const GatherAttrs& attrs,
                  RowUpdate how, const char* op, const Where& where) {
  CallerScope caller(where, op);
  VariableState& v = variable.state(where);
  const Spec* specs[] = {&v.spec, &indices.spec()};
  const Shape shape = infer(gather_op, specs, attrs, where)[0].shape;
  const Tensor fit = fitted(v, rows, shape, op, where);
  if (how == RowUpdate::subtract && is_bool(fit.dtype())) subtract(fit, fit, where);  // throws
  const Tensor t = how == RowUpdate::subtract ? negative(fit) : fit;                  // x + (-r) has the bits of x - r
  const ScatterMode mode = how == RowUpdate::set ? ScatterMode::set : ScatterMode::add;
  if (listeners().variables)
    return update_answer(variable.shared_state(),
                         [&](const Tensor& now) { return scatter(now, {indices}, t, attrs, mode, where); });
  const Spec* all[] = {&v.spec, &t.spec(), &indices.spec()};
  infer(scatter_record(mode), all, ScatterAttrs{attrs, mode}, where);  // which refuses to add strings
  if (indices.is_symbolic() && !compute_delayed(indices)) fail_foreign(op, "the indices", indices, where);
  const Tensor at = indices.device() == v.spec.device ? indices : indices.to(v.spec.device);
  const Tensor* rest[] = {&t, &at};
  try {
    update(variable.shared_state(), scatter_record(mode), rest, ScatterAttrs{attrs, mode});
  } catch (...) {
    const Tensor value = make_stand_in(v.spec);
    fail_running(scatter_record(mode), operands(value, rest), where);
  }
}

}  // namespace detail

namespace {
// Of the first axis, if there is one.
void scatter_first_axis(const Variable& v, const Tensor& indices, const Tensor& rows, detail::RowUpdate how,
                        const char* op, const Where& where) {
  require_defined(op, indices, "the indices", where);
  require_defined(op, rows, "the rows", where);
  if (v.shape(where).empty())
    fail(op, fmt::format("variable '{}' is {}, which has no rows. use assign()", v.name(), to_string(v.state().spec)),
         where);
  detail::scatter_rows(v, indices, rows, GatherAttrs{{0}, {}, {}, 0}, how, op, where);
}
}  // namespace

Variable& Variable::scatter_update(const Tensor& indices, const Tensor& rows, Where where) {
  scatter_first_axis(*this, indices, rows, detail::RowUpdate::set, "scatter_update", where);
  return *this;
}
Variable& Variable::scatter_add(const Tensor& indices, const Tensor& rows, Where where) {
  scatter_first_axis(*this, indices, rows, detail::RowUpdate::add, "scatter_add", where);
  return *this;
}
Variable& Variable::scatter_sub(const Tensor& indices, const Tensor& rows, Where where) {
  scatter_first_axis(*this, indices, rows, detail::RowUpdate::subtract, "scatter_sub", where);
  return *this;
}

uint64_t detail::identity_of(const Variable& v) { return v.state(Where()).id; }

}  // namespace rill
