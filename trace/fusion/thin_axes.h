// Splits arithmetic along a last axis of two to four elements (coordinates, colours, quaternions) into columns.
//
//   d = x(newaxis) - x(all, newaxis)          [n, n, 3] of x [n, 3]
//   f = sum(d * rsqrt(sum(d * d, -1)) ..., 1)
//
// A kernel's rows would be three elements long. Instead each of d's columns becomes a value of its own, [n, n], whose
// rows are long; reductions over the thin axis become additions of columns; and reductions over other axes are those of
// the columns, by the same tree (devices/cpu/reduce/reduce_tree.h), so the bits stay the same. It is done if that needs
// few copies: the values read along the thin axis, and those needed at the end, must be much smaller than the space
// that the arithmetic spans.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

Graph split_thin_axes(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
