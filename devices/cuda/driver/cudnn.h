// The functions of cuDNN 9, NVIDIA's library of convolutions, pools and attention, that rill calls: its backend
// interface, where a computation is a graph of descriptors (built in our cudnn_graph.h). They are declared here by the
// names and numbers of NVIDIA's header cudnn_graph.h, and the library is opened when it is first needed: without it,
// our own kernels are used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "rill/devices/cuda/driver/api.h"

#pragma GCC visibility push(default)

namespace rill::cuda::dnn {

using Handle = struct DnnHandleTag*;
using Descriptor = void*;  // cudnnBackendDescriptor_t

// cudnnBackendDescriptorType_t
enum class Kind : int {
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  plan = 5,
  forward = 10,
  filter_gradient = 11,
  data_gradient = 12,
  graph = 15,
  operands = 16,  // a "variant pack"
  tensor = 17,
  device = 38,
};

// cudnnBackendAttributeType_t
enum class Type : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  f32 = 4,
  f64 = 5,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  note = 11,
  descriptor = 15,
  behavior = 19,
  character = 24,
};

// cudnnBackendAttributeName_t
enum class Name : int {
  convolution_compute = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_pads_after = 104,
  convolution_pads_before = 105,
  convolution_axes = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  config_engine = 300,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_text = 405,
  plan_device = 407,
  // Each is followed by those of beta, the convolution, and the tensors w, x and y, or their gradients.
  forward_alpha = 700,
  data_gradient_alpha = 706,
  filter_gradient_alpha = 712,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_sizes = 902,
  tensor_strides = 903,
  tensor_id = 906,
  operands_ids = 1000,
  operands_pointers = 1001,
  operands_workspace = 1003,
  engine_notes = 1303,
  engine_behavior = 1305,
  device_text = 2702,
};

// cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendHeurMode_t
inline constexpr int f32 = 0, f64 = 1, f16 = 2, bf16 = 9;
inline constexpr int cross_correlation = 1;
inline constexpr int heuristics_fallback = 2, heuristics_a = 3;
// cudnnBackendNumericalNote_t: properties of an engine's arithmetic.
enum class Note : int {
  tensor_cores = 0,
  rounds_inputs = 1,
  sums_in_halves = 2,
  fft = 3,
  not_deterministic = 4,
  winograd = 5,
  winograd_4x4 = 6,
  winograd_6x6 = 7,
  winograd_13x13 = 8,
};

// cudnnBackendBehaviorNote_t: properties of how an engine works.
enum class Behavior : int { compiles = 0 };

// cudnnStatus_t: its thousands say what went wrong.
inline constexpr int not_supported = 3000, internal_error = 4000;

#define RILL_CUDNN_CALLS(CALL)                                                                                        \
  CALL(size_t, cudnnGetVersion, ())                                                                                   \
  CALL(const char*, cudnnGetErrorString, (int status))                                                                \
  CALL(void, cudnnGetLastErrorString, (char* text, size_t bytes))                                                     \
  CALL(int, cudnnCreate, (Handle * handle))                                                                           \
  CALL(int, cudnnSetStream, (Handle handle, Stream stream))                                                           \
  CALL(int, cudnnBackendCreateDescriptor, (Kind kind, Descriptor * descriptor))                                       \
  CALL(int, cudnnBackendDestroyDescriptor, (Descriptor descriptor))                                                   \
  CALL(int, cudnnBackendFinalize, (Descriptor descriptor))                                                            \
  CALL(int, cudnnBackendSetAttribute, (Descriptor descriptor, Name name, Type type, int64_t count, const void* from)) \
  CALL(int, cudnnBackendGetAttribute,                                                                                 \
       (Descriptor descriptor, Name name, Type type, int64_t most, int64_t* count, void* to))                         \
  CALL(int, cudnnBackendExecute, (Handle handle, Descriptor plan, Descriptor operands))

struct Library {
#define RILL_CALL(result, name, parameters) result(*name) parameters = nullptr;
  RILL_CUDNN_CALLS(RILL_CALL)
#undef RILL_CALL
  std::string missing;  // why it cannot be used; or empty
};

// libcudnn.so.9, or the file that RILL_CUDNN names.
const Library& library();

// "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED: ...", for this thread's last call, which returned `status`.
std::string failure(int status, const char* call);

}  // namespace rill::cuda::dnn

#pragma GCC visibility pop
