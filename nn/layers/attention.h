// Attention.
#pragma once
#include "rill/nn/layers/dense.h"
#include "rill/ops/positions.h"

#pragma GCC visibility push(default)

namespace rill::nn {

using rill::alibi_bias, rill::relative_buckets, rill::rotary, rill::RotaryOptions;

struct RelativeBiasOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t buckets = 32, max_distance = 128;
  bool bidirectional = true;
};

struct MultiHeadAttentionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool causal = false;
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  // Grouped-query attention: the number of heads of keys and values (1: multi-query).
  std::optional<int64_t> kv_heads = {};
  std::optional<int64_t> head_size = {};   // of queries and keys; width / heads where not given
  std::optional<int64_t> value_size = {};  // of values; head_size where not given
  bool fused = true;   // one projection, qkv, if sizes allow; else separate ones for query, key and value
  double dropout = 0;  // of the probabilities, while training
  std::optional<RotaryOptions> rotary = {};
  bool alibi = false;
  std::optional<RelativeBiasOptions> relative = {};  // a learned number for each bucket and head
  // A query attends to keys less than so far away: with `causal`, to that many keys.
  std::optional<int64_t> window = {};
  std::string name = "attention";
};

// Keys and values of the tokens so far, [..., kv_heads, tokens, size]. Begins empty.
struct KeyValueCache {
  Tensor keys, values;
};
// Further inputs of attention.
struct AttentionInputs {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Tensor mask = {};  // broadcasts to [..., heads, queries, keys]; bool: the visible keys; else added to the scores
  Tensor key_padding = {};  // bool [..., keys]: false are no keys
  Tensor positions = {};    // of the tokens, for rotary; counted from the cache's end where not given
};

// Attention of [..., tokens, width] with `heads` heads of width / heads numbers: one projection to queries, keys and
// values, self_attention(), one projection back; or with separate projections and all the options. Without a width, it
// is that of the first call's queries. Throws if the heads do not divide the width.
class MultiHeadAttention {
 public:
  explicit MultiHeadAttention(int64_t heads, const MultiHeadAttentionOptions& options = {},
                              Where where = Where::current())
      : MultiHeadAttention(std::nullopt, heads, options, where) {}
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::current())
      : MultiHeadAttention(std::optional(width), heads, options, where) {}
  // Self-attention.
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, const Call& call = {},
                    Where where = Where::current()) const;
  // Cross-attention: each query attends to `keys`, and returns the weighted `values`, of equally many tokens.
  Tensor operator()(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call = {},
                    Where where = Where::current()) const;
  Tensor operator()(const Tensor& queries, const Tensor& keys, const Tensor& values, const AttentionInputs& inputs,
                    const Call& call = {}, Where where = Where::current()) const;
  // Self-attention of further tokens, which see those in the cache and are added to it.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& inputs = {}, const Call& call = {},
                Where where = Where::current()) const;
  // Cross-attention in two steps: keys and values of a memory, which further queries use without projecting it again.
  KeyValueCache remember(const Tensor& keys, const Tensor& values, const Call& call = {},
                         Where where = Where::current()) const;
  Tensor recall(const Tensor& queries, const KeyValueCache& memory, const AttentionInputs& inputs = {},
                const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MultiHeadAttention, qkv, query, key, value, output, relative)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t heads;
  bool causal;
  MultiHeadAttentionOptions options;
  int64_t kv_heads, head_size, value_size;  // 0 where they follow from the width of the first call
  bool fused;
  Dense qkv;                // fused: width to [3, heads, head_size]; else without parameters
  Dense query, key, value;  // not fused: to [heads or kv_heads, size]; else without parameters
  Dense output;             // [heads, value_size] to width
  Param relative;           // [buckets, heads]

 private:
  struct Sizes {
    int64_t width, head, value;
  };
  struct Projected {
    Tensor q, k, v;  // [..., heads, tokens, size]
  };
  MultiHeadAttention(std::optional<int64_t> width, int64_t heads, const MultiHeadAttentionOptions& options,
                     const Where& where);
  Sizes sizes(const Tensor& queries, const Where& where) const;
  Tensor query_heads(const Tensor& x, const Sizes& n, const Call& call, const Where& where) const;
  KeyValueCache memory_heads(const Tensor& k, const Tensor& v, const Sizes& n, const Call& call,
                             const Where& where) const;
  Tensor fused_part(const Tensor& x, int64_t part, const Sizes& n, const Call& call, const Where& where) const;
  Projected project(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& n, const Call& call,
                    const Where& where) const;
  Tensor attend(Projected p, KeyValueCache* cache, const AttentionInputs& inputs, const Sizes& n, const Call& call,
                const Where& where) const;
  Tensor bias(Dim queries, Dim keys, const AttentionInputs& inputs, const Call& call, DType scores_dtype,
              const Where& where) const;
  std::optional<int64_t> width_;
};

}  // namespace rill::nn

#pragma GCC visibility pop
