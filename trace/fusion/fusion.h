// Fusion: groups of nodes become single nodes that one compiled kernel runs. fusion_groups.h chooses the groups,
// lower.h makes each into a kernel, and here the graph is put together again.
#pragma once
#include "rill/devices/fused.h"
#include "rill/trace/graph.h"

namespace rill {

// The record of fused nodes; its attributes are FusedParams.
extern const Op fused_op;

// `compile` makes each kernel's code (kernel::compile); null leaves it to the interpreter, on ref:0 and in tests.
Graph fuse(const Graph& g, kernel::Compiled (*compile)(const kernel::Kernel& k));

}  // namespace rill
