// Which values of a scan's step its gradient keeps. What is cheap (arithmetic, views, moved elements) is computed again
// on the way back, from the carried values before each step; products, reductions and the like, where the way back
// reads them, are stacked as further results of the step and read from there. Inside recompute() its policy says which.
#pragma once
#include <memory>
#include <vector>

#include "rill/trace/control/control_nodes.h"

namespace rill {

// The step with such values as further results, behind its own. `wanted`: by input of the graph, whether a gradient may
// be asked for. The same step for the same question.
std::shared_ptr<const InnerGraph> keeping_values(const std::shared_ptr<const InnerGraph>& step,
                                                 const std::vector<bool>& wanted);

}  // namespace rill
