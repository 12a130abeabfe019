// Calls a traced graph with open sizes from a trace that has open sizes of its own: the nodes are traced again, and
// their sizes become expressions of the enclosing trace's sizes. The enclosing trace then serves every size that the
// graph serves.
#pragma once
#include <span>
#include <vector>

#include "rill/tensor/dim_table.h"
#include "rill/trace/graph.h"

namespace rill {

// Runs `traced` on one tensor per graph input; returns its outputs, then the values assigned to Variables. `sizes` are
// the values of the symbols of `dims`, which may be open sizes of this thread's trace. Guards of the graph become
// guards of that trace. Throws NotOpen if the sizes violate a guard.
std::vector<Tensor> inline_open(const Graph& traced, const DimTable& dims, std::span<const Dim> sizes,
                                std::span<const Tensor> inputs);

}  // namespace rill
