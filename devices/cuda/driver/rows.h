// How rows are divided among threads, warps, blocks and the complete GPU, by their number and length.
#pragma once
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/kernel_text.h"

namespace rill::cuda {

// Starts a kernel that reduces rows: the variant that suits them, in as many steps as the shape requires.
void start_rows(Gpu& gpu, const LoadedKernel& k, const Space& rows);

// Compiles the variant for dense rows of n points, before they come.
void load_rows(Gpu& gpu, const LoadedKernel& k, int64_t n);

}  // namespace rill::cuda
