// Normalisation.
#include "rill/nn/layers/norm.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/state/variable_state.h"

namespace rill::nn {

namespace {

// The axes that a layer normalises over: as they were given, or the last one.
Shape trailing(const std::optional<Shape>& given, const Param& made, const Tensor& x, std::string_view op,
               const Where& where) {
  if (!given) return {size_for(made, 0, 1, x, -1, op, where)};
  const int64_t n = int64_t(given->size());
  bool fits = n <= x.ndim();
  for (int64_t i = 0; fits && i < n; ++i) fits = x.dim(i - n).hint() == (*given)[size_t(i)].hint();
  if (!fits)
    fail(op,
         fmt::format("the last axes of {} are not {}, for which the layer was made", to_string(x.spec()),
                     to_string(*given)),
         where);
  return *given;
}
NormalizeOptions over(const Shape& shape, double epsilon) {
  return {.axis = -int64_t(shape.size()), .epsilon = epsilon};
}

Param scale_of(const std::string& name, bool wanted, const Where& where) {
  return param(name, "scale", constant(1), where, Kind::weight, wanted);
}
Param offset_of(const std::string& name, bool wanted, const Where& where) {
  return param(name, "offset", constant(0), where, Kind::weight, wanted);
}
Param mean_of(const std::string& name, bool wanted, const Where& where) {
  return param(name, "mean", constant(0), where, Kind::statistic, wanted);
}
Param variance_of(const std::string& name, bool wanted, const Where& where) {
  return param(name, "variance", constant(1), where, Kind::statistic, wanted);
}
void make_all(const Shape& shape, std::initializer_list<const Param*> params) {
  for (const Param* p : params)
    if (*p) p->make(shape);
}

// A parameter shaped for x, or its default if there is none.
Tensor scale_for(const Param& p, const Shape& shape, const Tensor& x, const Call& call) {
  return p ? p(shape, call) : ones(shape, {x.dtype(), x.device()});
}
Tensor offset_for(const Param& p, const Shape& shape, const Tensor& x, const Call& call) {
  return p ? p(shape, call) : zeros(shape, {x.dtype(), x.device()});
}

// Moves a statistic towards that of the batch x. An empty batch has none, and leaves it as it is.
void move_towards(const Param& statistic, const Tensor& now, double momentum, const Tensor& x) {
  const Dim count = x.size();
  if (!count.is_open() && count == 0) return;
  Variable v = statistic;
  const Tensor change = (1 - momentum) * (stop_gradient(now).astype(v.dtype()) - v);
  v.assign_add(count.is_open() ? rill::where(zeros({}, {i64, now.device()}) < count, change, 0) : change);
}
void check_momentum(std::string_view op, double momentum, const Where& where) {
  require_option(momentum >= 0 && momentum <= 1, op, "momentum", momentum, "in [0, 1]", where);
}

}  // namespace

// --- BatchNorm -------------------------------------------------------------------------------------------------------

BatchNorm::BatchNorm(const BatchNormOptions& options, Where where)
    : options(options),
      scale(scale_of(options.name, options.scale, where)),
      offset(offset_of(options.name, options.offset, where)),
      mean(mean_of(options.name, true, where)),
      variance(variance_of(options.name, true, where)) {
  check_momentum("BatchNorm", options.momentum, where);
  require_not_negative("BatchNorm", "epsilon", options.epsilon, where);
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options, Where where) : BatchNorm(options, where) {
  CallerScope caller(where);
  make_all({channels}, {&scale, &offset, &mean, &variance});
}

Tensor BatchNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  const Shape channels{size_for(mean, 0, 1, in, options.axis, "BatchNorm", where)};
  make_all(channels, {&scale, &offset, &mean, &variance});
  const NormalizeOptions how{.axis = options.axis, .epsilon = options.epsilon};
  const auto fit = [&](const Tensor& t) { return t.astype(in.dtype()); };
  const Tensor by = fit(scale_for(scale, channels, in, {})), plus = fit(offset_for(offset, channels, in, {}));
  const Param& whole = scale ? scale : offset ? offset : mean;
  if (!call.training() || whole.state().frozen)
    return run.give(batch_norm_inference(in, by, plus, mean, variance, how));
  const BatchNormResult batch = batch_norm(in, by, plus, how);
  move_towards(mean, batch.mean, options.momentum, in);
  move_towards(variance, batch.variance, options.momentum, in);
  return run.give(batch.y);
}

// --- LayerNorm -------------------------------------------------------------------------------------------------------

