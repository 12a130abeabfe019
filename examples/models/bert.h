// BERT (Devlin et al.: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018), and pooling
// of its tokens into one vector for a sentence (Reimers, Gurevych: Sentence-BERT, 2019).
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

#include "exact_gelu.h"

namespace models {
using namespace rill;

struct BertOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t vocabulary = 30522, longest = 512, types = 2;
  int64_t width = 768, layers = 12, heads = 12, hidden = 3072;  // BERT-base
  double dropout = 0.1;
  nn::Initializer initializer = nn::truncated_normal(0, 0.02);  // of the tables
};

// ids [batch, tokens], and a mask of ones for tokens and zeros for padding.
struct Bert {
  explicit Bert(const BertOptions& o = {})
      : options(o),
        words(o.vocabulary, o.width, {.initializer = o.initializer}),
        positions(o.longest, o.width, {.initializer = o.initializer}),
        types(o.types, o.width, {.initializer = o.initializer}),
        norm(Shape{o.width}, {.epsilon = 1e-12}),
        drop(o.dropout),
        pooler(o.width, o.width, {.activation = tanh}) {
    nn::TransformerOptions layer{.hidden = o.hidden,
                                 .norm_first = false,
                                 .epsilon = 1e-12,
                                 .dropout = o.dropout,
                                 .attention = {.fused = false, .dropout = o.dropout},
                                 .feed_forward = {.activation = exact_gelu}};
    for (int64_t i = 0; i < o.layers; ++i) {
      layer.name = std::to_string(i);
      layers.emplace_back(o.width, o.heads, layer);
    }
  }
  // For each token, [batch, tokens, width]. All are of type 0: one sentence.
  Tensor operator()(const Tensor& ids, const Tensor& mask, const nn::Call& call = {}) const {
    Tensor h = words(ids, call) + positions(iota({ids.dim(1)}), call) + types(zeros({1}, i32), call);
    h = drop(norm(h, call), call);
    for (const nn::TransformerEncoderLayer& layer : layers) h = layer(h, {.key_padding = mask != 0}, call);
    return h;
  }
  // For a sentence, [batch, width], from its first token: the input of a classifier.
  Tensor pooled(const Tensor& ids, const Tensor& mask, const nn::Call& call = {}) const {
    return pooler(operator()(ids, mask, call)(all, 0), call);
  }
  // For a sentence, the mean of its tokens, normalised.
  Tensor sentence(const Tensor& ids, const Tensor& mask, const nn::Call& call = {}) const {
    const Tensor h = operator()(ids, mask, call), weights = expand_dims(mask, -1).astype(h.dtype());
    return l2_normalize(sum(h * weights, 1) / sum(weights, 1), -1);
  }
  RILL_LAYER(Bert, words, positions, types, norm, layers, pooler)

  BertOptions options;
  nn::Embedding words, positions, types;
  nn::LayerNorm norm;
  nn::Dropout drop;
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::Dense pooler;
};

}  // namespace models
