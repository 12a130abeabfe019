// An optimizer whose memory is distributed over the ranks: each parameter has an owner, which alone has its slots
// (ZeRO's first stage; Rajbhandari et al., 2020). And other results over all ranks: metrics.
#pragma once
#include "rill/distribute/tape.h"
#include "rill/metrics.h"
#include "rill/nn/optimizers.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// One step of an optimizer: each rank applies the rule to the parameters that it owns; then all get their new values.
// The gradients are the same on all ranks, as from a distribute::GradientTape. The bits are those of
// optimizer.apply_gradients(), for rules that treat each parameter by itself; of clip_norm, they are those of a sum of
// the ranks' squares. All agree on whether a step is left out. Every rank must own one: throws if there are fewer
// parameters than ranks. With a loss_scale, gradients are those of the scaled loss: optimizer.gradients().
void apply_gradients_sharded(nn::Optimizer& optimizer, const std::vector<Tensor>& gradients,
                             const std::vector<Variable>& variables, const Group& group = {},
                             Where where = Where::current());
// For each parameter, its owner's index in the group: the largest first, each to the least loaded.
std::vector<int64_t> owners(const std::vector<Variable>& variables, const Group& group = {},
                            Where where = Where::current());

// Gives the root's optimizer the owners' slots, as if all its steps had been apply_gradients(): before a checkpoint,
// which the root then writes. Others only keep their own. Such a checkpoint is read by any number of ranks, all of
// them, and by one process. Not inside `function`.
void gather_state(nn::Optimizer& optimizer, const std::vector<Variable>& variables, int64_t root = 0,
                  const Group& group = {}, Where where = Where::current());

// What the metric says of the batches of all ranks: what they counted is joined in the order of ranks. Its own state stays that of this rank.
Tensor result(const metrics::Metric& metric, const Group& group = {}, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
