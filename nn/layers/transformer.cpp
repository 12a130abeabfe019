// Layers of transformers.
#include "rill/nn/layers/transformer.h"

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/norm.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
Dense named_dense(const FeedForwardOptions& o, int64_t in, int64_t out, const std::string& name, const Where& where) {
  const NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.name = name;
  return Dense(in, out, options, where);
}
AnyLayer named_norm(const TransformerOptions& o, int64_t width, const std::string& name, const Where& where) {
  if (o.rms) return RMSNorm(Shape{width}, {.epsilon = o.epsilon, .name = name}, where);
  return LayerNorm(Shape{width}, {.epsilon = o.epsilon, .name = name}, where);
}
MultiHeadAttentionOptions masked(MultiHeadAttentionOptions o) {
  o.causal = true;
  return o;
}
// For another sequence: neither causal order nor distances apply.
MultiHeadAttentionOptions crossed(MultiHeadAttentionOptions o) {
  o.causal = o.alibi = false;
  o.rotary.reset(), o.relative.reset(), o.window.reset();
  o.name = "cross_attention";
  o.fused = false;
  return o;
}
// One part of a layer, with its norm, its dropout and the residual.
template <class F>
Tensor added(const Tensor& x, const AnyLayer& norm, const TransformerOptions& o, const Call& call, const F& f) {
  const Tensor y = dropout(f(o.norm_first ? norm(x, call) : x), o.dropout, {.training = call.training()});
  return o.norm_first ? x + y : norm(x + y, call);
}
}  // namespace

FeedForward::FeedForward(int64_t width, int64_t hidden, const FeedForwardOptions& o, Where where)
    : options(o), up(named_dense(o, width, hidden, "up", where)), down(named_dense(o, hidden, width, "down", where)) {
  if (o.gated) gate = named_dense(o, width, hidden, "gate", where);
  require_fraction("FeedForward", "dropout", o.dropout, where);
}

Tensor FeedForward::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor wide = up(x, call);
  const Tensor hidden = gate ? options.activation((*gate)(x, call)) * wide : options.activation(wide);
  return run.give(down(dropout(hidden, options.dropout, {.training = call.training()}), call));
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t width, int64_t heads, const TransformerOptions& o, Where where)
    : options(o),
      attention(width, heads, o.attention, where),
      feed_forward(width, o.hidden.value_or(4 * width), o.feed_forward, where),
      norm_1(named_norm(o, width, "norm_1", where)),
      norm_2(named_norm(o, width, "norm_2", where)) {
  require_fraction("TransformerEncoderLayer", "dropout", o.dropout, where);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionInputs& in, const Call& call,
                                           Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const bool plain = !in.mask.defined() && !in.key_padding.defined() && !in.positions.defined();
  const Tensor y = added(call.in(x), norm_1, options, call,
                         [&](const Tensor& n) { return plain ? attention(n, call) : attention(n, in, call); });
  return run.give(added(y, norm_2, options, call, [&](const Tensor& n) { return feed_forward(n, call); }));
}

Tensor TransformerEncoderLayer::decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& in,
                                       const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor y =
      added(call.in(x), norm_1, options, call, [&](const Tensor& n) { return attention.decode(n, cache, in, call); });
  return run.give(added(y, norm_2, options, call, [&](const Tensor& n) { return feed_forward(n, call); }));
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t width, int64_t heads, const TransformerOptions& o, Where where)
    : options(o),
      attention(width, heads, masked(o.attention), where),
      cross_attention(width, heads, crossed(o.attention), where),
      feed_forward(width, o.hidden.value_or(4 * width), o.feed_forward, where),
      norm_1(named_norm(o, width, "norm_1", where)),
      norm_2(named_norm(o, width, "norm_2", where)),
      norm_3(named_norm(o, width, "norm_3", where)) {
  require_fraction("TransformerDecoderLayer", "dropout", o.dropout, where);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionInputs& in,
                                           const AttentionInputs& of_memory, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  Tensor y = added(call.in(x), norm_1, options, call, [&](const Tensor& n) { return attention(n, in, call); });
  y = added(y, norm_2, options, call,
            [&](const Tensor& n) { return cross_attention(n, memory, memory, of_memory, call); });
  return run.give(added(y, norm_3, options, call, [&](const Tensor& n) { return feed_forward(n, call); }));
}

