// Layers that change a shape.
#pragma once
#include "rill/nn/layer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// [batch, ...] to [batch, all the rest].
class Flatten {
 public:
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Flatten)
};

}  // namespace rill::nn

#pragma GCC visibility pop
