// Steps of a model that is distributed over ranks: which parameters are parts, and norms of gradients, in which
// parameters that are split count once for each part, and those that are equal on all ranks count once.
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
// ColumnParallelDense does for its kernel. For layers of one's own. An optimizer's step of such parameters is one of all
// these ranks: they agree on its norms, and on whether it is left out.
void lies_on(const Variable& part, const Group& group = {});
// Declares that each rank of a group has parameters of its own of one model, of which this is one, complete, as
// Pipeline does for its stages. All of the group make their steps at once.
void stands_on(const Variable& parameter, const Group& group = {});

// rill::clip_by_global_norm() of the full model: gradients of parameters, in the same order, some of which are parts.
// All ranks of such a group must call it at once, and all get the same norm. Throws if the lists differ in length.
Clipped<std::vector<Gradient>> clip_by_global_norm(const std::vector<Gradient>& gradients,
                                                   const std::vector<Variable>& parameters, double max_norm,
                                                   Where where = Where::current());

// Whether a layer has declared it so.
bool is_of_many(const Variable& v);

}  // namespace rill::distribute

#pragma GCC visibility pop
