// Metrics of numbers: errors, and how much of the labels' variance a model explains.
#include <fmt/format.h>

#include <limits>

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

// The weight; the mean of the labels and of the errors, and the sums of squared distances to it; the sum of squared
// errors. Squares of the labels themselves would lose the digits of a variance that is small beside their mean.
std::vector<Tensor> moments(const Tensor& p, const Tensor& y, const Tensor& w) {
  const Numbers n = numbers(p, y, w);
  const Tensor weight = sum(n.weight), error = n.label - n.prediction;
  std::vector<Tensor> all{weight};
  for (const Tensor& x : {n.label, error}) {
    const Tensor first = ratio(weighted_sum(x, n.weight), weight);
    const Tensor rest = ratio(weighted_sum(x - first, n.weight), weight);  // the rounding error of the first sum
    all.push_back(first + rest);
    all.push_back(weighted_sum(square(x - all.back()), n.weight));
  }
  all.push_back(weighted_sum(square(error), n.weight));
  return all;
}
// Joins two batches (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances,
// 1979).
std::vector<Tensor> joined_moments(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const Tensor weight = a[0] + b[0], part = ratio(b[0], weight);
  std::vector<Tensor> both{weight};
  for (const size_t mean : {1, 3}) {
    const Tensor apart = b[mean] - a[mean];
    both.push_back(a[mean] + apart * part);
    both.push_back(a[mean + 1] + b[mean + 1] + square(apart) * (a[0] * part));
  }
  both.push_back(a[5] + b[5]);
  return both;
}
// 1 - unexplained / all; if all is 0, 1 if nothing is unexplained and else 0, as in scikit-learn. NaN of no examples.
Tensor explained(const Tensor& unexplained, const Tensor& all, const Tensor& weight) {
  const Tensor part = rill::where(all == 0, (unexplained == 0).astype(f64), 1 - ratio(unexplained, all));
  return rill::where(weight == 0, std::numeric_limits<double>::quiet_NaN(), part);
}

}  // namespace

Metric mean_squared_error() { return mean_error("mean_squared_error", squared, false); }
Metric root_mean_squared_error() { return mean_error("root_mean_squared_error", squared, true); }
Metric mean_absolute_error() { return mean_error("mean_absolute_error", absolute, false); }

Metric r2() {
  return Metric(
      "r2", std::vector<Shape>(6), moments, [](const std::vector<Tensor>& s) { return explained(s[5], s[2], s[0]); },
      joined_moments);
}
Metric explained_variance() {
  return Metric(
      "explained_variance", std::vector<Shape>(6), moments,
      [](const std::vector<Tensor>& s) { return explained(s[4], s[2], s[0]); }, joined_moments);
}

Metric mean_of(std::string name, std::function<Tensor(const Tensor&, const Tensor&)> f, Where where) {
  if (!f) fail("mean_of", fmt::format("the function of '{}' is empty", name), where);
  return Metric(
      std::move(name), {{}, {}},
      [f = std::move(f)](const Tensor& p, const Tensor& y, const Tensor& weights) {
        const Tensor each = f(p, y).astype(f64);
        // A loss that returns one number is the same for every example of the batch.
        if (each.ndim() == 0 && p.ndim() > 0) {
          if (weights.defined())
            fail("mean_of",
                 "examples have weights, and the function gives one number for all of them. take one that gives a "
                 "number for each example");
          const Tensor n = sum(ones(Shape{p.dim(0)}, {.dtype = f64}));
          return std::vector{weighted_sum(each, n), n};  // the mean over an empty batch is NaN, and weighs nothing
        }
        const Tensor w = weights_like(weights, each);
        return std::vector{weighted_sum(each, w), sum(w)};
      },
      mean_of_sums, where);
}

}  // namespace rill::metrics
