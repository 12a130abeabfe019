// softmax, norms, losses, attention and their gradients. Those with a standard operator use it; the rest is composed of
// rill's functions by the formulas of the records.
#include <limits>

#include "rill/devices/params/attention_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;

// --- Softmax ---------------------------------------------------------------------------------------------------------

template <const char* type>
Values write_softmax(Call& c) {
  return {c.e.op(type, c.in, {{"axis", c.attrs<SoftmaxParams>().axis}})};
}
constexpr char softmax_name[] = "Softmax", log_softmax_name[] = "LogSoftmax";

Tensors softmax_gradient(In in, AttrsView attrs) {
  const Tensor &y = in[0], &g = in[1];
  return {y * (g - sum(y * g, attrs.as<SoftmaxParams>().axis, true))};
}
Tensors log_softmax_gradient(In in, AttrsView attrs) {
  const Tensor &y = in[0], &g = in[1];
  return {g - exp(y) * sum(g, attrs.as<SoftmaxParams>().axis, true)};
}

// --- Norms -----------------------------------------------------------------------------------------------------------

// The axes whose elements share a mean, and the shape in which scale and offset broadcast.
struct Norm {
  Axes axes;
  Shape parameters;
  bool by_channel, nothing;  // `nothing`: each element is normalised by itself

  Norm(const Tensor& x, int64_t axis, bool channels) : by_channel(channels) {
    std::vector<int64_t> shared;
    for (int64_t i = 0; i < x.ndim(); ++i) {
      const bool in_group = by_channel ? i != axis : i >= axis;
      if (in_group) shared.push_back(i);
      if (by_channel) parameters.push_back(i == axis ? x.dim(i) : Size(Dim(1)));
      else if (i >= axis) parameters.push_back(x.dim(i));
    }
    axes = Axes(shared);
    nothing = shared.empty();
  }
  Tensor averaged(const Tensor& t) const { return nothing ? t : mean(t, axes, true); }
  // batch_norm's statistics only have the axis of the channels.
  Tensor stored(const Tensor& t) const { return nothing || !by_channel ? t : squeeze(t, axes); }
  Tensor spread(const Tensor& t) const { return nothing || !by_channel ? t : expand_dims(t, axes); }
};

template <bool by_channel>
Tensors normalised(In in, AttrsView attrs) {
  const NormParams& p = attrs.as<NormParams>();
  const Norm norm(in[0], p.axis, by_channel);
  const Tensor average = norm.averaged(in[0]), d = in[0] - average, variance = norm.averaged(d * d);
  const Tensor y = d / sqrt(variance + p.epsilon) * reshape(in[1], norm.parameters) + reshape(in[2], norm.parameters);
  return {y, norm.stored(average), norm.stored(variance)};
}

// r (w - mean(w) - d r mean(w d r)) with w = g scale, d = x - mean, r = 1 / sqrt(variance + epsilon), and the terms
// from the statistics.
template <bool by_channel>
Tensors norm_gradients(In in, AttrsView attrs) {
  const NormParams& p = attrs.as<NormParams>();
  const Norm norm(in[0], p.axis, by_channel);
  const Tensor &x = in[0], &g = in[4];
  const Tensor d = x - norm.spread(in[2]), r = 1 / sqrt(norm.spread(in[3]) + p.epsilon), h = d * r;
  const Tensor w = g * reshape(in[1], norm.parameters);
  Tensor n = ones({}, {.dtype = x.dtype()});
  if (!norm.nothing) n = sum(ones_like(x), norm.axes, true);
  const Tensor dx =
      r * (w - norm.averaged(w) - h * norm.averaged(w * h)) + norm.spread(in[5]) / n + 2 * norm.spread(in[6]) * d / n;
  const auto to_parameter = [&](const Tensor& t) { return reshape(sum_to(t, norm.parameters), in[1].shape()); };
  return {dx, to_parameter(g * h), to_parameter(g)};
}

