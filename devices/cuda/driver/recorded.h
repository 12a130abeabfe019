// Kernels of records whose arithmetic can be recorded (devices/kernel/record.h): elementwise ops and ops on
// rows, such as softmax. What is recorded is what the CPU computes, so results have its bits.
#pragma once
#include "rill/devices/kernel.h"

namespace rill::cuda {

// The kernel for a record and its first operand's dtype; nullptr where it cannot be recorded.
Kernel recorded_kernel(const Op& op, DType dtype);

}  // namespace rill::cuda
