// Looks up the functions of libcuda and turns their errors into exceptions; see api.h.
#include "rill/devices/cuda/driver/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

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

namespace {
// Whether an error of a kernel, or of the hardware, has ended the context: CUDA returns it again for every later call.
bool ends_context(Result result) {
  constexpr Result all[] = {214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};
  return std::find(std::begin(all), std::end(all), result) != std::end(all);
}

[[noreturn]] void fail_for_good(const std::string& what) {
  static std::atomic<bool> was_explained = false;
  if (was_explained.exchange(true))
    fail("cuda", fmt::format("the GPU is lost to this process since an earlier error ({})", what), Where());
  fail("cuda",
       fmt::format("{}. by this error, of a kernel or of the hardware, the GPU is lost to this process: no later call "
                   "there can succeed, and no tensor there can be read. start the program again, from its latest "
                   "checkpoint; in this process, set_default_device(\"cpu:0\") computes on the CPU. "
                   "NVIDIA's compute-sanitizer names the kernel",
                   what),
       Where());
}
}  // namespace

void require(Result result, const char* call) {
  if (result == 0) return;
  const char *name = nullptr, *text = nullptr;
  loaded.cuGetErrorName(result, &name);
  loaded.cuGetErrorString(result, &text);
  const std::string what = fmt::format("{}: {}: {}", call, name ? name : "an unknown error", text ? text : "?");
  if (result == out_of_memory) throw host_memory::OutOfMemory(what);
  if (ends_context(result)) fail_for_good(what);
  fail("cuda", what, Where());
}

}  // namespace rill::cuda
