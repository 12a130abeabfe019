// Sunspots of the next year from those of the twelve years before, 1700 to 1920 to train on, 1921 to 1955 to test: the
// series on which networks and statistics were first compared. The error is the mean square divided by the variance of
// the complete series. Next to it is that of a linear autoregression of the same order, fitted here by least squares.
#include "example.h"

using namespace rill;

namespace {

constexpr int64_t order = 12;

// Rows of `order` years, and the year after each, for the years from `begin` to before `end`.
std::pair<Tensor, Tensor> windows(const Tensor& series, int64_t begin, int64_t end) {
  const Tensor at = expand_dims(arange(begin - order, end - order), 1) + arange(order);
  return {take(series, at, 0), expand_dims(series(slice(begin, end)), 1)};
}

double relative_variance(const Tensor& prediction, const Tensor& target, double variance) {
  return mean(square(prediction - target)).item<double>() / variance;
}

}  // namespace

static void run() {
  const Table table = data::csv(example::data_file("sunspots.csv")).table();
  const Tensor years = table.at("sunspots").astype(f32)(slice(0, 280));  // to 1979, as in the original comparison
  const Tensor series = years / 100;
  const double variance = var(series).item<double>();
  const auto [x, y] = windows(series, order, 221);
  const auto [x_test, y_test] = windows(series, 221, 256);

  // The mean of several networks, each with its own initial weights.
  const int64_t members = example::quick ? 1 : 5;
  Tensor network = zeros(y_test.shape());
  for (int64_t i = 0; i < members; ++i) {
    nn::Sequential net(nn::Dense(8, {.activation = tanh}), nn::Dense(1));
    train::Loop loop(
        net, {.loss = mean_squared_error, .optimizer = nn::AdamW({.learning_rate = 3e-3, .weight_decay = 0.05})});
    loop.fit(data::from_tensors(std::pair(x, y)).shuffle({.seed = 1}).batch(32),
             {.epochs = example::quick ? 2 : 400, .progress = false});
    network = network + loop.predict(data::from_tensors(x_test).batch(64)) / float(members);
  }

  const auto with_one = [](const Tensor& a) { return concat({a, ones({a.dim(0), 1})}, 1); };
  const Tensor linear = matmul(with_one(x_test), linalg::lstsq(with_one(x), y).solution);
  const double error = relative_variance(network, y_test, variance);
  example::print(
      "relative variance, 1921 to 1955", error,
      "linear autoregression: " + std::to_string(relative_variance(linear, y_test, variance)).substr(0, 6) +
          ", the year before: " +
          std::to_string(relative_variance(x_test(all, slice(order - 1, order)), y_test, variance)).substr(0, 6));
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
