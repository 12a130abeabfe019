// Noise while training.
#include "rill/nn/layers/dropout.h"

#include <cmath>

#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
double checked_rate(std::string_view type, double rate, const Where& where) {
  require_option(rate >= 0 && rate <= 1, type, "rate", rate, "between 0 and 1", where);
  return rate;
}
// Normal numbers of x's shape: of f32, or of f64 where x is.
Tensor noise_like(const Tensor& x) {
  return random::normal(x.shape(), {.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32, .device = x.device()});
}
Tensor as_floating(const Tensor& x) { return x.astype(to_floating(x.dtype())); }
}  // namespace

Dropout::Dropout(double rate, std::string name, Where where)
    : rate(checked_rate("Dropout", rate, where)), name(std::move(name)) {}
Tensor Dropout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(dropout(call.in(x), rate, {.training = call.training()}));
}

SpatialDropout::SpatialDropout(double rate, std::string name, Where where)
    : rate(checked_rate("SpatialDropout", rate, where)), name(std::move(name)) {}
Tensor SpatialDropout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(channel_dropout(call.in(x), rate, {.training = call.training()}));
}

AlphaDropout::AlphaDropout(double rate, std::string name, Where where)
    : rate(checked_rate("AlphaDropout", rate, where)), name(std::move(name)) {}
Tensor AlphaDropout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(alpha_dropout(call.in(x), rate, {.training = call.training()}));
}

GaussianNoise::GaussianNoise(double deviation, std::string name, Where where)
    : deviation(deviation), name(std::move(name)) {
  require_not_negative("GaussianNoise", "deviation", deviation, where);
}
Tensor GaussianNoise::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  const Tensor in = as_floating(call.in(x));
  if (!call.training() || deviation == 0) return run.give(in);
  return run.give((in + deviation * noise_like(in)).astype(in.dtype()));
}

GaussianDropout::GaussianDropout(double rate, std::string name, Where where) : rate(rate), name(std::move(name)) {
  require_fraction("GaussianDropout", "rate", rate, where);
}
Tensor GaussianDropout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  const Tensor in = as_floating(call.in(x));
  if (!call.training() || rate == 0) return run.give(in);
  return run.give((in * (1 + std::sqrt(rate / (1 - rate)) * noise_like(in))).astype(in.dtype()));
}

StochasticDepth::StochasticDepth(double rate, std::string name, Where where)
    : rate(checked_rate("StochasticDepth", rate, where)), name(std::move(name)) {}
Tensor StochasticDepth::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  const Tensor in = as_floating(call.in(x));
  if (!call.training() || rate == 0) return run.give(in);
  if (in.ndim() < 1) fail("StochasticDepth", to_string(in.spec()) + " has no axis of the batch", where);
  Shape each(size_t(in.ndim()), 1);
  each[0] = in.dim(0);
  const Tensor kept = dropout(ones(each, {in.dtype(), in.device()}), rate);
  return run.give(rill::where(kept != 0, in * kept, 0));
}

}  // namespace rill::nn
