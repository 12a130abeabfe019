// Layers around a layer.
#include "rill/nn/layers/wrappers.h"

#include "rill/nn/layers/common.h"
#include "rill/ops/apply.h"
#include "rill/ops/state/variable_state.h"

namespace rill::nn::impl {

namespace {
// [..., out] as a matrix.
Tensor as_matrix(const Tensor& kernel) { return reshape(kernel, {-1, kernel.dim(-1)}); }
Tensor unit(const Tensor& v, double epsilon) { return v / maximum(sqrt(sum(square(v))), epsilon); }
}  // namespace

Param gain_of(const std::string& name, const Where& where) { return param(name, "gain", constant(1), where); }
Param left_vector_of(const std::string& name, const Where& where) {
  return param(name, "vector", normal(0, 1), where, Kind::statistic);
}
int64_t checked_steps_of_power(int64_t steps, const Where& where) {
  return checked_count("SpectralNorm", "steps", steps, where);
}

Tensor weight_normed(const Tensor& kernel, const Param& weight, const Param& gain) {
  const Tensor w = as_matrix(kernel);
  if (!gain.is_built()) {
    const EagerScope eager;  // first values are no part of a graph, nor of a tape
    const PauseTapes pause;
    Variable(gain).build(sqrt(sum(square(as_matrix(weight.value())), {0})));
  }
  const Tensor length = sqrt(sum(square(w), {0})), none = length == 0;
  return kernel * (gain.value() / rill::where(none, 1, length)).astype(kernel.dtype());
}

Tensor spectral_normed(const Tensor& kernel, const Param& u, int64_t steps, double epsilon, const Call& call) {
  const Tensor w = as_matrix(kernel), still = stop_gradient(w);
  u.make({kernel.dim(-1)});
  Tensor right = unit(u.value().astype(w.dtype()), epsilon), left = unit(matmul(still, right), epsilon);
  if (call.training() && !u.state().frozen) {
    for (int64_t i = 0; i < steps; ++i) {
      right = unit(matmul(left, still), epsilon);
      left = unit(matmul(still, right), epsilon);
    }
    Variable(u).assign(stop_gradient(right).astype(u.dtype()));
  }
  return kernel / sum(stop_gradient(left) * matmul(w, stop_gradient(right)));
}

}  // namespace rill::nn::impl
