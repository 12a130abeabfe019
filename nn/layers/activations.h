// Activations that have parameters.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct PReLUOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double slope = 0.25;  // to begin with
  std::string name = "prelu";
};
// x where x > 0, else slope * x, with a slope for all or, where `channels` is their number, for each on the last axis.
class PReLU {
 public:
  explicit PReLU(int64_t channels = 1, const PReLUOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(PReLU, slope)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  PReLUOptions options;
  Param slope;  // [channels]
};

}  // namespace rill::nn

#pragma GCC visibility pop
