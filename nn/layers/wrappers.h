// Layers around a layer, which compute with another weight than it holds: nn::WeightNorm(nn::Dense(8)).
#pragma once
#include <string>
#include <utility>

#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// A layer with a Param `kernel` for its weights: Dense, the convolutions.
template <class L>
concept HasKernel = Layer<L> && requires(L l) {
  { l.kernel } -> std::convertible_to<const Param&>;
};

namespace impl {
// kernel / |kernel| * gain, with the norms of the vectors along the last axis, one for each output. The first call sets
// the gains to the norms of `weight`, whose value is `kernel`.
Tensor weight_normed(const Tensor& kernel, const Param& weight, const Param& gain);
// kernel over its largest singular value, as [..., out]: estimated from the left vector u, which training moves by
// `steps` steps of the power method.
Tensor spectral_normed(const Tensor& kernel, const Param& u, int64_t steps, double epsilon, const Call& call);
Param gain_of(const std::string& name, const Where& where);
Param left_vector_of(const std::string& name, const Where& where);
int64_t checked_steps_of_power(int64_t steps, const Where& where);
}  // namespace impl

// The layer with the direction and the norm of the weights of each output as separate parameters: the kernel is gain *
// kernel / |kernel| (Salimans, Kingma: Weight Normalization, 2016). Initially it is unchanged.
template <HasKernel L>
class WeightNorm {
 public:
  explicit WeightNorm(L layer, std::string name = "weight_norm", Where where = Where::current())
      : name(std::move(name)), layer(std::move(layer)), gain(impl::gain_of(this->name, where)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    const LayerRun run(this, name, where);
    L now = layer;
    now.kernel =
        layer.kernel.through([&](const Tensor& kernel) { return impl::weight_normed(kernel, layer.kernel, gain); });
    return run.give(now(x, call, where));
  }
  RILL_LAYER(WeightNorm, layer, gain)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  L layer;
  Param gain;  // [out]
};

struct SpectralNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t steps = 1;  // of the power method, at each call of training
  double epsilon = 1e-12;
  std::string name = "spectral_norm";
};
// The layer with its kernel, as a matrix [..., out], over its largest singular value (Miyato et al.: Spectral
// Normalization for Generative Adversarial Networks, 2018).
template <HasKernel L>
class SpectralNorm {
 public:
  // Throws unless there is at least one step.
  explicit SpectralNorm(L layer, const SpectralNormOptions& options = {}, Where where = Where::current())
      : options(options), layer(std::move(layer)), vector(impl::left_vector_of(options.name, where)) {
    impl::checked_steps_of_power(options.steps, where);
  }
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    const LayerRun run(this, options.name, where);
    L now = layer;
    now.kernel = layer.kernel.through([&](const Tensor& kernel) {
      return impl::spectral_normed(kernel, vector, options.steps, options.epsilon, call);
    });
    return run.give(now(x, call, where));
  }
  RILL_LAYER(SpectralNorm, layer, vector)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  SpectralNormOptions options;
  L layer;
  Param vector;  // [out], not trained
};

}  // namespace rill::nn

#pragma GCC visibility pop
