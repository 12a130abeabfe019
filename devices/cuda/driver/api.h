// The functions of NVIDIA's driver, libcuda.so.1, that rill calls. They are declared here by the names and numbers of
// the CUDA Toolkit's cuda.h, so that rill builds without the toolkit and starts without a driver.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::cuda {

using Result = int;                        // CUresult; 0 where a call succeeded
using DevicePointer = unsigned long long;  // CUdeviceptr
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Pool = struct CUmemPoolHandle_st*;
using Graph = struct CUgraph_st*;
using GraphNode = struct CUgraphNode_st*;
using GraphExec = struct CUgraphExec_st*;

struct MemoryLocation {  // CUmemLocation
  int type;
  int device;
};
struct PoolProperties {  // CUmemPoolProps
  int allocation, handles;
  MemoryLocation location;
  void* security;
  unsigned char reserved[64];  // the largest size, in newer ones: 0 is none
};
struct PoolAccess {  // CUmemAccessDesc
  MemoryLocation location;
  int flags;
};
struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS
  Function function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};

// CUresult
inline constexpr Result out_of_memory = 2, no_device = 100, not_ready = 600;
// CUdevice_attribute
inline constexpr int multiprocessors = 16, capability_major = 75, capability_minor = 76, reads_pageable_memory = 88,
                     has_memory_pools = 115;
// CUmemPool_attribute
inline constexpr int pool_release_threshold = 4;
// CUmemAllocationType, CUmemLocationType, CUmemAccess_flags
inline constexpr int pinned_allocation = 1, on_device = 1, read_and_write = 3;
// CUpointer_attribute, CUmemorytype
inline constexpr int pointer_memory_type = 2, pointer_is_managed = 8, pointer_device = 9, device_memory = 2;
// CUstream_flags, CUevent_flags, CU_MEMHOSTALLOC_...
inline constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2, host_memory_mapped = 2;
// CUstreamCaptureMode
inline constexpr int capture_relaxed = 2;

