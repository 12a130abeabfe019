// Running fused kernels with a fold; for fused.cpp.
#pragma once
#include "rill/devices/fused.h"

namespace rill::cpu {

// `base`: where the kernel's operands lie; `out`: the folded output, whose base is not used.
void fold_fused(const FusedKernel& f, const FusedLayout& layout, std::span<char* const> base, Tensor& out);

}  // namespace rill::cpu
