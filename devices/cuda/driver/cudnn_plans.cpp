// Caches cuDNN's plans and runs them; see cudnn_plans.h. Start at Plans.
#include "rill/devices/cuda/driver/cudnn_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/kernel/cache.h"
#include "rill/tensor/error.h"
#include "rill/tensor/settings.h"

namespace rill::cuda::dnn {

namespace {

constexpr size_t most_workspace = size_t(256) << 20;

bool logs() {
  static const bool on = settings::logs("cudnn");
  return on;
}

kernel::DiskCache& disk() {
  static auto* cache = new kernel::DiskCache(kernel::DiskCache::default_folder());  // as in modules.cpp
  return *cache;
}
// Each GPU's plans have their own lock, and all share the folder.
void store_on_disk(const std::string& key, const std::string& value) {
  static std::mutex mutex;
  const std::lock_guard hold(mutex);
  disk().store(key, value);
}

// A GPU's handle, which one thread uses at a time, and plans; nullptr if there is none.
class Plans {
 public:
  bool has(const Gpu& gpu, const Key& key, const Callback<Graph()>& graph);
  bool run(Gpu& gpu, const Key& key, const std::vector<char*>& operands);

 private:
  // False, after a line on stderr, if cuDNN cannot be used: decided once.
  bool start(const Gpu& gpu);
  std::shared_ptr<Plan> find_or_make(const Gpu& gpu, const Graph& g);

  std::mutex mutex_;
  Handle handle_ = nullptr;
  bool cannot_start_ = false;
  std::map<Key, std::shared_ptr<Plan>> plans_;
};

void require_plan(int status, const char* call) {
  if (status != 0) fail("cuda", failure(status, call), Where());
}

bool Plans::start(const Gpu& gpu) {
  if (handle_ || cannot_start_) return handle_;
  Handle handle = nullptr;
  const int status = library().cudnnCreate(&handle);
  cannot_start_ = status != 0;
  if (cannot_start_) {
    std::fprintf(stderr, "rill: cuDNN is not used on %s: %s\n", to_string(gpu.device).c_str(),
                 failure(status, "cudnnCreate").c_str());
    return false;
  }
  handle_ = handle;
  return true;
}

std::shared_ptr<Plan> Plans::find_or_make(const Gpu& gpu, const Graph& g) {
  const Target target{handle_, nullptr};
  const std::string text = g.text();
  const std::string key = fmt::format("{} cuDNN {} {} sm_{}\n{}", RILL_VERSION, library().cudnnGetVersion(), gpu.name,
                                      gpu.architecture, text);
  if (const std::string kept = disk().find(key); !kept.empty())
    if (auto plan = restore_plan(kept, target)) return plan;
  std::string why;
  auto plan = make_plan(g, target, most_workspace, why);
  if (plan) store_on_disk(key, plan->text);
  if (logs()) std::fprintf(stderr, "rill: cuDNN: %s\n%s", plan ? "a new plan" : why.c_str(), text.c_str());
  return plan;
}

bool Plans::has(const Gpu& gpu, const Key& key, const Callback<Graph()>& graph) {
  constexpr size_t most_plans = 4096;  // programs may have sizes that never recur
  gpu.enter();
  const std::lock_guard hold(mutex_);
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second != nullptr;
  if (!start(gpu)) return false;
  auto plan = find_or_make(gpu, graph());
  if (plans_.size() >= most_plans) plans_.clear();
  return (plans_[key] = std::move(plan)) != nullptr;
}

bool Plans::run(Gpu& gpu, const Key& key, const std::vector<char*>& operands) {
  gpu.enter();
  std::unique_lock hold(mutex_);
  const auto known = plans_.find(key);
  const std::shared_ptr<Plan> plan = known == plans_.end() ? nullptr : known->second;
  if (!plan) return false;
  const Tensor workspace = take_workspace(gpu, plan->workspace_bytes, hold);
  const std::vector<const char*> addresses(operands.begin(), operands.end());
  const int status = library_call(gpu, addresses, [&](Stream stream) {
    if (const int refused = library().cudnnSetStream(handle_, stream); refused != 0) return refused;
    return execute(handle_, *plan, {operands.begin(), operands.end()},
                   workspace.defined() ? address(workspace) : nullptr);
  });
  if (status >= not_supported && status < internal_error) {
    plans_[key] = nullptr;
    return false;
  }
  require_plan(status, "cudnnBackendExecute");
  return true;
}

}  // namespace

int type_of(DType d) {
  switch (d) {
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f32: return f32;
    case DType::f64: return f64;
    default: return -1;
  }
}

int64_t alignment_of(const char* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return int64_t(std::min<uintptr_t>(most_alignment, at & (~at + 1)));
}

bool has_plan(Gpu& gpu, const Key& key, const Callback<Graph()>& graph) {
  return library().missing.empty() && of_gpu<Plans>(gpu).has(gpu, key, graph);
}
bool run_plan(Gpu& gpu, const Key& key, const std::vector<char*>& operands) {
  return of_gpu<Plans>(gpu).run(gpu, key, operands);
}

}  // namespace rill::cuda::dnn
