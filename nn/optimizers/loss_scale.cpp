// The loss scale: two numbers, the scale and the count of steps since it changed.
#include "rill/nn/optimizers/loss_scale.h"

#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
LossScaleOptions checked_scale(const LossScaleOptions& o, const Where& where) {
  require_option(o.initial > 0, "LossScale", "initial", o.initial, "above 0", where);
  require_option(o.growth >= 1, "LossScale", "growth", o.growth, "1 or more", where);
  require_option(o.backoff > 0 && o.backoff <= 1, "LossScale", "backoff", o.backoff, "above 0 and at most 1", where);
  require_option(o.steps >= 1, "LossScale", "steps", o.steps, "1 or more", where);
  return o;
}
Variable number_kept(const Tensor& initial, const char* name) {
  return Variable(initial, VariableOptions{.name = name, .trainable = false});
}
}  // namespace

LossScale::LossScale(const LossScaleOptions& options, Where where)
    : options_(checked_scale(options, where)),
      scale_([&] {
        const EagerScope eager;
        return number_kept(full({}, options.initial, {.dtype = f32}), "scale");
      }()),
      good_([] {
        const EagerScope eager;
        return number_kept(zeros({}, {.dtype = i64}), "good_steps");
      }()) {}

Tensor LossScale::scale(const Tensor& loss, Where where) const {
  CallerScope caller(where);
  require_operand("LossScale", loss, where);
  return astype(loss, promote(loss.dtype(), f32)) * scale_.value().to(loss.device());
}

Tensor LossScale::unscale(const Tensor& gradient, Where where) const {
  CallerScope caller(where);
  if (!gradient.defined()) return gradient;
  return astype(gradient, promote(gradient.dtype(), f32)) / scale_.value().to(gradient.device());
}

std::vector<Tensor> LossScale::unscale(const std::vector<Tensor>& gradients, Where where) const {
  std::vector<Tensor> result;
  for (const Tensor& g : gradients) result.push_back(unscale(g, where));
  return result;
}

void LossScale::update(const Tensor& finite, Where where) const {
  CallerScope caller(where);
  const Tensor ok = finite.to(scale_.device()), good = good_.value() + 1, now = scale_.value();
  const Tensor grows = good >= options_.steps;
  // From infinity, and from 0, there would be no way back.
  const Tensor larger = now * options_.growth, smaller = maximum(now * options_.backoff, finfo(f32).smallest_normal);
  Variable(scale_).assign(rill::where(ok, rill::where(grows & isfinite(larger), larger, now), smaller));
  Variable(good_).assign(rill::where(ok & !grows, good, zeros_like(good)));
}

void LossScale::name_variables(VariablePaths& paths) const {
  const VariablePaths::Scope scope(paths, "loss_scale");
  paths.add("scale", scale_);
  paths.add("good_steps", good_);
}

Tensor all_finite(const std::vector<Tensor>& gradients, Where where) {
  CallerScope caller(where);
  Tensor result;
  for (const Tensor& g : gradients) {
    if (!g.defined()) continue;
    const Tensor finite = all(isfinite(g));
    result = result.defined() ? result & finite.to(result.device()) : finite;
  }
  if (!result.defined()) fail("all_finite", "there is no tensor", where);
  return result;
}

}  // namespace rill::nn
