// Kernels of a GPU: from CUDA C++ to machine code, in memory and on disk.
#include <fmt/format.h>

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/cuda/nvrtc.h"
#include "rill/devices/kernel/cache.h"

namespace rill::cuda {

namespace {

kernel::DiskCache& disk() {
  static auto* cache =
      new kernel::DiskCache(kernel::DiskCache::default_folder());  // kernels start while a program ends
  return *cache;
}

std::string machine_code(const std::string& text, int architecture) {
  const std::string key =
      fmt::format("{} {} sm_{}\n{}{}", RILL_VERSION, nvrtc_version(architecture), architecture, prelude(), text);
  static std::mutex disk_mutex;
  {
    const std::lock_guard hold(disk_mutex);
    if (std::string code = disk().find(key); !code.empty()) return code;
  }
  std::string code = compile(text, architecture);
  const std::lock_guard hold(disk_mutex);
  disk().store(key, code);
  return code;
}

}  // namespace

Function Gpu::function(const std::string& key, const Callback<std::string()>& text) {
  require_no_fork();
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto known = functions_.find(key); known != functions_.end()) return known->second;
  }
  // Compiled without the lock, for it may take seconds; two threads may compile the same kernel.
  const std::string program = text();
  Function function = nullptr;
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto same = by_text_.find(program); same != by_text_.end()) function = same->second;
  }
  if (!function) {
    const std::string code = machine_code(program, architecture);
    enter();
    Module module = nullptr;  // for ever: a program has as many as it has kinds of calls
    RILL_CUDA(cuModuleLoadData, &module, code.data());
    RILL_CUDA(cuModuleGetFunction, &function, module, "k");
  }
  const std::lock_guard hold(module_mutex_);
  by_text_.emplace(program, function);
  return functions_.emplace(key, function).first->second;
}

}  // namespace rill::cuda
