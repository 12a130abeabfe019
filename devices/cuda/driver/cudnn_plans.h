// Running graphs with cuDNN: plans are kept by what they depend on, in memory and on disk beside the compiled kernels.
#pragma once
#include <vector>

#include "rill/devices/cuda/driver/cudnn_graph.h"
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/tensor/callback.h"

namespace rill::cuda::dnn {

// The library's number of a type that it computes with; -1 where it has none.
int type_of(DType d);
// The largest power of 2 that divides the address, up to what engines ask for; a block of memory has at least that.
inline constexpr int64_t most_alignment = 16;
int64_t alignment_of(const char* address);

// What a plan depends on besides the GPU, as numbers: a launcher's operands and parameters, which say all of its graph.
using Key = std::vector<int64_t>;

// Whether cuDNN is there and has a plan for the graph that `key` stands for; `graph` makes it where it is not known
// yet. RILL_LOG=cudnn prints new plans on stderr, and graphs that have none.
bool has_plan(Gpu& gpu, const Key& key, const Callback<Graph()>& graph);
// Starts that plan on these operands, in the order of their ids. False, and nothing is done, where there is none.
// Throws host_memory::OutOfMemory where there is no room for its workspace.
bool run_plan(Gpu& gpu, const Key& key, const std::vector<char*>& operands);

}  // namespace rill::cuda::dnn
