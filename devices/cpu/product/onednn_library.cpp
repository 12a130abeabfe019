// oneDNN is opened when it is first called: a program that never needs it does not wait the milliseconds that loading its
// 50 MB takes. What librill calls of it are the functions below, which the linker finds here, and which call the real
// ones. If one is missing here, the linker reports it.
#include "rill/devices/cpu/product/onednn_library.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <fmt/format.h>

#include <string>

#include "rill/devices/modules.h"
#include "rill/tensor/error.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::cpu::onednn {
namespace {

void* open_library() {
  const std::string path = module_path("librill_onednn.so");
  if (path.empty())
    throw Error("[onednn] librill_onednn.so is not installed. it belongs beside librill.so or into rill-" RILL_VERSION
                "/ below; -Donednn=disabled builds rill without it");
  const Module module = open_module(path, "rill_onednn_version", RILL_VERSION);
  if (!module.handle) throw Error("[onednn] " + module.why);
  return module.handle;
}

}  // namespace

void* library_function(const char* name) {
  static void* const library = open_library();  // under the ForkDelay of the first call
  void* found = dlsym(library, name);
  if (!found) throw Error(fmt::format("[onednn] the library lacks {}. reinstall oneDNN 3.2 or newer", name));
  return found;
}

}  // namespace rill::cpu::onednn

