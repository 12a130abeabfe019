// Shared by profile() and memory_use(): the compiled form of a graph, and the names of its kernels.
#pragma once
#include <memory>
#include <string>

#include "rill/trace/call/tiers.h"

namespace rill::detail {

// "matmul"; for a fused kernel the names of its ops.
std::string kernel_name(const Node& n);
// Waits until everything is compiled, the graphs inside nodes included.
std::shared_ptr<Tiers> compiled_tiers(Graph traced);

}  // namespace rill::detail
