// Finds this machine's GPUs.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/devices/driver.h"

namespace rill::cuda {

// What drives them: librill_cuda.so, which is opened where NVIDIA's driver (libcuda.so.1) is installed. nullptr where
// there is no driver, none of the library, or RILL_CUDA=off. Where a driver is there but fails, says so once on stderr.
// Of these GPUs alone, in this order, if given.
std::unique_ptr<DeviceDriver> open_driver(const std::optional<std::vector<int>>& gpus);
// How many GPUs the machine has; where there is none that rill can use, `why_none` says why.
int count_gpus(std::string& why_none);

#pragma GCC visibility push(default)
// Whether librill_cuda has a kernel for a record and its first operand's dtype. It asks no driver: for docs/ops.md.
bool has_kernel(const Op& op, DType dtype);
// Why GPUs, if there are any, cannot exchange memory with those of other processes; or empty. It looks for no GPU.
std::string no_nccl_reason();
#pragma GCC visibility pop

}  // namespace rill::cuda