// The standard operator has no variance output, so it is only used if nothing reads that.
Values write_layer_norm(Call& c) {
  const NormParams& p = c.attrs<NormParams>();
  if (!c.read[2] && !c.read[1] && p.axis < int64_t(c.rank()))
    return {c.e.op("LayerNormalization", c.in, {{"axis", p.axis}, {"epsilon", p.epsilon}}), {}, {}};
  const AttrsView attrs = c.node.attrs;
  return c.e.composed(c.in, c.specs, [&](In in) { return normalised<false>(in, attrs); });
}

// --- Losses ----------------------------------------------------------------------------------------------------------

Tensor column(const Tensor& t) { return expand_dims(t, -1); }

struct Lse {
  Tensor top, rest;
  explicit Lse(const Tensor& x) : top(max(x, -1)), rest(log(sum(exp(x - column(top)), -1))) {}
};
Tensor one_hot_rows(const Tensor& labels, const Tensor& like) {
  return astype(column(labels) == iota({like.dim(-1)}), like.dtype());
}

Tensors dense_loss(In in, AttrsView) {
  const Lse lse(in[0]);
  return {sum(in[1] * (column(lse.rest) - (in[0] - column(lse.top))), -1), lse.top, lse.rest};
}
Tensors sparse_loss(In in, AttrsView) {
  const Lse lse(in[0]);
  const Tensor chosen = sum(where(column(in[1]) == iota({in[0].dim(-1)}), in[0] - column(lse.top), 0), -1);
  return {lse.rest - chosen, lse.top, lse.rest};
}
// logits, labels, top, rest, and the cotangents of the loss and of lse.
Tensor probabilities(In in) { return exp((in[0] - column(in[2])) - column(in[3])); }
Tensors dense_loss_gradient(In in, AttrsView) {
  return {column(in[4] * sum(in[1], -1) + in[5]) * probabilities(in) - column(in[4]) * in[1]};
}
Tensors sparse_loss_gradient(In in, AttrsView) {
  return {column(in[4] + in[5]) * probabilities(in) - column(in[4]) * one_hot_rows(in[1], in[0])};
}

// --- Attention -------------------------------------------------------------------------------------------------------

Tensor repeated(const Tensor& x, const Tensor& q) {
  if (x.ndim() < 3) return x;
  const Dim heads = q.dim(-3), own = x.dim(-3);
  if (!heads.is_open() && !own.is_open() && (own == 0 || heads == own)) return x;
  return repeat(x, heads / own, -3);
}

Tensor masked_scores(const Tensor& q, const Tensor& k, const Tensor& mask, const AttentionParams& p) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(q, swapaxes(k, -1, -2)) * p.scale;
  if (mask.defined()) scores = mask.dtype() == DType::boolean ? where(mask, scores, -inf) : scores + mask;
  if (!p.causal) return scores;
  const Dim queries = scores.dim(-2), keys = scores.dim(-1);
  const Tensor i = iota({queries, keys}, 0), j = iota({queries, keys}, 1);
  return where(j <= i + (keys - queries), scores, -inf);
}

// The result, and log(sum(exp(scores))) in two parts; all are 0 if a query attends to no key.
Tensors attend(const Tensor& q, const Tensor& k0, const Tensor& v0, const Tensor& mask, const AttentionParams& p) {
  const Tensor k = repeated(k0, q), v = repeated(v0, q);
  const Tensor scores = masked_scores(q, k, mask, p);
  const double lowest = std::numeric_limits<double>::lowest();
  const bool no_keys = !scores.dim(-1).is_open() && scores.dim(-1) == 0;
  if (no_keys) {
    const Tensor none = sum(scores, -1, true);
    return {matmul(scores, v), concat({none, none}, -1)};
  }
  const Tensor top = max(scores, -1, true), sees = top > lowest;
  const Tensor e = exp(scores - where(sees, top, 0)), total = sum(e, -1, true);
  const Tensor safe = where(sees, total, 1);
  return {matmul(e / safe, v), concat({where(sees, top, 0), log(safe)}, -1)};
}

Tensors write_attention(In in, AttrsView attrs) {
  return attend(in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor(), attrs.as<AttentionParams>());
}

