// The gradients of slices that split a tensor (split, unstack, x(0) + x(1) + ...) are each padded with zeros to the
// tensor's shape and then added. If such pads are adjacent and leave no gap, their sum is one concat:
//
//   pad(a, 0, 3) + pad(b, 1, 2) + pad(c, 2, 1) + pad(d, 3, 0)  ->  concat(a + 0, b + 0, c + 0, d + 0)
//
// x + 0 is what the sum makes of x: 0 of -0. It fuses with the node that computes x.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

Graph join_pads(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
