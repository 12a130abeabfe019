// Mixture of experts.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct MixtureOfExpertsOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t top = 2;        // experts that a token is sent to
  bool normalize = true;  // their weights sum to 1
  // An expert processes at most factor * tokens * top / experts tokens, the first ones; for the others it returns 0.
  std::optional<double> capacity = {};
  // An expert only computes its own tokens: as many rows as its capacity or, without one, as the fullest expert (in a
  // traced function: as the number of tokens). Otherwise all experts compute all tokens, which is faster for few.
  bool sparse = false;
  Activation activation = static_cast<Tensor (*)(const Tensor&, Where)>(relu);
  Initializer kernel_initializer = glorot_uniform;
  std::string name = "experts";
};
struct RoutedTokens {
  Tensor output;
  // Experts times the sum over experts of the fraction of tokens sent there first and its mean probability: 1 if all
  // get equally many (Fedus et al.: Switch Transformers, 2021). Added to the loss, times 0.01 say.
  Tensor balance;
};
// Each token is the sum of the results of its `top` experts by the router's probabilities, weighted by them: [...,
// width] to the same. An expert is up, activation, down.
class MixtureOfExperts {
 public:
  MixtureOfExperts(int64_t experts, int64_t hidden, const MixtureOfExpertsOptions& options = {},
                   Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return route(x, call, where).output;
  }
  RoutedTokens route(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MixtureOfExperts, router, up, up_bias, down, down_bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t experts, hidden;
  MixtureOfExpertsOptions options;
  Param router;           // [width, experts]
  Param up, up_bias;      // [experts, width, hidden], [experts, 1, hidden]
  Param down, down_bias;  // [experts, hidden, width], [experts, 1, width]

 private:
  Tensor each(const Tensor& rows, int64_t width, const Call& call) const;
  Dim room_for(const Tensor& taken) const;
};

}  // namespace rill::nn

#pragma GCC visibility pop
