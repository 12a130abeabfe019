// Finding GPUs, starting kernels, waiting.
#include "rill/devices/cuda/driver/gpu.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/exchange.h"
#include "rill/devices/params/gather_layout.h"
#include "rill/tensor/error.h"
#include "rill/tensor/later_errors.h"
#include "rill/tensor/settings.h"

namespace rill::cuda {

namespace {
std::vector<std::unique_ptr<Gpu>>& gpus() {
  static auto* all = new std::vector<std::unique_ptr<Gpu>>;  // tensors may outlive every static object
  return *all;
}

std::atomic<bool> is_fork = false;
void know_forks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { is_fork = true; });
  static_cast<void>(once);
}
}  // namespace

int count_gpus() {
  know_forks();
  if (const Result result = api().cuInit(0); result != no_device) require(result, "cuInit");
  else return 0;
  int count = 0;
  if (const Result result = api().cuDeviceGetCount(&count); result != no_device) require(result, "cuDeviceGetCount");
  return count;
}

void find_gpus(const std::vector<int>* wanted) {
  const int count = count_gpus();
  if (!wanted) {
    for (int i = 0; i < std::min(count, 255); ++i) gpus().push_back(std::make_unique<Gpu>(i, i));
    return;
  }
  for (const int number : *wanted) {
    if (number >= count)
      fail("set_visible_devices", fmt::format("there is no gpu:{}. there are {}", number, count), Where());
    gpus().push_back(std::make_unique<Gpu>(int(gpus().size()), number));
  }
}

int gpu_count() { return int(gpus().size()); }
Gpu& found_gpu(Device d) { return *gpus()[size_t(d.index())]; }
Gpu& gpu_of(Device d) {
  Gpu& gpu = found_gpu(d);
  if (!gpu.is_open()) [[unlikely]]
    gpu.open();
  return gpu;
}

// --- Contexts --------------------------------------------------------------------------------------------------------

RestoredContext::RestoredContext() {
  if (in_fork() || api().cuCtxGetCurrent(&callers_) != 0) callers_ = nullptr;
}
RestoredContext::~RestoredContext() {
  Context now = nullptr;
  if (callers_ && api().cuCtxGetCurrent(&now) == 0 && now != callers_) api().cuCtxSetCurrent(callers_);
}

Gpu::Gpu(int index, int number_of_driver) : device(DeviceKind::gpu, index), ordinal(number_of_driver) {
  int& number = device_of_driver_;
  int major = 0, minor = 0;
  RILL_CUDA(cuDeviceGet, &number, ordinal);
  RILL_CUDA(cuDeviceGetAttribute, &major, capability_major, number);
  RILL_CUDA(cuDeviceGetAttribute, &minor, capability_minor, number);
  RILL_CUDA(cuDeviceGetAttribute, &processors, multiprocessors, number);
  architecture = 10 * major + minor;
  char text[256] = "";
  RILL_CUDA(cuDeviceGetName, text, int(sizeof text), number);
  name = text;
}

void Gpu::open() {
  require_no_fork();
  const std::lock_guard hold(open_mutex_);
  if (is_open()) return;
  // If one of these fails, the next call continues from there.
  if (!context) RILL_CUDA(cuDevicePrimaryCtxRetain, &context, device_of_driver_);
  const RestoredContext kept;
  enter();
  if (!stream_) RILL_CUDA(cuStreamCreate, &stream_, stream_non_blocking);
  if (!pool_) make_pool();
  void* fault = nullptr;
  RILL_CUDA(cuMemHostAlloc, &fault, fault_slots * Fault::kept * sizeof(Fault), host_memory_mapped);
  faults_ = new (fault) Fault[fault_slots * Fault::kept];
  open_.store(true, std::memory_order_release);
}

bool allows_tf32() {
  static const bool on = settings::is_on("RILL_TF32", false);
  return on;
}

bool in_fork() { return is_fork; }
void require_no_fork() {
  if (is_fork)
    fail("cuda",
         "the child of a fork() cannot use GPUs that its parent has used. compute on the CPU there, after "
         "set_default_device(\"cpu:0\"), or start it as a program of its own",
         Where());
}

void Gpu::enter() const {
  require_no_fork();
  Context now = nullptr;
  if (api().cuCtxGetCurrent(&now) != 0 || now != context) RILL_CUDA(cuCtxSetCurrent, context);
}

unsigned Gpu::blocks_for(int64_t count) const {
  return unsigned(std::min<int64_t>((count + 255) / 256, int64_t(processors) * 32));
}

