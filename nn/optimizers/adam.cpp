// Adam, AdamW, Adamax, NAdam, RAdam, Lion. Scalars of a step are computed in f64, once for all parameters.
#include "rill/nn/optimizers/adam.h"

#include <cmath>

#include "rill/nn/optimizers/powers.h"
#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {

template <class O>
void require_moments(std::string_view op, const O& o, const Where& where) {
  require_fraction(op, "beta1", o.beta1, where);
  require_fraction(op, "beta2", o.beta2, where);
  if constexpr (requires { o.epsilon; }) require_not_negative(op, "epsilon", o.epsilon, where);
}

// The mean of x that decays by beta.
template <class R>
Tensor moved_mean(const R& slot, double beta, const Tensor& x) {
  const Tensor next = beta * slot.value() + (1 - beta) * x;
  slot.assign(next);
  return next;
}

}  // namespace

// --- Adam, AdamW -----------------------------------------------------------------------------------------------------

Adam::Adam(const AdamOptions& o, Where where) : Adam(OptimizerOptions::of(o, "Adam", where), o, "Adam", where) {}
Adam::Adam(const OptimizerOptions& shared, const AdamOptions& o, std::string_view op, const Where& where)
    : Optimizer(shared, where), params_{o.beta1, o.beta2, o.epsilon}, amsgrad_(o.amsgrad) {
  require_moments(op, o, where);
}

AdamW::AdamW(const AdamWOptions& o, Where where)
    : Adam(OptimizerOptions::of(o, "AdamW", where),
           {.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon, .amsgrad = o.amsgrad}, "AdamW", where) {}

void Adam::begin_step(const Tensor& step, const Tensor& rate) {
  step_rate_ = rate / one_less_power(params_.beta1, step);
  correction_ = rsqrt(one_less_power(params_.beta2, step));
  whole_rate_ = rate;
}

std::vector<std::string> Adam::slot_names() const {
  return amsgrad_ ? std::vector<std::string>{"m", "v", "largest"} : std::vector<std::string>{"m", "v"};
}

void Adam::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows m = slot(rows, "m"), v = slot(rows, "v");
  const Tensor value = astype(rows.value(), gradient.dtype()), rate = rows.rated(step_rate_);
  const Tensor correction = rows.number(correction_),
               decay = rows.rated(whole_rate_, decays() ? rows.weight_decay() : 0);
  if (!amsgrad_) {
    const AdamUpdate next = adam_update(value, m, v, gradient, rate, correction, decay, params_);
    rows.assign(next.value);
    m.assign(next.m);
    v.assign(next.v);
    return;
  }
  const Rows largest = slot(rows, "largest");
  const Tensor mean = moved_mean(m, params_.beta1, gradient);
  const Tensor most = maximum(largest.value(), moved_mean(v, params_.beta2, square(gradient)));
  largest.assign(most);
  rows.assign((1 - decay) * value - rate * mean / (sqrt(most) * correction + params_.epsilon));
}

// --- Adamax ----------------------------------------------------------------------------------------------------------

Adamax::Adamax(const AdamaxOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "Adamax", where), where), options_(o) {
  require_moments("Adamax", o, where);
}

std::vector<std::string> Adamax::slot_names() const { return {"m", "u"}; }

void Adamax::begin_step(const Tensor& step, const Tensor& rate) {
  step_rate_ = rate / one_less_power(options_.beta1, step);
}

void Adamax::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows u = slot(rows, "u");
  const Tensor m = moved_mean(slot(rows, "m"), options_.beta1, gradient);
  const Tensor largest = maximum(options_.beta2 * u.value(), abs(gradient) + options_.epsilon);
  u.assign(largest);
  rows.subtract(rows.rated(step_rate_) * m / largest);
}

// --- NAdam -----------------------------------------------------------------------------------------------------------

NAdam::NAdam(const NAdamOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "NAdam", where), where), options_(o), product_([&] {
        const EagerScope eager;
        return Variable(ones({}, {.dtype = f64}), VariableOptions{.name = o.name + "/product", .trainable = false});
      }()) {
  require_moments("NAdam", o, where);
  require_not_negative("NAdam", "momentum_decay", o.momentum_decay, where);
}

void NAdam::name_variables(VariablePaths& paths) const {
  paths.add("product", product_);
  Optimizer::name_variables(paths);
}

std::vector<std::string> NAdam::slot_names() const { return {"m", "v"}; }

void NAdam::begin_step(const Tensor& step, const Tensor& rate) {
  const double slope = options_.momentum_decay * std::log(0.96);
  const Tensor mu = options_.beta1 * (1 - 0.5 * exp((step + 1) * slope));
  const Tensor next = options_.beta1 * (1 - 0.5 * exp((step + 2) * slope));
  const Tensor product = product_.value() * mu;
  product_.assign(product);
  gradient_rate_ = rate * (1 - mu) / (1 - product);
  moment_rate_ = rate * next / (1 - product * next);
  correction_ = rsqrt(one_less_power(options_.beta2, step));
}

void NAdam::update_rows(const Rows& rows, const Tensor& gradient) {
  const Tensor m = moved_mean(slot(rows, "m"), options_.beta1, gradient);
  const Tensor v = moved_mean(slot(rows, "v"), options_.beta2, square(gradient));
  const Tensor size = sqrt(v) * rows.number(correction_) + options_.epsilon;
  rows.subtract((rows.rated(gradient_rate_) * gradient + rows.rated(moment_rate_) * m) / size);
}

// --- RAdam -----------------------------------------------------------------------------------------------------------

RAdam::RAdam(const RAdamOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "RAdam", where), where), options_(o) {
  require_moments("RAdam", o, where);
}

std::vector<std::string> RAdam::slot_names() const { return {"m", "v"}; }

// rho is the length of the simple average that v amounts to; up to 5, its variance is not bounded.
void RAdam::begin_step(const Tensor& step, const Tensor& rate) {
  const double most = 2 / (1 - options_.beta2) - 1;
  const Tensor t = step + 1, left = one_less_power(options_.beta2, step);
  const Tensor rho = most - 2 * t * (1 - left) / left, known = rho > 5, r = maximum(rho, 5.0);
  const Tensor rectified = sqrt((r - 4) * (r - 2) * most / ((most - 4) * (most - 2) * r));
  const Tensor first = rate / one_less_power(options_.beta1, step), nothing = zeros_like(first);
  plain_rate_ = where(known, nothing, first);
  rectified_rate_ = where(known, first * rectified * sqrt(left), nothing);
}

void RAdam::update_rows(const Rows& rows, const Tensor& gradient) {
  const Tensor m = moved_mean(slot(rows, "m"), options_.beta1, gradient);
  const Tensor v = moved_mean(slot(rows, "v"), options_.beta2, square(gradient));
  rows.subtract(m * (rows.rated(rectified_rate_) / (sqrt(v) + options_.epsilon) + rows.rated(plain_rate_)));
}

// --- Lion ------------------------------------------------------------------------------------------------------------

Lion::Lion(const LionOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "Lion", where), where), options_(o) {
  require_moments("Lion", o, where);
}

std::vector<std::string> Lion::slot_names() const { return {"m"}; }

void Lion::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows m = slot(rows, "m");
  Tensor change = sign(options_.beta1 * m.value() + (1 - options_.beta1) * gradient);
  moved_mean(m, options_.beta2, gradient);
  if (rows.weight_decay() != 0) change = change + rows.weight_decay() * astype(rows.value(), gradient.dtype());
  rows.subtract(rows.rate() * change);
}

}  // namespace rill::nn
