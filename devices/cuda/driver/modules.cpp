// A GPU's kernels, by what is computed: each is compiled and loaded once.
#include <fmt/format.h>

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/nvrtc.h"

namespace rill::cuda {

Function Gpu::function(const std::string& key, const Callback<std::string()>& text) {
  require_no_fork();
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto known = functions_.find(key); known != functions_.end()) return known->second;
  }
  // Compiled without the lock, because it may take seconds; two threads may compile the same kernel.
  const std::string program = text();
  Function function = nullptr;
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto same = by_text_.find(program); same != by_text_.end()) function = same->second;
  }
  if (!function) {
    const std::string code = machine_code(program, architecture);
    enter();
    Module module = nullptr;  // never unloaded: a program has as many as it has kinds of calls
    RILL_CUDA(cuModuleLoadData, &module, code.data());
    RILL_CUDA(cuModuleGetFunction, &function, module, "k");
  }
  const std::lock_guard hold(module_mutex_);
  by_text_.emplace(program, function);
  return functions_.emplace(key, function).first->second;
}

const LoadedKernel& Gpu::recorded(const std::string& key, const Callback<kernel::Kernel()>& record) {
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto known = recorded_.find(key); known != recorded_.end()) return known->second;
  }
  LoadedKernel loaded{nullptr, record(), {}};
  if (takes_rows(loaded.kernel)) loaded.passes = row_passes(loaded.kernel);
  else loaded.function = function(key, [&] { return kernel_text(loaded.kernel, "k"); });
  const std::lock_guard hold(module_mutex_);
  return recorded_.emplace(key, std::move(loaded)).first->second;
}

Function Gpu::row_function(const LoadedKernel& k, RowVariant v) {
  const std::tuple key(&k, v.dense, v.keeping_warps);
  {
    const std::lock_guard hold(module_mutex_);
    if (const auto known = row_functions_.find(key); known != row_functions_.end()) return known->second;
  }
  const std::string name = fmt::format("rows {} {} {}", static_cast<const void*>(&k), v.dense, v.keeping_warps);
  const Function f = function(name, [&] { return kernel_text(k.kernel, "k", v); });
  const std::lock_guard hold(module_mutex_);
  return row_functions_.emplace(key, f).first->second;
}

}  // namespace rill::cuda
