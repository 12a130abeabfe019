// Optimizers: the shared part (step count, slots, groups, checks). Each rule is in a file of its family.
#include "rill/nn/optimizers/optimizer.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "rill/devices/driver.h"
#include "rill/nn/optimizers/parts.h"
#include "rill/ops/apply.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/scopes.h"
#include "rill/trace/control_flow.h"

namespace rill::nn {

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

// A gradient of that norm, or among some of it, scaled so that it is at most max_norm.
Tensor shrunk(const Tensor& gradient, const Tensor& norm, double max_norm) {
  const Tensor n = astype(norm.to(gradient.device()), f64);
  const Tensor factor = max_norm / maximum(n, full_like(n, max_norm));
  return gradient * astype(factor, real_of(gradient.dtype()));
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

Variable counter(const std::string& name, const Where& where) {
  CallerScope caller(where);
  EagerScope eager;
  return hidden_variable(zeros({}, {.dtype = i64}), name);
}
void add_one(Variable& counter) { counter.assign_add(tensor(int64_t{1}, {.device = counter.device()})); }

// The trainable Variables of a model.
NamedVariables trained(const NamedVariables& all) {
  NamedVariables result;
  for (const auto& [path, v] : all)
    if (v.trainable()) result.add(path, v);
  return result;
}

void require_some(std::string_view op, size_t n, const Where& where) {
  if (n == 0)
    fail(op,
         "the list of variables is empty. either nothing of the model is trainable, or it was listed before its layers "
         "had parameters: call the model, or nn::build() it, first",
         where);
}

}  // namespace

// A gradient during a step: its values, in the dtype of the step, for all of the variable or for `rows`.
struct Optimizer::Given {
  Variable variable;
  Tensor values, rows;
  bool may_be_none = false;  // this call has no gradient of the variable, though others may: all zeros mean none
};

// --- Rows ------------------------------------------------------------------------------------------------------------

Optimizer::Rows Optimizer::Rows::master() const {
  return {*optimizer_, optimizer_->slot(variable_, "master"), rows_, false};
}

// A master is used if it rounds to the parameter's value: a value assigned from outside takes precedence.
Tensor Optimizer::Rows::value() const {
  if (parameter_ && optimizer_->has_master(variable_)) {
    const Tensor wide = master().value(), now = Rows(*optimizer_, variable_, rows_, false).value();
    return where(astype(wide, now.dtype()) == now, wide, astype(now, wide.dtype()));
  }
  if (all()) return as_pairs(variable_.value());
  for (const NewRows& n : optimizer_->new_rows_)
    if (&n.variable.state() == &variable_.state()) return as_pairs(n.values);
  return as_pairs(gather(variable_.value(), {rows_}, by_row));
}

void Optimizer::Rows::assign(const Tensor& values) const {
  if (parameter_ && optimizer_->has_master(variable_)) master().write(values);
  write(values);
}

void Optimizer::Rows::write(const Tensor& values) const {
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

Tensor Optimizer::Rows::number(const Tensor& n) const { return optimizer_->number_for(variable_, n, 1, 1); }
Tensor Optimizer::Rows::rated(const Tensor& n, double times) const {
  return optimizer_->number_for(variable_, n, times, optimizer_->settings(variable_).rate);
}
Tensor Optimizer::number_for(const Variable& v, const Tensor& n, double times, double factor) {
  const DType dtype = real_of(wide_dtype(v.dtype()));
  for (const Number& k : numbers_)
    if (k.of.rep() == n.rep() && k.times == times && k.factor == factor && k.is.dtype() == dtype &&
        k.is.device() == v.device())
      return k.is;
  Tensor x = times == 1 ? n : n * times;
  if (factor != 1) x = x * factor;
  return numbers_.emplace_back(Number{n, times, factor, astype(x.to(v.device()), dtype)}).is;
}
Tensor Optimizer::Rows::norm(const Tensor& x) const { return impl::norm_of_all_parts(x, variable_); }
double Optimizer::Rows::weight_decay() const { return optimizer_->settings(variable_).weight_decay; }

// --- Options, groups, slots ------------------------------------------------------------------------------------------

void OptimizerOptions::check(std::string_view rule, const Where& where) const {
  require_not_negative(rule, "weight_decay", weight_decay, where);
  require_not_negative(rule, "clip_value", clip_value, where);
  require_not_negative(rule, "clip_each", clip_each, where);
  require_not_negative(rule, "clip_norm", clip_norm, where);
  require_option(accumulate >= 1, rule, "accumulate", accumulate, "1 or more", where);
  require_fraction(rule, "ema", ema, where);
}

void impl::require_momentum(std::string_view rule, double momentum, const Where& where) {
  require_option(momentum >= 0 && momentum <= 1, rule, "momentum", momentum, "in [0, 1]", where);
}

Optimizer::Optimizer(std::string name, LearningRate rate, const Where& where)
    : Optimizer(OptimizerOptions{.learning_rate = std::move(rate), .name = std::move(name)}, where) {}

Optimizer::Optimizer(OptimizerOptions options, const Where& where)
    : learning_rate(options.learning_rate),
      options_(std::move(options)),
      name_(options_.name),
      iterations_(counter(name_ + "/iterations", where)) {
  if (options_.accumulate > 1) calls_.push_back(counter(name_ + "/calls", where));
}

Optimizer& Optimizer::group(std::string pattern, const GroupOptions& options, Where where) {
  if (options.rate) require_not_negative("group", "rate", *options.rate, where);
  if (options.weight_decay) require_not_negative("group", "weight_decay", *options.weight_decay, where);
  groups_.push_back({std::move(pattern), options});
  return *this;
}

// Applies the options of groups to the variables of this step. Whether a pattern matches is decided by all paths of the
// model, since its variables may be frozen now.
void Optimizer::settle(const std::vector<Variable>& variables, const Names& names, const NamedVariables* all,
                       const Where& where) {
  settings_.clear();
  for (Group& g : groups_) {
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!path_matches(names.empty() ? variables[i].name() : names[i], g.pattern)) continue;
      g.matched = true;
      Settings& s = settings_.try_emplace(&variables[i].state(), Settings{1, options_.weight_decay}).first->second;
      s.rate = g.options.rate.value_or(s.rate);
      s.weight_decay = g.options.weight_decay.value_or(s.weight_decay);
    }
    if (all && !g.matched)
      for (const auto& [path, v] : *all) g.matched |= path_matches(path, g.pattern);
    if (!g.matched)
      fail("group",
           fmt::format("no parameter's path matches '{}'. one is '{}'", g.pattern,
                       names.empty() ? variables[0].name() : names[0]),
           where);
  }
}

