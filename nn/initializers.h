// First values of parameters. An Initializer makes an f32 tensor of a shape; random ones draw from the global
// generator, so that random::seed() repeats them.
#pragma once
#include <functional>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::nn {

using Initializer = std::function<Tensor(const Shape&)>;

// How many numbers go into an output of a layer with weights of this shape, and how many outputs a number goes into.
// Weights are [in, out] or, of convolutions, [space..., in, out].
struct Fans {
  double in, out;
};
Fans fans_of(const Shape& weights);

// Variance 2 / (in + out), as Keras' default (Glorot, Bengio: Understanding the difficulty of training deep feedforward
// neural networks, 2010): uniform in +-sqrt(6 / (in + out)), or normal.
Tensor glorot_uniform(const Shape& shape);
Tensor glorot_normal(const Shape& shape);
// Variance 2 / in, for layers before a relu (He et al.: Delving Deep into Rectifiers, 2015).
Tensor he_uniform(const Shape& shape);
Tensor he_normal(const Shape& shape);
// Variance 1 / in, for selu (LeCun et al.: Efficient BackProp, 1998).
Tensor lecun_uniform(const Shape& shape);
Tensor lecun_normal(const Shape& shape);

// Every element `value`; uniform in [low, high); Gaussian.
Initializer constant(double value);
Initializer uniform(double low, double high);
Initializer normal(double mean, double deviation);

}  // namespace rill::nn

#pragma GCC visibility pop
