// The functions of librill_cuda that librill calls.
#pragma once
#include <vector>

#include "rill/tensor/dtype.h"

namespace rill {
class DeviceDriver;
class Op;
}  // namespace rill

extern "C" {
// rill's version, as RILL_VERSION.
extern const char rill_cuda_version[];
bool rill_cuda_has_kernel(const rill::Op& op, rill::DType dtype);
// The number of GPUs that `libcuda`, from dlopen(), drives. Throws rill::Error.
int rill_cuda_count(void* libcuda);
// A new driver of these GPUs, all or those with these numbers; nullptr if there is none. Throws rill::Error.
rill::DeviceDriver* rill_cuda_open(void* libcuda, const std::vector<int>* gpus);
}
