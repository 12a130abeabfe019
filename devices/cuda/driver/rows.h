// How rows are divided among threads, warps, blocks and the complete GPU, by their number and length.
#pragma once
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/kernel_text.h"

namespace rill::cuda {

// Starts a kernel whose parameter is a RowSpace, in as many steps as the shape requires.
void start_rows(Gpu& gpu, Function f, const RowPasses& passes, const Space& rows);

}  // namespace rill::cuda
