// What profile() and memory_use() share: the graph as it runs once everything is compiled, and its kernels' names.
#pragma once
#include <memory>
#include <string>

#include "rill/trace/call/tiers.h"

namespace rill::detail {

// "matmul", or of a fused kernel the ops in it.
std::string kernel_name(const Node& n);
// The tier that calls use once everything is compiled, including the graphs inside nodes.
std::shared_ptr<Tiers> compiled_tiers(Graph traced);

}  // namespace rill::detail
