// Runs graphs with cuDNN: plans are cached by what they depend on, in memory and on disk next to the compiled kernels.
#pragma once
#include <vector>

#include "rill/devices/cuda/driver/cudnn_graph.h"
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/tensor/callback.h"

namespace rill::cuda::dnn {

// The library's number of a type that it can compute with; -1 if it has none.
int type_of(DType d);
// The largest power of 2 that divides the address, up to what engines may require; a block of memory has at least that.
inline constexpr int64_t most_alignment = 16;
int64_t alignment_of(const char* address);

// What a plan depends on besides the GPU, as numbers: a launcher's operands and parameters, which determine its graph.
using Key = std::vector<int64_t>;

// Whether cuDNN is there and has a plan for the graph of `key`; `graph` builds it if it is not cached. RILL_LOG=cudnn
// prints new plans on stderr, and graphs that have none.
bool has_plan(Gpu& gpu, const Key& key, const Callback<Graph()>& graph);
// Starts that plan on these operands, in the order of their ids. Returns false, having done nothing, if there is none.
// Throws host_memory::OutOfMemory if there is no memory for its workspace.
bool run_plan(Gpu& gpu, const Key& key, const std::vector<char*>& operands);

}  // namespace rill::cuda::dnn
