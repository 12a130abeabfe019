// Noise while training.
#pragma once
#include "rill/nn/layer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// Sets a fraction of the elements to 0 while training; see dropout().
class Dropout {
 public:
  // Throws unless 0 <= rate < 1.
  explicit Dropout(double rate, std::string name = "dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Dropout)

  double rate;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
