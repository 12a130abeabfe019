// Attention.
#pragma once
#include "rill/nn/layers/dense.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct MultiHeadAttentionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool causal = false;
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  std::string name = "attention";
};
// Self-attention of [..., tokens, width] with `heads` heads of width / heads numbers: one projection to queries, keys
// and values, self_attention(), one projection back. Throws where the width does not divide.
class MultiHeadAttention {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MultiHeadAttention, qkv, output)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t heads;
  bool causal;
  Dense qkv, output;  // width to [3, heads, width / heads]; width to width
};

}  // namespace rill::nn

#pragma GCC visibility pop
