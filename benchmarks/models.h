// The models that rows.cpp times and whose memory process.cpp measures: the same shapes, losses and updates as in
// peers/peer_*.py. Start at training().
#pragma once
#include <cmath>
#include <vector>

#include "rill/rill.h"

namespace bench {

using namespace rill;
using Parameters = std::vector<Variable>;

// Weights of variance 1 / fan-in; vectors are zeros. A convolution's weights are [height, width, in, out].
inline Parameters parameters(std::initializer_list<Shape> shapes) {
  Parameters result;
  for (const Shape& s : shapes) {
    if (s.size() == 1) {
      result.emplace_back(zeros(s));
      continue;
    }
    const int64_t fan_in = s.size() == 2 ? s[0] : s[0] * s[1] * s[2];
    result.emplace_back(random::normal(s) * float(1 / std::sqrt(double(fan_in))));
  }
  return result;
}

inline std::vector<Tensor> values_of(const Parameters& parameters) { return {parameters.begin(), parameters.end()}; }

inline Tensor labels(int n, int classes) { return arange(n) % classes; }

// One SGD step: the loss, its gradients, the update.
template <class Loss>
auto eager_training(Parameters params, float rate, Loss loss) {
  return [=](const Tensor& x, const Tensor& y) mutable {
    GradientTape tape;
    Tensor value = loss(params, x, y);
    std::vector<Tensor> grads = tape.gradient(value, params);
    for (size_t i = 0; i < params.size(); ++i) params[i].assign_sub(rate * grads[i]);
    return value;
  };
}
// The same, traced; of any lengths with `options`.
template <class Loss>
auto training(Parameters params, float rate, Loss loss, const FunctionOptions& options = {}) {
  return function("step", eager_training(std::move(params), rate, loss), options);
}

inline Tensor mean_cross_entropy(const Tensor& logits, const Tensor& y) {
  return mean(sparse_softmax_cross_entropy(logits, y));
}

inline Tensor dense(const Tensor& x, const Tensor& w, const Tensor& b) { return matmul(x, w) + b; }

inline auto train_tiny() {
  return training(parameters({{8, 16}, {16}, {16, 4}, {4}}), 0.1f,
                  [](const Parameters& p, const Tensor& x, const Tensor& y) {
                    return mean_cross_entropy(dense(tanh(dense(x, p[0], p[1])), p[2], p[3]), y);
                  });
}

// For Parameters, or their values in a std::vector<Tensor>.
inline constexpr auto mlp_loss = [](const auto& p, const Tensor& x, const Tensor& y) {
  Tensor h = relu(dense(x, p[0], p[1]));
  return mean_cross_entropy(dense(relu(dense(h, p[2], p[3])), p[4], p[5]), y);
};
inline Parameters mlp_parameters() { return parameters({{784, 512}, {512}, {512, 512}, {512}, {512, 10}, {10}}); }
inline auto train_mlp() { return training(mlp_parameters(), 0.01f, mlp_loss); }

inline constexpr auto cnn_loss = [](const auto& p, const Tensor& x, const Tensor& y) {
  Tensor h = max_pool(relu(conv(x, p[0], {.padding = "SAME"}) + p[1]), {2, 2});
  h = max_pool(relu(conv(h, p[2], {.padding = "SAME"}) + p[3]), {2, 2});
  h = relu(dense(h.reshape({x.dim(0), 3136}), p[4], p[5]));
  return mean_cross_entropy(dense(h, p[6], p[7]), y);
};
inline Parameters cnn_parameters() {
  return parameters({{5, 5, 1, 32}, {32}, {5, 5, 32, 64}, {64}, {3136, 1024}, {1024}, {1024, 10}, {10}});
}
inline auto train_cnn() { return training(cnn_parameters(), 0.01f, cnn_loss); }

// A pre-norm transformer block on x [batch, tokens, 256] with 8 causal heads.
inline constexpr auto block_loss = [](const auto& p, const Tensor& x, const Tensor&) {
  const Dim batch = x.dim(0), tokens = x.dim(1);
  Tensor qkv = dense(layer_norm(x, p[0], p[1]), p[2], p[3]).reshape({batch, tokens, 3, 8, 32});
  Tensor mixed = self_attention(qkv, {.causal = true}).reshape({batch, tokens, 256});
  Tensor h = x + dense(mixed, p[4], p[5]);
  Tensor wide = gelu(dense(layer_norm(h, p[6], p[7]), p[8], p[9]));
  return mean(square(h + dense(wide, p[10], p[11])));
};
inline Parameters block_parameters() {
  Parameters p = parameters(
      {{256}, {256}, {256, 768}, {768}, {256, 256}, {256}, {256}, {256}, {256, 1024}, {1024}, {1024, 256}, {256}});
  for (int i : {0, 6}) p[size_t(i)].assign(ones({256}));
  return p;
}
inline auto train_block() { return training(block_parameters(), 0.01f, block_loss); }

// 50 layers of tanh(h W), as many callables.
inline constexpr int deep_layers = 50;
inline Parameters deep_parameters() {
  Parameters p;
  for (int i = 0; i < deep_layers; ++i) p.emplace_back(random::normal({256, 256}) * 0.0625f);
  return p;
}
inline auto deep_chain(const Parameters& p) {
  const auto layer = [](const Variable& w) { return [w](const Tensor& h) { return tanh(matmul(h, w)); }; };
  std::vector<decltype(layer(p[0]))> chain;
  for (const Variable& w : p) chain.push_back(layer(w));
  return chain;
}

// An LSTM of width 128 over x [steps, batch, 128]: the mean square of its last state; gates in the order i, f, g, o.
inline Tensor lstm_loss(const Parameters& p, const Tensor& x, const Tensor&) {
  const Tensor none = zeros({x.dim(1), 128});
  const Tensor wide = matmul(x, p[0]) + p[2];  // all steps at once: only the recurrence is sequential
  auto [state, unused] = scan(
      [&](const std::pair<Tensor, Tensor>& s, const Tensor& step) {
        const std::vector<Tensor> gate = split(step + matmul(s.first, p[1]), 4, -1);
        const Tensor c = sigmoid(gate[1]) * s.second + sigmoid(gate[0]) * tanh(gate[2]);
        const Tensor h = sigmoid(gate[3]) * tanh(c);
        return std::pair(std::pair(h, c), h);
      },
      std::pair(none, none), wide);
  return mean(square(state.first));
}
inline Parameters lstm_parameters() { return parameters({{128, 512}, {128, 512}, {512}}); }

// The forces between bodies at x [n, 3] of masses m, by broadcasting.
inline Tensor forces(const Tensor& x, const Tensor& m) {
  const Tensor d = x(newaxis) - x(all, newaxis);
  const Tensor r2 = sum(d * d, -1) + 1e-3f;
  return sum(d * (m(newaxis) * rsqrt(r2) / r2)(all, all, newaxis), 1);
}

// A chain of n small ops.
inline Tensor long_chain(const Tensor& x, const Tensor& w, int n) {
  Tensor y = x;
  for (int i = 0; i < n / 4; ++i) y = tanh(y * 0.5f + w) - 0.1f;
  return y;
}

inline Tensor chain(const Tensor& x, const Tensor& y, const Tensor& z) { return tanh(x * y + z) * 0.5f + x; }

}  // namespace bench
