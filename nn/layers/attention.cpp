// Attention.
#include "rill/nn/layers/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/limits.h"

namespace rill::nn {

Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& o, Where where) {
  const CallerScope caller(where);
  const int64_t d = known_size(x, -1, "rotary", where), n = o.size.value_or(d), half = n / 2;
  require_option(n >= 2 && n <= d && n % 2 == 0, "rotary", "size", n, fmt::format("even and at most {}", d), where);
  // Angles in f64: of late positions, f32 would leave few digits.
  const Tensor rates = pow(tensor(o.base), arange(half, TensorOptions{.dtype = f64}) * (-2. / double(n)));
  const Tensor angles = expand_dims(positions.astype(f64), -1) * rates;
  const Tensor cosine = cos(angles).astype(x.dtype()), sine = sin(angles).astype(x.dtype());
  const Tensor part = n < d ? slice_axis(x, -1, 0, n) : x;
  const Tensor a = o.interleaved ? part(ellipsis, slice(0, none, 2)) : slice_axis(part, -1, 0, half);
  const Tensor b = o.interleaved ? part(ellipsis, slice(1, none, 2)) : slice_axis(part, -1, half, n);
  const Tensor re = a * cosine - b * sine, im = a * sine + b * cosine;
  const Tensor turned = o.interleaved ? reshape(stack({re, im}, -1), part.shape()) : concat({re, im}, -1);
  return n < d ? concat({turned, slice_axis(x, -1, n, d)}, -1) : turned;
}

Tensor alibi_bias(int64_t heads, Dim keys, Where where) {
  const CallerScope caller(where);
  checked_count("alibi_bias", "heads", heads, where);
  const int64_t power = int64_t(std::bit_floor(uint64_t(heads)));
  std::vector<float> slopes;
  for (int64_t h = 0; h < heads; ++h)  // between those of twice as many heads, where the power of two is used up
    slopes.push_back(float(h < power ? std::exp2(-8. * double(h + 1) / double(power))
                                     : std::exp2(-4. * double(2 * (h - power) + 1) / double(power))));
  return reshape(tensor(slopes), {heads, 1, 1}) * iota({keys}).astype(f32);
}

Tensor relative_buckets(const Tensor& distance, int64_t buckets, int64_t max_distance, bool bidirectional,
                        Where where) {
  const CallerScope caller(where);
  const int64_t n = bidirectional ? buckets / 2 : buckets, near = n / 2;
  require_option(near >= 1, "relative_buckets", "buckets", buckets, bidirectional ? "4 or more" : "2 or more", where);
  require_option(max_distance > near, "relative_buckets", "max_distance", max_distance,
                 fmt::format("more than {}", near), where);
  const Tensor apart = bidirectional ? abs(distance) : maximum(negative(distance), 0);
  const Tensor logs = log(maximum(apart, 1).astype(f32) / float(near)) /
                      float(std::log(double(max_distance) / double(near))) * float(n - near);
  const Tensor far = minimum(near + logs.astype(i64), n - 1);
  const Tensor bucket = rill::where(less(apart, near), apart.astype(i64), far);
  return bidirectional ? bucket + greater(distance, 0).astype(i64) * n : bucket;
}

