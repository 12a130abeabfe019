// GPT-2 (Radford et al.: Language Models are Unsupervised Multitask Learners, 2019).
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

struct Gpt2Options {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t vocabulary = 50257, longest = 1024;
  int64_t width = 768, layers = 12, heads = 12;
  double dropout = 0.1;
  nn::Initializer initializer = nn::normal(0, 0.02);  // of the tables
};

// Tokens [batch, tokens] to logits of the tokens after them, [batch, tokens, vocabulary]. The head is the table of words.
struct Gpt2 {
  explicit Gpt2(const Gpt2Options& o = {})
      : options(o),
        wte(o.vocabulary, o.width, {.initializer = o.initializer}),
        wpe(o.longest, o.width, {.initializer = o.initializer}),
        drop(o.dropout) {
    nn::TransformerOptions layer{.dropout = o.dropout,
                                 .attention = {.causal = true, .dropout = o.dropout},
                                 .feed_forward = {.activation = [](const Tensor& x) { return gelu(x, true); }}};
    for (int64_t i = 0; i < o.layers; ++i) {
      layer.name = std::to_string(i);
      h.emplace_back(o.width, o.heads, layer);
    }
  }
  Tensor operator()(const Tensor& ids, const nn::Call& call = {}) const {
    Tensor x = drop(wte(ids, call) + wpe(iota({ids.dim(1)}), call), call);
    for (const nn::TransformerEncoderLayer& layer : h) x = layer(x, call);
    return matmul(ln_f(x, call), wte.table({options.vocabulary, options.width}, call).T());
  }
  // Logits of the next token, [batch, vocabulary], for further tokens: `caches` has one for each layer and `seen` is
  // the number of tokens in them.
  Tensor decode(const Tensor& ids, std::vector<nn::KeyValueCache>& caches, int64_t seen,
                const nn::Call& call = {}) const {
    Tensor x = wte(ids, call) + wpe(iota({ids.dim(1)}) + seen, call);
    for (size_t i = 0; i < h.size(); ++i) x = h[i].decode(x, caches[i], {}, call);
    return matmul(ln_f(x, call)(all, -1), wte.table({options.vocabulary, options.width}, call).T());
  }
  RILL_LAYER(Gpt2, wte, wpe, h, ln_f)

  Gpt2Options options;
  nn::Embedding wte, wpe;
  nn::Dropout drop;
  std::vector<nn::TransformerEncoderLayer> h;
  nn::LayerNorm ln_f;
};

}  // namespace models
