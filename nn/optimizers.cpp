// Optimizers: the shared part (step count, slots, checks) and one update rule for each.
#include "rill/nn/optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "rill/ops/apply.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

// --- Learning rates --------------------------------------------------------------------------------------------------

namespace {
double checked_rate(double rate, std::string_view op, const Where& where) {
  require_option(rate >= 0 && std::isfinite(rate), op, "the learning rate", rate, "finite and 0 or more", where);
  return rate;
}
}  // namespace

LearningRate::LearningRate(double rate, Where where) {
  CallerScope caller(where);
  checked_rate(rate, "LearningRate", where);
  EagerScope eager;
  rate_.emplace_back(full({}, rate, {.dtype = f64}), VariableOptions{.name = "learning_rate", .trainable = false});
}
LearningRate::LearningRate(const Variable& rate) : rate_{rate} {}
LearningRate::LearningRate(Schedule schedule, Where where) : schedule_(std::move(schedule)) {
  if (!schedule_) fail("LearningRate", "the schedule is empty", where);
}

Tensor LearningRate::at(const Tensor& step, Where where) const {
  if (rate_.empty() && !schedule_) fail("LearningRate", "it was moved from, and holds nothing", where);
  const Tensor rate = rate_.empty() ? schedule_(step) : rate_[0].value(where);
  if (!rate.defined() || rate.size() != 1)
    fail("LearningRate",
         "the rate is " + (rate.defined() ? to_string(rate.spec()) : "an undefined tensor") + " and must be one number",
         where);
  return astype(rate, f64, where);
}

LearningRate& LearningRate::assign(double rate, Where where) {
  if (rate_.empty())
    fail("LearningRate.assign", "the learning rate follows a schedule, which cannot be assigned", where);
  rate_[0].assign(checked_rate(rate, "LearningRate.assign", where), where);
  return *this;
}

Schedule exponential_decay(double initial, double steps, double factor, Where where) {
  checked_rate(initial, "exponential_decay", where);
  require_option(steps > 0, "exponential_decay", "steps", steps, "above 0", where);
  require_option(factor > 0, "exponential_decay", "factor", factor, "above 0", where);
  return [=](const Tensor& step) { return initial * exp(step * (std::log(factor) / steps)); };
}

Schedule cosine_decay(double initial, double steps, double alpha, double warmup, Where where) {
  checked_rate(initial, "cosine_decay", where);
  require_option(steps > 0, "cosine_decay", "steps", steps, "above 0", where);
  require_not_negative("cosine_decay", "alpha", alpha, where);
  require_option(warmup >= 0 && warmup <= steps, "cosine_decay", "warmup", warmup, "in [0, steps]", where);
  return [=](const Tensor& step) {
    const Tensor done = clip((step - warmup) / std::max(1.0, steps - warmup), 0, 1);
    const Tensor decayed = initial * (alpha + (1 - alpha) * 0.5 * (1 + cos(done * 3.14159265358979323846)));
    return warmup > 0 ? rill::where(step < warmup, initial * step / warmup, decayed) : decayed;
  };
}

Schedule piecewise_constant(std::vector<double> boundaries, std::vector<double> values, Where where) {
  if (values.size() != boundaries.size() + 1)
    fail("piecewise_constant",
         std::to_string(values.size()) + " values for " + std::to_string(boundaries.size()) +
             " boundaries. give one value more than boundaries",
         where);
  for (double v : values) checked_rate(v, "piecewise_constant", where);
  for (size_t i = 1; i < boundaries.size(); ++i)
    if (!(boundaries[i - 1] < boundaries[i]))
      fail("piecewise_constant",
           fmt::format("the boundaries do not ascend: {} follows {}", boundaries[i], boundaries[i - 1]), where);
  return [=](const Tensor& step) {
    Tensor rate = full_like(step, values[0]);
    for (size_t i = 0; i < boundaries.size(); ++i) rate = rill::where(step >= boundaries[i], values[i + 1], rate);
    return rate;
  };
}

// --- What all share --------------------------------------------------------------------------------------------------

