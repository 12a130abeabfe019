// All layers. A layer is a plain value with parameters and a call; what one is, and how to write one: layer.h.
#pragma once
#include "rill/nn/layers/activations.h"
#include "rill/nn/layers/attention.h"
#include "rill/nn/layers/conv.h"
#include "rill/nn/layers/conv_transpose.h"
#include "rill/nn/layers/dense.h"
#include "rill/nn/layers/dropout.h"
#include "rill/nn/layers/embedding.h"
#include "rill/nn/layers/experts.h"
#include "rill/nn/layers/norm.h"
#include "rill/nn/layers/padding.h"
#include "rill/nn/layers/pool.h"
#include "rill/nn/layers/positions.h"
#include "rill/nn/layers/recurrent.h"
#include "rill/nn/layers/shape.h"
#include "rill/nn/layers/transformer.h"
#include "rill/nn/layers/wrappers.h"
#include "rill/nn/sequential.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// torch's names: neither compiles, and each names its counterpart.
template <class... A>
struct Linear {
  static_assert(sizeof...(A) > 99, "nn::Linear(in, out) is written nn::Dense(in, out)");
  Linear(A...);
};
template <class... A>
struct ReLU {
  static_assert(sizeof...(A) > 99, "nn::ReLU() is written relu: nn::Sequential(nn::Dense(2, 3), relu)");
  ReLU(A...);
};

}  // namespace rill::nn

#pragma GCC visibility pop
