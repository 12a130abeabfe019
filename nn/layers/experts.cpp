// Mixture of experts.
#include "rill/nn/layers/experts.h"

#include <algorithm>
#include <cmath>

#include "rill/nn/layers/common.h"
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

// What each expert makes of rows [tokens, width], or of its own [experts, tokens, width]: [experts, tokens, width].
Tensor MixtureOfExperts::each(const Tensor& rows, int64_t width, const Call& call) const {
  const Fans fans{double(width), double(hidden)}, back{double(hidden), double(width)};
  const Tensor wide =
      options.activation(matmul(rows, up({experts, width, hidden}, call, fans)) + up_bias({experts, 1, hidden}, call));
  return matmul(wide, down({experts, hidden, width}, call, back)) + down_bias({experts, 1, width}, call);
}

// Tokens lie in rows of their experts, token t's place for expert e at place[t, e], and come back from there, best first.
Tensor MixtureOfExperts::dispatched(const Tensor& rows, const Tensor& taken, const Tensor& place, const Tensor& indices,
                                    const Tensor& weights, int64_t width, const Call& call) const {
  const Dim tokens = rows.shape()[0];
  Dim room = tokens;  // of an expert
  const double share_of_all = options.capacity ? *options.capacity * double(options.top) / double(experts) : 1;
  if (share_of_all < 1) room = smaller(tokens, tokens * int64_t(std::ceil(share_of_all * 0x1p20)) / (1 << 20) + 1);
  if (executing_eagerly() && int64_t(tokens) > 0)
    room = std::max<int64_t>(1, max(sum(stop_gradient(taken).astype(i64), 0)).item<int64_t>());
  const Tensor experts_of = indices.astype(i64);  // [tokens, top]
  const Tensor goes = take_along_axis(taken, experts_of, -1) > 0;
  // Of tokens that an expert does not take, one place behind all others.
  const Tensor slot = rill::where(goes, experts_of * Tensor(room) + take_along_axis(place, experts_of, -1).astype(i64),
                                  Tensor(room * experts));
  const Tensor sources = broadcast_to(expand_dims(iota({tokens}), -1), slot.shape());
  const Tensor token_at =
      full({room * experts + 1}, 0, {.dtype = i64}).at(reshape(slot, {-1})).set(reshape(sources, {-1}));
  const Tensor own = take(rows, slice_axis(token_at, 0, 0, room * experts), Axis(0));
  const Tensor made = reshape(each(reshape(own, {experts, room, width}), width, call), {-1, width});
  const Tensor back = take(made, rill::where(goes, slot, 0), Axis(0));  // [tokens, top, width]
  const Tensor share = rill::where(goes, take_along_axis(weights, experts_of, -1), 0);
  // What stands in place of a token that was not taken may be NaN.
  return sum(rill::where(expand_dims(goes, -1), back * expand_dims(share, -1), 0), 1);
}

RoutedTokens MixtureOfExperts::route(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const int64_t width = known_size(x, -1, "MixtureOfExperts", where);
  const Tensor rows = reshape(call.in(x), {-1, width});
  const Tensor chances = softmax(matmul(rows, router({width, experts}, call)), -1);  // [tokens, experts]
  const TopK best = topk(chances, options.top);
  const Tensor sent = one_hot(best.indices, experts, {.dtype = chances.dtype()});  // [tokens, top, experts]
  Tensor chosen = sum(sent, 1);
  Tensor before;  // how many tokens before this one an expert was chosen by
  if (options.capacity || options.sparse) {
    const Tensor counts = stop_gradient(chosen).astype(i64);
    before = cumsum(counts, 0) - counts;
  }
  if (options.capacity) {
    const Tensor limit =
        floor(Tensor(rows.shape()[0]).astype(f64) * (*options.capacity * double(options.top) / double(experts)));
    chosen = rill::where(less(before, limit.astype(i64)), chosen, zeros_like(chosen));
  }
  Tensor weights = chances * chosen;
  if (options.normalize) weights = weights / sum(best.values, -1, true);
  const Tensor y = options.sparse ? dispatched(rows, chosen, before, best.indices, weights, width, call)
                                  : sum(each(rows, width, call) * expand_dims(weights.T(), -1), 0);
  const Tensor balance = sum(mean(sent(all, 0), 0) * mean(chances, 0)) * double(experts);
  return {run.give(reshape(y, x.shape())), balance};
}

}  // namespace rill::nn
