// Whether a control-flow node fits the graphs inside it. Tracing makes no other nodes; a file may say anything.
#pragma once
#include <span>

#include "rill/trace/control/control_nodes.h"

namespace rill {

// Throws rill::Error unless a node of `op` with these operands, whose sizes are known, can run its graphs.
void check_control(const Op& op, std::span<const Spec* const> in, const ControlAttrs& attrs);

}  // namespace rill
