// Metrics of numbers: errors, and how much of the labels' variance a model explains.
#include <fmt/format.h>

#include "rill/nn/metrics.h"
#include "rill/nn/metrics/inputs.h"

namespace rill::metrics {

namespace {

struct Numbers {
  Tensor prediction, label, weight;  // f64 of one shape
};
Numbers numbers(const Tensor& prediction, const Tensor& labels, const Tensor& weights) {
  const Tensor p = without_last_one(prediction, labels.ndim()), y = without_last_one(labels, p.ndim());
  if (p.shape() != y.shape())
    fail("metric", fmt::format("the prediction is {} and the labels are {}: both have one shape",
                               to_string(prediction.spec()), to_string(labels.spec())));
  return {p.astype(f64), y.astype(f64), weights_like(weights, y)};
}

Metric mean_error(std::string name, Tensor (*of)(const Tensor& error), bool root) {
  return Metric(
      std::move(name), {{}, {}},
      [of](const Tensor& p, const Tensor& y, const Tensor& w) {
        const Numbers n = numbers(p, y, w);
        return std::vector{weighted_sum(of(n.prediction - n.label), n.weight), sum(n.weight)};
      },
      [root](const std::vector<Tensor>& sums) {
        const Tensor mean = mean_of_sums(sums);
        return root ? sqrt(mean) : mean;
      });
}
Tensor squared(const Tensor& e) { return square(e); }
Tensor absolute(const Tensor& e) { return abs(e); }

// Of the labels: their weight, sum and sum of squares; of the errors: sum and sum of squares.
std::vector<Tensor> moments(const Tensor& p, const Tensor& y, const Tensor& w) {
  const Numbers n = numbers(p, y, w);
  const Tensor error = n.label - n.prediction;
  return {sum(n.weight), weighted_sum(n.label, n.weight), weighted_sum(square(n.label), n.weight),
          weighted_sum(error, n.weight), weighted_sum(square(error), n.weight)};
}
// Sum of the squares of what differs from the mean.
Tensor spread(const Tensor& n, const Tensor& sum, const Tensor& squares) { return squares - square(sum) / n; }
// 1 - unexplained / all; where all is 0, 1 if nothing is left unexplained and else 0, as scikit-learn has it.
Tensor explained(const Tensor& unexplained, const Tensor& all) {
  return rill::where(all == 0, (unexplained == 0).astype(f64), 1 - ratio(unexplained, all));
}

}  // namespace

Metric mean_squared_error() { return mean_error("mean_squared_error", squared, false); }
Metric root_mean_squared_error() { return mean_error("root_mean_squared_error", squared, true); }
Metric mean_absolute_error() { return mean_error("mean_absolute_error", absolute, false); }

Metric r2() {
  return Metric("r2", std::vector<Shape>(5), moments,
                [](const std::vector<Tensor>& s) { return explained(s[4], spread(s[0], s[1], s[2])); });
}
Metric explained_variance() {
  return Metric("explained_variance", std::vector<Shape>(5), moments, [](const std::vector<Tensor>& s) {
    return explained(spread(s[0], s[3], s[4]), spread(s[0], s[1], s[2]));
  });
}

Metric mean_of(std::string name, std::function<Tensor(const Tensor&, const Tensor&)> f, Where where) {
  if (!f) fail("mean_of", fmt::format("the function of '{}' is empty", name), where);
  return Metric(
      std::move(name), {{}, {}},
      [f = std::move(f)](const Tensor& p, const Tensor& y, const Tensor& weights) {
        const Tensor each = f(p, y).astype(f64);
        // A loss that gives one number stands for every example of the batch.
        if (each.ndim() == 0) {
          const Tensor n = p.ndim() == 0 ? tensor(1.) : sum(ones(Shape{p.dim(0)}, {.dtype = f64}));
          return std::vector{each * n, n};
        }
        const Tensor w = weights_like(weights, each);
        return std::vector{weighted_sum(each, w), sum(w)};
      },
      mean_of_sums, where);
}

}  // namespace rill::metrics
