// Fusion: replaces groups of nodes by single nodes, each run by one compiled kernel. fusion_groups.h chooses the
// groups, lower.h turns each into a kernel, and this file rebuilds the graph.
#pragma once
#include "rill/devices/fused.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The record of fused nodes; its attributes are FusedParams.
extern const Op fused_op;

// `compile` makes each kernel's code (kernel::compile); null: the interpreter runs it, on ref:0 and in tests.
Graph fuse(const Graph& g, kernel::Compiled (*compile)(const kernel::Kernel& k));

}  // namespace rill

#pragma GCC visibility pop
