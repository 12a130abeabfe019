// Which experts tokens go to, how they get there and how they come back: for experts that lie here and for those that lie on
// several ranks.
#pragma once
#include <optional>

#include "rill/ops/ops.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::nn::impl {

struct ExpertChoice {
  Tensor experts;  // i64 [tokens, top], best first
  Tensor taken;    // [tokens, experts]: 1 where the expert takes the token
  Tensor before;  // i64 [tokens, experts]: by how many earlier tokens the expert was chosen; undefined unless asked for
  Tensor weights;  // [tokens, experts]; 0 where it does not
  Tensor balance;  // RoutedTokens::balance
};
// `chances` [tokens, experts]; an expert takes at most capacity * tokens * top / experts tokens, the first ones.
ExpertChoice choose_experts(const Tensor& chances, int64_t top, bool normalize, const std::optional<double>& capacity,
                            bool wants_before);

// For each of rows [tokens, width] the weighted sum of what its experts make of it. Tokens lie in rooms, [experts, room, width],
// of which `compute` makes as many rows.
Tensor through_rooms(const Tensor& rows, const ExpertChoice& choice, const Dim& room,
                     const Callback<Tensor(const Tensor&)>& compute);

}  // namespace rill::nn::impl

#pragma GCC visibility pop
