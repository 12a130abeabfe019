// See expert_choice.h.
#include "rill/nn/layers/expert_choice.h"

#include "rill/autodiff/transforms.h"

namespace rill::nn::impl {

ExpertChoice choose_experts(const Tensor& chances, int64_t top, bool normalize, const std::optional<double>& capacity,
                            bool wants_before) {
  const int64_t experts = chances.dim(-1);
  const TopK best = topk(chances, top);
  const Tensor sent = one_hot(best.indices, experts, {.dtype = chances.dtype()});  // [tokens, top, experts]
  ExpertChoice c;
  c.experts = best.indices.astype(i64);
  c.taken = sum(sent, 1);
  if (capacity || wants_before) {
    const Tensor counts = stop_gradient(c.taken).astype(i64);
    c.before = cumsum(counts, 0) - counts;
  }
  if (capacity) {
    const Tensor limit = floor(Tensor(chances.shape()[0]).astype(f64) * (*capacity * double(top) / double(experts)));
    c.taken = where(less(c.before, limit.astype(i64)), c.taken, zeros_like(c.taken));
  }
  c.weights = chances * c.taken;
  if (normalize) c.weights = c.weights / sum(best.values, -1, true);
  c.balance = sum(mean(sent(all, 0), 0) * mean(chances, 0)) * double(experts);
  return c;
}

Tensor through_rooms(const Tensor& rows, const ExpertChoice& choice, const Dim& room,
                     const Callback<Tensor(const Tensor&)>& compute) {
  const int64_t experts = choice.taken.dim(-1), width = rows.dim(-1);
  const Tensor goes = take_along_axis(choice.taken, choice.experts, -1) > 0;  // [tokens, top]
  // Dropped tokens get one slot after all others.
  const Tensor slot = where(goes, choice.experts * Tensor(room) + take_along_axis(choice.before, choice.experts, -1),
                            Tensor(room * experts));
  const Tensor sources = broadcast_to(expand_dims(iota({rows.shape()[0]}), -1), slot.shape());
  const Tensor token_at =
      full({room * experts + 1}, 0, {.dtype = i64}).at(reshape(slot, {-1})).set(reshape(sources, {-1}));
  const Tensor own = take(rows, slice_axis(token_at, 0, 0, room * experts), Axis(0));
  const Tensor made = reshape(compute(reshape(own, {experts, room, width})), {-1, width});
  const Tensor back = take(made, where(goes, slot, 0), Axis(0));  // [tokens, top, width]
  const Tensor share = where(goes, take_along_axis(choice.weights, choice.experts, -1), 0);
  // Values for dropped tokens may be NaN.
  return sum(where(expand_dims(goes, -1), back * expand_dims(share, -1), 0), 1);
}

}  // namespace rill::nn::impl
