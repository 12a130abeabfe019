// Initializers: each is a distribution, given by a mean and a range or a standard deviation.
#include "rill/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "rill/ops/ops.h"

namespace rill::nn {

Fans fans_of(const Shape& weights) {
  if (weights.empty()) return {1, 1};
  if (weights.ndim() == 1) return {double(weights[0]), double(weights[0])};
  double space = 1;
  for (size_t d = 0; d + 2 < weights.size(); ++d) space *= double(weights[d]);
  return {space * double(weights[weights.size() - 2]), space * double(weights.back())};
}

namespace {
Tensor uniform_of_variance(const Shape& shape, double variance) {
  const double limit = std::sqrt(3 * variance);
  return uniform(-limit, limit)(shape);
}
Tensor normal_of_variance(const Shape& shape, double variance) { return normal(0, std::sqrt(variance))(shape); }
double glorot(const Fans& fans) { return 2 / std::max(1.0, fans.in + fans.out); }
double per_input(const Fans& fans) { return 1 / std::max(1.0, fans.in); }
}  // namespace

Tensor glorot_uniform(const Shape& shape, const Fans& fans) { return uniform_of_variance(shape, glorot(fans)); }
Tensor glorot_normal(const Shape& shape, const Fans& fans) { return normal_of_variance(shape, glorot(fans)); }
Tensor he_uniform(const Shape& shape, const Fans& fans) { return uniform_of_variance(shape, 2 * per_input(fans)); }
Tensor he_normal(const Shape& shape, const Fans& fans) { return normal_of_variance(shape, 2 * per_input(fans)); }
Tensor lecun_uniform(const Shape& shape, const Fans& fans) { return uniform_of_variance(shape, per_input(fans)); }
Tensor lecun_normal(const Shape& shape, const Fans& fans) { return normal_of_variance(shape, per_input(fans)); }

Initializer constant(double value) {
  return [value](const Shape& shape) { return full(shape, value, {.dtype = f32}); };
}
Initializer uniform(double low, double high) {
  return [low, high](const Shape& shape) { return random::uniform(shape, {.low = low, .high = high}); };
}
Initializer normal(double mean, double deviation) {
  return [mean, deviation](const Shape& shape) { return random::normal(shape, {.mean = mean, .stddev = deviation}); };
}

}  // namespace rill::nn
