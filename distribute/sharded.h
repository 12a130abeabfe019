// An optimizer whose memory is spread over the ranks: each parameter has an owner, on which alone it has slots (ZeRO's
// first stage; Rajbhandari et al., 2020). And what else is put together from all ranks: metrics.
#pragma once
#include "rill/distribute/tape.h"
#include "rill/nn/metrics.h"
#include "rill/nn/optimizers.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// One step of an optimizer, whose rule each rank applies to the parameters that it owns; then all get their new values.
// The gradients are the same on all ranks, as a distribute::GradientTape gives them. The bits are those of
// optimizer.apply_gradients(), for rules that treat each parameter by itself: clip by a global norm before. Every rank
// must own one: throws where there are fewer parameters than ranks.
void apply_gradients_sharded(nn::Optimizer& optimizer, const std::vector<Tensor>& gradients,
                             const std::vector<Variable>& variables, const Group& group = {},
                             Where where = Where::current());
// For each parameter, the place in the group of its owner: the largest first, each to who has least.
std::vector<int64_t> owners(const std::vector<Variable>& variables, const Group& group = {},
                            Where where = Where::current());

// Gives the root's optimizer what the owners remember of their parameters, as if all its steps had been apply_gradients():
// ahead of a checkpoint, which the root writes then. Others keep their own alone. Such a checkpoint is read by any number of
// ranks, all of them, and by one process. Not inside `function`.
void gather_state(nn::Optimizer& optimizer, const std::vector<Variable>& variables, int64_t root = 0,
                  const Group& group = {}, Where where = Where::current());

// What the metric says of the batches of all ranks: what they counted is joined in the order of ranks. Its own state stays that of this rank.
Tensor result(const metrics::Metric& metric, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