Optimizer::Settings Optimizer::settings(const Variable& variable) const {
  const auto found = settings_.find(&variable.state());
  return found == settings_.end() ? Settings{1, options_.weight_decay} : found->second;
}

bool Optimizer::has_master(const Variable& variable) const { return options_.masters && is_half(variable.dtype()); }

// Of a variable, or of any.
Optimizer::Names Optimizer::all_slot_names(const Variable* variable) const {
  Names names = slot_names();
  if (options_.masters && (!variable || has_master(*variable))) names.push_back("master");
  if (options_.accumulate > 1) names.push_back("gradients");
  if (options_.ema > 0) names.push_back("average");
  return names;
}

Shape Optimizer::slot_shape(const Variable& variable, const std::string&) const { return variable.shape(); }

bool Optimizer::begins_as_parameter(const std::string& name) const { return name == "average"; }

Variable& Optimizer::slot(const Variable& variable, const std::string& name) {
  std::vector<size_t>& places = places_[&variable.state()];
  for (size_t i : places)
    if (slots_[i].name == name) return slots_[i].variable;
  EagerScope eager;  // its first value is no part of a graph that is being traced
  const bool shared = name == "master" || name == "gradients" || name == "average";
  const Shape shape = shared ? variable.shape() : slot_shape(variable, name);
  const DType dtype = wide_dtype(variable.dtype());
  const Tensor first =
      begins_as_parameter(name) ? astype(variable.value(), dtype) : zeros(shape, {dtype, variable.device()});
  Slot made{variable.shared_state(), name, hidden_variable(first, variable.name() + "/" + name)};
  // The entry is added once the slot exists, with memory reserved before: each of these may run out of memory.
  places.reserve(places.size() + 1);
  slots_.push_back(std::move(made));
  places.push_back(slots_.size() - 1);
  return slots_.back().variable;
}