void Gpu::start(Function f, const void* params, size_t bytes, unsigned blocks, unsigned threads,
                unsigned shared_bytes) {
  if (blocks == 0) return;
  enter();
  if (Capture* capture = Capture::current(*this))
    return capture->add_kernel(f, {static_cast<const char*>(params), bytes}, blocks, threads, shared_bytes);
  launch_gathered();
  void* list[] = {const_cast<void*>(params)};
  RILL_CUDA(cuLaunchKernel, f, blocks, 1, 1, threads, 1, 1, shared_bytes, stream_, list, nullptr);
}

// --- Gathering -------------------------------------------------------------------------------------------------------

namespace {
thread_local const Gpu* gathering_on = nullptr;

Gathered::Memory memory_of(const KernelArgs& args, std::span<const Tensor> more) {
  Gathered::Memory memory;
  const auto add = [&](const Tensor& t) {
    if (t.defined()) memory.push_back(t.rep()->buffer);
  };
  for (const Tensor* t : args.in) add(*t);
  for (const Tensor* t : args.out) add(*t);
  for (const Tensor& t : more) add(t);
  return memory;
}
}  // namespace

void Gpu::launch_map(const LoadedKernel& k, const Space& s, const KernelArgs& args, std::span<const Tensor> more) {
  if (Capture* capture = Capture::current(*this)) return capture->add_map(k, s, memory_of(args, more));
  if (gathering_on != this) return launch(k.function, s, s.rows * s.n);
  bool is_full = false;
  {
    const std::lock_guard hold(gather_mutex_);
    gathered_.add(k, s, memory_of(args, more));
    has_gathered_ = true;
    is_full = gathered_.is_full();
  }
  if (is_full) launch_gathered();
}

void Gpu::gather(const Callback<void()>& work) {
  struct Scope {
    const Gpu* const outer = gathering_on;
    Gpu& gpu;
    explicit Scope(Gpu& g) : gpu(g) { gathering_on = &g; }
    Scope(const Scope&) = delete;
    ~Scope() {
      gathering_on = outer;
      if (!gpu.has_gathered_) return;
      try {  // `work` has thrown: the maps before that are launched nevertheless
        gpu.launch_gathered();
      } catch (...) {
      }
    }
  } const scope(*this);
  work();
  if (scope.outer != this) launch_gathered();
}

bool Gpu::is_gathered(const void* memory, size_t bytes) {
  if (!has_gathered_) return false;
  const std::lock_guard hold(gather_mutex_);
  return gathered_.touches(static_cast<const char*>(memory), bytes);
}

void Gpu::launch_gathered() {
  if (!has_gathered_) return;
  Gathered::Memory memory;  // released after the lock
  const std::lock_guard hold(gather_mutex_);
  struct Begun {
    std::atomic<bool>& flag;
    ~Begun() { flag = false; }
  } const begun{has_gathered_};
  enter();
  memory = gathered_.launch_all(*this, [&](Function f, std::span<const char> params, int64_t blocks, auto) {
    void* list[] = {const_cast<char*>(params.data())};
    RILL_CUDA(cuLaunchKernel, f, unsigned(blocks), 1, 1, 256, 1, 1, 0, stream_, list, nullptr);
  });
}

namespace {
// A thread's slot, one of `most`, which it keeps until it ends.
class FaultSlot {
 public:
  explicit FaultSlot(int most) {
    const std::lock_guard hold(all().mutex);
    shares_ = all().given >= most && all().free.empty();
    if (all().given < most || shares_) {
      number_ = all().given++ % most;
    } else {
      number_ = all().free.front();
      all().free.pop_front();
      for (const auto& gpu : gpus()) gpu->print_unreported_faults(number_);
    }
  }
  FaultSlot(const FaultSlot&) = delete;
  ~FaultSlot() {
    if (in_fork() || shares_) return;
    const std::lock_guard hold(all().mutex);
    all().free.push_back(number_);
  }
  int number() const { return number_; }

 private:
  struct All {
    std::mutex mutex;
    int given = 0;
    std::deque<int> free;
  };
  static All& all() {
    static auto* a = new All;  // threads may outlive every static object
    return *a;
  }
  int number_ = 0;
  bool shares_ = false;
};
}  // namespace

Fault* Gpu::fault_slot() const {
  thread_local const FaultSlot mine(fault_slots);
  return faults_ + mine.number() * Fault::kept;
}

void Gpu::synchronize() {
  if (!is_open()) return;
  Capture::require_none(*this);
  enter();
  launch_gathered();
  wait_for_exchanges(*this);
  RILL_CUDA(cuStreamSynchronize, stream_);
  throw_faults();
}

