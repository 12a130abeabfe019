// Lowers a group of nodes to the kernel that computes them, by recording each op's own arithmetic.
#pragma once
#include <memory>

#include "rill/devices/fused.h"
#include "rill/trace/fusion/fusion_groups.h"

namespace rill {

struct Lowered {
  std::shared_ptr<FusedKernel> kernel;
  std::vector<ValueId> inputs;   // the node's operands: values from outside
  std::vector<ValueId> outputs;  // the members' values that are read outside, in the order of the kernel's outputs
};

// `read_outside`: whether a value is read outside of the group.
Lowered lower(const Graph& g, const FusionGroup& group, const std::vector<std::vector<bool>>& read_outside);

}  // namespace rill