void Optimizer::build(const std::vector<Variable>& variables, Where where) {
  CallerScope caller(where);
  NameScope scope(name_);
  if (!own_.empty()) fail("build", "the averages are swapped in. call swap_averages() again first", where);
  require_some("build", variables.size(), where);
  require_distinct("build", variables, where);
  for (const Variable& v : variables)
    if (!v.is_built())
      fail("build",
           fmt::format("parameter '{}' has no value yet, and so no shape: call the model, or nn::build() it, first",
                       v.name()),
           where);
  for (const Variable& v : variables)
    for (const std::string& name : all_slot_names(&v)) slot(v, name);
}
void Optimizer::build(const NamedVariables& variables, Where where) { build(trained(variables).values(), where); }

std::vector<Variable> Optimizer::variables() const {
  std::vector<Variable> result{iterations_};
  for (const Slot& s : slots_) result.push_back(s.variable);
  return result;
}

void Optimizer::name_variables(VariablePaths& paths) const {
  paths.add("iterations", iterations_);
  for (const Variable& calls : calls_) paths.add("calls", calls);
  learning_rate.name_variables(paths);
  if (options_.loss_scale) options_.loss_scale->name_variables(paths);
  VariableSlots slots;
  for (const Slot& s : slots_) slots.made.push_back({Variable(s.of), s.name, s.variable});
  slots.names = all_slot_names(nullptr);
  // Restoring a checkpoint may change the optimizer, though this method is const.
  slots.make = [self = const_cast<Optimizer*>(this)](const Variable& of, const std::string& name) {
    NameScope scope(self->name_);
    return self->slot(of, name);
  };
  paths.add_slots(std::move(slots));
}

// --- A step ----------------------------------------------------------------------------------------------------------

void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                                Where where) {
  apply(std::vector<Gradient>(gradients.begin(), gradients.end()), variables, {}, nullptr, {}, where);
}
void Optimizer::apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                                Where where) {
  apply(gradients, variables, {}, nullptr, {}, where);
}
void Optimizer::apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                                const ApplyOptions& options, Where where) {
  require_not_negative("apply_gradients", "clip_norm", options.clip_norm, where);
  apply(gradients, variables, {}, nullptr, options, where);
}
void Optimizer::apply_gradients(std::initializer_list<Gradient> gradients, const std::vector<Variable>& variables,
                                Where where) {
  apply(std::vector<Gradient>(gradients), variables, {}, nullptr, {}, where);
}
void Optimizer::apply_gradients(const std::vector<Tensor>& gradients, const NamedVariables& variables, Where where) {
  apply_gradients(std::vector<Gradient>(gradients.begin(), gradients.end()), variables, where);
}
void Optimizer::apply_gradients(std::initializer_list<Gradient> gradients, const NamedVariables& variables,
                                Where where) {
  apply_gradients(std::vector<Gradient>(gradients), variables, where);
}
void Optimizer::apply_gradients(const std::vector<Gradient>& gradients, const NamedVariables& variables, Where where) {
  const NamedVariables list = trained(variables);
  apply(gradients, list.values(), list.paths(), &variables, {}, where);
}

void Optimizer::minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                         const GradientOptions& options, Where where) {
  CallerScope caller(where);
  require_some("minimize", variables.size(), where);
  apply(gradients(loss, tape, variables, options, where), variables, {}, nullptr, {}, where);
}
void Optimizer::minimize(const Tensor& loss, GradientTape& tape, const NamedVariables& variables,
                         const GradientOptions& options, Where where) {
  CallerScope caller(where);
  const NamedVariables list = trained(variables);
  require_some("minimize", list.size(), where);
  apply(gradients(loss, tape, list.values(), options, where), list.values(), list.paths(), &variables, {}, where);
}

