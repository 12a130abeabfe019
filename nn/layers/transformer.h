// Layers of transformers: attention and a network of each token by itself, with norms and residuals around them.
#pragma once
#include "rill/nn/layers/attention.h"
#include "rill/nn/layers/dropout.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct FeedForwardOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Activation activation = static_cast<Tensor (*)(const Tensor&, Where)>(relu);
  bool gated = false;  // down(activation(gate(x)) up(x)): SwiGLU with silu, GeGLU with gelu (Shazeer 2020)
  bool use_bias = true;
  double dropout = 0;  // of the hidden numbers
  std::string name = "feed_forward";
};
// down(activation(up(x))): [..., width] to [..., hidden] and back.
class FeedForward {
 public:
  FeedForward(int64_t width, int64_t hidden, const FeedForwardOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(FeedForward, gate, up, down)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  FeedForwardOptions options;
  Dense up, down;
  std::optional<Dense> gate;
};

struct TransformerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<int64_t> hidden = {};  // of the network of each token; 4 width where not given
  bool norm_first = true;              // x + f(norm(x)); else norm(x + f(x)), as in the first paper
  bool rms = false;                    // RMSNorm instead of LayerNorm
  double epsilon = 1e-5;
  double dropout = 0;  // of what each part adds
  MultiHeadAttentionOptions attention = {};
  FeedForwardOptions feed_forward = {};
  std::string name = "transformer_layer";
};
// Self-attention, then a network of each token (Vaswani et al.: Attention is all you need, 2017): [..., tokens, width]
// to the same. With attention.causal it is a decoder without memory, as GPT's.
class TransformerEncoderLayer {
 public:
  TransformerEncoderLayer(int64_t width, int64_t heads, const TransformerOptions& options = {},
                          Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return operator()(x, AttentionInputs(), call, where);
  }
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, const Call& call = {},
                    Where where = Where::current()) const;
  // Further tokens, with the cache of those before.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& inputs = {}, const Call& call = {},
                Where where = Where::current()) const;
  RILL_LAYER(TransformerEncoderLayer, attention, norm_1, feed_forward, norm_2)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  TransformerOptions options;
  MultiHeadAttention attention;
  FeedForward feed_forward;
  AnyLayer norm_1, norm_2;
};

// The state of a decoder layer: keys and values of the tokens so far, and of its memory. Initially empty.
struct DecoderCache {
  KeyValueCache tokens, memory;
};
// Causal self-attention, attention to a memory, then a network of each token.
class TransformerDecoderLayer {
 public:
  TransformerDecoderLayer(int64_t width, int64_t heads, const TransformerOptions& options = {},
                          Where where = Where::current());
  // x [..., tokens, width], memory [..., tokens', width']. `inputs` are of the self-attention, `of_memory` of the other.
  Tensor operator()(const Tensor& x, const Tensor& memory, const Call& call = {},
                    Where where = Where::current()) const {
    return operator()(x, memory, AttentionInputs(), AttentionInputs(), call, where);
  }
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionInputs& inputs,
                    const AttentionInputs& of_memory, const Call& call = {}, Where where = Where::current()) const;
  // Further tokens, with the cache of those before. The memory is projected at the first call with a cache.
  Tensor decode(const Tensor& x, const Tensor& memory, DecoderCache& cache, const AttentionInputs& inputs = {},
                const AttentionInputs& of_memory = {}, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(TransformerDecoderLayer, attention, norm_1, cross_attention, norm_2, feed_forward, norm_3)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  TransformerOptions options;
  MultiHeadAttention attention, cross_attention;
  FeedForward feed_forward;
  AnyLayer norm_1, norm_2, norm_3;
};

// So many encoder layers, one after the other, each with its own initial values; then a norm if norms come first.
class TransformerEncoder {
 public:
  TransformerEncoder(int64_t width, int64_t heads, int64_t layers, const TransformerOptions& options = {},
                     Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return operator()(x, AttentionInputs(), call, where);
  }
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, const Call& call = {},
                    Where where = Where::current()) const;
  // Further tokens, with a cache for each layer, initially none.
  Tensor decode(const Tensor& x, std::vector<KeyValueCache>& cache, const AttentionInputs& inputs = {},
                const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(TransformerEncoder, layers, norm)

  std::vector<TransformerEncoderLayer> layers;
  std::optional<AnyLayer> norm;
};
// The same of decoder layers, which all attend to one memory.
class TransformerDecoder {
 public:
  TransformerDecoder(int64_t width, int64_t heads, int64_t layers, const TransformerOptions& options = {},
                     Where where = Where::current());
  Tensor operator()(const Tensor& x, const Tensor& memory, const Call& call = {},
                    Where where = Where::current()) const {
    return operator()(x, memory, AttentionInputs(), AttentionInputs(), call, where);
  }
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionInputs& inputs,
                    const AttentionInputs& of_memory, const Call& call = {}, Where where = Where::current()) const;
  Tensor decode(const Tensor& x, const Tensor& memory, std::vector<DecoderCache>& cache,
                const AttentionInputs& inputs = {}, const AttentionInputs& of_memory = {}, const Call& call = {},
                Where where = Where::current()) const;
  RILL_LAYER(TransformerDecoder, layers, norm)

  std::vector<TransformerDecoderLayer> layers;
  std::optional<AnyLayer> norm;
};

}  // namespace rill::nn

#pragma GCC visibility pop