namespace {

Variable hidden_variable(const Tensor& initial, const std::string& name) {
  return Variable(initial, VariableOptions{.name = name, .trainable = false});
}

// The dtype in which an update is computed and remembered.
DType wide_dtype(DType d) { return is_complex(d) || d == DType::f64 ? d : DType::f32; }

// Rules work element by element on real numbers: complex ones [...] are pairs of these to them, [..., 2].
Tensor as_pairs(const Tensor& x) { return is_complex(x.dtype()) ? stack({real(x), imag(x)}, -1) : x; }
// Back, in `dtype`.
Tensor from_pairs(const Tensor& x, DType dtype) {
  return astype(is_complex(dtype) ? complex(x(ellipsis, 0), x(ellipsis, 1)) : x, dtype);
}

// A number of the step's, in the dtype and on the device of the gradient that it works on.
Tensor number_for(const Tensor& gradient, const Tensor& number) {
  return astype(number.to(gradient.device()), gradient.dtype());
}

// Rows that are not there are zeros, and are not written.
const GatherAttrs by_row{{0}, {}, {}, 0, true};

// A variable that is in the list twice would be updated twice, with one state for both.
void require_distinct(std::string_view op, const std::vector<Variable>& variables, const Where& where) {
  std::unordered_set<const VariableState*> seen;
  for (const Variable& v : variables)
    if (!seen.insert(&v.state(where)).second)
      fail(op, "variable '" + v.name() + "' stands in the list twice. add its gradients up first", where);
}

// Throws where a gradient does not go with its variable.
void require_fit(const Gradient& gradient, const Variable& v, const Where& where) {
  const auto reject = [&](const std::string& what) {
    fail("apply_gradients", fmt::format("the gradient of '{}' is {}", v.name(), what), where);
  };
  const DType from = gradient.dtype(), to = v.dtype();
  const Device device = gradient.is_sparse() ? gradient.slices().values.device() : gradient.tensor().device();
  if (gradient.shape() != v.shape())
    reject(
        fmt::format("of shape {} but the variable is of shape {}", to_string(gradient.shape()), to_string(v.shape())));
  if (is_float8(to))
    fail("apply_gradients",
         fmt::format(
             "variable '{}' is {}, which is for storage: steps would be lost in rounding. train in f32, and convert "
             "what is kept",
             v.name(), name(to)),
         where);
  if (!is_differentiable(to))
    fail("apply_gradients",
         fmt::format("variable '{}' is {}, and only floating and complex ones can be trained", v.name(), name(to)),
         where);
  if (from == DType::string || (is_complex(from) && !is_complex(to)))
    reject(fmt::format("{} but the variable is {}", name(from), name(to)));
  if (device != v.device())
    reject(fmt::format("on {} but the variable is on {}. move it there with to()", to_string(device),
                       to_string(v.device())));
}

Variable counter(const std::string& optimizer, const Where& where) {
  CallerScope caller(where);
  EagerScope eager;
  return hidden_variable(zeros({}, {.dtype = i64}), optimizer + "/iterations");
}

}  // namespace

Tensor Optimizer::Rows::value() const {
  if (all()) return as_pairs(variable_.value());
  for (const NewRows& n : optimizer_->new_rows_)
    if (&n.variable.state() == &variable_.state()) return as_pairs(n.values);
  return as_pairs(gather(variable_.value(), {rows_}, by_row));
}

void Optimizer::Rows::assign(const Tensor& values) const {
  const Tensor fit = from_pairs(values, variable_.dtype());
  if (all()) {
    Variable(variable_).assign(fit);
    return;
  }
  for (NewRows& n : optimizer_->new_rows_)
    if (&n.variable.state() == &variable_.state()) {
      n.values = fit;
      return;
    }
  optimizer_->new_rows_.push_back({variable_, rows_, fit});
}

void Optimizer::Rows::subtract(const Tensor& change) const { assign(astype(value(), change.dtype()) - change); }

Optimizer::Optimizer(std::string name, LearningRate rate, const Where& where)
    : learning_rate(std::move(rate)), name_(std::move(name)), iterations_(counter(name_, where)) {}

void Optimizer::build(const std::vector<Variable>& variables, Where where) {
  CallerScope caller(where);
  NameScope scope(name_);
  require_distinct("build", variables, where);
  for (const Variable& v : variables)
    for (const std::string& name : slot_names()) slot(v, name);
}

void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                                Where where) {
  apply_gradients(std::vector<Gradient>(gradients.begin(), gradients.end()), variables, where);
}

