// Activations with bounds and slopes that are options. Those without are in elementwise.h and nn_ops.h. Included by
// rill.h.
#pragma once
#include <optional>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct BoundedReluOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<double> max_value = {};  // results are not greater
  double negative_slope = 0;             // below the threshold: negative_slope (x - threshold)
  double threshold = 0;
};
// relu() as Keras has it: x where x >= threshold, but max_value at most, else negative_slope (x - threshold). Throws
// where max_value or the slope is negative.
Tensor bounded_relu(const Tensor& x, const BoundedReluOptions& options = {}, Where where = Where::current());
// softplus(beta x) / beta: the greater beta, the nearer to relu (torch's softplus with its beta). Throws where beta is 0.
Tensor scaled_softplus(const Tensor& x, double beta, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
