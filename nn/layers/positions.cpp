// Layers that encode the positions of tokens.
#include "rill/nn/layers/positions.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"

namespace rill::nn {

namespace {
Dim tokens_of(const Tensor& x, const char* layer, const Where& where) {
  if (x.ndim() < 2) fail(layer, to_string(x.spec()) + " is not [..., tokens, width]", where);
  return x.shape()[size_t(x.ndim() - 2)];
}
}  // namespace

Tensor SinusoidalPositions::operator()(const Tensor& x, const Call& call, Where where) const {
  return operator()(x, iota({tokens_of(x, "SinusoidalPositions", where)}), call, where);
}
Tensor SinusoidalPositions::operator()(const Tensor& x, const Tensor& positions, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, "positions"), where);
  tokens_of(x, "SinusoidalPositions", where);
  const Tensor in = call.in(x);
  SinusoidOptions o = options;
  o.dtype = is_floating(in.dtype()) ? in.dtype() : f32;
  return run.give(in + sinusoids(positions, known_size(in, -1, "SinusoidalPositions", where), o, where));
}

LearnedPositions::LearnedPositions(int64_t n, const LearnedPositionsOptions& o, Where where)
    : name(o.name),
      count(checked_count("LearnedPositions", "count", n, where)),
      table(param(name, "table", o.initializer, where)) {}

Tensor LearnedPositions::operator()(const Tensor& x, const Call& call, Where where) const {
  const Dim tokens = tokens_of(x, "LearnedPositions", where);
  if (!tokens.is_open() && int64_t(tokens) > count)
    fail("LearnedPositions",
         fmt::format("{} has {} tokens, and there are {} positions", to_string(x.spec()), int64_t(tokens), count),
         where);
  return operator()(x, iota({tokens}), call, where);
}
Tensor LearnedPositions::operator()(const Tensor& x, const Tensor& positions, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  tokens_of(x, "LearnedPositions", where);
  const Tensor in = call.in(x);
  const Tensor rows = table({count, size_for(table, -1, 1, in, -1, "LearnedPositions", where)}, call);
  return run.give(in + take(rows, positions, Axis(0)));
}

}  // namespace rill::nn
