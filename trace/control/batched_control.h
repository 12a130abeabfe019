// Batch rules of control flow: what OpSpec::batch is for the nodes of control_nodes.h.
#pragma once
#include "rill/ops/op.h"

namespace rill {

Tensors batch_choice(const BatchArgs& a);
Tensors batch_while(const BatchArgs& a);
Tensors batch_scan(const BatchArgs& a);

}  // namespace rill
