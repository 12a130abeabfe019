// Attention.
#include "rill/nn/layers/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/limits.h"

namespace rill::nn {

namespace {
// A projection to `out` numbers, from `in` if known, else from those of the first call; without parameters unless it is
// `wanted`. If `out` is not known either, sum_of() sets it.
Dense projection(const MultiHeadAttentionOptions& o, std::optional<int64_t> in, std::optional<int64_t> out, bool wanted,
                 const std::string& name, const Where& where) {
  NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.kernel_initializer = o.kernel_initializer;
  options.name = name;
  if (wanted && in && out) return Dense(*in, *out, options, where);
  Dense lazy(out.value_or(1), options, where);
  if (!wanted) lazy.kernel = Param(), lazy.bias = Param();
  return lazy;
}
// d(x), with this number of outputs. It counts as a call of d.
Tensor sum_of(const Dense& d, const Tensor& x, int64_t out, const Call& call, const Where& where) {
  const LayerRun run(&d, d.name, where, "rill::nn::Dense::operator()");
  const Tensor in = call.in(x);
  const int64_t width = size_for(d.kernel, 0, 1, in, -1, "MultiHeadAttention", where);
  return run.give(finish(matmul(in, d.kernel({width, out}, call)), d.bias, {}, call, where));
}
void check_width(int64_t width, int64_t heads, const MultiHeadAttentionOptions& o, const Where& where) {
  if (width < 0 || (!o.head_size && (width < heads || width % heads != 0)))
    fail("MultiHeadAttention", fmt::format("a width of {} does not divide into {} heads", width, heads), where);
  require_sound_size("MultiHeadAttention", Spec{Shape{width, width, 3}, f32, false, {}}, where);
}
int64_t checked_heads(std::optional<int64_t> width, int64_t heads, const MultiHeadAttentionOptions& o,
                      const Where& where) {
  checked_count("MultiHeadAttention", "heads", heads, where);
  if (width) check_width(*width, heads, o, where);
  const int64_t shared = o.kv_heads.value_or(heads);
  if (shared < 1 || heads % shared != 0)
    fail("MultiHeadAttention", fmt::format("{} heads are no multiple of {} kv_heads", heads, shared), where);
  require_fraction("MultiHeadAttention", "dropout", o.dropout, where);
  if (o.head_size) checked_count("MultiHeadAttention", "head_size", *o.head_size, where);
  if (o.value_size) checked_count("MultiHeadAttention", "value_size", *o.value_size, where);
  if (o.window) checked_count("MultiHeadAttention", "window", *o.window, where);
  return heads;
}
// The size of a head: 0 where it is not known yet.
int64_t size_of_head(std::optional<int64_t> width, int64_t heads, const MultiHeadAttentionOptions& o) {
  return o.head_size.value_or(width ? *width / heads : 0);
}
bool is_fused(const MultiHeadAttentionOptions& o, int64_t head_size, int64_t heads) {
  return o.fused && o.kv_heads.value_or(heads) == heads && o.value_size.value_or(head_size) == head_size;
}
std::optional<int64_t> product(int64_t heads, int64_t size) {
  return size > 0 ? std::optional(heads * size) : std::nullopt;
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
// attention(), with access to the probabilities.
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

MultiHeadAttention::MultiHeadAttention(std::optional<int64_t> width, int64_t heads_, const MultiHeadAttentionOptions& o,
                                       const Where& where)
    : name(o.name),
      heads(checked_heads(width, heads_, o, where)),
      causal(o.causal),
      options(o),
      kv_heads(o.kv_heads.value_or(heads)),
      head_size(size_of_head(width, heads, o)),
      value_size(o.value_size.value_or(head_size)),
      fused(is_fused(o, head_size, heads)),
      qkv(projection(o, width, product(3 * heads, head_size), fused, "qkv", where)),
      query(projection(o, {}, product(heads, head_size), !fused, "query", where)),
      key(projection(o, {}, product(kv_heads, head_size), !fused, "key", where)),
      value(projection(o, {}, product(kv_heads, value_size), !fused, "value", where)),
      output(projection(o, product(heads, value_size), width, true, "output", where)),
      relative(param(o.name, "relative", normal(0, 0.02), where, Kind::weight, o.relative.has_value())),
      width_(width) {}

MultiHeadAttention::Sizes MultiHeadAttention::sizes(const Tensor& queries, const Where& where) const {
  if (width_) return {*width_, head_size, value_size};
  const int64_t width = output.kernel.is_built() ? int64_t(output.kernel.shape().back())
                                                 : known_size(queries, -1, "MultiHeadAttention", where);
  check_width(width, heads, options, where);
  const int64_t head = head_size > 0 ? head_size : width / heads;
  return {width, head, value_size > 0 ? value_size : head};
}

Tensor MultiHeadAttention::fused_part(const Tensor& x, int64_t i, const Sizes& size, const Call& call,
                                      const Where& where) const {
  const int64_t n = heads * size.head;
  const Tensor in = call.in(x);
  const Tensor kernel =
      qkv.kernel({size_for(qkv.kernel, 0, 1, in, -1, "MultiHeadAttention", where), 3 * n}, call, where);
  const Tensor y = matmul(in, slice_axis(kernel, -1, i * n, (i + 1) * n), where);
  return split_heads(qkv.bias ? y + slice_axis(qkv.bias({3 * n}, call), -1, i * n, (i + 1) * n) : y, heads, size.head);
}
Tensor MultiHeadAttention::query_heads(const Tensor& x, const Sizes& n, const Call& call, const Where& where) const {
  if (fused) return fused_part(x, 0, n, call, where);
  return split_heads(sum_of(query, x, heads * n.head, call, where), heads, n.head);
}
KeyValueCache MultiHeadAttention::memory_heads(const Tensor& k, const Tensor& v, const Sizes& n, const Call& call,
                                               const Where& where) const {
  if (fused) return {fused_part(k, 1, n, call, where), fused_part(v, 2, n, call, where)};
  return {split_heads(sum_of(key, k, kv_heads * n.head, call, where), kv_heads, n.head),
          split_heads(sum_of(value, v, kv_heads * n.value, call, where), kv_heads, n.value)};
}
MultiHeadAttention::Projected MultiHeadAttention::project(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const Sizes& n, const Call& call, const Where& where) const {
  const Tensor queries = query_heads(q, n, call, where);
  const KeyValueCache memory = memory_heads(k, v, n, call, where);
  return {queries, memory.keys, memory.values};
}

Tensor MultiHeadAttention::bias(Dim queries, Dim keys, const AttentionInputs& in, const Call& call, DType scores_dtype,
                                const Where& where) const {
  const DType d = scores_dtype == f64 ? f64 : f32;  // what numbers are added up in
  Tensor mask = in.mask;
  if (in.key_padding.defined()) {
    if (!is_bool(in.key_padding.dtype()))
      fail("MultiHeadAttention", "key_padding is bool. got " + to_string(in.key_padding.spec()), where);
    mask = both(mask, expand_dims(in.key_padding, {-2, -3}), d);
  }
  if (options.alibi) mask = both(mask, alibi_bias(heads, keys), d);
  if (!options.window && !options.relative) return mask;
  // Key index minus query index; the last query is aligned with the last key.
  const Shape scores{queries, keys};
  const Tensor distance = iota(scores, 1) - (iota(scores, 0) + (Tensor(keys) - Tensor(queries)));
  if (options.window) mask = both(mask, less(abs(distance), *options.window), d);
  if (!options.relative) return mask;
  const RelativeBiasOptions& r = *options.relative;
  const Tensor table = relative({r.buckets, heads}, call, where);
  const Tensor rows = take(table, relative_buckets(distance, r.buckets, r.max_distance, r.bidirectional), Axis(0));
  return both(mask, moveaxis(rows, -1, 0), d);
}

Tensor MultiHeadAttention::attend(Projected p, KeyValueCache* cache, const AttentionInputs& in, const Sizes& n,
                                  const Call& call, const Where& where) const {
  if (options.rotary) {
    const Dim tokens = p.q.shape()[p.q.shape().size() - 2];
    Tensor at = in.positions.defined() ? in.positions : iota({tokens});
    if (!in.positions.defined() && cache && cache->keys.defined()) at = at + Tensor(cache->keys.dim(-2));
    if (at.ndim() > 1) at = expand_dims(at, -2);  // an axis for the heads
    p.q = rotary(p.q, at, *options.rotary), p.k = rotary(p.k, at, *options.rotary);
  }
  if (cache) {
    if (cache->keys.defined()) p.k = concat({cache->keys, p.k}, -2), p.v = concat({cache->values, p.v}, -2);
    *cache = {p.k, p.v};
  }
  const Dim queries = p.q.shape()[p.q.shape().size() - 2], keys = p.k.shape()[p.k.shape().size() - 2];
  Tensor mask = bias(queries, keys, in, call, p.q.dtype(), where);
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
  return sum_of(output, join_heads(mixed), n.width, call, where);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  const bool plain = fused && !options.rotary && !options.alibi && !options.relative && !options.window &&
                     !(options.dropout > 0 && call.training());
  const Sizes n = sizes(x, where);
  if (!plain) return run.give(attend(project(x, x, x, n, call, where), nullptr, {}, n, call, where));
  Shape joined = x.shape();
  joined.back() = 3;
  joined.push_back(heads);
  joined.push_back(n.head);
  const Tensor all_heads = sum_of(qkv, x, 3 * heads * n.head, call, where);
  const Tensor mixed = self_attention(reshape(all_heads, joined), {.causal = causal});
  Shape together = x.shape();
  together.back() = heads * n.head;
  return run.give(sum_of(output, reshape(mixed, together), n.width, call, where));
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
  const LayerRun run(this, scope_of(*this, name), where);
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2)
    fail("MultiHeadAttention", to_string(q.spec()) + " is not [..., tokens, width]", where);
  const Sizes n = sizes(q, where);
  return run.give(attend(project(q, k, v, n, call, where), nullptr, in, n, call, where));
}

Tensor MultiHeadAttention::decode(const Tensor& x, KeyValueCache& cache, const AttentionInputs& in, const Call& call,
                                  Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  const Sizes n = sizes(x, where);
  return run.give(attend(project(x, x, x, n, call, where), &cache, in, n, call, where));
}

KeyValueCache MultiHeadAttention::remember(const Tensor& keys, const Tensor& values, const Call& call,
                                           Where where) const {
  const CallerScope caller(where);
  const NameScope scope(name);
  if (keys.ndim() < 2 || values.ndim() < 2)
    fail("MultiHeadAttention", to_string(keys.spec()) + " is not [..., tokens, width]", where);
  return memory_heads(keys, values, sizes(keys, where), call, where);
}

Tensor MultiHeadAttention::recall(const Tensor& queries, const KeyValueCache& memory, const AttentionInputs& in,
                                  const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  if (queries.ndim() < 2) fail("MultiHeadAttention", to_string(queries.spec()) + " is not [..., tokens, width]", where);
  require_defined("MultiHeadAttention", memory.keys, "the memory", where);
  if (options.rotary) fail("MultiHeadAttention", "keys of a memory are not turned: recall() takes no rotary", where);
  const Sizes n = sizes(queries, where);
  return run.give(
      attend({query_heads(queries, n, call, where), memory.keys, memory.values}, nullptr, in, n, call, where));
}

}  // namespace rill::nn
