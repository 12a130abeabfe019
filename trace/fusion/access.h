// Maps the elements of a graph value to elements in memory: fusion looks through views that only repeat elements or
// regroup axes of size one, so such views cost nothing and do not end a group.
#pragma once
#include <vector>

#include "rill/trace/graph.h"

namespace rill {

// A value read through views of `base`: axis i of the base is axis axes[i] of the value; -1 if its size is 1.
struct Access {
  ValueId base;
  std::vector<int> axes;
};
Access access_of(const Graph& g, ValueId v);

// Whether the op is such a view: broadcast_to, reshape that keeps the axes longer than one, identity.
bool is_transparent(const Graph& g, const Node& n);

// The sizes of a shape without those that are 1.
std::vector<int64_t> long_sizes(const Shape& s);

}  // namespace rill
