// For kernels of f16 and bf16 tensors that have no arithmetic of their own: widen, compute in f32, round once.
#pragma once
#include "rill/devices/kernel.h"

namespace rill::cpu {

// Runs `kernel` on operands and outputs of which the f16 and bf16 ones are f32.
void through_f32(const KernelArgs& args, Kernel kernel);

}  // namespace rill::cpu
