// Parameters of which this process has a part, or that stand beside those of other processes. What they are on is known
// to librill_distribute, which is above this library: it sets these functions at the first distribute::lies_on().
#pragma once
#include <vector>

#include "rill/autodiff/sparse.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::nn::impl {

struct PartCalls {
  // Whether other processes have something of the model that this parameter is of: its other parts, or parameters of
  // their own.
  bool (*is_of_many)(const Variable& v);
  // Whether others have its other parts.
  bool (*is_part)(const Variable& v);
  // The sum over the processes that have parts of this one.
  Tensor (*sum)(const Tensor& x, const Variable& part);
  // Whether it is so in any of the processes that these parameters are on: a bool scalar, the same in all.
  Tensor (*any_of)(const Tensor& is_so, const std::vector<Variable>& parameters);
  // The square of the norm of the whole model's gradients, f64.
  Tensor (*square_of_norm)(const std::vector<Gradient>& gradients, const std::vector<Variable>& parameters);
};

void set_part_calls(const PartCalls* calls);
// Null where this process alone has these.
const PartCalls* part_calls(const std::vector<Variable>& parameters);
// Likewise, for what is computed from the elements of one parameter.
const PartCalls* part_calls_of(const Variable& parameter);

// The norm of x, which has a number for each element of the parameter: of all its parts.
Tensor norm_of_all_parts(const Tensor& x, const Variable& parameter);

}  // namespace rill::nn::impl

#pragma GCC visibility pop
