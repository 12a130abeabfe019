// Sequences that are longer than the memory of one rank: each rank of a group has some of the tokens, in order.
//
//   q, k, v of [..., heads, tokens / n, d]
//   y = distribute::ring_attention(q, k, v, {.causal = true, .group = mesh.group("sequence")});
//
// Between attention and products that lie on the ranks of the same group, tokens are gathered and scattered instead of
// being everywhere (sequence parallelism; Korthikanti et al., 2022).
#pragma once
#include <optional>

#include "rill/distribute/collectives.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct RingAttentionOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool causal = false;               // a token sees none that comes later, wherever it is; blocks of these are skipped
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(d) where not given
  Group group = {};
};
// attention() of a sequence of which each rank has as many tokens, this one's: softmax(scale q k^T) v over the keys of all
// ranks (Liu et al.: Ring Attention with Blockwise Transformers, 2023). Keys and values go around the ring, the next ones
// while those here are computed with, and each rank holds two blocks of them, and the scores of one. On the way back scores
// are computed again. Equal to attention() within rounding; f16 and bf16 are computed in f32.
//   q, k [..., heads, tokens / n, d], v [..., heads, tokens / n, e]; gives [..., heads, tokens / n, e].
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingAttentionOptions& options = {},
                      Where where = Where::current());

// The tokens of all ranks, along an axis, for what each goes on with in its own way (ColumnParallelDense): on the way back,
// the sum over ranks of what came of this rank's tokens.
Tensor gather_tokens(const Tensor& part, Axis axis = -2, const Group& group = {}, Where where = Where::current());
// The sum over ranks of what each has made of all tokens (RowParallelDense), of which each goes on with its own: on the way
// back, the tokens of all ranks. As much travels as by fan_in(), and what lies between the two is divided by the ranks.
Tensor scatter_tokens(const Tensor& whole, Axis axis = -2, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
