// Activations that have parameters.
#include "rill/nn/layers/activations.h"

#include "rill/nn/layers/common.h"

namespace rill::nn {

PReLU::PReLU(int64_t channels, const PReLUOptions& options, Where where)
    : options(options), slope(param(options.name, "slope", constant(options.slope), where)) {
  CallerScope caller(where);
  slope.make({channels});
}

Tensor PReLU::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  return run.give(prelu(call.in(x), slope(slope.shape(), call)));
}

}  // namespace rill::nn
