// Norms of gradients of a model that is distributed over ranks: parameters that are split count once for each part, and
// those that are equal on all ranks count once.
//
//   auto [clipped, norm] = distribute::clip_by_global_norm(gradients, parameters, 1.0);
#pragma once
#include <vector>

#include "rill/autodiff/sparse.h"
#include "rill/distribute/session.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// Declares that this rank's parameter is a part of one that is distributed over the ranks of a group, as
// ColumnParallelDense does for its kernel. For layers of one's own.
void lies_on(const Variable& part, const Group& group = {});

// rill::clip_by_global_norm() of the full model: gradients of parameters, in the same order, some of which are parts.
// All ranks of such a group must call it at once, and all get the same norm. Throws if the lists differ in length.
Clipped<std::vector<Gradient>> clip_by_global_norm(const std::vector<Gradient>& gradients,
                                                   const std::vector<Variable>& parameters, double max_norm,
                                                   Where where = Where::current());

// Whether a layer has declared it so.
bool is_of_many(const Variable& v);

}  // namespace rill::distribute

#pragma GCC visibility pop
