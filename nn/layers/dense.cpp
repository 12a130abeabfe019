// The dense layer.
#include "rill/nn/layers/dense.h"

#include "rill/nn/layers/common.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

Dense::Dense(int64_t out, const DenseOptions& o, Where where)
    : name(o.name),
      out(checked_count("Dense", "out", out, where)),
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation) {}

Dense::Dense(int64_t in, int64_t out, const DenseOptions& o, Where where) : Dense(out, o, where) {
  require_option(in >= 0, "Dense", "in", in, "0 or more", where);
  CallerScope caller(where);
  kernel.make({in, out});
  if (bias) bias.make({out});
}

Tensor Dense::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  const Tensor in = call.in(x);
  return run.give(finish(matmul(in, kernel({size_for(kernel, 0, 1, in, -1, "Dense", where), out}, call)), bias,
                         activation, call, where));
}

}  // namespace rill::nn
