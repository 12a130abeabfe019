// Forward rules that records of several families share. For ops/*.cpp only.
#pragma once
#include "rill/ops/op.h"

namespace rill {

// Of an op that is linear in all its floating operands together (but not in each alone, as a linear one is: concat):
// the op on their tangents, zeros where one has none.
Tensors linear_together(const JvpArgs& a);

// Of an op of one operand whose Jacobian is symmetric: its backward rule, from the tangent.
Tensors self_adjoint(const JvpArgs& a);

}  // namespace rill
