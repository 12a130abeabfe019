// Norms of gradients of a model of which each rank has a part: what lies on several ranks counts once each part, and what
// all of them have alike counts once.
//
//   auto [clipped, norm] = distribute::clip_by_global_norm(gradients, parameters, 1.0);
#pragma once
#include <vector>

#include "rill/autodiff/sparse.h"
#include "rill/distribute/session.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// Says that this rank's parameter is a part of what lies on the ranks of a group, of which the others have the other
// parts, as ColumnParallelDense says of its kernel. For layers of one's own.
void lies_on(const Variable& part, const Group& group = {});

// rill::clip_by_global_norm() of the whole model: gradients of parameters, in one order, of which some are parts. All
// ranks on which one lies call it at once, and all get one norm. Throws where the lists differ in length.
Clipped<std::vector<Gradient>> clip_by_global_norm(const std::vector<Gradient>& gradients,
                                                   const std::vector<Variable>& parameters, double max_norm,
                                                   Where where = Where::current());

// Whether some layer has said so of it.
bool is_of_many(const Variable& v);

}  // namespace rill::distribute

#pragma GCC visibility pop
