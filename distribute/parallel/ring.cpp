// See ring.h.
#include "rill/distribute/parallel/ring.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "rill/autodiff/recompute.h"
#include "rill/distribute/async.h"
#include "rill/distribute/parallel/parts.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

namespace {

constexpr std::string_view ring_op = "ring_attention";

// softmax(scores) v over the keys so far, without the division: the largest score, the sum of exp(score - largest), and
// the same of each times its value. [..., queries, 1] and [..., queries, e].
struct SoftmaxSoFar {
  Tensor largest, sum, values;
};

// Adds one block of keys. `seen` [queries, keys] if some are masked. Scores are not kept for the way back.
SoftmaxSoFar with_block(const SoftmaxSoFar& before, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& seen, double scale) {
  const auto step = recompute([scale](const Tensor& largest, const Tensor& sum, const Tensor& values, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& seen) {
    const Tensor scores = rill::where(seen, matmul(q, swapaxes(k, -1, -2)) * scale,
                                      full({}, -std::numeric_limits<double>::infinity(), q.dtype()));
    // The result does not depend on it, so it has no gradient.
    const Tensor now = stop_gradient(maximum(largest, max(scores, {-1}, true)));
    const Tensor p = exp(scores - now), shrinks = exp(largest - now);
    return std::tuple(now, sum * shrinks + rill::sum(p, {-1}, true), values * shrinks + matmul(p, v));
  });
  auto [largest, sum, values] = step(before.largest, before.sum, before.values, q, k, v, seen);
  return {largest, sum, values};
}

// A block of which no query attends to a key changes nothing. The result depends on its keys and values all the same,
// with a gradient of zeros: on the way back they go around the ring on all ranks, or on none. No sum is below 0.
SoftmaxSoFar without_block(const SoftmaxSoFar& before, const Tensor& k, const Tensor& v) {
  const Tensor never = sum(k, {-1}, true) + sum(v, {-1}, true);
  return {before.largest, rill::where(before.sum < 0, never, before.sum), before.values};
}

void check_tokens(const Tensor& q, const Tensor& k, const Tensor& v, const Where& where) {
  const char* names[] = {"q", "k", "v"};
  const Tensor* all_three[] = {&q, &k, &v};
  for (int i = 0; i < 3; ++i) {
    require_defined(ring_op, *all_three[i], names[i], where);
    if (!is_floating(all_three[i]->dtype()) || all_three[i]->ndim() < 2)
      fail(ring_op,
           fmt::format("{} is {}, and must be floating, [..., tokens, d]", names[i], to_string(all_three[i]->spec())),
           where);
  }
  const bool fit = k.ndim() == v.ndim() && q.shape() == k.shape() && k.dim(-2) == v.dim(-2);
  if (!fit)
    fail(ring_op,
         fmt::format("q is {}, k {} and v {}. q and k must have one shape, and v as many tokens", to_string(q.spec()),
                     to_string(k.spec()), to_string(v.spec())),
         where);
}

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingAttentionOptions& options,
                      Where where) {
  CallerScope caller(where);
  check_tokens(q, k, v, where);
  const Group& group = options.group;
  const int64_t n = group.size(where), me = group.rank(where);
  const DType wide = is_half(q.dtype()) ? f32 : q.dtype();
  const double scale = options.scale.value_or(1 / std::sqrt(double(int64_t(q.dim(-1)))));
  const Dim tokens = q.shape()[q.shape().size() - 2];
  const Tensor query = q.astype(wide), place = iota({tokens});
  const Tensor none_yet = zeros_like(sum(query, {-1}, true));
  Tensor keys = k.astype(wide), values = v.astype(wide);
  SoftmaxSoFar now{none_yet + -std::numeric_limits<double>::infinity(), none_yet, zeros_like(values)};
  for (int64_t step = 0; step < n; ++step) {
    // They are tokens of an earlier rank, or this rank's own, where each attends to itself.
    const int64_t from = (me - step + n) % n;
    Pending next_keys, next_values;
    if (step + 1 < n)
      next_keys = start_rotate(keys, 1, group, where), next_values = start_rotate(values, 1, group, where);
    const bool later = options.causal && from > me;
    const Tensor seen = options.causal && from == me ? expand_dims(place, -1) >= place : full({1, 1}, true);
    now = later ? without_block(now, keys, values) : with_block(now, query, keys, values, seen, scale);
    if (step + 1 < n) keys = next_keys.wait(where), values = next_values.wait(where);
  }
  return (now.values / now.sum).astype(q.dtype());
}

namespace {

size_t checked_axis(std::string_view op, const Tensor& x, Axis axis, const Where& where) {
  require_defined(op, x, "x", where);
  const int64_t a = int64_t(axis), ndim = x.ndim();
  if (a < -ndim || a >= ndim) fail(op, fmt::format("there is no axis {} in {}", a, to_string(x.spec())), where);
  return size_t(a < 0 ? a + ndim : a);
}

}  // namespace

Tensor gather_tokens(const Tensor& part, Axis axis, const Group& group, Where where) {
  CallerScope caller(where);
  const size_t a = checked_axis("gather_tokens", part, axis, where);
  return joined_parts(part, a, group, where);  // its rule is the sum over ranks, of which this one gets its part
}

Tensor scatter_tokens(const Tensor& whole, Axis axis, const Group& group, Where where) {
  CallerScope caller(where);
  const size_t a = checked_axis("scatter_tokens", whole, axis, where);
  return summed_part(whole, a, group, where);
}

}  // namespace rill::distribute
