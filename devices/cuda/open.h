// Finds this machine's GPUs.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/devices/driver.h"

namespace rill::cuda {

// Their driver: librill_cuda.so, which is opened if NVIDIA's driver (libcuda.so.1) is installed. nullptr if there is
// no driver, no such library, or RILL_CUDA=off. If a driver is there but fails, says so once on stderr.
// Only for these GPUs, in this order, if given.
std::unique_ptr<DeviceDriver> open_driver(const std::optional<std::vector<int>>& gpus);
// How many GPUs the machine has; if there is none that rill can use, `why_none` says why.
int count_gpus(std::string& why_none);

#pragma GCC visibility push(default)
// Whether librill_cuda has a kernel for a record and its first operand's dtype. It calls no driver: for docs/ops.md.
bool has_kernel(const Op& op, DType dtype);
// Why GPUs, if there are any, cannot exchange memory with those of other processes; or empty. It does not look for
// GPUs.
std::string no_nccl_reason();
#pragma GCC visibility pop

}  // namespace rill::cuda
