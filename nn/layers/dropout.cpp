// Noise while training.
#include "rill/nn/layers/dropout.h"

#include "rill/ops/option_checks.h"

namespace rill::nn {

Dropout::Dropout(double rate, std::string name, Where where) : rate(rate), name(std::move(name)) {
  require_fraction("Dropout", "rate", rate, where);
}

Tensor Dropout::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(dropout(call.in(x), rate, {.training = call.training()}));
}

}  // namespace rill::nn
