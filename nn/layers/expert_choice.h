// The routing of tokens to experts, the exchange, and the combination: for local experts and for those distributed over
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
  Tensor before;   // i64 [tokens, experts]: the number of earlier tokens for the expert; undefined unless requested
  Tensor weights;  // [tokens, experts]; 0 where it does not
  Tensor balance;  // RoutedTokens::balance
};
// `chances` [tokens, experts]; an expert takes at most capacity * tokens * top / experts tokens, the first ones.
ExpertChoice choose_experts(const Tensor& chances, int64_t top, bool normalize, const std::optional<double>& capacity,
                            bool wants_before);

// For each of rows [tokens, width] the weighted sum of its experts' results. Tokens are in slots, [experts, room,
// width], of which `compute` makes equally many rows.
Tensor through_rooms(const Tensor& rows, const ExpertChoice& choice, const Dim& room,
                     const Callback<Tensor(const Tensor&)>& compute);

}  // namespace rill::nn::impl

#pragma GCC visibility pop