namespace {
Dense projection(const MultiHeadAttentionOptions& o, int64_t in, std::optional<int64_t> out, const std::string& name,
                 const Where& where) {
  NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.kernel_initializer = o.kernel_initializer;
  options.name = name;
  if (out) return Dense(in, *out, options, where);
  Dense unused(1, options, where);  // without parameters
  unused.kernel = Param(), unused.bias = Param();
  return unused;
}
// One whose operand's size is found at the first call: keys and values may be wider or narrower than queries.
Dense lazy_projection(const MultiHeadAttentionOptions& o, std::optional<int64_t> out, const std::string& name,
                      const Where& where) {
  if (!out) return projection(o, 1, {}, name, where);
  NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.kernel_initializer = o.kernel_initializer;
  options.name = name;
  return Dense(*out, options, where);
}
int64_t checked_heads(int64_t width, int64_t heads, const MultiHeadAttentionOptions& o, const Where& where) {
  if (heads < 1 || (!o.head_size && width % heads != 0))
    fail("MultiHeadAttention", fmt::format("a width of {} does not divide into {} heads", width, heads), where);
  const int64_t shared = o.kv_heads.value_or(heads);
  if (shared < 1 || heads % shared != 0)
    fail("MultiHeadAttention", fmt::format("{} heads are no multiple of {} kv_heads", heads, shared), where);
  require_fraction("MultiHeadAttention", "dropout", o.dropout, where);
  if (o.window) checked_count("MultiHeadAttention", "window", *o.window, where);
  require_sound_size("MultiHeadAttention", Spec{Shape{width, width, 3}, f32, false, {}}, where);
  return heads;
}
bool is_fused(const MultiHeadAttentionOptions& o, int64_t width, int64_t heads) {
  const int64_t size = o.head_size.value_or(width / heads);
  return o.fused && o.kv_heads.value_or(heads) == heads && o.value_size.value_or(size) == size;
}
// [..., tokens, n heads] as [..., heads, tokens, n].
Tensor split_heads(const Tensor& x, int64_t heads, int64_t size) {
  Shape shape = x.shape();
  shape.back() = heads;
  shape.push_back(size);
  return swapaxes(reshape(x, shape), -2, -3);
}
Tensor join_heads(const Tensor& x) {
  const Tensor y = swapaxes(x, -2, -3);
  Shape shape = y.shape();
  const int64_t size = shape.back();
  shape.pop_back();
  shape.back() = shape.back() * size;
  return reshape(y, shape);
}
// Two masks as one: both bool, or added as numbers.
Tensor both(const Tensor& a, const Tensor& b, DType d) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  if (is_bool(a.dtype()) && is_bool(b.dtype())) return logical_and(a, b);
  const auto numbers = [&](const Tensor& m) {
    return is_bool(m.dtype()) ? where(m, full({}, 0, d), full({}, Tensor(-std::numeric_limits<double>::infinity()), d))
                              : m.astype(d);
  };
  return numbers(a) + numbers(b);
}
// What attention() computes, with the probabilities at hand.
Tensor dropped_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double rate) {
  const int64_t times = int64_t(q.dim(-3)) / int64_t(k.dim(-3));
  const Tensor keys = times > 1 ? repeat(k, times, Axis(-3)) : k, values = times > 1 ? repeat(v, times, Axis(-3)) : v;
  Tensor scores = matmul(q, swapaxes(keys, -1, -2)) * (1 / std::sqrt(double(int64_t(q.dim(-1)))));
  Tensor sees;
  if (mask.defined() && is_bool(mask.dtype())) sees = mask, scores = where(mask, scores, -1e30);
  else if (mask.defined()) sees = greater(mask, -std::numeric_limits<double>::infinity()), scores = scores + mask;
  Tensor weights = softmax(scores, -1);
  if (sees.defined()) weights = where(any(sees, -1, true), weights, zeros_like(weights));
  return matmul(dropout(weights, rate), values);
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads_, const MultiHeadAttentionOptions& o, Where where)
    : name(o.name),
      heads(checked_heads(width, heads_, o, where)),
      causal(o.causal),
      options(o),
      kv_heads(o.kv_heads.value_or(heads)),
      head_size(checked_count("MultiHeadAttention", "head_size", o.head_size.value_or(width / heads), where)),
      value_size(checked_count("MultiHeadAttention", "value_size", o.value_size.value_or(head_size), where)),
      fused(is_fused(o, width, heads)),
      qkv(projection(o, width, fused ? std::optional(3 * heads * head_size) : std::nullopt, "qkv", where)),
      query(lazy_projection(o, fused ? std::nullopt : std::optional(heads * head_size), "query", where)),
      key(lazy_projection(o, fused ? std::nullopt : std::optional(kv_heads * head_size), "key", where)),
      value(lazy_projection(o, fused ? std::nullopt : std::optional(kv_heads * value_size), "value", where)),
      output(projection(o, heads * value_size, width, "output", where)),
      relative(param(o.name, "relative", normal(0, 0.02), where, Kind::weight, o.relative.has_value())) {}

MultiHeadAttention::Projected MultiHeadAttention::project(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const Call& call, const Where& where) const {
  if (!fused)
    return {split_heads(query(q, call, where), heads, head_size), split_heads(key(k, call, where), kv_heads, head_size),
            split_heads(value(v, call, where), kv_heads, value_size)};
  const int64_t n = heads * head_size;
  const auto part = [&](const Tensor& x, int64_t i) {
    const Tensor in = call.in(x);
    const Tensor kernel = qkv.kernel({known_size(in, -1, "MultiHeadAttention", where), 3 * n}, call, where);
    const Tensor y = matmul(in, slice_axis(kernel, -1, i * n, (i + 1) * n), where);
    return split_heads(qkv.bias ? y + slice_axis(qkv.bias({3 * n}, call), -1, i * n, (i + 1) * n) : y, heads,
                       head_size);
  };
  return {part(q, 0), part(k, 1), part(v, 2)};
}