#define RILL_FORWARD(result, name, parameters, arguments)                                                      \
  extern "C" __attribute__((visibility("hidden"))) result name parameters {                                    \
    const auto real = [] {                                                                                     \
      const rill::ForkDelay no_fork; /* a child must not find the library half loaded */                       \
      static const auto found = reinterpret_cast<decltype(&name)>(rill::cpu::onednn::library_function(#name)); \
      return found;                                                                                            \
    }();                                                                                                       \
    return real arguments;                                                                                     \
  }
RILL_FORWARD(dnnl_status_t, dnnl_convolution_backward_data_primitive_desc_create,
             (dnnl_primitive_desc_t * a, dnnl_engine_t b, dnnl_alg_kind_t c, const_dnnl_memory_desc_t d,
              const_dnnl_memory_desc_t e, const_dnnl_memory_desc_t f, const dnnl_dims_t g, const dnnl_dims_t h,
              const dnnl_dims_t i, const dnnl_dims_t j, const_dnnl_primitive_desc_t k, const_dnnl_primitive_attr_t l),
             (a, b, c, d, e, f, g, h, i, j, k, l))
RILL_FORWARD(dnnl_status_t, dnnl_convolution_backward_weights_primitive_desc_create,
             (dnnl_primitive_desc_t * a, dnnl_engine_t b, dnnl_alg_kind_t c, const_dnnl_memory_desc_t d,
              const_dnnl_memory_desc_t e, const_dnnl_memory_desc_t f, const_dnnl_memory_desc_t g, const dnnl_dims_t h,
              const dnnl_dims_t i, const dnnl_dims_t j, const dnnl_dims_t k, const_dnnl_primitive_desc_t l,
              const_dnnl_primitive_attr_t m),
             (a, b, c, d, e, f, g, h, i, j, k, l, m))
RILL_FORWARD(dnnl_status_t, dnnl_convolution_forward_primitive_desc_create,
             (dnnl_primitive_desc_t * a, dnnl_engine_t b, dnnl_prop_kind_t c, dnnl_alg_kind_t d,
              const_dnnl_memory_desc_t e, const_dnnl_memory_desc_t f, const_dnnl_memory_desc_t g,
              const_dnnl_memory_desc_t h, const dnnl_dims_t i, const dnnl_dims_t j, const dnnl_dims_t k,
              const dnnl_dims_t l, const_dnnl_primitive_attr_t m),
             (a, b, c, d, e, f, g, h, i, j, k, l, m))
RILL_FORWARD(dnnl_status_t, dnnl_engine_create, (dnnl_engine_t * a, dnnl_engine_kind_t b, size_t c), (a, b, c))
RILL_FORWARD(dnnl_status_t, dnnl_engine_destroy, (dnnl_engine_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_matmul_primitive_desc_create,
             (dnnl_primitive_desc_t * a, dnnl_engine_t b, const_dnnl_memory_desc_t c, const_dnnl_memory_desc_t d,
              const_dnnl_memory_desc_t e, const_dnnl_memory_desc_t f, const_dnnl_primitive_attr_t g),
             (a, b, c, d, e, f, g))
RILL_FORWARD(dnnl_status_t, dnnl_memory_create_v2,
             (dnnl_memory_t * a, const_dnnl_memory_desc_t b, dnnl_engine_t c, int d, void** e), (a, b, c, d, e))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_clone, (dnnl_memory_desc_t * a, const_dnnl_memory_desc_t b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_create_with_strides,
             (dnnl_memory_desc_t * a, int b, const dnnl_dims_t c, dnnl_data_type_t d, const dnnl_dims_t e),
             (a, b, c, d, e))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_create_with_tag,
             (dnnl_memory_desc_t * a, int b, const dnnl_dims_t c, dnnl_data_type_t d, dnnl_format_tag_t e),
             (a, b, c, d, e))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_destroy, (dnnl_memory_desc_t a), (a))
RILL_FORWARD(int, dnnl_memory_desc_equal, (const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b), (a, b))
RILL_FORWARD(size_t, dnnl_memory_desc_get_size_v2, (const_dnnl_memory_desc_t a, int b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_query, (const_dnnl_memory_desc_t a, dnnl_query_t b, void* c), (a, b, c))
RILL_FORWARD(dnnl_status_t, dnnl_memory_desc_query_v2, (const_dnnl_memory_desc_t a, dnnl_query_t b, int c, void* d),
             (a, b, c, d))
RILL_FORWARD(dnnl_status_t, dnnl_memory_destroy, (dnnl_memory_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_memory_get_engine, (const_dnnl_memory_t a, dnnl_engine_t* b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_memory_get_memory_desc, (const_dnnl_memory_t a, const_dnnl_memory_desc_t* b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_memory_set_data_handle, (dnnl_memory_t a, void* b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_post_ops_append_binary,
             (dnnl_post_ops_t a, dnnl_alg_kind_t b, const_dnnl_memory_desc_t c), (a, b, c))
RILL_FORWARD(dnnl_status_t, dnnl_post_ops_append_eltwise, (dnnl_post_ops_t a, dnnl_alg_kind_t b, float c, float d),
             (a, b, c, d))
RILL_FORWARD(dnnl_status_t, dnnl_post_ops_append_sum, (dnnl_post_ops_t a, float b, int32_t c, dnnl_data_type_t d),
             (a, b, c, d))
RILL_FORWARD(dnnl_status_t, dnnl_post_ops_create, (dnnl_post_ops_t * a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_post_ops_destroy, (dnnl_post_ops_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_attr_create, (dnnl_primitive_attr_t * a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_attr_destroy, (dnnl_primitive_attr_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_attr_set_post_ops, (dnnl_primitive_attr_t a, const_dnnl_post_ops_t b),
             (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_attr_set_scratchpad_mode,
             (dnnl_primitive_attr_t a, dnnl_scratchpad_mode_t b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_create, (dnnl_primitive_t * a, const_dnnl_primitive_desc_t b), (a, b))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_desc_destroy, (dnnl_primitive_desc_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_desc_query, (const_dnnl_primitive_desc_t a, dnnl_query_t b, int c, void* d),
             (a, b, c, d))
RILL_FORWARD(const_dnnl_memory_desc_t, dnnl_primitive_desc_query_md,
             (const_dnnl_primitive_desc_t a, dnnl_query_t b, int c), (a, b, c))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_destroy, (dnnl_primitive_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_primitive_execute,
             (const_dnnl_primitive_t a, dnnl_stream_t b, int c, const dnnl_exec_arg_t* d), (a, b, c, d))
RILL_FORWARD(dnnl_status_t, dnnl_reorder_primitive_desc_create,
             (dnnl_primitive_desc_t * a, const_dnnl_memory_desc_t b, dnnl_engine_t c, const_dnnl_memory_desc_t d,
              dnnl_engine_t e, const_dnnl_primitive_attr_t f),
             (a, b, c, d, e, f))
RILL_FORWARD(dnnl_status_t, dnnl_stream_create, (dnnl_stream_t * a, dnnl_engine_t b, unsigned c), (a, b, c))
RILL_FORWARD(dnnl_status_t, dnnl_stream_destroy, (dnnl_stream_t a), (a))
RILL_FORWARD(dnnl_status_t, dnnl_stream_wait, (dnnl_stream_t a), (a))
#undef RILL_FORWARD
