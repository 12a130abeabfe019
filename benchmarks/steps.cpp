// The rows step_* and adam_200: steps of training of networks made of layers (rill/nn.h, examples/models), traced.
// peers/ holds the same work in other libraries.
#include <benchmark/benchmark.h>

#include "../examples/models/resnet.h"
#include "../examples/models/vit.h"
#include "models.h"
#include "row.h"

using namespace rill;
using benchmark::State;

namespace {

const nn::Call plain = nn::Mode::training, half{.mode = nn::Mode::training, .compute = bf16};

template <class Step, class... X>
void loop(State& state, const Step& step, const X&... x) {
  step(x...);  // traces and compiles
  for (auto _ : state) {
    auto result = step(x...);
    benchmark::DoNotOptimize(result);
  }
}

// A step of Adam on the mean cross entropy of model(x).
template <class Model>
void step_of(State& state, Model model, const Tensor& x, int64_t classes, const nn::Call& call) {
  nn::build(model, x);
  const NamedVariables all = variables(model);
  nn::Adam adam;
  const auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = bench::mean_cross_entropy(model(x, call).astype(f32), y);
    adam.minimize(loss, tape, all);
    return loss;
  });
  loop(state, step, x, bench::labels(int(x.dim(0)), int(classes)));
}

// Reads 64 steps of 128 numbers, and says what it was from the last state.
struct Reader {
  nn::LSTM lstm{128, {.return_sequences = false}};
  nn::Dense head{10};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return head(lstm(x, call), call); }
};

void step_resnet18(State& state, const nn::Call& call) {
  step_of(state, models::resnet18(10), random::normal({64, 32, 32, 3}), 10, call);
}
void step_lstm(State& state, const nn::Call& call) {
  step_of(state, Reader(), random::normal({32, 64, 128}), 10, call);
}
void step_vit(State& state, const nn::Call& call) {
  step_of(state, models::ViT({.image = 32, .patch = 4, .classes = 10}), random::normal({16, 32, 32, 3}), 10, call);
}

void adam_200(State& state) {
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;
  for (int i = 0; i < 200; ++i) {
    const Shape shape = i % 2 ? Shape{64} : Shape{16, 16};
    parameters.emplace_back(random::normal(shape), "p" + std::to_string(i));
    gradients.push_back(random::normal(shape));
  }
  nn::Adam adam;
  const auto step = function("adam", [&](const std::vector<Tensor>& gradients) {
    adam.apply_gradients(gradients, parameters);
    return adam.iterations().value();
  });
  loop(state, step, gradients);
}

ROW(step_resnet18, step_resnet18(state, plain));
ROW(step_resnet18_bf16, step_resnet18(state, half));
ROW(step_lstm, step_lstm(state, plain));
ROW(step_lstm_bf16, step_lstm(state, half));
ROW(step_vit, step_vit(state, plain));
ROW(step_vit_bf16, step_vit(state, half));
ROW(adam_200, adam_200(state));

}  // namespace

BENCHMARK_MAIN();
