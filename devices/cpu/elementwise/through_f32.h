// For kernels of f16 and bf16 tensors that have no arithmetic of their own: widens, computes in f32, rounds once.
#pragma once
#include "rill/devices/kernel.h"

namespace rill::cpu {

// Runs `kernel` on f32 copies of the operands and outputs that are f16 or bf16.
void through_f32(const KernelArgs& args, Kernel kernel);

}  // namespace rill::cpu
