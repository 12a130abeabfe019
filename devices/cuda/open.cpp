// Opens librill_cuda if there may be GPUs; see open.h. Start at open_driver.
#include "rill/devices/cuda/open.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "rill/devices/cuda/entry.h"
#include "rill/devices/cuda/shared_library.h"
#include "rill/devices/modules.h"
#include "rill/tensor/settings.h"

namespace rill::cuda {

namespace {

struct Entry {
  decltype(&rill_cuda_open) open = nullptr;
  decltype(&rill_cuda_has_kernel) has_kernel = nullptr;
  decltype(&rill_cuda_count) count = nullptr;
};

#if defined(RILL_CUDA_LINKED)
Entry find_entry() { return {&rill_cuda_open, &rill_cuda_has_kernel, &rill_cuda_count}; }
#else
// An empty entry, after a message on stderr, if the library is there but unusable.
Entry find_entry() {
  const std::string path = module_path("librill_cuda.so");
  if (path.empty()) return {};
  const auto [library, why] = open_module(path, "rill_cuda_version", RILL_VERSION);
  if (!library) {
    fmt::print(stderr, "rill: GPUs are not used: {}\n", why);
    return {};
  }
  return {reinterpret_cast<decltype(&rill_cuda_open)>(dlsym(library, "rill_cuda_open")),
          reinterpret_cast<decltype(&rill_cuda_has_kernel)>(dlsym(library, "rill_cuda_has_kernel")),
          reinterpret_cast<decltype(&rill_cuda_count)>(dlsym(library, "rill_cuda_count"))};
}
#endif

bool is_off() { return !settings::is_on("RILL_CUDA", true); }
void* open_libcuda() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

}  // namespace

std::unique_ptr<DeviceDriver> open_driver(const std::optional<std::vector<int>>& gpus) {
  if (gpus && gpus->empty()) return nullptr;
  if (is_off()) return nullptr;
  void* libcuda = open_libcuda();
  if (!libcuda) return nullptr;
  const auto open = find_entry().open;
  if (!open) return nullptr;
  try {
    return std::unique_ptr<DeviceDriver>(open(libcuda, gpus ? &*gpus : nullptr));
  } catch (const std::exception& e) {
    fmt::print(stderr, "rill: GPUs are not used: {}\n", e.what());
    return nullptr;
  }
}

int count_gpus(std::string& why_none) {
  void* libcuda = is_off() ? nullptr : open_libcuda();
  if (!libcuda) {
    why_none = is_off() ? "RILL_CUDA is off" : "NVIDIA's driver, libcuda.so.1, is not installed";
    return 0;
  }
  const auto count = find_entry().count;
  if (!count) {
    why_none = "there is no librill_cuda.so";
    return 0;
  }
  try {
    why_none = "NVIDIA's driver finds none";
    return count(libcuda);
  } catch (const std::exception& e) {
    why_none = e.what();
    return 0;
  }
}

std::string no_nccl_reason() {
  if (is_off()) return "RILL_CUDA is off";
  if (!open_libcuda()) return "NVIDIA's driver, libcuda.so.1, is not installed";
  return nccl_library().missing();
}

bool has_kernel(const Op& op, DType dtype) {
  static const Entry entry = find_entry();
  return entry.has_kernel && entry.has_kernel(op, dtype);
}

}  // namespace rill::cuda
