// Scaled dot-product attention, as one op that never stores a matrix of queries by keys. Included by ops.h.
#pragma once
#include <optional>

#include "rill/devices/params/attention_params.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct AttentionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Query i sees keys up to i + keys - queries: with as many of both no later key, and the last query all of them (so
  // that decoding with a cache of keys works).
  bool causal = false;
  // Broadcast to [..., heads, queries, keys]. bool: true where the query sees the key. Floating: added to the scores.
  Tensor mask = {};
  // Of the scores; 1 / sqrt(d) where not given.
  std::optional<double> scale = {};
};

// softmax(scale q k^T + mask) v, over the keys (Vaswani et al., Attention is all you need, 2017).
//   q [..., heads, queries, d], k [..., shared, keys, d], v [..., shared, keys, e]; the result is [..., heads, queries,
// e]. Leading axes are equal, but that `heads` may be a multiple of `shared`: query head h then reads keys and values
// h / (heads / shared) (grouped-query attention; Ainslie et al., GQA, 2023). Without leading axes there is one head.
// A query that sees no key gives zeros; one whose scores all overflow to -inf gives NaN, as softmax does. Memory beyond
// operands and result grows with queries + keys, not their product; only the gradient of a floating mask, where it is
// asked for, stores such a matrix. Throws where sizes do not fit. f16 and bf16 are computed in f32.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {},
                 Where where = Where::current());

struct SelfAttentionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool causal = false;
  std::optional<double> scale = {};
};
// The same for queries, keys and values that one projection made: qkv [..., tokens, 3, heads, d] gives [..., tokens,
// heads, d]. Nothing is transposed or copied, and the gradient comes as one tensor.
Tensor self_attention(const Tensor& qkv, const SelfAttentionOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
