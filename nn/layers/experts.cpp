// Mixture of experts.
#include "rill/nn/layers/experts.h"

#include <algorithm>
#include <cmath>

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/expert_choice.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/scopes.h"

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

// Each expert's results for rows [tokens, width], or for its own [experts, tokens, width]: [experts, tokens, width].
Tensor MixtureOfExperts::each(const Tensor& rows, int64_t width, const Call& call) const {
  const Fans fans{double(width), double(hidden)}, back{double(hidden), double(width)};
  const Tensor wide =
      options.activation(matmul(rows, up({experts, width, hidden}, call, fans)) + up_bias({experts, 1, hidden}, call));
  return matmul(wide, down({experts, hidden, width}, call, back)) + down_bias({experts, 1, width}, call);
}

// How many tokens an expert has room for.
Dim MixtureOfExperts::room_for(const Tensor& taken) const {
  const Dim tokens = taken.shape()[0];
  if (executing_eagerly() && int64_t(tokens) > 0)
    return std::max<int64_t>(1, max(sum(stop_gradient(taken).astype(i64), 0)).item<int64_t>());
  const double share_of_all = options.capacity ? *options.capacity * double(options.top) / double(experts) : 1;
  if (share_of_all >= 1) return tokens;
  return smaller(tokens, tokens * int64_t(std::ceil(share_of_all * 0x1p20)) / (1 << 20) + 1);
}

RoutedTokens MixtureOfExperts::route(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const int64_t width = known_size(x, -1, "MixtureOfExperts", where);
  const Tensor rows = reshape(call.in(x), {-1, width});
  const Tensor chances = softmax(matmul(rows, router({width, experts}, call)), -1);  // [tokens, experts]
  const impl::ExpertChoice c =
      impl::choose_experts(chances, options.top, options.normalize, options.capacity, options.sparse);
  const Tensor y = options.sparse ? impl::through_rooms(rows, c, room_for(c.taken),
                                                        [&](const Tensor& rooms) { return each(rooms, width, call); })
                                  : sum(each(rows, width, call) * expand_dims(c.weights.T(), -1), 0);
  return {run.give(reshape(y, x.shape())), c.balance};
}

}  // namespace rill::nn
