// Normalisation.
#include "rill/nn/layers/norm.h"

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
// The shape of a parameter over the trailing axes of x: as it was made, or the last axis alone.
Shape trailing(const Param& scale, const Tensor& x, std::string_view op, const Where& where) {
  if (scale.is_built()) return scale.shape();
  return {known_size(x, -1, op, where)};
}
NormalizeOptions over(const Tensor& scale, double epsilon) {
  return {.axis = -int64_t(scale.shape().size()), .epsilon = epsilon};
}
}  // namespace

// --- BatchNorm -------------------------------------------------------------------------------------------------------

BatchNorm::BatchNorm(const BatchNormOptions& options, Where where)
    : options(options),
      scale(param(options.name, "scale", constant(1), where)),
      offset(param(options.name, "offset", constant(0), where)),
      mean(param(options.name, "mean", constant(0), where, Kind::statistic)),
      variance(param(options.name, "variance", constant(1), where, Kind::statistic)) {
  require_option(options.momentum >= 0 && options.momentum <= 1, "BatchNorm", "momentum", options.momentum, "in [0, 1]",
                 where);
  require_not_negative("BatchNorm", "epsilon", options.epsilon, where);
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options, Where where) : BatchNorm(options, where) {
  CallerScope caller(where);
  for (const Param* p : {&scale, &offset, &mean, &variance}) p->make({channels});
}

Tensor BatchNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const Shape channels{known_size(in, options.axis, "BatchNorm", where)};
  for (const Param* p : {&scale, &offset, &mean, &variance}) p->make(channels);
  const NormalizeOptions how{.axis = options.axis, .epsilon = options.epsilon};
  const auto fit = [&](const Variable& v) { return v.astype(in.dtype()); };
  if (!call.training() || !scale.trainable())
    return run.give(batch_norm_inference(in, fit(scale), fit(offset), fit(mean), fit(variance), how));
  const BatchNormResult batch = batch_norm(in, fit(scale), fit(offset), how);
  Variable moving_mean = mean, moving_variance = variance;
  const double step = 1 - options.momentum;
  const auto move = [&](Variable& v, const Tensor& now) {
    v.assign_add(step * (stop_gradient(now).astype(v.dtype()) - v));
  };
  move(moving_mean, batch.mean);
  move(moving_variance, batch.variance);
  return run.give(batch.y);
}

// --- LayerNorm -------------------------------------------------------------------------------------------------------

LayerNorm::LayerNorm(const LayerNormOptions& options, Where where)
    : options(options),
      scale(param(options.name, "scale", constant(1), where)),
      offset(param(options.name, "offset", constant(0), where)) {
  require_not_negative("LayerNorm", "epsilon", options.epsilon, where);
}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options, Where where) : LayerNorm(options, where) {
  CallerScope caller(where);
  scale.make(shape);
  offset.make(shape);
}

Tensor LayerNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const Shape shape = trailing(scale, in, "LayerNorm", where);
  const Tensor by = scale(shape, call), plus = offset(shape, call);
  return run.give(layer_norm(in, by, plus, over(by, options.epsilon)));
}

// --- GroupNorm -------------------------------------------------------------------------------------------------------

namespace {
void check_groups(int64_t channels, int64_t groups, const Where& where) {
  require_option(groups >= 1 && channels % groups == 0, "GroupNorm", "groups", groups,
                 "1 or more, and divide the channels", where);
}
}  // namespace

GroupNorm::GroupNorm(int64_t groups, const GroupNormOptions& options, Where where)
    : groups(checked_count("GroupNorm", "groups", groups, where)),
      options(options),
      scale(param(options.name, "scale", constant(1), where)),
      offset(param(options.name, "offset", constant(0), where)) {
  require_not_negative("GroupNorm", "epsilon", options.epsilon, where);
}

GroupNorm::GroupNorm(int64_t channels, int64_t groups, const GroupNormOptions& options, Where where)
    : GroupNorm(groups, options, where) {
  check_groups(channels, groups, where);
  CallerScope caller(where);
  scale.make({channels});
  offset.make({channels});
}

Tensor GroupNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const int64_t channels = known_size(in, options.axis, "GroupNorm", where);
  check_groups(channels, groups, where);
  return run.give(group_norm(in, groups, scale({channels}, call), offset({channels}, call),
                             {.axis = options.axis, .epsilon = options.epsilon}));
}

// --- RMSNorm ---------------------------------------------------------------------------------------------------------

RMSNorm::RMSNorm(const RMSNormOptions& options, Where where)
    : options(options), scale(param(options.name, "scale", constant(1), where)) {
  require_not_negative("RMSNorm", "epsilon", options.epsilon, where);
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options, Where where) : RMSNorm(options, where) {
  CallerScope caller(where);
  scale.make(shape);
}

Tensor RMSNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const Tensor by = scale(trailing(scale, in, "RMSNorm", where), call);
  return run.give(rms_norm(in, by, over(by, options.epsilon)));
}

}  // namespace rill::nn
