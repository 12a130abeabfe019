// Attention.
#include "rill/nn/layers/attention.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/tensor/limits.h"

namespace rill::nn {

namespace {
Dense projection(const MultiHeadAttentionOptions& o, int64_t in, int64_t out, const std::string& name,
                 const Where& where) {
  NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.kernel_initializer = o.kernel_initializer;
  options.name = name;
  return Dense(in, out, options, where);
}
int64_t checked_heads(int64_t width, int64_t heads, const Where& where) {
  if (heads < 1 || width % heads != 0)
    fail("MultiHeadAttention", fmt::format("a width of {} does not divide into {} heads", width, heads), where);
  require_sound_size("MultiHeadAttention", Spec{Shape{width, width, 3}, f32, false, {}}, where);
  return heads;
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads_, const MultiHeadAttentionOptions& o, Where where)
    : name(o.name),
      heads(checked_heads(width, heads_, where)),
      causal(o.causal),
      qkv(projection(o, width, 3 * width, "qkv", where)),
      output(projection(o, width, width, "output", where)) {}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  Shape joined = x.shape();
  const int64_t width = joined.back();
  joined.back() = 3;
  joined.push_back(heads);
  joined.push_back(width / heads);
  const Tensor mixed = self_attention(reshape(qkv(x, call, where), joined), {.causal = causal});
  return run.give(output(reshape(mixed, x.shape()), call, where));
}

}  // namespace rill::nn