Tensor TransformerDecoderLayer::decode(const Tensor& x, const Tensor& memory, DecoderCache& cache,
                                       const AttentionInputs& in, const AttentionInputs& of_memory, const Call& call,
                                       Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  Tensor y = added(call.in(x), norm_1, options, call,
                   [&](const Tensor& n) { return attention.decode(n, cache.tokens, in, call); });
  if (!cache.memory.keys.defined()) cache.memory = cross_attention.remember(memory, memory, call);
  y = added(y, norm_2, options, call,
            [&](const Tensor& n) { return cross_attention.recall(n, cache.memory, of_memory, call); });
  return run.give(added(y, norm_3, options, call, [&](const Tensor& n) { return feed_forward(n, call); }));
}

// --- Stacks ----------------------------------------------------------------------------------------------------------

namespace {
std::optional<AnyLayer> last_norm(const TransformerOptions& o, int64_t width, const Where& where) {
  return o.norm_first ? std::optional(named_norm(o, width, "norm", where)) : std::nullopt;
}
template <class Layer>
std::vector<Layer> stack_of(const char* type, int64_t width, int64_t heads, int64_t layers, const TransformerOptions& o,
                            const Where& where) {
  require_option(layers >= 1, type, "layers", layers, "1 or more", where);
  std::vector<Layer> all;
  for (int64_t i = 0; i < layers; ++i) all.emplace_back(width, heads, o, where);
  return all;
}
// One cache for each layer: those that there are, or empty ones.
template <class Cache>
void prepare(const char* type, std::vector<Cache>& cache, size_t layers, const Where& where) {
  if (cache.empty()) cache.resize(layers);
  require_option(cache.size() == layers, type, "the number of caches", cache.size(), "0 or that of the layers", where);
}
}  // namespace

TransformerEncoder::TransformerEncoder(int64_t width, int64_t heads, int64_t n, const TransformerOptions& o,
                                       Where where)
    : layers(stack_of<TransformerEncoderLayer>("TransformerEncoder", width, heads, n, o, where)),
      norm(last_norm(o, width, where)) {}

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionInputs& in, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, "transformer_encoder"), where);
  Tensor y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, in, call);
  return run.give(norm ? (*norm)(y, call) : y);
}
Tensor TransformerEncoder::decode(const Tensor& x, std::vector<KeyValueCache>& cache, const AttentionInputs& in,
                                  const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, "transformer_encoder"), where);
  prepare("TransformerEncoder", cache, layers.size(), where);
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) y = layers[i].decode(y, cache[i], in, call);
  return run.give(norm ? (*norm)(y, call) : y);
}

TransformerDecoder::TransformerDecoder(int64_t width, int64_t heads, int64_t n, const TransformerOptions& o,
                                       Where where)
    : layers(stack_of<TransformerDecoderLayer>("TransformerDecoder", width, heads, n, o, where)),
      norm(last_norm(o, width, where)) {}

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const AttentionInputs& in,
                                      const AttentionInputs& of_memory, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, "transformer_decoder"), where);
  Tensor y = x;
  for (const TransformerDecoderLayer& layer : layers) y = layer(y, memory, in, of_memory, call);
  return run.give(norm ? (*norm)(y, call) : y);
}
Tensor TransformerDecoder::decode(const Tensor& x, const Tensor& memory, std::vector<DecoderCache>& cache,
                                  const AttentionInputs& in, const AttentionInputs& of_memory, const Call& call,
                                  Where where) const {
  const LayerRun run(this, scope_of(*this, "transformer_decoder"), where);
  prepare("TransformerDecoder", cache, layers.size(), where);
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) y = layers[i].decode(y, memory, cache[i], in, of_memory, call);
  return run.give(norm ? (*norm)(y, call) : y);
}

}  // namespace rill::nn