LayerNorm::LayerNorm(const LayerNormOptions& options, Where where)
    : options(options),
      scale(scale_of(options.name, options.scale, where)),
      offset(offset_of(options.name, options.offset, where)) {
  require_not_negative("LayerNorm", "epsilon", options.epsilon, where);
}

void LayerNorm::make(const Shape& shape, const Where& where) {
  CallerScope caller(where);
  shape_ = shape;
  make_all(shape, {&scale, &offset});
}

Tensor LayerNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  const Shape shape = trailing(shape_, scale ? scale : offset, in, "LayerNorm", where);
  return run.give(layer_norm(in, scale_for(scale, shape, in, call), offset_for(offset, shape, in, call),
                             over(shape, options.epsilon)));
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
      scale(scale_of(options.name, options.scale, where)),
      offset(offset_of(options.name, options.offset, where)) {
  require_not_negative("GroupNorm", "epsilon", options.epsilon, where);
}

GroupNorm::GroupNorm(int64_t channels, int64_t groups, const GroupNormOptions& options, Where where)
    : GroupNorm(groups, options, where) {
  check_groups(channels, groups, where);
  CallerScope caller(where);
  make_all({channels}, {&scale, &offset});
}

Tensor GroupNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  const int64_t channels = size_for(scale ? scale : offset, 0, 1, in, options.axis, "GroupNorm", where);
  check_groups(channels, groups, where);
  return run.give(group_norm(in, groups, scale_for(scale, {channels}, in, call),
                             offset_for(offset, {channels}, in, call),
                             {.axis = options.axis, .epsilon = options.epsilon}));
}

// --- RMSNorm ---------------------------------------------------------------------------------------------------------

RMSNorm::RMSNorm(const RMSNormOptions& options, Where where)
    : options(options), scale(scale_of(options.name, options.scale, where)) {
  require_not_negative("RMSNorm", "epsilon", options.epsilon, where);
}

void RMSNorm::make(const Shape& shape, const Where& where) {
  CallerScope caller(where);
  shape_ = shape;
  make_all(shape, {&scale});
}

Tensor RMSNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  const Shape shape = trailing(shape_, scale, in, "RMSNorm", where);
  const NormalizeOptions how = over(shape, options.epsilon);
  return run.give(scale ? rms_norm(in, scale(shape, call), how) : rms_norm(in, how));
}

// --- InstanceNorm ----------------------------------------------------------------------------------------------------

InstanceNorm::InstanceNorm(const InstanceNormOptions& options, Where where)
    : options(options),
      scale(scale_of(options.name, options.scale, where)),
      offset(offset_of(options.name, options.offset, where)),
      mean(mean_of(options.name, options.statistics, where)),
      variance(variance_of(options.name, options.statistics, where)) {
  check_momentum("InstanceNorm", options.momentum, where);
  require_not_negative("InstanceNorm", "epsilon", options.epsilon, where);
}

Tensor InstanceNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  if (in.ndim() < 3) fail("InstanceNorm", to_string(in.spec()) + " is not [batch, space..., channels]", where);
  const Shape channels{size_for(scale ? scale : offset ? offset : mean, 0, 1, in, -1, "InstanceNorm", where)};
  make_all(channels, {&scale, &offset, &mean, &variance});
  const auto fit = [&](const Tensor& t) { return t.astype(in.dtype()); };
  const Tensor by = fit(scale_for(scale, channels, in, {})), plus = fit(offset_for(offset, channels, in, {}));
  if (mean && (!call.training() || mean.state().frozen))
    return run.give(batch_norm_inference(in, by, plus, mean, variance, {.epsilon = options.epsilon}));
  if (mean) {
    Axes space;
    for (int64_t i = 1; i + 1 < in.ndim(); ++i) space.push_back(i);
    const Tensor wide = stop_gradient(in).astype(promote(in.dtype(), f32));  // halves would round the statistics
    const Moments each = moments(wide, space);
    move_towards(mean, rill::mean(each.mean, {0}), options.momentum, in);
    move_towards(variance, rill::mean(each.variance, {0}), options.momentum, in);
  }
  return run.give(instance_norm(in, by, plus, {.epsilon = options.epsilon}));
}

// --- Without parameters ----------------------------------------------------------------------------------------------

Tensor LocalResponseNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(local_response_norm(call.in(x), options));
}

Tensor UnitNorm::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(l2_normalize(call.in(x), axis));
}

}  // namespace rill::nn
