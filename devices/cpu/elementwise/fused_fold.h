// Running fused kernels with a fold; for fused.cpp.
#pragma once
#include "rill/devices/fused.h"

namespace rill::cpu {

// `base`: the addresses of the kernel's operands; `out`: the folded output, whose base is not used.
void fold_fused(const FusedKernel& f, const FusedLayout& layout, std::span<char* const> base, Tensor& out);

}  // namespace rill::cpu
