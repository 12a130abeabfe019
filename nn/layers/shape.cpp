// Layers that change a shape.
#include "rill/nn/layers/shape.h"

namespace rill::nn {

Tensor Flatten::operator()(const Tensor& x, const Call&, Where where) const {
  const LayerRun run(this, "", where);
  return run.give(flatten(x, 1, -1));
}

}  // namespace rill::nn
