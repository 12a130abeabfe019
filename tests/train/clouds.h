// A small classifier with a dropout and running statistics, and three clouds of points that it learns: for tests of training.
#pragma once
#include <utility>

#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/train.h"

namespace rill {

struct Net {
  nn::Dense hidden{8, {.activation = tanh}};
  nn::Dropout drop{0.25};
  nn::BatchNorm norm;
  nn::Dense out{3};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return out(norm(drop(hidden(x, call), call), call), call);
  }
};

// Three clouds of points.
inline std::pair<Tensor, Tensor> clouds(int64_t n = 60) {
  const Tensor y = arange(n) % 3;
  const Tensor centres = tensor({{0.f, 0.f}, {3.f, 0.f}, {0.f, 3.f}});
  return {take(centres, y, 0) + 0.5f * random::normal({n, 2}, {.key = random::Key(5)}), y};
}
inline auto batches() { return data::from_tensors(clouds()).shuffle(60, {.seed = 2}).batch(16); }

inline train::LoopOptions with(nn::Adam&& adam) {
  return {.loss = sparse_softmax_cross_entropy, .optimizer = std::move(adam), .metrics = {metrics::accuracy()}};
}

}  // namespace rill
