// Chooses the values of a scan's step that are kept for its gradient. Cheap ones (arithmetic, views, moved elements)
// are recomputed in the backward pass, from the carried values before each step. Products, reductions and the like that
// the backward pass reads are stacked as further results of the step. Inside recompute() its policy decides.
#pragma once
#include <memory>
#include <vector>

#include "rill/trace/control/control_nodes.h"

namespace rill {

// The step with the kept values appended to its results. `wanted`: for each input of the graph, whether its gradient
// may be needed. Cached: equal `wanted` gives the same graph.
std::shared_ptr<const InnerGraph> keeping_values(const std::shared_ptr<const InnerGraph>& step,
                                                 const std::vector<bool>& wanted);

}  // namespace rill