// The walk back starts from the loss scale instead of 1.
std::vector<Gradient> Optimizer::gradients(const Tensor& loss, GradientTape& tape,
                                           const std::vector<Variable>& variables, GradientOptions options,
                                           Where where) const {
  CallerScope caller(where);
  if (options_.loss_scale) {
    const Tensor from = options.output_gradient.defined() ? options.output_gradient : ones_like(loss);
    options.output_gradient = astype(options_.loss_scale->value().to(loss.device()) * from, loss.dtype());
  }
  return tape.sparse_gradient(loss, variables, options);
}

std::vector<Tensor> Optimizer::unscaled(const std::vector<Gradient>& gradients, Where where) const {
  CallerScope caller(where);
  std::vector<Tensor> result;
  for (const Gradient& g : gradients) {
    const Tensor dense = g.defined() ? g.dense() : Tensor();
    result.push_back(options_.loss_scale ? options_.loss_scale->unscale(dense) : dense);
  }
  return result;
}

// What a rule computes of a whole matrix, a part does not tell.
void Optimizer::require_whole(const std::vector<Variable>& variables, const Where& where) const {
  if (takes_parts()) return;
  for (const Variable& v : variables)
    if (impl::part_calls_of(v))
      fail("apply_gradients",
           fmt::format("this process has a part of '{}' and '{}' needs the whole parameter. take a rule that treats "
                       "each element by itself, nn::Adam say, or nn::LAMB",
                       v.name(), name_),
           where);
}

void Optimizer::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                      const Names& names, const NamedVariables* all, const ApplyOptions& options, const Where& where) {
  CallerScope caller(where);
  NameScope scope(name_);
  if (gradients.size() != variables.size())
    fail("apply_gradients",
         std::to_string(gradients.size()) + " gradients for " + std::to_string(variables.size()) +
             " variables. the two lists must go together",
         where);
  require_some("apply_gradients", variables.size(), where);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) require_fit(gradients[i], variables[i], where);
  require_distinct("apply_gradients", variables, where);
  if (!own_.empty())
    fail("apply_gradients", "the averages are swapped in. call swap_averages() again before the next step", where);
  require_whole(variables, where);
  settle(variables, names, all, where);
  // Code that may throw runs first, and rows are assigned last: so a traced step can overwrite the tables.
  new_rows_.clear();
  const std::vector<Given> given = taken(gradients, variables, where);
  for (const Given& g : given)
    for (const std::string& name : all_slot_names(&g.variable)) slot(g.variable, name);
  const Step step{variables, options, impl::part_calls(variables)};
  run_together(variables[0].device(), [&] {
    if (options_.accumulate > 1) accumulate(given, step, where);
    else guarded_step(given, step, where);
  });
}

// A step is as precise as its variable, whatever its gradient is.
std::vector<Optimizer::Given> Optimizer::taken(const std::vector<Gradient>& gradients,
                                               const std::vector<Variable>& variables, const Where& where) const {
  std::vector<Given> result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Variable& v = variables[i];
    if (!gradients[i].defined()) {
      if (options_.accumulate > 1 && v.is_built() && is_differentiable(v.dtype())) result.push_back({v, {}, {}, true});
      continue;
    }
    Given g{v, {}, {}};
    if (gradients[i].is_sparse()) {
      const detail::SummedSlices slices = detail::summed(gradients[i].slices(), where);
      g.rows = slices.rows, g.values = slices.values;
    } else {
      g.values = gradients[i].tensor();
    }
    g.values = astype(g.values, wide_dtype(g.variable.dtype()));
    if (options_.loss_scale) g.values = options_.loss_scale->unscale(g.values);
    result.push_back(std::move(g));
  }
  return result;
}

