// Attention and rotary embeddings of transformers.
#include <cmath>

#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/trace/control_flow.h"

namespace rill::onnx_import {
namespace {

// [batch, tokens, heads * d] as [batch, heads, tokens, d].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, -1}), {0, 2, 1, 3});
}
Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

// The positions of the queries among the keys: after those of the past, or at the end of those that are not padding.
Tensor positions(const Call& c, const Shape& scores, Dim past) {
  const Tensor rows = iota(scores, 2);
  if (!c.has(6) || c.has(4)) return rows + Tensor(past);
  return rows + (reshape(c.x(6).astype(i64), {-1, 1, 1, 1}) - Tensor(scores[2]));
}

// The bias of the scores [batch, heads, queries, keys]: the mask, the end of the keys, and the causal mask.
Tensor bias_of(const Call& c, DType d, const Shape& scores, Dim past) {
  const Tensor never = full({}, Tensor(-INFINITY), d), zero = full({}, 0, d);
  const Shape one = {scores[0], 1, scores[2], scores[3]};
  const Tensor keys = iota(one, 3), ahead = keys - positions(c, one, past);
  Tensor visible = ones(one, boolean);
  const int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.flag("is_causal")) visible = logical_and(visible, less_equal(ahead, 0));
  if (left >= 0) visible = logical_and(visible, greater_equal(ahead, -left));
  if (right >= 0) visible = logical_and(visible, less_equal(ahead, right));
  if (c.has(6)) visible = logical_and(visible, less(keys, reshape(c.x(6).astype(i64), {-1, 1, 1, 1})));
  Tensor bias = where(visible, zero, never);
  if (!c.has(3)) return bias;
  Tensor mask = c.x(3);
  if (is_bool(mask.dtype())) mask = where(mask, zero, never);
  if (mask.dim(-1) < scores[3]) {  // a shorter mask hides the further keys
    std::vector<Padding> widths(size_t(mask.ndim()));
    widths.back() = {0, scores[3] - mask.dim(-1)};
    mask = pad(mask, widths, full({}, Tensor(-INFINITY), mask.dtype()));
  }
  return bias + mask.astype(d);
}

Values attention_rule(const Call& c) {
  const Tensor given_q = c.x(0);
  const bool flat = given_q.ndim() == 3;
  const int64_t q_heads = c.integer("q_num_heads", 0), kv_heads = c.integer("kv_num_heads", 0);
  if (flat && (q_heads < 1 || kv_heads < 1)) c.reject("operands of three axes need q_num_heads and kv_num_heads");
  Tensor q = flat ? split_heads(given_q, q_heads) : given_q;
  Tensor k = flat ? split_heads(c.x(1), kv_heads) : c.x(1), v = flat ? split_heads(c.x(2), kv_heads) : c.x(2);
  const Dim past = c.has(4) ? Dim(c.x(4).dim(2)) : Dim(0);
  if (c.has(4)) k = concat({c.x(4), k}, 2), v = concat({c.x(5), v}, 2);
  const Tensor present_k = k, present_v = v;
  const int64_t shared = int64_t(q.dim(1)) / std::max<int64_t>(int64_t(k.dim(1)), 1);
  if (shared > 1) k = repeat(k, shared, Axis(1)), v = repeat(v, shared, Axis(1));

  const DType d = q.dtype(), inner = c.has_attribute("softmax_precision") ? c.dtype("softmax_precision", d) : d;
  const double scale = c.real("scale", 1 / std::sqrt(double(int64_t(q.dim(-1)))));
  const double root = std::sqrt(scale), cap = c.real("softcap", 0);
  Tensor scores = matmul((q * root).astype(d), matrix_transpose((k * root).astype(d)));
  const Tensor raw = scores;
  if (cap > 0) scores = cap * tanh(scores / cap);
  const Tensor capped = scores, bias = bias_of(c, d, scores.shape(), past), biased = capped + bias;
  const Tensor none_visible = equal(max(bias, -1, true), -INFINITY);
  const Tensor soft = softmax(biased.astype(inner), -1).astype(d);
  const Tensor weights = where(none_visible, zeros_like(soft), soft), y = matmul(weights, v);
  const int64_t mode = c.integer("qk_matmul_output_mode", 0);
  const Tensor shown = mode == 0 ? raw : mode == 1 ? capped : mode == 2 ? biased : weights;
  return {flat ? join_heads(y) : y, present_k, present_v, shown};
}

