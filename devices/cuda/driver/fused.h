// Kernels of several fused ops (devices/fused.h), on GPUs.
#pragma once
#include <memory>

#include "rill/devices/kernel.h"
#include "rill/tensor/device.h"

namespace rill {
struct FusedKernel;
}

namespace rill::cuda {

// The kernel loaded on a GPU, for run_fused(): of one that reduces rows, the variant that dense operands call
// for. Views that are not dense have another, which their first call compiles.
std::shared_ptr<const void> load_fused(const FusedKernel& f, Device d);
// The kernel of the record `fused`.
void run_fused(const KernelArgs& args);

}  // namespace rill::cuda
