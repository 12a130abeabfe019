// NodeRunner: runs the nodes of a graph one by one, as calls of their ops: tapes and traces record them, and their
// scopes and source lines are those of the original trace.
#pragma once
#include <map>
#include <vector>

#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/apply.h"
#include "rill/trace/graph.h"

namespace rill {

// One for each run through a graph: calls of recompute() that are traced again get new regions each time.
class NodeRunner {
 public:
  // The outputs of `n`, an op, for its operands among `values`: by node, then by output.
  Tensors run(const Node& n, const std::vector<std::vector<Tensor>>& values);

 private:
  detail::TraceMarks marks_of(const Node& n);

  std::map<const detail::RecomputeRegion*, Shared<const detail::RecomputeRegion>> regions_;
};

}  // namespace rill
