#include "rill/devices/cuda/driver/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "rill/devices/host_memory.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {
Api loaded;
}

const Api& api() { return loaded; }

void load_api(void* libcuda) {
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(libcuda, symbol));
    if (!function)
      fail("cuda", fmt::format("libcuda.so.1 has no {}. NVIDIA's driver 525 or later is needed", symbol), Where());
  };
#define RILL_CALL(name, symbol, parameters) find(loaded.name, symbol);
  RILL_CUDA_CALLS(RILL_CALL)
#undef RILL_CALL
}

void require(Result result, const char* call) {
  if (result == 0) return;
  const char *name = nullptr, *text = nullptr;
  loaded.cuGetErrorName(result, &name);
  loaded.cuGetErrorString(result, &text);
  const std::string what = fmt::format("{}: {}: {}", call, name ? name : "an unknown error", text ? text : "?");
  if (result == out_of_memory) throw host_memory::OutOfMemory(what);
  fail("cuda", what, Where());
}

}  // namespace rill::cuda
