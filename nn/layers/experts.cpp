// Mixture of experts.
#include "rill/nn/layers/experts.h"

#include <cmath>

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

MixtureOfExperts::MixtureOfExperts(int64_t n, int64_t wide, const MixtureOfExpertsOptions& o, Where where)
    : experts(checked_count("MixtureOfExperts", "experts", n, where)),
      hidden(checked_count("MixtureOfExperts", "hidden", wide, where)),
      options(o),
      router(param(o.name, "router", o.kernel_initializer, where)),
      up(param(o.name, "up", o.kernel_initializer, where)),
      up_bias(param(o.name, "up_bias", constant(0), where)),
      down(param(o.name, "down", o.kernel_initializer, where)),
      down_bias(param(o.name, "down_bias", constant(0), where)) {
  require_option(o.top >= 1 && o.top <= n, "MixtureOfExperts", "top", o.top, "from 1 to the number of experts", where);
  if (o.capacity) require_not_negative("MixtureOfExperts", "capacity", *o.capacity, where);
}

RoutedTokens MixtureOfExperts::route(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const int64_t width = known_size(x, -1, "MixtureOfExperts", where);
  const Tensor rows = reshape(call.in(x), {-1, width});
  const Tensor chances = softmax(matmul(rows, router({width, experts}, call)), -1);  // [tokens, experts]
  const TopK best = topk(chances, options.top);
  const Tensor sent = one_hot(best.indices, experts, {.dtype = chances.dtype()});  // [tokens, top, experts]
  Tensor chosen = sum(sent, 1);
  if (options.capacity) {  // how many tokens before this one an expert has taken, which halves cannot count
    const Tensor count = chosen.astype(i64), before = cumsum(count, 0) - count;
    const Tensor limit =
        floor(Tensor(rows.shape()[0]).astype(f64) * (*options.capacity * double(options.top) / double(experts)));
    chosen = rill::where(less(before, limit.astype(i64)), chosen, zeros_like(chosen));
  }
  Tensor weights = chances * chosen;
  if (options.normalize) weights = weights / sum(best.values, -1, true);
  const Fans fans{double(width), double(hidden)}, back{double(hidden), double(width)};
  const Tensor wide =
      options.activation(matmul(rows, up({experts, width, hidden}, call, fans)) + up_bias({experts, 1, hidden}, call));
  const Tensor each = matmul(wide, down({experts, hidden, width}, call, back)) + down_bias({experts, 1, width}, call);
  const Tensor y = sum(each * expand_dims(weights.T(), -1), 0);
  const Tensor balance = sum(mean(sent(all, 0), 0) * mean(chances, 0)) * double(experts);
  return {run.give(reshape(y, x.shape())), balance};
}

}  // namespace rill::nn
