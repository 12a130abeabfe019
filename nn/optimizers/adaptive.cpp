// RMSprop, Adagrad, Adadelta, FTRL, Adafactor.
#include "rill/nn/optimizers/adaptive.h"

#include "rill/ops/option_checks.h"

namespace rill::nn {

// --- RMSprop ---------------------------------------------------------------------------------------------------------

RMSprop::RMSprop(const RMSpropOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "RMSprop", where), where), options_(o) {
  require_fraction("RMSprop", "rho", o.rho, where);
  impl::require_momentum("RMSprop", o.momentum, where);
  require_not_negative("RMSprop", "epsilon", o.epsilon, where);
}

std::vector<std::string> RMSprop::slot_names() const {
  std::vector<std::string> names{"mean_square"};
  if (options_.centred) names.push_back("mean");
  if (options_.momentum != 0) names.push_back("velocity");
  return names;
}

void RMSprop::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows squares = slot(rows, "mean_square");
  Tensor spread = options_.rho * squares.value() + (1 - options_.rho) * square(gradient);
  squares.assign(spread);
  if (options_.centred) {
    const Rows mean = slot(rows, "mean");
    const Tensor next = options_.rho * mean.value() + (1 - options_.rho) * gradient;
    mean.assign(next);
    spread = maximum(spread - square(next), zeros_like(spread));
  }
  Tensor change = rows.rate() * gradient / (sqrt(spread) + options_.epsilon);
  if (options_.momentum != 0) {
    const Rows velocity = slot(rows, "velocity");
    change = options_.momentum * velocity.value() + change;
    velocity.assign(change);
  }
  rows.subtract(change);
}

// --- Adagrad, Adadelta -----------------------------------------------------------------------------------------------

Adagrad::Adagrad(const AdagradOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "Adagrad", where), where), options_(o) {
  require_not_negative("Adagrad", "initial", o.initial, where);
  require_not_negative("Adagrad", "epsilon", o.epsilon, where);
}

std::vector<std::string> Adagrad::slot_names() const { return {"sum"}; }

// The slot has the sum without the initial value, for slots begin as zeros.
void Adagrad::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows sum = slot(rows, "sum");
  const Tensor next = sum.value() + square(gradient);
  sum.assign(next);
  rows.subtract(rows.rate() * gradient / (sqrt(next + options_.initial) + options_.epsilon));
}

Adadelta::Adadelta(const AdadeltaOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "Adadelta", where), where), options_(o) {
  require_fraction("Adadelta", "rho", o.rho, where);
  require_not_negative("Adadelta", "epsilon", o.epsilon, where);
}

std::vector<std::string> Adadelta::slot_names() const { return {"mean_square", "mean_change"}; }

void Adadelta::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows squares = slot(rows, "mean_square"), changes = slot(rows, "mean_change");
  const Tensor next = options_.rho * squares.value() + (1 - options_.rho) * square(gradient);
  const Tensor known = changes.value();
  const Tensor change = sqrt(known + options_.epsilon) / sqrt(next + options_.epsilon) * gradient;
  squares.assign(next);
  changes.assign(options_.rho * known + (1 - options_.rho) * square(change));
  rows.subtract(rows.rate() * change);
}

// --- FTRL ------------------------------------------------------------------------------------------------------------

FTRL::FTRL(const FTRLOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "FTRL", where), where), options_(o) {
  for (const auto& [name, value] : {std::pair{"initial", o.initial}, std::pair{"l1", o.l1}, std::pair{"l2", o.l2},
                                    std::pair{"l2_shrinkage", o.l2_shrinkage}, std::pair{"beta", o.beta}})
    require_not_negative("FTRL", name, value, where);
}

std::vector<std::string> FTRL::slot_names() const { return {"sum", "linear"}; }

void FTRL::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows sum = slot(rows, "sum"), linear = slot(rows, "linear");
  const Tensor rate = rows.rate(), value = astype(rows.value(), gradient.dtype()), before = sum.value();
  const Tensor next = before + square(gradient), root = sqrt(next + options_.initial);
  const Tensor shrunk = gradient + 2 * options_.l2_shrinkage * value;
  const Tensor z = linear.value() + shrunk - (root - sqrt(before + options_.initial)) / rate * value;
  const Tensor curvature = root / rate + 2 * (options_.l2 + options_.beta / (2 * rate));
  sum.assign(next);
  linear.assign(z);
  rows.assign((clip(z, -options_.l1, options_.l1) - z) / curvature);
}

// --- Adafactor -------------------------------------------------------------------------------------------------------

Adafactor::Adafactor(const AdafactorOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "Adafactor", where), where), options_(o) {
  require_option(o.power <= 0, "Adafactor", "power", o.power, "0 or less", where);
  require_not_negative("Adafactor", "epsilon1", o.epsilon1, where);
  require_not_negative("Adafactor", "epsilon2", o.epsilon2, where);
  require_option(o.clip_threshold > 0, "Adafactor", "clip_threshold", o.clip_threshold, "above 0", where);
}

std::vector<std::string> Adafactor::slot_names() const { return {"row", "column"}; }

// For a matrix the mean squares of rows and columns; for a vector all squares, in "row".
Shape Adafactor::slot_shape(const Variable& variable, const std::string& name) const {
  Shape shape = variable.shape();
  if (shape.size() < 2) return name == "row" ? shape : Shape();
  shape[shape.size() - (name == "row" ? 1 : 2)] = 1;
  return shape;
}

void Adafactor::begin_step(const Tensor& step, const Tensor& rate) {
  const Tensor t = step + 1;
  share_ = pow(t, full_like(t, options_.power));
  relative_rate_ = minimum(rate, rsqrt(t));
}

void Adafactor::update_rows(const Rows& rows, const Tensor& gradient) {
  const Variable& v = rows.variable();
  Variable row = slot(v, "row"), column = slot(v, "column");
  const DType dtype = gradient.dtype();
  const Tensor share = rows.number(share_), value = astype(rows.value(), dtype), squares = square(gradient);
  const double least = options_.epsilon1 > 0 ? options_.epsilon1 : dtype == f64 ? 2.220446049250313e-16 : 1.1920929e-07;
  const auto follow = [&](Variable& slot, const Tensor& x) {
    const Tensor now = slot.value(), next = now + share * (x - now);
    slot.assign(next);
    return next;
  };
  Tensor estimate;
  if (v.ndim() < 2 || is_complex(v.dtype())) {
    estimate = follow(row, squares);
  } else {
    const Tensor of_rows = follow(row, mean(squares, {-1}, true)),
                 of_columns = follow(column, mean(squares, {-2}, true));
    estimate = of_rows * of_columns / maximum(mean(of_rows, {-2}, true), least);
  }
  const Tensor update = rsqrt(maximum(estimate, least * least)) * gradient;
  const auto size = [](const Tensor& x) { return sqrt(mean(square(x))); };
  const Tensor rate = rows.rated(relative_rate_) * maximum(size(value), options_.epsilon2);
  const Tensor kept = value * (1 - rows.rate() * rows.weight_decay());
  rows.assign(kept - rate / maximum(size(update) / options_.clip_threshold, 1.0) * update);
}

}  // namespace rill::nn
