// Products of f16 and bf16, which oneDNN multiplies on processors that have instructions for them.
#pragma once
#include "rill/devices/cpu/product/gemm_sides.h"
#include "rill/devices/kernel.h"

namespace rill::cpu {

// Returns false, having done nothing, if there is no such kernel. `exchanged`: a and b were exchanged.
bool product_of_halves(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c,
                       bool exchanged);

}  // namespace rill::cpu
