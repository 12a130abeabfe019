// Backward rules of control flow: the gradient of a node is a node of the same kind.
#pragma once
#include "rill/ops/op.h"

namespace rill {

Tensors vjp_of_branches(const VjpArgs& a);
Tensors vjp_of_while(const VjpArgs& a);
Tensors vjp_of_scan(const VjpArgs& a);

}  // namespace rill
