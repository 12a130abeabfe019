// Kernels of several fused ops (devices/fused.h), on GPUs.
#pragma once
#include <memory>

#include "rill/devices/kernel.h"
#include "rill/devices/kernel/ir.h"
#include "rill/tensor/device.h"

namespace rill::cuda {

// The kernel loaded on a GPU, for run_fused().
std::shared_ptr<const void> load_fused(const kernel::Kernel& k, Device d);
// The kernel of the record `fused`.
void run_fused(const KernelArgs& args);

}  // namespace rill::cuda
