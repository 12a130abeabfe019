// Activations that have parameters.
#include "rill/nn/layers/activations.h"

#include "rill/nn/layers/common.h"

namespace rill::nn {

namespace {
// For one parameter, or one for each index of the last axis.
Shape shape_of_slopes(bool each_channel, const Tensor& x, std::string_view type, const Where& where) {
  return {each_channel ? known_size(x, -1, type, where) : 1};
}
}  // namespace

PReLU::PReLU(const PReLUOptions& options, Where where)
    : options(options), slope(param(options.name, "slope", constant(options.slope), where)) {}

PReLU::PReLU(int64_t channels, const PReLUOptions& options, Where where) : PReLU(options, where) {
  if (options.each_channel) fail("PReLU", "each_channel finds the number of channels: give one or the other", where);
  CallerScope caller(where);
  slope.make({channels});
}

Tensor PReLU::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  const Shape shape = slope.is_built() ? slope.shape() : shape_of_slopes(options.each_channel, in, "PReLU", where);
  return run.give(prelu(in, slope(shape, call)));
}

Swish::Swish(const SwishOptions& options, Where where)
    : options(options), beta(param(options.name, "beta", constant(options.beta), where)) {}

Tensor Swish::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, options.name), where);
  const Tensor in = call.in(x);
  return run.give(in * sigmoid(in * beta(shape_of_slopes(options.each_channel, in, "Swish", where), call)));
}

namespace {
Dense sums_of(int64_t out, int64_t pieces, const MaxoutOptions& o, const Where& where) {
  const int64_t all = checked_count("Maxout", "out", out, where) * checked_count("Maxout", "pieces", pieces, where);
  const NameScope scope(o.name);
  return Dense(all, {.use_bias = o.use_bias, .kernel_initializer = o.kernel_initializer, .name = "sums"}, where);
}
}  // namespace

Maxout::Maxout(int64_t out, int64_t pieces, const MaxoutOptions& o, Where where)
    : name(o.name), out(out), pieces(pieces), sums(sums_of(out, pieces, o, where)) {}

Tensor Maxout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  return run.give(max(unflatten(sums(x, call, where), -1, {out, pieces}), {-1}));
}

}  // namespace rill::nn