// name in libcuda, parameters. The name that is looked up has a suffix like _v2 if cuda.h defines it so.
#define RILL_CUDA_CALLS(CALL)                                                                                        \
  CALL(cuInit, "cuInit", (unsigned flags))                                                                           \
  CALL(cuGetErrorName, "cuGetErrorName", (Result error, const char** name))                                          \
  CALL(cuGetErrorString, "cuGetErrorString", (Result error, const char** text))                                      \
  CALL(cuDeviceGetCount, "cuDeviceGetCount", (int* count))                                                           \
  CALL(cuDeviceGet, "cuDeviceGet", (int* device, int ordinal))                                                       \
  CALL(cuDeviceGetName, "cuDeviceGetName", (char* name, int length, int device))                                     \
  CALL(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                        \
  CALL(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (char* uuid, int device))                                              \
  CALL(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context * context, int device))                        \
  CALL(cuCtxSetCurrent, "cuCtxSetCurrent", (Context context))                                                        \
  CALL(cuCtxGetCurrent, "cuCtxGetCurrent", (Context * context))                                                      \
  CALL(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                     \
  CALL(cuMemGetInfo, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                               \
  CALL(cuDriverGetVersion, "cuDriverGetVersion", (int* version))                                                     \
  CALL(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int* can, int device, int peer))                             \
  CALL(cuPointerGetAttribute, "cuPointerGetAttribute", (void* value, int attribute, DevicePointer memory))           \
  CALL(cuMemPoolCreate, "cuMemPoolCreate", (Pool * pool, const PoolProperties* properties))                          \
  CALL(cuMemPoolSetAccess, "cuMemPoolSetAccess", (Pool pool, const PoolAccess* access, size_t count))                \
  CALL(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (Pool pool, int attribute, void* value))                      \
  CALL(cuMemPoolTrimTo, "cuMemPoolTrimTo", (Pool pool, size_t bytes_kept))                                           \
  CALL(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                                           \
       (DevicePointer * memory, size_t bytes, Pool pool, Stream stream))                                             \
  CALL(cuMemAlloc, "cuMemAlloc_v2", (DevicePointer * memory, size_t bytes))                                          \
  CALL(cuMemFree, "cuMemFree_v2", (DevicePointer memory))                                                            \
  CALL(cuMemFreeAsync, "cuMemFreeAsync", (DevicePointer memory, Stream stream))                                      \
  CALL(cuMemHostAlloc, "cuMemHostAlloc", (void** memory, size_t bytes, unsigned flags))                              \
  CALL(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (DevicePointer to, const void* from, size_t bytes, Stream s))      \
  CALL(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, DevicePointer from, size_t bytes, Stream s))            \
  CALL(cuMemcpyPeerAsync, "cuMemcpyPeerAsync",                                                                       \
       (DevicePointer to, Context there, DevicePointer from, Context here, size_t bytes, Stream s))                  \
  CALL(cuStreamCreate, "cuStreamCreate", (Stream * stream, unsigned flags))                                          \
  CALL(cuStreamDestroy, "cuStreamDestroy_v2", (Stream stream))                                                       \
  CALL(cuStreamSynchronize, "cuStreamSynchronize", (Stream stream))                                                  \
  CALL(cuStreamWaitEvent, "cuStreamWaitEvent", (Stream stream, Event event, unsigned flags))                         \
  CALL(cuEventCreate, "cuEventCreate", (Event * event, unsigned flags))                                              \
  CALL(cuEventRecord, "cuEventRecord", (Event event, Stream stream))                                                 \
  CALL(cuEventQuery, "cuEventQuery", (Event event))                                                                  \
  CALL(cuEventSynchronize, "cuEventSynchronize", (Event event))                                                      \
  CALL(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))                      \
  CALL(cuEventDestroy, "cuEventDestroy_v2", (Event event))                                                           \
  CALL(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                   \
  CALL(cuStreamEndCapture, "cuStreamEndCapture", (Stream stream, Graph * graph))                                     \
  CALL(cuGraphCreate, "cuGraphCreate", (Graph * graph, unsigned flags))                                              \
  CALL(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2",                                                              \
       (GraphNode * node, Graph graph, const GraphNode* after, size_t count, const KernelNode* params))              \
  CALL(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode",                                                         \
       (GraphNode * node, Graph graph, const GraphNode* after, size_t count, Graph child))                           \
  CALL(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (GraphExec * exec, Graph graph, unsigned long long flags)) \
  CALL(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                                          \
       (GraphExec exec, GraphNode node, const KernelNode* params))                                                   \
  CALL(cuGraphLaunch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                              \
  CALL(cuGraphExecDestroy, "cuGraphExecDestroy", (GraphExec exec))                                                   \
  CALL(cuGraphDestroy, "cuGraphDestroy", (Graph graph))                                                              \
  CALL(cuModuleLoadData, "cuModuleLoadData", (Module * module, const void* image))                                   \
  CALL(cuModuleGetFunction, "cuModuleGetFunction", (Function * function, Module module, const char* name))           \
  CALL(cuLaunchKernel, "cuLaunchKernel",                                                                             \
       (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,    \
        unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))

struct Api {
#define RILL_CALL(name, symbol, parameters) Result(*name) parameters = nullptr;
  RILL_CUDA_CALLS(RILL_CALL)
#undef RILL_CALL
};

// The functions; load_api() has been called.
const Api& api();
// Looks them up in `libcuda`, from dlopen(). Throws if one is missing.
void load_api(void* libcuda);

// Throws rill::Error ("cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"), or
// host_memory::OutOfMemory. If the error has ended the context, it says so, and once what to do.
void require(Result result, const char* call);
#define RILL_CUDA(call, ...) ::rill::cuda::require(::rill::cuda::api().call(__VA_ARGS__), #call)

}  // namespace rill::cuda

#pragma GCC visibility pop
