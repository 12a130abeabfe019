// Experts distributed over several ranks: each token is sent to its experts and back.
#pragma once
#include <optional>
#include <string>

#include "rill/distribute/collectives.h"
#include "rill/nn/layers/experts.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct ParallelExpertsOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Group group = {};       // the ranks of the experts, in order
  int64_t top = 2;        // experts that a token is sent to
  bool normalize = true;  // their weights sum to 1
  // An expert processes at most factor * tokens * top / experts of each rank's tokens, the first ones; for the others
  // it returns 0. Without a factor, all it gets: buffers are as large as the fullest or, in a traced function, as the
  // number of tokens.
  std::optional<double> capacity = {};
  nn::Activation activation = static_cast<Tensor (*)(const Tensor&, Where)>(relu);
  nn::Initializer kernel_initializer = nn::glorot_uniform;  // of all experts, of which each rank takes its own
  std::string name = "experts";
};

// nn::MixtureOfExperts with a portion of the experts and of the tokens on each rank: two all_to_all, and as many on the
// way back (Lepikhin et al.: GShard, 2021). With equal seeds on all ranks, it computes what that layer with {.sparse =
// true} computes for each rank's tokens. The gradients of the experts are already means over the ranks' losses; all
// others, the router's too, are this rank's, and mean_of_gradients() averages them.
class ParallelExperts {
 public:
  // Throws where `experts` is no multiple of the number of ranks.
  ParallelExperts(int64_t experts, int64_t hidden, const ParallelExpertsOptions& options = {},
                  Where where = Where::current());
  Tensor operator()(const Tensor& x, const nn::Call& call = {}, Where where = Where::current()) const {
    return route(x, call, where).output;
  }
  // With the balance of this rank's tokens.
  nn::RoutedTokens route(const Tensor& x, const nn::Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ParallelExperts, router, up, up_bias, down, down_bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t experts, hidden;
  ParallelExpertsOptions options;
  nn::Param router;           // [width, experts], on all ranks
  nn::Param up, up_bias;      // [experts / n, width, hidden], [experts / n, 1, hidden]
  nn::Param down, down_bias;  // [experts / n, hidden, width], [experts / n, 1, width]

 private:
  Tensor made_of(const Tensor& rows, int64_t width, const nn::Call& call) const;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