// The sum over the heads that share an operand of this shape.
Tensor shared(const Tensor& x, const Tensor& like) {
  if (x.ndim() < 3) return x;
  const Dim heads = x.dim(-3), own = like.dim(-3);
  if (!heads.is_open() && !own.is_open() && (own == 0 || heads == own)) return x;
  Shape split = like.shape();
  split.insert(split.size() - 2, heads / own);
  return sum(reshape(x, split), -3);
}

Tensors attention_gradient(const Tensor& q, const Tensor& k0, const Tensor& v0, const Tensor& log_sums,
                           const Tensor& delta, const Tensor& g, const Tensor& mask, const AttentionParams& p) {
  const Tensor k = repeated(k0, q), v = repeated(v0, q);
  const Tensor scores = masked_scores(q, k, mask, p);
  const Tensor probability = exp((scores - slice_axis(log_sums, -1, 0, 1)) - slice_axis(log_sums, -1, 1, 2));
  const Tensor d = probability * (matmul(g, swapaxes(v, -1, -2)) - delta) * p.scale;
  return {matmul(d, k), shared(matmul(swapaxes(d, -1, -2), q), k0),
          shared(matmul(swapaxes(probability, -1, -2), g), v0)};
}
Tensors write_attention_grad(In in, AttrsView attrs) {
  return attention_gradient(in[0], in[1], in[2], in[3], in[4], in[5], in.size() > 6 ? in[6] : Tensor(),
                            attrs.as<AttentionParams>());
}

Tensor heads_first(const Tensor& t) { return swapaxes(t, -2, -3); }
Tensor part(const Tensor& qkv, int64_t i) { return heads_first(squeeze(slice_axis(qkv, -3, i, i + 1), -3)); }

Tensors write_self_attention(In in, AttrsView attrs) {
  Tensors out = attend(part(in[0], 0), part(in[0], 1), part(in[0], 2), Tensor(), attrs.as<AttentionParams>());
  out[0] = heads_first(out[0]);
  return out;
}
Tensors write_self_attention_grad(In in, AttrsView attrs) {
  const Tensors d = attention_gradient(part(in[0], 0), part(in[0], 1), part(in[0], 2), in[1], in[2], heads_first(in[3]),
                                       Tensor(), attrs.as<AttentionParams>());
  return {stack({heads_first(d[0]), heads_first(d[1]), heads_first(d[2])}, -3)};
}

// --- Optimizers ------------------------------------------------------------------------------------------------------

Tensors adam(In in, AttrsView attrs) {
  const AdamParams& p = attrs.as<AdamParams>();
  const Tensor &value = in[0], &g = in[3], &rate = in[4], &correction = in[5], &decay = in[6];
  const Tensor m = p.beta1 * in[1] + (1 - p.beta1) * g, v = p.beta2 * in[2] + (1 - p.beta2) * (g * g);
  return {(1 - decay) * value - rate * m / (sqrt(v) * correction + p.epsilon), m, v};
}

}  // namespace

std::span<const Rule> neural_rules() {
  static const Rule rules[] = {
      {"softmax", write_softmax<softmax_name>},
      {"log_softmax", write_softmax<log_softmax_name>},
      {"softmax_grad", nullptr, softmax_gradient},
      {"log_softmax_grad", nullptr, log_softmax_gradient},
      {"layer_norm", write_layer_norm},
      {"layer_norm_grad", nullptr, norm_gradients<false>},
      {"batch_norm", nullptr, normalised<true>},
      {"batch_norm_grad", nullptr, norm_gradients<true>},
      {"softmax_cross_entropy", nullptr, dense_loss},
      {"softmax_cross_entropy_grad", nullptr, dense_loss_gradient},
      {"sparse_softmax_cross_entropy", nullptr, sparse_loss},
      {"sparse_softmax_cross_entropy_grad", nullptr, sparse_loss_gradient},
      {"attention", nullptr, write_attention},
      {"attention_grad", nullptr, write_attention_grad},
      {"self_attention", nullptr, write_self_attention},
      {"self_attention_grad", nullptr, write_self_attention_grad},
      {"adam_update", nullptr, adam},
  };
  return rules;
}

}  // namespace rill::onnx_out
