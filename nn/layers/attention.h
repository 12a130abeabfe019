// Attention.
#pragma once
#include "rill/nn/layers/dense.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// Rotary position embeddings (Su et al.: RoFormer, 2021): pairs of numbers of each query and key are turned by position
// times base^(-2 i / size).
struct RotaryOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double base = 10000;
  std::optional<int64_t> size = {};  // of each head that is turned, an even number; all where not given
  bool interleaved = false;          // pairs are neighbours, as in the paper; else i and i + size / 2, as in Llama
};
// x [..., tokens, d] turned by its positions, integers or floats [tokens] or what broadcasts to [..., tokens].
Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {},
              Where where = Where::current());
// f32 [heads, 1, keys]: slope 2^(-8 h / heads) of head h = 1, 2, ... times the key's position, which is ALiBi's bias but
// for a constant of each query that softmax takes away (Press et al.: Train Short, Test Long, 2022). Where `heads` is no
// power of two, slopes are those of the paper's code.
Tensor alibi_bias(int64_t heads, Dim keys, Where where = Where::current());
// The bucket, i64, of key position minus query position (Raffel et al.: T5, 2020): near ones by themselves, far ones by
// the logarithm up to max_distance.
Tensor relative_buckets(const Tensor& distance, int64_t buckets = 32, int64_t max_distance = 128,
                        bool bidirectional = true, Where where = Where::current());

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
  // Grouped-query attention: so many heads of keys and values (1: multi-query).
  std::optional<int64_t> kv_heads = {};
  std::optional<int64_t> head_size = {};   // of queries and keys; width / heads where not given
  std::optional<int64_t> value_size = {};  // of values; head_size where not given
  bool fused = true;   // one projection, qkv, where sizes allow; else query, key and value by themselves
  double dropout = 0;  // of the probabilities, while training
  std::optional<RotaryOptions> rotary = {};
  bool alibi = false;
  std::optional<RelativeBiasOptions> relative = {};  // a learned number for each bucket and head
  std::optional<int64_t> window = {};  // a query sees keys less than so far away: with `causal`, that many keys
  std::string name = "attention";
};

// Keys and values of the tokens so far, [..., kv_heads, tokens, size]. Begins empty.
struct KeyValueCache {
  Tensor keys, values;
};
// What attention may be told beside its operands.
struct AttentionInputs {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Tensor mask = {};  // broadcasts to [..., heads, queries, keys]; bool: what a query sees; else added to the scores
  Tensor key_padding = {};  // bool [..., keys]: false are no keys
  Tensor positions = {};    // of the tokens, for rotary; counted from the cache's end where not given
};

// Attention of [..., tokens, width] with `heads` heads of width / heads numbers: one projection to queries, keys and
// values, self_attention(), one projection back; or with projections apart and all that the options say. Throws where
// the width does not divide.
class MultiHeadAttention {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::current());
  // Self-attention.
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, const Call& call = {},
                    Where where = Where::current()) const;
  // Cross-attention: each query reads `values` where it fits `keys`, of as many tokens.
  Tensor operator()(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call = {},
                    Where where = Where::current()) const;
  Tensor operator()(const Tensor& queries, const Tensor& keys, const Tensor& values, const AttentionInputs& inputs,
                    const Call& call = {}, Where where = Where::current()) const;
  // Self-attention of further tokens, which see those in the cache and are added to it.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& inputs = {}, const Call& call = {},
                Where where = Where::current()) const;
  RILL_LAYER(MultiHeadAttention, qkv, query, key, value, output, relative)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t heads;
  bool causal;
  MultiHeadAttentionOptions options;
  int64_t kv_heads, head_size, value_size;
  bool fused;
  Dense qkv;                // fused: width to [3, heads, head_size]; else without parameters
  Dense query, key, value;  // not fused: to [heads or kv_heads, size]; else without parameters
  Dense output;             // [heads, value_size] to width
  Param relative;           // [buckets, heads]

 private:
  struct Projected {
    Tensor q, k, v;  // [..., heads, tokens, size]
  };
  Projected project(const Tensor& q, const Tensor& k, const Tensor& v, const Call& call, const Where& where) const;
  Tensor attend(Projected p, KeyValueCache* cache, const AttentionInputs& inputs, const Call& call,
                const Where& where) const;
  Tensor bias(Dim queries, Dim keys, const AttentionInputs& inputs, const Call& call, const Where& where) const;
};

}  // namespace rill::nn

#pragma GCC visibility pop
