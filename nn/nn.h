// Layers, initializers and optimizers. They only use the public headers: a layer of your own needs no more than these
// have.
//
//   nn::Sequential model(nn::Dense(784, 128, {.activation = relu}), nn::Dense(128, 10));
//   nn::Adam adam({.learning_rate = 1e-3});
//   auto step = function("step", [&](const Tensor& x, const Tensor& labels) {
//     GradientTape tape;
//     Tensor loss = mean(sparse_softmax_cross_entropy(model(x, nn::Mode::training), labels));
//     adam.apply_gradients(tape.gradient(loss, model.parameters()), model.parameters());
//     return loss;
//   });
#pragma once
#include "rill/tensor/compiler.h"

#include "rill/nn/initializers.h"
#include "rill/nn/layers.h"
#include "rill/nn/model.h"
#include "rill/nn/optimizers.h"
