// LARS, LAMB, Muon.
#include "rill/nn/optimizers/layerwise.h"

#include <cmath>

#include "rill/nn/optimizers/powers.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {

// a / (b + epsilon) times the factor, or 1 where either is 0: of the norms of a parameter and its update.
Tensor trust_ratio(const Tensor& a, const Tensor& b, double epsilon, double factor) {
  const Tensor one = ones_like(a);
  return where((a == 0) | (b == 0), one, factor * a / (b + epsilon));
}

// A matrix with the singular vectors of x and singular values near 1, by an iteration of degree five whose coefficients
// are Jordan's; the smaller side is multiplied.
Tensor near_orthogonal(const Tensor& x, int64_t iterations, double epsilon) {
  const bool tall = x.dim(0) > x.dim(1);
  Tensor y = tall ? x.T() : x;
  y = y / maximum(norm(y), epsilon);
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor a = matmul(y, y.T()), b = -4.775 * a + 2.0315 * matmul(a, a);
    y = 3.4445 * y + matmul(b, y);
  }
  return tall ? y.T() : y;
}

}  // namespace

LARS::LARS(const LARSOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "LARS", where), where), options_(o) {
  impl::require_momentum("LARS", o.momentum, where);
  require_not_negative("LARS", "epsilon", o.epsilon, where);
  require_option(o.trust > 0, "LARS", "trust", o.trust, "above 0", where);
}

std::vector<std::string> LARS::slot_names() const { return {"velocity"}; }

void LARS::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows velocity = slot(rows, "velocity");
  const Tensor value = astype(rows.value(), gradient.dtype());
  const Tensor u = rows.weight_decay() != 0 ? gradient + rows.weight_decay() * value : gradient;
  const Tensor change = rows.rate() * trust_ratio(rows.norm(value), rows.norm(u), options_.epsilon, options_.trust) * u;
  const Tensor next = options_.momentum * velocity.value() + change;
  velocity.assign(next);
  rows.subtract(options_.nesterov ? change + options_.momentum * next : next);
}

LAMB::LAMB(const LAMBOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "LAMB", where), where), options_(o) {
  require_fraction("LAMB", "beta1", o.beta1, where);
  require_fraction("LAMB", "beta2", o.beta2, where);
  require_not_negative("LAMB", "epsilon", o.epsilon, where);
}

std::vector<std::string> LAMB::slot_names() const { return {"m", "v"}; }

void LAMB::begin_step(const Tensor& step, const Tensor&) {
  correction1_ = 1 / one_less_power(options_.beta1, step);
  correction2_ = rsqrt(one_less_power(options_.beta2, step));
}

void LAMB::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows m = slot(rows, "m"), v = slot(rows, "v");
  const Tensor value = astype(rows.value(), gradient.dtype());
  const Tensor next_m = options_.beta1 * m.value() + (1 - options_.beta1) * gradient;
  const Tensor next_v = options_.beta2 * v.value() + (1 - options_.beta2) * square(gradient);
  m.assign(next_m);
  v.assign(next_v);
  Tensor u = rows.number(correction1_) * next_m / (sqrt(next_v) * rows.number(correction2_) + options_.epsilon);
  if (rows.weight_decay() != 0) u = u + rows.weight_decay() * value;
  rows.subtract(rows.rate() * trust_ratio(rows.norm(value), rows.norm(u), 0, 1) * u);
}

Muon::Muon(const MuonOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "Muon", where), where), options_(o) {
  require_fraction("Muon", "momentum", o.momentum, where);
  require_option(o.iterations >= 1, "Muon", "iterations", o.iterations, "1 or more", where);
  require_not_negative("Muon", "epsilon", o.epsilon, where);
  require_not_negative("Muon", "adam_rate", o.adam_rate, where);
}

std::vector<std::string> Muon::slot_names() const { return {"momentum", "v"}; }

Shape Muon::slot_shape(const Variable& variable, const std::string& name) const {
  return name == "v" && variable.ndim() >= 2 ? Shape() : variable.shape();
}

void Muon::begin_step(const Tensor& step, const Tensor&) {
  correction1_ = 1 / one_less_power(0.9, step);
  correction2_ = rsqrt(one_less_power(0.999, step));
}

void Muon::update_rows(const Rows& rows, const Tensor& gradient) {
  const Variable& v = rows.variable();
  const Rows momentum = slot(rows, "momentum");
  const bool matrix = v.ndim() >= 2 && !is_complex(v.dtype());
  const double beta = matrix ? options_.momentum : 0.9;
  const Tensor value = astype(rows.value(), gradient.dtype()), rate = rows.rate(), before = momentum.value();
  const Tensor next = before + (1 - beta) * (gradient - before);
  momentum.assign(next);
  Tensor change;
  if (matrix) {
    const Tensor u = options_.nesterov ? gradient + beta * (next - gradient) : next;
    const Tensor flat = reshape(u, {-1, u.dim(-1)});
    const double wide = std::sqrt(std::max(1.0, double(flat.dim(1)) / double(std::max<int64_t>(1, flat.dim(0)))));
    change = wide * reshape(near_orthogonal(flat, options_.iterations, options_.epsilon), u.shape());
  } else {
    const Rows squares = slot(rows, "v");
    const Tensor spread = 0.999 * squares.value() + 0.001 * square(gradient);
    squares.assign(spread);
    change = options_.adam_rate * rows.number(correction1_) * next / (sqrt(spread) * rows.number(correction2_) + 1e-8);
  }
  rows.assign(value * (1 - rate * rows.weight_decay()) - rate * change);
}

}  // namespace rill::nn
