// See experts.h. Tokens are in slots, [experts, slots, width], of which part j goes to rank j.
#include "rill/distribute/parallel/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rill/distribute/parallel/part_norms.h"
#include "rill/distribute/parallel/parts.h"
#include "rill/nn/layers/common.h"
#include "rill/nn/layers/expert_choice.h"
#include "rill/ops/ops.h"
#include "rill/ops/scopes.h"

namespace rill::distribute {

namespace {

constexpr std::string_view experts_op = "ParallelExperts";

// Draws the weights of all experts, and returns this rank's.
nn::Initializer own_experts(const nn::Initializer& whole, const Group& group) {
  return [whole, group](const Shape& part, const nn::Fans& fans) {
    Shape shape = part;
    shape[0] = shape[0] * group.size();
    return own_part(whole(shape, fans), 0, group, Where());
  };
}

// Gradients of an expert are sums over the tokens of all ranks.
nn::Param averaged(const nn::Param& p, int64_t ranks) {
  return p.through([ranks](const Tensor& value) { return with_mean_gradient(value, ranks); });
}

int64_t checked_experts(int64_t experts, const ParallelExpertsOptions& o, const Where& where) {
  const int64_t n = o.group.size(where);
  if (experts < 1 || experts % n != 0)
    fail(experts_op, fmt::format("experts is {}, and must be a multiple of {}, the ranks that they lie on", experts, n),
         where);
  if (o.top < 1 || o.top > experts)
    fail(experts_op, fmt::format("top is {} and must be from 1 to {}, the number of experts", o.top, experts), where);
  if (o.capacity && !(*o.capacity > 0))
    fail(experts_op, fmt::format("capacity is {} and must be positive", *o.capacity), where);
  return experts;
}

Dim room_for(const Tensor& chosen, int64_t experts, const ParallelExpertsOptions& o, const Where& where) {
  const Dim tokens = chosen.shape()[0];
  const double share = o.capacity ? *o.capacity * double(o.top) / double(experts) : 1;
  if (o.capacity && share < 1) return Dim(tokens * int64_t(std::ceil(share * 0x1p20)) / (1 << 20) + 1);
  if (o.capacity || !executing_eagerly()) return tokens;
  // All ranks need the same.
  const Tensor fullest = max(sum(stop_gradient(chosen).astype(i64), 0));
  return std::max<int64_t>(1, all_reduce(fullest, Reduce::max, o.group, where).item<int64_t>());
}

}  // namespace

ParallelExperts::ParallelExperts(int64_t n, int64_t wide, const ParallelExpertsOptions& o, Where where)
    : experts(checked_experts(n, o, where)),
      hidden(wide),
      options(o),
      router(nn::param(o.name, "router", o.kernel_initializer, where)),
      up(averaged(nn::param(o.name, "up", own_experts(o.kernel_initializer, o.group), where), o.group.size(where))),
      up_bias(averaged(nn::param(o.name, "up_bias", nn::constant(0), where), o.group.size(where))),
      down(averaged(nn::param(o.name, "down", own_experts(o.kernel_initializer, o.group), where), o.group.size(where))),
      down_bias(averaged(nn::param(o.name, "down_bias", nn::constant(0), where), o.group.size(where))) {
  if (wide < 1) fail(experts_op, fmt::format("hidden is {} and must be 1 or more", wide), where);
  for (const nn::Param* p : {&up, &up_bias, &down, &down_bias}) lies_on(*p, o.group);
}

// The experts' results for rows [experts, room, width], each rank's by its own experts.
Tensor ParallelExperts::made_of(const Tensor& rows, int64_t width, const nn::Call& call) const {
  const int64_t n = options.group.size(), own = experts / n;
  const Dim room = rows.shape()[1];
  const nn::Fans fans{double(width), double(hidden)}, back{double(hidden), double(width)};
  const Tensor came = all_to_all(rows, options.group).reshape({n, own, room, width});
  const Tensor in = swapaxes(came, 0, 1).reshape({own, room * n, width});
  const Tensor high =
      options.activation(matmul(in, up({own, width, hidden}, call, fans)) + up_bias({own, 1, hidden}, call));
  const Tensor out = matmul(high, down({own, hidden, width}, call, back)) + down_bias({own, 1, width}, call);
  const Tensor goes = swapaxes(out.reshape({own, n, room, width}), 0, 1).reshape({experts, room, width});
  return all_to_all(goes, options.group);
}

nn::RoutedTokens ParallelExperts::route(const Tensor& x, const nn::Call& call, Where where) const {
  const nn::LayerRun run(this, options.name, where);
  const int64_t width = nn::known_size(x, -1, "ParallelExperts", where);
  const Tensor rows = reshape(call.in(x), {-1, width});
  const Tensor chances = softmax(matmul(rows, router({width, experts}, call)), -1);  // [tokens, experts]
  const nn::impl::ExpertChoice c =
      nn::impl::choose_experts(chances, options.top, options.normalize, options.capacity, true);
  const Tensor y = nn::impl::through_rooms(rows, c, room_for(c.taken, experts, options, where),
                                           [&](const Tensor& rooms) { return made_of(rooms, width, call); });
  return {run.give(reshape(y, x.shape())), c.balance};
}

}  // namespace rill::distribute
