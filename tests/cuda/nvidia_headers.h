// Checks rill's own declarations of CUDA, cuBLASLt and cuDNN against NVIDIA's headers: it compiles if they agree
// (test_cuda_headers.py, on machines that have the headers). NCCL's are nccl_headers.h's.
#pragma once
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_graph.h>
#include <nvrtc.h>

#include <string_view>

// Toolkit 13 renames these to functions that older drivers lack; the old ones still exist.
#undef cuEventElapsedTime
#undef cuCtxSynchronize
extern "C" CUresult cuEventElapsedTime(float*, CUevent, CUevent);
extern "C" CUresult cuCtxSynchronize();

#include "rill/devices/cuda/driver/api.h"
#include "rill/devices/cuda/driver/cublaslt.h"
#include "rill/devices/cuda/driver/cudnn.h"
#include "same_headers.h"

namespace rill::cuda {

// --- The driver ---

// cuda.h renames some, like cuMemAlloc_v2: the renamed one is looked up.
#define DRIVER_CALL(name, symbol, parameters)                      \
  static_assert(std::string_view(symbol) == STRING(name), symbol); \
  static_assert(Same<Result(*) parameters, decltype(&::name)>::value, symbol);
RILL_CUDA_CALLS(DRIVER_CALL)

SAME(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY)
SAME(no_device, CUDA_ERROR_NO_DEVICE)
SAME(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SAME(capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME(capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME(reads_pageable_memory, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
SAME(has_memory_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
SAME(pool_release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
SAME(pinned_allocation, CU_MEM_ALLOCATION_TYPE_PINNED)
SAME(on_device, CU_MEM_LOCATION_TYPE_DEVICE)
SAME(read_and_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
SAME(pointer_memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
SAME(pointer_is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED)
SAME(pointer_device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
SAME(device_memory, CU_MEMORYTYPE_DEVICE)
SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING)
SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING)
SAME(host_memory_mapped, CU_MEMHOSTALLOC_DEVICEMAP)
SAME(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED)
SAME(sizeof(MemoryLocation), sizeof(CUmemLocation))
SAME_PLACE(MemoryLocation, device, CUmemLocation, id)
SAME(sizeof(PoolProperties), sizeof(CUmemPoolProps))
SAME_PLACE(PoolProperties, handles, CUmemPoolProps, handleTypes)
SAME_PLACE(PoolProperties, location, CUmemPoolProps, location)
SAME_PLACE(PoolProperties, security, CUmemPoolProps, win32SecurityAttributes)
SAME(sizeof(PoolAccess), sizeof(CUmemAccessDesc))
SAME_PLACE(PoolAccess, flags, CUmemAccessDesc, flags)
SAME(sizeof(KernelNode), sizeof(CUDA_KERNEL_NODE_PARAMS))
SAME_PLACE(KernelNode, shared_bytes, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes)
SAME_PLACE(KernelNode, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams)
SAME_PLACE(KernelNode, extra, CUDA_KERNEL_NODE_PARAMS, extra)
SAME_PLACE(KernelNode, kernel, CUDA_KERNEL_NODE_PARAMS, kern)
SAME_PLACE(KernelNode, context, CUDA_KERNEL_NODE_PARAMS, ctx)

// --- cuBLASLt ---

namespace lt {
#define LT_CALL(name, parameters) static_assert(Same<int(*) parameters, decltype(&::name)>::value, #name);
RILL_CUBLASLT_CALLS(LT_CALL)

SAME(not_supported, CUBLAS_STATUS_NOT_SUPPORTED)
SAME(real_f32, CUDA_R_32F)
SAME(real_f64, CUDA_R_64F)
SAME(real_f16, CUDA_R_16F)
SAME(real_bf16, CUDA_R_16BF)
SAME(complex_f32, CUDA_C_32F)
SAME(complex_f64, CUDA_C_64F)
SAME(compute_f32, CUBLAS_COMPUTE_32F)
SAME(compute_f64, CUBLAS_COMPUTE_64F)
SAME(compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32)
SAME(not_transposed, CUBLAS_OP_N)
SAME(transposed, CUBLAS_OP_T)
SAME(transposes_a, CUBLASLT_MATMUL_DESC_TRANSA)
SAME(transposes_b, CUBLASLT_MATMUL_DESC_TRANSB)
SAME(batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
SAME(batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
SAME(most_workspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
SAME(reduction_schemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
SAME(alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
SAME(alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
SAME(alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
SAME(alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
SAME(reduces_sums, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t))
SAME(sizeof(Heuristic), sizeof(cublasLtMatmulHeuristicResult_t))
SAME_PLACE(Heuristic, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize)
SAME_PLACE(Heuristic, state, cublasLtMatmulHeuristicResult_t, state)
}  // namespace lt

// --- cuDNN ---

namespace dnn {
#define DNN_CALL(result, name, parameters) static_assert(Same<result(*) parameters, decltype(&::name)>::value, #name);
RILL_CUDNN_CALLS(DNN_CALL)

SAME(Kind::convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
SAME(Kind::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
SAME(Kind::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
SAME(Kind::heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
SAME(Kind::plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
SAME(Kind::forward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
SAME(Kind::filter_gradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
SAME(Kind::data_gradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
SAME(Kind::graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
SAME(Kind::operands, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
SAME(Kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
SAME(Kind::device, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
SAME(Type::handle, CUDNN_TYPE_HANDLE)
SAME(Type::data_type, CUDNN_TYPE_DATA_TYPE)
SAME(Type::boolean, CUDNN_TYPE_BOOLEAN)
SAME(Type::int64, CUDNN_TYPE_INT64)
SAME(Type::f32, CUDNN_TYPE_FLOAT)
SAME(Type::f64, CUDNN_TYPE_DOUBLE)
SAME(Type::pointer, CUDNN_TYPE_VOID_PTR)
SAME(Type::convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE)
SAME(Type::heuristic_mode, CUDNN_TYPE_HEUR_MODE)
SAME(Type::note, CUDNN_TYPE_NUMERICAL_NOTE)
SAME(Type::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
SAME(Type::behavior, CUDNN_TYPE_BEHAVIOR_NOTE)
SAME(Type::character, CUDNN_TYPE_CHAR)
SAME(Name::convolution_compute, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
SAME(Name::convolution_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE)
SAME(Name::convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS)
SAME(Name::convolution_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
SAME(Name::convolution_pads_after, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
SAME(Name::convolution_pads_before, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)
SAME(Name::convolution_axes, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
SAME(Name::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE)
SAME(Name::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
SAME(Name::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS)
SAME(Name::heuristics_device, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
SAME(Name::config_engine, CUDNN_ATTR_ENGINECFG_ENGINE)
SAME(Name::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
SAME(Name::plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
SAME(Name::plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
SAME(Name::plan_text, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
SAME(Name::plan_device, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
#define SAME_OPERANDS(first, prefix, a, b, c) \
  SAME(first, prefix##_ALPHA)                 \
  SAME(int(first) + 1, prefix##_BETA)         \
  SAME(int(first) + 2, prefix##_CONV_DESC)    \
  SAME(int(first) + 3, prefix##_##a)          \
  SAME(int(first) + 4, prefix##_##b)          \
  SAME(int(first) + 5, prefix##_##c)
SAME_OPERANDS(Name::forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, W, X, Y)
SAME_OPERANDS(Name::data_gradient_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, W, DX, DY)
SAME_OPERANDS(Name::filter_gradient_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, DW, X, DY)
SAME(Name::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
SAME(Name::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
SAME(Name::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
SAME(Name::tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE)
SAME(Name::tensor_sizes, CUDNN_ATTR_TENSOR_DIMENSIONS)
SAME(Name::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES)
SAME(Name::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID)
SAME(Name::operands_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
SAME(Name::operands_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
SAME(Name::operands_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
SAME(Name::engine_notes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
SAME(Name::engine_behavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)
SAME(Name::device_text, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
SAME(f32, CUDNN_DATA_FLOAT)
SAME(f64, CUDNN_DATA_DOUBLE)
SAME(f16, CUDNN_DATA_HALF)
SAME(bf16, CUDNN_DATA_BFLOAT16)
SAME(cross_correlation, CUDNN_CROSS_CORRELATION)
SAME(heuristics_fallback, CUDNN_HEUR_MODE_FALLBACK)
SAME(heuristics_a, CUDNN_HEUR_MODE_A)
SAME(Note::tensor_cores, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
SAME(Note::rounds_inputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
SAME(Note::sums_in_halves, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
SAME(Note::fft, CUDNN_NUMERICAL_NOTE_FFT)
SAME(Note::not_deterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
SAME(Note::winograd, CUDNN_NUMERICAL_NOTE_WINOGRAD)
SAME(Note::winograd_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4)
SAME(Note::winograd_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6)
SAME(Note::winograd_13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)
SAME(Behavior::compiles, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
SAME(not_supported, CUDNN_STATUS_NOT_SUPPORTED)
SAME(internal_error, CUDNN_STATUS_INTERNAL_ERROR)
}  // namespace dnn

}  // namespace rill::cuda
