// A traced graph with open sizes, called in a trace that has open sizes of its own: its nodes are traced again, and its
// sizes become expressions of the sizes that the enclosing trace gives it. So the enclosing trace serves as many sizes
// as the graph does.
#pragma once
#include <span>
#include <vector>

#include "rill/tensor/dim_table.h"
#include "rill/trace/graph.h"

namespace rill {

// Runs `traced` on `inputs`, one a graph input; gives its outputs, then the values that its Variables get. `sizes` are
// those of the symbols of `dims`, open in this thread's trace or not. What the traced code found out about sizes
// becomes a guard of that trace. Throws NotOpen where the graph cannot serve the sizes of now.
std::vector<Tensor> inline_open(const Graph& traced, const DimTable& dims, std::span<const Dim> sizes,
                                std::span<const Tensor> inputs);

}  // namespace rill
