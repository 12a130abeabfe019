// Initializers: each is a distribution, given by a mean and a range or a standard deviation.
#include "rill/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "rill/nn/initial_matrices.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

Fans fans_of(const Shape& weights, int64_t groups) {
  if (weights.empty()) return {1, 1};
  if (weights.ndim() == 1) return {double(weights[0]), double(weights[0])};
  double space = 1;
  for (size_t d = 0; d + 2 < weights.size(); ++d) space *= double(weights[d]);
  return {space * double(weights[weights.size() - 2]), space * double(weights.back()) / double(groups)};
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

Initializer truncated_normal(double mean, double deviation) {
  return [mean, deviation](const Shape& shape) {
    return random::truncated_normal(shape, {.mean = mean, .stddev = deviation});
  };
}

Initializer variance_scaling(const VarianceScalingOptions& options, Where where) {
  require_option(options.scale > 0, "variance_scaling", "scale", options.scale, "above 0", where);
  return [=](const Shape& shape, const Fans& fans) {
    const double fan = options.mode == FanMode::in    ? fans.in
                       : options.mode == FanMode::out ? fans.out
                                                      : (fans.in + fans.out) / 2;
    const double variance = options.scale / std::max(1.0, fan);
    if (options.distribution == InitialDistribution::uniform) return uniform_of_variance(shape, variance);
    if (options.distribution == InitialDistribution::normal) return normal_of_variance(shape, variance);
    // The deviation of a normal distribution truncated at two of its own deviations.
    return truncated_normal(0, std::sqrt(variance) / 0.87962566103423978)(shape);
  };
}

Tensor at_centre(const Shape& kernel, const Tensor& matrix) {
  if (kernel.size() == 2) return matrix;
  int64_t windows = 1, centre = 0;
  for (size_t d = 0; d + 2 < kernel.size(); ++d) {
    const int64_t size = kernel[d];
    windows *= size;
    centre = centre * size + size / 2;
  }
  const Tensor here = reshape(arange(windows) == centre, {windows, 1, 1});
  return reshape(where(here, matrix, zeros_like(matrix)), kernel);
}

void require_matrix(std::string_view op, const Shape& shape) {
  if (shape.size() < 2) fail(op, "weights are of shape " + to_string(shape) + " and must have two axes or more");
}

Initializer identity(double gain) {
  return [gain](const Shape& shape) {
    require_matrix("identity", shape);
    const Tensor in = reshape(arange(shape[shape.size() - 2]), {-1, 1});
    return at_centre(shape, where(in == arange(shape.back()), tensor(float(gain)), tensor(0.f)));
  };
}

}  // namespace rill::nn
