// Llama (Touvron et al.: Open and Efficient Foundation Language Models, 2023): RMS norms, rotary positions, gated networks,
// no biases; with grouped queries as from Llama 2 on.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

struct LlamaOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t vocabulary = 49152;
  int64_t width = 576, layers = 30, heads = 9, kv_heads = 3, hidden = 1536;  // SmolLM-135M
  double rotary_base = 10000, epsilon = 1e-5;
  nn::Initializer initializer = nn::normal(0, 0.02);  // of the table
};

// Tokens [batch, tokens] to logits of the tokens after them. The head is the table of words, as in small Llamas.
struct Llama {
  explicit Llama(const LlamaOptions& o = {})
      : options(o), embed_tokens(o.vocabulary, o.width, {.initializer = o.initializer}), norm({.epsilon = o.epsilon}) {
    nn::TransformerOptions layer{.hidden = o.hidden,
                                 .rms = true,
                                 .epsilon = o.epsilon,
                                 .attention = {.causal = true,
                                               .use_bias = false,
                                               .kv_heads = o.kv_heads,
                                               .fused = false,
                                               .rotary = nn::RotaryOptions{.base = o.rotary_base}},
                                 .feed_forward = {.activation = silu, .gated = true, .use_bias = false}};
    for (int64_t i = 0; i < o.layers; ++i) {
      layer.name = std::to_string(i);
      layers.emplace_back(o.width, o.heads, layer);
    }
  }
  Tensor operator()(const Tensor& ids, const nn::Call& call = {}) const {
    Tensor h = embed_tokens(ids, call);
    for (const nn::TransformerEncoderLayer& layer : layers) h = layer(h, call);
    return matmul(norm(h, call), embed_tokens.table({options.vocabulary, options.width}, call).T());
  }
  RILL_LAYER(Llama, embed_tokens, layers, norm)

  LlamaOptions options;
  nn::Embedding embed_tokens;
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::RMSNorm norm;
};

}  // namespace models
