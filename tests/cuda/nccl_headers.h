// Checks rill's own declarations of NCCL against NVIDIA's header: it compiles if they agree.
#pragma once
#include <nccl.h>

#include "rill/devices/cuda/driver/nccl.h"
#include "same_headers.h"

namespace rill::cuda::nccl {

#define NCCL_CALL(result, name, parameters) static_assert(Same<result(*) parameters, decltype(&::name)>::value, #name);
RILL_NCCL_CALLS(NCCL_CALL)

SAME(sizeof(UniqueId), sizeof(ncclUniqueId))
SAME_PLACE(Config, size, ncclConfig_t, size)
SAME_PLACE(Config, magic, ncclConfig_t, magic)
SAME_PLACE(Config, version, ncclConfig_t, version)
SAME_PLACE(Config, blocking, ncclConfig_t, blocking)
constexpr ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
SAME(Config().magic, theirs.magic)
SAME(Config().version, NCCL_VERSION(2, 14, 0))
SAME(in_progress, ncclInProgress)
SAME(i8, ncclInt8)
SAME(u8, ncclUint8)
SAME(i32, ncclInt32)
SAME(u32, ncclUint32)
SAME(i64, ncclInt64)
SAME(u64, ncclUint64)
SAME(f16, ncclFloat16)
SAME(f32, ncclFloat32)
SAME(f64, ncclFloat64)
SAME(bf16, ncclBfloat16)
SAME(sum, ncclSum)
SAME(product, ncclProd)
SAME(max, ncclMax)
SAME(min, ncclMin)
SAME(mean, ncclAvg)

}  // namespace rill::cuda::nccl
