// The functions of NCCL 2, NVIDIA's library by which GPUs exchange memory, that rill calls. They are declared here by the
// names and numbers of NVIDIA's header nccl.h, and the library is opened when it is first needed: without it, ranks
// exchange tensors through the host.
#pragma once
#include <cstddef>
#include <string>

#include "rill/devices/cuda/driver/api.h"

namespace rill::cuda::nccl {

using Communicator = struct ncclComm*;

struct UniqueId {  // ncclUniqueId
  char bytes[128];
};
// The beginning of ncclConfig_t, as in NCCL 2.14: a library reads as much as `size` says.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

// ncclResult_t
inline constexpr int in_progress = 7;
// ncclDataType_t
inline constexpr int i8 = 0, u8 = 1, i32 = 2, u32 = 3, i64 = 4, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9;
// ncclRedOp_t
inline constexpr int sum = 0, product = 1, max = 2, min = 3, mean = 4;

#define RILL_NCCL_CALLS(CALL)                                                                                          \
  CALL(int, ncclGetVersion, (int* version))                                                                            \
  CALL(int, ncclGetUniqueId, (UniqueId * id))                                                                          \
  CALL(int, ncclCommInitRankConfig, (Communicator * c, int members, UniqueId id, int me, Config* config))              \
  CALL(int, ncclCommFinalize, (Communicator c))                                                                        \
  CALL(int, ncclCommDestroy, (Communicator c))                                                                         \
  CALL(int, ncclCommAbort, (Communicator c))                                                                           \
  CALL(const char*, ncclGetErrorString, (int result))                                                                  \
  CALL(const char*, ncclGetLastError, (Communicator c))                                                                \
  CALL(int, ncclCommGetAsyncError, (Communicator c, int* result))                                                      \
  CALL(int, ncclAllReduce, (const void* from, void* to, size_t count, int type, int op, Communicator c, Stream s))     \
  CALL(int, ncclReduceScatter, (const void* from, void* to, size_t count, int type, int op, Communicator c, Stream s)) \
  CALL(int, ncclAllGather, (const void* from, void* to, size_t count, int type, Communicator c, Stream s))             \
  CALL(int, ncclBroadcast, (const void* from, void* to, size_t count, int type, int root, Communicator c, Stream s))   \
  CALL(int, ncclSend, (const void* from, size_t count, int type, int to, Communicator c, Stream s))                    \
  CALL(int, ncclRecv, (void* to, size_t count, int type, int from, Communicator c, Stream s))                          \
  CALL(int, ncclGroupStart, ())                                                                                        \
  CALL(int, ncclGroupEnd, ())

struct Library {
#define RILL_CALL(result, name, parameters) result(*name) parameters = nullptr;
  RILL_NCCL_CALLS(RILL_CALL)
#undef RILL_CALL
  std::string missing;  // why it cannot be used; or empty
};

// libnccl.so.2, or the file that RILL_NCCL names.
const Library& library();

}  // namespace rill::cuda::nccl
