// The rows fit_*: the cost of the training loop. Each in its own process; run.py starts it and reads the JSON line.
//   --overhead       what fit() adds to a step of train_tiny
//   --digits FOLDER  a network for digits up to 97 % on the thousand; prints the clock, which run.py read before it started us
//   --small FOLDER   an epoch of digits in batches of 8
#include <cstdio>
#include <cstring>
#include <string>

#include "answer.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/train.h"

using namespace rill;

static void answer(const char* row, const char* key, double value) {
  std::printf("{\"row\": \"%s\", \"peer\": \"rill\", \"%s\": %.4f}\n", row, key, value);
}

static void overhead() {
  const Tensor x = random::normal({16, 8}), y = arange(16) % 4;
  const auto network = [] { return nn::Sequential(nn::Dense(16, {.activation = tanh}), nn::Dense(4)); };
  const nn::Sequential bare = network();
  bare(x);
  const std::vector<Variable> parameters = bare.parameters();
  nn::SGD sgd({.learning_rate = 0.1});
  auto step = function("step", [&](const Tensor& a, const Tensor& b) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(bare(a, nn::Mode::training), b));
    sgd.apply_gradients(tape.gradient(loss, parameters), parameters);
    return loss;
  });
  const double of_step = bench::median_us([&](int times) {
    for (int i = 0; i < times; ++i) step(x, y);
  });

  nn::Sequential net = network();
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0.1})});
  constexpr int steps = 20000;
  const auto batches = data::range(steps).map([&](int64_t) { return std::pair(x, y); });
  const double of_fit = bench::median_us([&](int times) { loop.fit(batches, {.epochs = times, .progress = false}); });
  answer("fit_overhead", "median_us", of_fit / steps - of_step);
}

static data::Dataset<std::pair<Tensor, Tensor>> digits(const Tensor& images, const Tensor& labels) {
  return data::from_tensors(std::pair(expand_dims(images.astype(f32) / 255, -1), labels));
}

static void first_digits(const std::string& folder) {
  const data::Mnist mnist = data::load_mnist(folder);
  nn::Sequential net(nn::Conv2D(32, {5}, {.padding = "same", .activation = relu}), nn::MaxPool2D({2}),
                     nn::Conv2D(64, {5}, {.padding = "same", .activation = relu}), nn::MaxPool2D({2}), nn::Flatten(),
                     nn::Dense(256, {.activation = relu}), nn::Dense(10));
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy,
                         .optimizer = nn::Adam({.learning_rate = 1e-3}),
                         .metrics = {metrics::accuracy()}});
  const train::History h = loop.fit(digits(mnist.train_images, mnist.train_labels).shuffle().batch(64),
                                    {.epochs = 20,
                                     .validation = digits(mnist.test_images, mnist.test_labels).batch(250),
                                     .progress = false,
                                     .callbacks = {train::each_epoch([](train::Run& run) {
                                       if (run.logs.at("val_accuracy") >= 0.97) run.stop("reached");
                                     })}});
  answer("fit_digits", "clock_us", h.stopped().empty() ? 0 : bench::clock_us());
}

static void small_batches(const std::string& folder) {
  const data::Mnist mnist = data::load_mnist(folder);
  nn::Sequential net(nn::Flatten(), nn::Dense(64, {.activation = relu}), nn::Dense(10));
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy,
                         .optimizer = nn::Adam({.learning_rate = 1e-3}),
                         .metrics = {metrics::accuracy()}});
  const auto batches = digits(mnist.train_images, mnist.train_labels).shuffle().batch(8);
  answer("fit_small_batches", "median_us",
         bench::median_us([&](int times) { loop.fit(batches, {.epochs = times, .progress = false}); }));
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", folder = argc > 2 ? argv[2] : "";
  if (mode == "--overhead") return overhead(), 0;
  if (mode == "--digits" && argc > 2) return first_digits(folder), 0;
  if (mode == "--small" && argc > 2) return small_batches(folder), 0;
  std::fprintf(stderr, "usage: %s --overhead | --digits FOLDER | --small FOLDER\n", argv[0]);
  return 1;
}
