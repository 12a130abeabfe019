// Kernels of records whose arithmetic can be recorded (devices/kernel/record.h): elementwise ops and ops on
// rows, such as softmax. The recorded arithmetic is that of the CPU, so results have its bits.
#pragma once
#include <string>

#include "rill/devices/kernel.h"
#include "rill/devices/kernel/ir.h"
#include "rill/tensor/callback.h"

namespace rill::cuda {

// The kernel for a record and its first operand's dtype; nullptr if it cannot be recorded.
Kernel recorded_kernel(const Op& op, DType dtype);

// Runs the kernel of `record`, called `key`: a map of the operands, which broadcast, to the outputs, all of one shape.
void start_map(const KernelArgs& args, const std::string& key, const Callback<kernel::Kernel()>& record);

}  // namespace rill::cuda
