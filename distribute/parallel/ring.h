// Sequences that are longer than the memory of one rank: each rank of a group has some of the tokens, in order.
//
//   q, k, v of [..., heads, tokens / n, d]
//   y = distribute::ring_attention(q, k, v, {.causal = true, .group = mesh.group("sequence")});
//
// Between attention and products that are distributed over the ranks of the same group, tokens are gathered and
// scattered instead of being replicated (sequence parallelism; Korthikanti et al., 2022).
#pragma once
#include <optional>

#include "rill/distribute/collectives.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct RingAttentionOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool causal = false;               // a token attends to no later one, on whichever rank; blocks of these are skipped
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(d) where not given
  Group group = {};
};
// attention() of a sequence whose tokens are distributed equally over the ranks: softmax(scale q k^T) v over the keys
// of all ranks (Liu et al.: Ring Attention with Blockwise Transformers, 2023). Keys and values go around the ring, the
// next ones while the present ones are used, and each rank holds two blocks of them, and the scores of one. On the way
// back scores are computed again. Equal to attention() within rounding; f16 and bf16 are computed in f32.
// q, k [..., heads, tokens / n, d], v [..., heads, tokens / n, e]; returns [..., heads, tokens / n, e].
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingAttentionOptions& options = {},
                      Where where = Where::current());

// The tokens of all ranks, along an axis, as the input of different computations on each (ColumnParallelDense): the
// gradient is the sum over ranks for this rank's tokens.
Tensor gather_tokens(const Tensor& part, Axis axis = -2, const Group& group = {}, Where where = Where::current());
// The sum over ranks of their results for all tokens (RowParallelDense), of which each rank gets its own tokens: the
// gradient has the tokens of all ranks. As many bytes as by fan_in(), and the work between the two is divided.
Tensor scatter_tokens(const Tensor& whole, Axis axis = -2, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