void Optimizer::accumulate(std::vector<Given> given, const Step& step, const Where& where) {
  for (Given& g : given) {
    if (!g.values.defined()) continue;
    Variable sum = slot(g.variable, "gradients");
    if (g.rows.defined())
      detail::scatter_rows(sum, g.rows, g.values, by_row, detail::RowUpdate::add, "apply_gradients", where);
    else sum.assign_add(g.values);
  }
  add_one(calls_[0]);
  cond(
      calls_[0].value() >= options_.accumulate,
      [&] {
        for (Given& g : given)
          g.values = slot(g.variable, "gradients").value() / double(options_.accumulate), g.rows = {};
        guarded_step(given, step, where);
        for (const Given& g : given) slot(g.variable, "gradients").assign(zeros_like(g.values));
        calls_[0].assign(zeros_like(calls_[0].value()));
      },
      [] {}, where);
}

// A process that has no gradient now agrees to what the others find.
Tensor Optimizer::Step::all_finite(const std::vector<Given>& given) const {
  std::vector<Tensor> values;
  for (const Given& g : given) values.push_back(g.values);
  const Device device = parameters[0].device();
  Tensor finite = values.empty() ? tensor(true, {.device = device}) : nn::all_finite(values);
  if (parts) finite = !parts->any_of(!finite, parameters);
  if (options.sum) finite = options.sum((!finite).astype(i32)) == 0;
  return finite;
}

Tensor Optimizer::Step::norm(const std::vector<Given>& given) const {
  if (!is_shared()) return Tensor();
  std::vector<Gradient> gradients(parameters.size());
  std::unordered_map<const VariableState*, const Given*> by_variable;
  for (const Given& g : given) by_variable.emplace(&g.variable.state(), &g);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (const auto at = by_variable.find(&parameters[i].state()); at != by_variable.end())
      gradients[i] = at->second->values;
  Tensor squares = full({}, 0, {.dtype = f64, .device = parameters[0].device()});
  if (parts) squares = parts->square_of_norm(gradients, parameters);
  else if (!given.empty()) squares = square(astype(global_norm(gradients), f64));
  return sqrt(options.sum ? options.sum(squares) : squares);
}

void Optimizer::guarded_step(const std::vector<Given>& given, const Step& step, const Where& where) {
  if ((!options_.skip_not_finite && !options_.loss_scale) || (given.empty() && !step.is_shared())) {
    make_step(given, step, where);
    return;
  }
  const Tensor finite = step.all_finite(given);
  cond(finite, [&] { make_step(given, step, where); }, [] {}, where);
  if (options_.loss_scale) options_.loss_scale->update(finite);
}

void Optimizer::make_step(std::vector<Given> given, const Step& together, const Where& where) {
  new_rows_.clear();
  numbers_.clear();
  clip_gradients(given, together);
  const Tensor step = astype(iterations_.value(), f64);
  rate_ = learning_rate.at(step);
  std::vector<Variable> variables;
  for (const Given& g : given) variables.push_back(g.variable);
  before_updates(variables, step);
  begin_step(step, rate_);
  // Values computed inside a choice are only known there.
  const auto separately = [&](const Given& g) {
    numbers_.clear();
    update_one(g);
    numbers_.clear();
  };
  // Processes that have parts of a parameter change all of them, or none.
  const auto has_some = [](const Given& g) {
    const Tensor own = any(g.values != 0);
    const impl::PartCalls* parts = impl::part_calls_of(g.variable);
    return parts ? parts->any_of(own, {g.variable}) : own;
  };
  for (const Given& g : given)
    if (g.may_be_none) cond(has_some(g), [&] { separately(g); }, [] {}, where);
    else update_one(g);
  for (const NewRows& n : std::exchange(new_rows_, {}))
    detail::scatter_rows(n.variable, n.rows, n.values, by_row, detail::RowUpdate::set, "apply_gradients", where);
  after_updates(variables, step);
  if (options_.ema > 0) follow(variables, step);
  add_one(iterations_);
  numbers_.clear();
}