void Optimizer::apply_gradients(std::initializer_list<Gradient> gradients, const std::vector<Variable>& variables,
                                Where where) {
  apply_gradients(std::vector<Gradient>(gradients), variables, where);
}

void Optimizer::minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                         const GradientOptions& options, Where where) {
  CallerScope caller(where);
  apply_gradients(tape.sparse_gradient(loss, variables, options), variables);
}

void Optimizer::apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                                Where where) {
  CallerScope caller(where);
  NameScope scope(name_);
  if (gradients.size() != variables.size())
    fail("apply_gradients",
         std::to_string(gradients.size()) + " gradients for " + std::to_string(variables.size()) +
             " variables. the two lists must go together",
         where);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) require_fit(gradients[i], variables[i], where);
  require_distinct("apply_gradients", variables, where);
  // What may throw goes first, and rows are assigned last: so a traced step can write over the tables.
  new_rows_.clear();
  std::vector<detail::SummedSlices> slices(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].is_sparse()) slices[i] = detail::summed(gradients[i].slices(), where);
  const Tensor step = astype(iterations_.value(), f64);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      for (const std::string& name : slot_names()) slot(variables[i], name);
  begin_step(step, learning_rate.at(step));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const DType given = wide_dtype(gradients[i].dtype());
    const DType wide = is_complex(variables[i].dtype()) ? promote(given, DType::c64) : given;
    if (gradients[i].is_sparse())
      update_rows(Rows(*this, variables[i], slices[i].rows), as_pairs(astype(slices[i].values, wide)));
    else update(variables[i], astype(gradients[i].tensor(), wide));
  }
  for (const NewRows& n : std::exchange(new_rows_, {}))
    detail::scatter_rows(n.variable, n.rows, n.values, by_row, detail::RowUpdate::set, "apply_gradients", where);
  iterations_.assign_add(tensor(int64_t{1}, {.device = iterations_.device()}));
}

void Optimizer::update(const Variable& variable, const Tensor& gradient) {
  update_rows(Rows(*this, variable, {}), as_pairs(gradient));
}

void Optimizer::update_rows(const Rows& rows, const Tensor& gradient) {
  if (rows.all()) fail("Optimizer", fmt::format("'{}' has no rule: override update() or update_rows()", name_));
  const bool pairs = is_complex(rows.dtype());
  const Tensor values = pairs ? from_pairs(gradient, promote(gradient.dtype(), DType::c64)) : gradient;
  const Tensor nothing = zeros(rows.variable_.shape(), {values.dtype(), values.device()});
  update(rows.variable_, scatter(nothing, {rows.rows_}, values, by_row, ScatterMode::set));
}

Variable& Optimizer::slot(const Variable& variable, const std::string& name) {
  std::vector<size_t>& places = places_[&variable.state()];
  for (size_t i : places)
    if (slots_[i].name == name) return slots_[i].variable;
  EagerScope eager;  // its first value is no part of a graph that is being traced
  Slot made{variable.shared_state(), name,
            hidden_variable(zeros(variable.shape(), {wide_dtype(variable.dtype()), variable.device()}),
                            variable.name() + "/" + name)};
  // A place only once the slot is there, and room for it before: each of these may run out of memory.
  places.reserve(places.size() + 1);
  slots_.push_back(std::move(made));
  places.push_back(slots_.size() - 1);
  return slots_.back().variable;
}

std::vector<Variable> Optimizer::variables() const {
  std::vector<Variable> result{iterations_};
  for (const Slot& s : slots_) result.push_back(s.variable);
  return result;
}

void LearningRate::name_variables(VariablePaths& paths) const {
  if (!rate_.empty()) paths.add("learning_rate", rate_[0]);
}

void Optimizer::name_variables(VariablePaths& paths) const {
  paths.add("iterations", iterations_);
  learning_rate.name_variables(paths);
  VariableSlots slots;
  for (const Slot& s : slots_) slots.made.push_back({Variable(s.of), s.name, s.variable});
  slots.names = slot_names();
  // What restores a checkpoint into an optimizer may change it, and holds it as what it is.
  slots.make = [self = const_cast<Optimizer*>(this)](const Variable& of, const std::string& name) {
    NameScope scope(self->name_);
    return self->slot(of, name);
  };
  paths.add_slots(std::move(slots));
}

// --- SGD -------------------------------------------------------------------------------------------------------------

