// Activations that have parameters.
#pragma once
#include "rill/nn/layers/dense.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct PReLUOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double slope = 0.25;        // to begin with
  bool each_channel = false;  // a slope for each index of the last axis, whose size is found in the first call
  std::string name = "prelu";
};
// x where x > 0, else slope * x, with one slope or, if `channels` is given, one for each index of the last axis.
class PReLU {
 public:
  explicit PReLU(const PReLUOptions& options, Where where = Where::current());
  explicit PReLU(int64_t channels = 1, const PReLUOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(PReLU, slope)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  PReLUOptions options;
  Param slope;  // [channels]
};

struct SwishOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double beta = 1;            // to begin with
  bool each_channel = false;  // one for each on the last axis
  std::string name = "swish";
};
// x sigmoid(beta x) with a trained beta (Ramachandran et al., 2017). With a fixed one: silu().
class Swish {
 public:
  explicit Swish(const SwishOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Swish, beta)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  SwishOptions options;
  Param beta;  // [1] or [channels]
};

struct MaxoutOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  std::string name = "maxout";
};
// The largest of `pieces` weighted sums for each of `out` outputs: [..., in] to [..., out] (Goodfellow et al., 2013).
class Maxout {
 public:
  Maxout(int64_t out, int64_t pieces, const MaxoutOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Maxout, sums)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out, pieces;
  Dense sums;  // to [out, pieces]
};

}  // namespace rill::nn

#pragma GCC visibility pop