std::string Gpu::collect_faults(Fault* slot) {
  std::string text;
  const std::lock_guard hold(fault_mutex_);
  for (int k = 0; k < Fault::kept && slot[k].code != 0; ++k) {
    const Fault found = std::exchange(slot[k], Fault{});
    const Rule& rule = rules_[size_t(found.code - 1)];
    text += (k == 0 ? "" : "; also ") + rule.beginning +
            fmt::format(fmt::runtime(rule.text), fmt::arg("value", index_as_given(found.value)),
                        fmt::arg("limit", found.limit), fmt::arg("position", found.position));
  }
  return text;
}

// Threads that share a slot may collect at once, so whether there are any is only known under the lock.
void Gpu::throw_faults() {
  const std::string faults = collect_faults(fault_slot());
  if (faults.empty()) return;
  fail_later(faults +
             ". it was found after the call: what was computed from its result since, also in Variables, is "
             "of no use");
}

void Gpu::print_unreported_faults(int slot) {
  if (!is_open()) return;
  const RestoredContext kept;
  enter();
  api().cuStreamSynchronize(stream_);
  if (const std::string text = collect_faults(faults_ + slot * Fault::kept); !text.empty())
    std::fprintf(stderr, "rill: a thread has ended that did not wait for %s: %s\n", to_string(device).c_str(),
                 text.c_str());
}

void Gpu::wait() noexcept {
  if (in_fork() || !is_open()) return;
  Context now = nullptr;
  if (api().cuCtxGetCurrent(&now) != 0 || api().cuCtxSetCurrent(context) != 0) return;
  try {
    launch_gathered();
    wait_for_exchanges(*this);
  } catch (...) {  // the gathering thread gets the error when it waits
  }
  if (Capture::current(*this)) {  // which must not be disturbed: other libraries' streams are not waited for
    api().cuStreamSynchronize(stream_);
  } else {
    const std::lock_guard hold(capturing);
    // The former is forbidden during a capture by the program itself.
    if (api().cuCtxSynchronize() != 0) api().cuStreamSynchronize(stream_);
  }
  api().cuCtxSetCurrent(now);
}

// The bytes are copied to pinned memory at once, and from there by an asynchronous copy on the stream: the host waits
// only for a free slot, and copies overlap running kernels. (CUDA does not tell when pageable memory has been read.) A
// slot is free when the copies from it are done.
void Gpu::upload(void* to, const void* from, size_t bytes) {
  Capture::require_none(*this);
  enter();
  if (is_gathered(to, bytes)) launch_gathered();
  const std::lock_guard hold(staging_mutex_);
  for (size_t done = 0; done < bytes;) {
    if (staged_ == staging_bytes) next_staging();
    StagingSlot& slot = staging_[staging_now_];
    if (!slot.memory) make_staging(slot);
    const size_t now = std::min(bytes - done, staging_bytes - staged_);
    std::memcpy(slot.memory + staged_, static_cast<const char*>(from) + done, now);
    RILL_CUDA(cuMemcpyHtoDAsync, reinterpret_cast<DevicePointer>(to) + done, slot.memory + staged_, now, stream_);
    staged_ = std::min((staged_ + now + 63) / 64 * 64, staging_bytes);
    done += now;
  }
}

void Gpu::make_staging(StagingSlot& slot) {
  if (!slot.read) RILL_CUDA(cuEventCreate, &slot.read, event_disable_timing);
  void* memory = nullptr;
  RILL_CUDA(cuMemHostAlloc, &memory, staging_bytes, 0);
  slot.memory = static_cast<char*>(memory);
}

void Gpu::next_staging() {
  RILL_CUDA(cuEventRecord, staging_[staging_now_].read, stream_);
  const size_t next = (staging_now_ + 1) % staging_slots;
  wait_for_exchanges(*this);
  if (staging_[next].memory) RILL_CUDA(cuEventSynchronize, staging_[next].read);
  staging_now_ = next, staged_ = 0;
}

int Gpu::fault_code(std::string_view op, std::string_view rule) {
  constexpr size_t most = 1 << 16;  // a program has few lines, but may create names of scopes without end
  std::string beginning = StartedFrom::beginning(op);
  const std::lock_guard hold(fault_mutex_);
  if (rules_.size() >= most) beginning = fmt::format("[{}] ", op);
  const auto [known, is_new] = codes_.try_emplace(fmt::format("{}{}", beginning, rule), int(rules_.size()) + 1);
  if (is_new) rules_.push_back({std::move(beginning), std::string(rule)});
  return known->second;
}

}  // namespace rill::cuda