Tensor MultiHeadAttention::bias(Dim queries, Dim keys, const AttentionInputs& in, const Call& call,
                                const Where& where) const {
  const DType d = call.compute.value_or(f32);
  Tensor mask = in.mask;
  if (in.key_padding.defined()) {
    if (!is_bool(in.key_padding.dtype()))
      fail("MultiHeadAttention", "key_padding is bool. got " + to_string(in.key_padding.spec()), where);
    mask = both(mask, expand_dims(in.key_padding, {-2, -3}), d);
  }
  if (options.alibi) mask = both(mask, alibi_bias(heads, keys), d);
  if (!options.window && !options.relative) return mask;
  // Key position minus query position; the last query stands at the last key.
  const Shape scores{queries, keys};
  const Tensor distance = iota(scores, 1) - (iota(scores, 0) + (Tensor(keys) - Tensor(queries)));
  if (options.window) mask = both(mask, less(abs(distance), *options.window), d);
  if (!options.relative) return mask;
  const RelativeBiasOptions& r = *options.relative;
  const Tensor table = relative({r.buckets, heads}, call, where);
  const Tensor rows = take(table, relative_buckets(distance, r.buckets, r.max_distance, r.bidirectional), Axis(0));
  return both(mask, moveaxis(rows, -1, 0), d);
}

Tensor MultiHeadAttention::attend(Projected p, KeyValueCache* cache, const AttentionInputs& in, const Call& call,
                                  const Where& where) const {
  if (options.rotary) {
    const Dim tokens = p.q.shape()[p.q.shape().size() - 2];
    Tensor at = in.positions.defined() ? in.positions : iota({tokens});
    if (!in.positions.defined() && cache && cache->keys.defined()) at = at + Tensor(cache->keys.dim(-2));
    if (at.ndim() > 1) at = expand_dims(at, -2);  // beside the heads
    p.q = rotary(p.q, at, *options.rotary), p.k = rotary(p.k, at, *options.rotary);
  }
  if (cache) {
    if (cache->keys.defined()) p.k = concat({cache->keys, p.k}, -2), p.v = concat({cache->values, p.v}, -2);
    *cache = {p.k, p.v};
  }
  const Dim queries = p.q.shape()[p.q.shape().size() - 2], keys = p.k.shape()[p.k.shape().size() - 2];
  Tensor mask = bias(queries, keys, in, call, where);
  if (mask.defined() && !is_bool(mask.dtype())) mask = mask.astype(p.q.dtype());
  Tensor mixed;
  if (options.dropout > 0 && call.training()) {
    const Shape scores{queries, keys};
    if (causal)
      mask = both(mask, less_equal(iota(scores, 1), iota(scores, 0) + (Tensor(keys) - Tensor(queries))), p.q.dtype());
    mixed = dropped_attention(p.q, p.k, p.v, mask, options.dropout);
  } else {
    mixed = attention(p.q, p.k, p.v, {.causal = causal, .mask = mask}, where);
  }
  return output(join_heads(mixed), call, where);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  const bool plain = fused && !options.rotary && !options.alibi && !options.relative && !options.window &&
                     !(options.dropout > 0 && call.training());
  if (!plain) return run.give(attend(project(x, x, x, call, where), nullptr, {}, call, where));
  Shape joined = x.shape();
  joined.back() = 3;
  joined.push_back(heads);
  joined.push_back(head_size);
  const Tensor mixed = self_attention(reshape(qkv(x, call, where), joined), {.causal = causal});
  Shape together = x.shape();
  together.back() = heads * head_size;
  return run.give(output(reshape(mixed, together), call, where));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const AttentionInputs& in, const Call& call, Where where) const {
  return operator()(x, x, x, in, call, where);
}
Tensor MultiHeadAttention::operator()(const Tensor& q, const Tensor& k, const Tensor& v, const Call& call,
                                      Where where) const {
  return operator()(q, k, v, AttentionInputs(), call, where);
}
Tensor MultiHeadAttention::operator()(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionInputs& in,
                                      const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2)
    fail("MultiHeadAttention", to_string(q.spec()) + " is not [..., tokens, width]", where);
  return run.give(attend(project(q, k, v, call, where), nullptr, in, call, where));
}

Tensor MultiHeadAttention::decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& in, const Call& call,
                                  Where where) const {
  const LayerRun run(this, name, where);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  return run.give(attend(project(x, x, x, call, where), &cache, in, call, where));
}

}  // namespace rill::nn
