// Forward mode of control flow: in the place of a node, a node of the same kind whose graphs compute tangents along
// with the values.
#pragma once
#include "rill/autodiff/forward_impl.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

// Applies `op` to operands of which some have a tangent in `along`, which then has those of the results.
Tensors apply_with_tangents(const Op& op, Operands in, AttrsView attrs, ForwardAccumulator::Impl& along,
                            const Where& where);

}  // namespace rill
