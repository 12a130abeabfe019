// Products of f16 and bf16, which oneDNN multiplies on processors that have instructions for them.
#pragma once
#include "rill/devices/cpu/product/gemm_sides.h"
#include "rill/devices/kernel.h"

namespace rill::cpu {

// False, and nothing is done, where there is no such kernel. `turned`: a and b changed places.
bool product_of_halves(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c,
                       bool turned);

}  // namespace rill::cpu