SGD::SGD(const SGDOptions& options, Where where) : Optimizer("sgd", options.learning_rate, where), options_(options) {
  require_not_negative("SGD", "momentum", options.momentum, where);
  require_not_negative("SGD", "weight_decay", options.weight_decay, where);
  if (options.nesterov && options.momentum == 0)
    fail("SGD", "nesterov is true and momentum is 0. Nesterov's momentum needs a momentum above 0", where);
}

void SGD::begin_step(const Tensor&, const Tensor& rate) { rate_ = rate; }

std::vector<std::string> SGD::slot_names() const {
  return options_.momentum != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>();
}

void SGD::update_rows(const Rows& rows, const Tensor& gradient) {
  const Tensor rate = number_for(gradient, rate_);
  Tensor g = gradient;
  if (options_.weight_decay != 0) g = g + options_.weight_decay * astype(rows.value(), g.dtype());
  if (options_.momentum != 0) {
    const Rows velocity = slot(rows, "velocity");
    const Tensor next = options_.momentum * velocity.value() + g;
    velocity.assign(next);
    g = options_.nesterov ? g + options_.momentum * next : next;
  }
  rows.subtract(rate * g);
}

// --- Adam ------------------------------------------------------------------------------------------------------------

Adam::Adam(const AdamOptions& options, Where where) : Adam("adam", options, 0, where) {}
Adam::Adam(std::string name, const AdamOptions& options, double weight_decay, const Where& where)
    : Optimizer(std::move(name), options.learning_rate, where),
      params_{options.beta1, options.beta2, options.epsilon},
      weight_decay_(weight_decay) {
  const std::string_view op = weight_decay == 0 ? "Adam" : "AdamW";
  require_fraction(op, "beta1", options.beta1, where);
  require_fraction(op, "beta2", options.beta2, where);
  require_not_negative(op, "epsilon", options.epsilon, where);
  require_not_negative(op, "weight_decay", weight_decay, where);
}

AdamW::AdamW(const AdamWOptions& o, Where where)
    : Adam("adamw", {.learning_rate = o.learning_rate, .beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon},
           o.weight_decay, where) {}

// 1 - beta^t for t = step + 1, without the cancellation that the formula as written would suffer at small t.
void Adam::begin_step(const Tensor& step, const Tensor& rate) {
  auto one_less_power = [&](double beta) { return -expm1((step + 1) * std::log(beta)); };
  rate_ = rate / one_less_power(params_.beta1);
  correction_ = rsqrt(one_less_power(params_.beta2));
  decay_ = rate * weight_decay_;
}

std::vector<std::string> Adam::slot_names() const { return {"m", "v"}; }

void Adam::update_rows(const Rows& rows, const Tensor& gradient) {
  const DType dtype = gradient.dtype();
  const Rows m = slot(rows, "m"), v = slot(rows, "v");
  const AdamUpdate next = adam_update(astype(rows.value(), dtype), m, v, gradient, number_for(gradient, rate_),
                                      number_for(gradient, correction_), number_for(gradient, decay_), params_);
  rows.assign(next.value);
  m.assign(next.m);
  v.assign(next.v);
}

// --- RMSprop ---------------------------------------------------------------------------------------------------------

RMSprop::RMSprop(const RMSpropOptions& options, Where where)
    : Optimizer("rmsprop", options.learning_rate, where), options_(options) {
  require_fraction("RMSprop", "rho", options.rho, where);
  require_not_negative("RMSprop", "momentum", options.momentum, where);
  require_not_negative("RMSprop", "epsilon", options.epsilon, where);
}

void RMSprop::begin_step(const Tensor&, const Tensor& rate) { rate_ = rate; }

std::vector<std::string> RMSprop::slot_names() const {
  if (options_.momentum == 0) return {"mean_square"};
  return {"mean_square", "velocity"};
}

void RMSprop::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows squares = slot(rows, "mean_square");
  const Tensor next = options_.rho * squares.value() + (1 - options_.rho) * square(gradient);
  squares.assign(next);
  Tensor change = number_for(gradient, rate_) * gradient / (sqrt(next) + options_.epsilon);
  if (options_.momentum != 0) {
    const Rows velocity = slot(rows, "velocity");
    change = options_.momentum * velocity.value() + change;
    velocity.assign(change);
  }
  rows.subtract(change);
}

}  // namespace rill::nn
