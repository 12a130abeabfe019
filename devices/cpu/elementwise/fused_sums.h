// Running fused kernels that sum rows; for fused.cpp.
#pragma once
#include "rill/devices/fused.h"

namespace rill::cpu {

// `base`: the addresses of the kernel's operands, except for the summed outputs, which are computed from accumulators
// in `out`. `grain`: points worth a thread.
void sum_fused(const FusedKernel& f, const FusedLayout& layout, std::span<char* const> base,
               std::span<Tensor* const> out, int64_t grain);

}  // namespace rill::cpu