void Optimizer::clip_gradients(std::vector<Given>& given, const Step& step) const {
  const auto clip_all = [&](double max_norm) {
    if (const Tensor norm = step.norm(given); norm.defined()) {
      for (Given& g : given) g.values = shrunk(g.values, norm, max_norm);
      return;
    }
    if (given.empty()) return;
    std::vector<Tensor> values;
    for (const Given& g : given) values.push_back(g.values);
    values = clip_by_global_norm(values, max_norm).gradients;
    for (size_t i = 0; i < given.size(); ++i) given[i].values = astype(values[i], given[i].values.dtype());
  };
  const auto clip_one = [&](const Given& g) {
    if (!impl::part_calls_of(g.variable)) return clip_by_norm(g.values, options_.clip_each);
    return shrunk(g.values, impl::norm_of_all_parts(g.values, g.variable), options_.clip_each);
  };
  if (step.options.clip_norm > 0) clip_all(step.options.clip_norm);
  if (options_.clip_value > 0)
    for (Given& g : given)
      g.values =
          from_pairs(clip_by_value(as_pairs(g.values), -options_.clip_value, options_.clip_value), g.values.dtype());
  if (options_.clip_each > 0)
    for (Given& g : given) g.values = clip_one(g);
  if (options_.clip_norm > 0) clip_all(options_.clip_norm);
}

void Optimizer::update_one(const Given& given) {
  const Rows rows(*this, given.variable, given.rows, true);
  Tensor gradient = as_pairs(given.values);
  if (const double decay = rows.weight_decay(); decay != 0 && !decays())
    gradient = gradient + decay * astype(rows.value(), gradient.dtype());
  if (rows.all()) update(given.variable, from_pairs(gradient, given.values.dtype()));
  else if (takes_rows()) update_rows(rows, gradient);
  else Optimizer::update_rows(rows, gradient);
}

void Optimizer::begin_step(const Tensor&, const Tensor&) {}
void Optimizer::before_updates(const std::vector<Variable>&, const Tensor&) {}
void Optimizer::after_updates(const std::vector<Variable>&, const Tensor&) {}

void Optimizer::update(const Variable& variable, const Tensor& gradient) {
  update_rows(Rows(*this, variable, {}, true), as_pairs(gradient));
}

void Optimizer::update_rows(const Rows& rows, const Tensor& gradient) {
  if (rows.all()) fail("Optimizer", fmt::format("'{}' has no rule: override update() or update_rows()", name_));
  const bool pairs = is_complex(rows.dtype());
  const Tensor values = pairs ? from_pairs(gradient, promote(gradient.dtype(), DType::c64)) : gradient;
  const Tensor nothing = zeros(rows.variable_.shape(), {values.dtype(), values.device()});
  update(rows.variable_, scatter(nothing, {rows.rows_}, values, by_row, ScatterMode::set));
}

// --- Averages --------------------------------------------------------------------------------------------------------

// An average begins as the parameter after the first step, as Keras has it.
void Optimizer::follow(const std::vector<Variable>& variables, const Tensor& step) {
  for (const Variable& v : variables) {
    Variable average = slot(v, "average");
    const Tensor now = has_master(v) ? Rows(*this, v, {}, true).value() : v.value();
    average.assign(where(step.to(v.device()) == 0, now, options_.ema * average.value() + (1 - options_.ema) * now));
  }
}

void Optimizer::swap_averages(Where where) {
  CallerScope caller(where);
  if (options_.ema == 0) fail("swap_averages", "the optimizer was made without the option ema", where);
  if (!executing_eagerly()) fail("swap_averages", "parameters are swapped outside of traced functions", where);
  if (!own_.empty()) {
    for (auto& [v, value] : own_) v.assign(value);
    own_.clear();
    return;
  }
  if (iterations_.item<int64_t>() == 0) fail("swap_averages", "no step was made, and there are no averages", where);
  for (const Slot& s : slots_)
    if (s.name == "average") {
      Variable v(s.of);
      own_.emplace_back(v, v.value());
      v.assign(astype(s.variable.value(), v.dtype()));
    }
}

}  // namespace rill::nn