// Rotates the halves (or every other element) of the last axis by an angle that grows with the position.
Values rotary_rule(const Call& c) {
  const Tensor given = c.x(0);
  const bool flat = given.ndim() == 3;
  const int64_t heads = c.integer("num_heads", 0);
  if (flat && heads < 1) c.reject("an operand of three axes needs num_heads");
  const Tensor x = flat ? reshape(given, {given.dim(0), given.dim(1), heads, -1}) : transpose(given, {0, 2, 1, 3});
  const int64_t size = x.dim(-1), turned_size = c.integer("rotary_embedding_dim", 0);
  const int64_t n = turned_size ? turned_size : size, half = n / 2;
  if (n > size || n % 2) c.reject("rotary_embedding_dim is odd or beyond the last axis");
  // [batch, tokens, 1, half]
  auto angles = [&](size_t i) {
    const Tensor table = c.x(i), rows = c.has(3) ? take(table, c.x(3), Axis(0)) : table;
    return expand_dims(rows(ellipsis, slice(0, half)), 2);
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const Tensor part = x(ellipsis, slice(0, n));
  const bool interleaved = c.flag("interleaved");
  const Tensor a = interleaved ? part(ellipsis, slice(0, none, 2)) : part(ellipsis, slice(0, half));
  const Tensor b = interleaved ? part(ellipsis, slice(1, none, 2)) : part(ellipsis, slice(half, none));
  const Tensor re = a * cosine - b * sine, im = a * sine + b * cosine;
  Tensor y = interleaved ? reshape(stack({re, im}, -1), part.shape()) : concat({re, im}, -1);
  if (n < size) y = concat({y, x(ellipsis, slice(n, none))}, -1);
  return {flat ? reshape(y, given.shape()) : transpose(y, {0, 2, 1, 3})};
}

// A convolution of each channel with its past, whose last elements are returned as the next state.
Values causal_conv_rule(const Call& c) {
  const Tensor x = c.x(0), w = c.x(1);
  if (x.ndim() != 3 || w.ndim() != 3) c.reject("takes [batch, channels, length] and [channels, 1, k]");
  const Dim before = w.dim(2) - 1;
  const Tensor past = c.x_or(3, zeros({x.dim(0), x.dim(1), before}, x.dtype()));
  const Tensor all = concat({past, x}, 2);
  Tensor y = conv(all, w, {.groups = x.dim(1), .layout = Layout::nchw});
  if (c.has(2)) y = y + along_channels(c.x(2), 3);
  if (c.text("activation", "none") != "none") y = silu(y);
  return {y, slice_axis(all, 2, all.dim(2) - before, all.dim(2))};
}

// The state S of each head, a matrix from keys to values, is updated by each token and read by its query.
Values linear_attention_rule(const Call& c) {
  const int64_t q_heads = c.integer("q_num_heads", 0), heads = c.integer("kv_num_heads", 0);
  if (q_heads < 1 || heads < 1 || q_heads % heads) c.reject("q_num_heads must be a multiple of kv_num_heads");
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  // [tokens, batch, heads, size]
  auto rows = [&](size_t i, int64_t n) {
    const Tensor x = c.x(i).astype(f32);
    return transpose(reshape(x, {x.dim(0), x.dim(1), n, -1}), {1, 0, 2, 3});
  };
  const Tensor q = rows(0, q_heads), k = rows(1, heads), v = rows(2, heads);
  const Tensor nothing = zeros({q.dim(0), 1}, f32);
  const Tensor decay = gated ? exp(rows(4, heads)) : nothing;
  const Tensor beta = delta ? rows(5, c.x(5).dim(2) == 1 ? 1 : heads) : nothing;
  const double given = c.real("scale", 0), scale = given ? given : 1 / std::sqrt(double(int64_t(q.dim(-1))));
  const DType state_dtype = c.has(3) ? c.x(3).dtype() : c.x(0).dtype();
  const Tensor start = c.has(3) ? c.x(3).astype(f32) : zeros({q.dim(1), heads, k.dim(-1), v.dim(-1)}, f32);
  auto [last, y] = scan(
      [&](const Tensor& before, const std::vector<Tensor>& row) {
        const Tensor key = expand_dims(row[1], -1);
        Tensor state = gated ? before * expand_dims(row[3], -1) : before;
        Tensor value = expand_dims(row[2], -2);
        if (delta) value = expand_dims(row[4], -1) * (value - sum(state * key, -2, true));
        state = state + key * value;
        const Tensor read = q_heads == heads ? state : repeat(state, q_heads / heads, Axis(1));
        return std::pair(state, scale * sum(expand_dims(row[0], -1) * read, -2));
      },
      start, std::vector<Tensor>{q, k, v, decay, beta}, {});
  const Tensor joined = reshape(transpose(y, {1, 0, 2, 3}), {y.dim(1), y.dim(0), -1});
  return {joined.astype(c.x(0).dtype()), last.astype(state_dtype)};
}

}  // namespace

const RuleTable& attention_rules() {
  static const RuleTable table = {
      {"Attention", {attention_rule}},
      {"CausalConvWithState", {causal_conv_rule}},
      {"LinearAttention", {linear_attention_rule}},
      {"RotaryEmbedding", {rotary_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
