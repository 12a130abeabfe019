// NodeRunner: the nodes of a graph run again one by one, by the public way of a call: tapes record them, a trace takes
// them in, and their scopes and places in the user's program are those that they were traced with.
#pragma once
#include <map>
#include <vector>

#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/apply.h"
#include "rill/trace/graph.h"

namespace rill {

// One for a run through a graph: calls of recompute() that are traced again are regions of their own each time.
class NodeRunner {
 public:
  // The outputs of `n`, an op, on its operands among `values`: by node, then by output.
  Tensors run(const Node& n, const std::vector<std::vector<Tensor>>& values);

 private:
  detail::TraceMarks marks_of(const Node& n);

  std::map<const detail::RecomputeRegion*, Shared<const detail::RecomputeRegion>> regions_;
};

}  // namespace rill
