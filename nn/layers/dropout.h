// Noise while training. At inference these layers give x.
#pragma once
#include <string>

#include "rill/nn/layer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// Sets a fraction of the elements to 0 while training; see dropout().
class Dropout {
 public:
  // Throws unless 0 <= rate <= 1.
  explicit Dropout(double rate, std::string name = "dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Dropout)

  double rate;
  std::string name;
};

// Whole channels, the last axis, of each example: all of space, of one to three axes, is 0 or none; see
// channel_dropout(). Throws unless 0 <= rate <= 1.
class SpatialDropout {
 public:
  explicit SpatialDropout(double rate, std::string name = "spatial_dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(SpatialDropout)

  double rate;
  std::string name;
};

// Dropout for networks of selu; see alpha_dropout(). Throws unless 0 <= rate <= 1.
class AlphaDropout {
 public:
  explicit AlphaDropout(double rate, std::string name = "alpha_dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AlphaDropout)

  double rate;
  std::string name;
};

// x plus noise of mean 0. Throws unless the deviation is finite and not negative.
class GaussianNoise {
 public:
  explicit GaussianNoise(double deviation, std::string name = "gaussian_noise", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(GaussianNoise)

  double deviation;
  std::string name;
};

// x times noise of mean 1 and variance rate / (1 - rate), as dropout has it (Srivastava et al., 2014). Throws unless
// 0 <= rate < 1.
class GaussianDropout {
 public:
  explicit GaussianDropout(double rate, std::string name = "gaussian_dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(GaussianDropout)

  double rate;
  std::string name;
};

// Whole examples: 0, or 1 / (1 - rate) times x; the last layer of a residual branch (Huang et al.: Deep Networks with
// Stochastic Depth, 2016). Throws unless 0 <= rate <= 1.
class StochasticDepth {
 public:
  explicit StochasticDepth(double rate, std::string name = "stochastic_depth", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(StochasticDepth)

  double rate;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
