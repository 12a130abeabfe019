// The functions of cuBLASLt, NVIDIA's library of matrix products, that rill calls. They are declared here by the names
// and numbers of cublasLt.h, and the library is opened when it is first needed: without it, our own kernels are used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "rill/devices/cuda/driver/api.h"

#pragma GCC visibility push(default)

namespace rill::cuda::lt {

using Handle = struct LtHandleTag*;
using Product = struct LtProductTag*;        // cublasLtMatmulDesc_t
using Layout = struct LtLayoutTag*;          // cublasLtMatrixLayout_t
using Preference = struct LtPreferenceTag*;  // cublasLtMatmulPreference_t

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// cublasStatus_t
inline constexpr int not_supported = 15;
// cudaDataType, cublasComputeType_t, cublasOperation_t
inline constexpr int real_f32 = 0, real_f64 = 1, real_f16 = 2, real_bf16 = 14, complex_f32 = 4, complex_f64 = 5;
inline constexpr int compute_f32 = 68, compute_f64 = 70, compute_tf32 = 77;
inline constexpr int32_t not_transposed = 0, transposed = 1;
// Attributes of products, of layouts and of preferences.
inline constexpr int transposes_a = 3, transposes_b = 4;
inline constexpr int batch_count = 5, batch_stride = 6;
inline constexpr int most_workspace = 1, reduction_schemes = 3, alignment_a = 5, alignment_b = 6, alignment_c = 7,
                     alignment_d = 8;
// Of reduction_schemes: sums that are divided among blocks are summed in their own type, not in the result's.
inline constexpr uint32_t reduces_sums = 2;

#define RILL_CUBLASLT_CALLS(CALL)                                                                                     \
  CALL(cublasLtCreate, (Handle * handle))                                                                             \
  CALL(cublasLtMatmulDescCreate, (Product * product, int compute, int scale))                                         \
  CALL(cublasLtMatmulDescSetAttribute, (Product product, int attribute, const void* value, size_t bytes))             \
  CALL(cublasLtMatmulDescDestroy, (Product product))                                                                  \
  CALL(cublasLtMatrixLayoutCreate, (Layout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))     \
  CALL(cublasLtMatrixLayoutSetAttribute, (Layout layout, int attribute, const void* value, size_t bytes))             \
  CALL(cublasLtMatrixLayoutDestroy, (Layout layout))                                                                  \
  CALL(cublasLtMatmulPreferenceCreate, (Preference * preference))                                                     \
  CALL(cublasLtMatmulPreferenceSetAttribute, (Preference preference, int attribute, const void* value, size_t bytes)) \
  CALL(cublasLtMatmulPreferenceDestroy, (Preference preference))                                                      \
  CALL(cublasLtMatmulAlgoGetHeuristic, (Handle handle, Product product, Layout a, Layout b, Layout c, Layout d,       \
                                        Preference preference, int wanted, Heuristic* results, int* found))           \
  CALL(cublasLtMatmul,                                                                                                \
       (Handle handle, Product product, const void* alpha, const void* a, Layout a_layout, const void* b,             \
        Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, Layout d_layout,                  \
        const Algorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream))

// Each returns 0 on success.
struct Library {
#define RILL_CALL(name, parameters) int(*name) parameters = nullptr;
  RILL_CUBLASLT_CALLS(RILL_CALL)
#undef RILL_CALL
  std::string missing;  // why it cannot be used; or empty
};

// libcublasLt.so.13 or .12, or the file that RILL_CUBLASLT names.
const Library& library();

// Throws rill::Error ("cublasLtMatmul fails with status 13") if a call has failed.
void require(int status, const char* call);
#define RILL_CUBLASLT(call, ...) ::rill::cuda::lt::require(::rill::cuda::lt::library().call(__VA_ARGS__), #call)

}  // namespace rill::cuda::lt

#pragma GCC visibility pop
