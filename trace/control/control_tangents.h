// Forward mode of control flow: a node is replaced by one of the same kind whose graphs compute tangents beside the
// values.
#pragma once
#include "rill/autodiff/forward_impl.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

// Applies `op` to operands, some of which have a tangent in `along`, and adds the results' tangents to `along`.
Tensors apply_with_tangents(const Op& op, Operands in, AttrsView attrs, ForwardAccumulator::Impl& along,
                            const Where& where);

}  // namespace rill
