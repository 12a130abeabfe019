// The list of devices, the default one, and dispatch of allocation, copies and kernels to the host or a driver.
#include "rill/devices/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cuda/open.h"
#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"
#include "rill/tensor/fork_condition.h"

namespace rill {

// --- Devices ---------------------------------------------------------------------------------------------------------

namespace {
// The host as a driver, for the calls below that are the same for every device. Dispatch does not use it.
class HostDriver final : public DeviceDriver {
 public:
  int count() const override { return 1; }
  Ref<Buffer> allocate(Device d, size_t bytes) override { return host_memory::allocate(d, bytes); }
  MemoryStats stats(Device d) override { return host_memory::stats(d); }
  void reset_peak(Device d) override { host_memory::reset_peak(d); }
  void release_cached(Device) override { host_memory::release_cached(); }
  void set_limit(Device, size_t) override {}
  void reserve(Device, size_t) override {}
  void copy(const Tensor& from, Tensor& to) override {
    const TensorRep& f = *from.rep();
    TensorRep& t = *to.mutable_rep();
    cpu::strided_copy(f.spec.dtype, f.spec.shape, f.data, f.strides, t.data, t.strides);
  }
  Kernel kernel(const Op&, std::string_view, DType, Kernel reference) override { return reference; }
  void run(Kernel kernel, const KernelArgs& args) override { kernel(args); }
  void synchronize(Device) override {}
};

// Neither driver is ever destroyed: tensors may outlive every static object.
DeviceDriver& host_driver() {
  static DeviceDriver& driver = *new HostDriver;
  return driver;
}
std::atomic<DeviceDriver*> gpu_driver = nullptr;

// Which GPUs the program allows, and whether the driver was loaded.
struct Visible {
  ForkMutex mutex;
  bool looked = false;
  std::optional<std::vector<int>> gpus;  // none: all
};
Visible& visible() {
  static auto* v = new Visible;
  return *v;
}

// The driver of GPUs is loaded when it is first needed, because that takes time and memory.
DeviceDriver* find_gpus() {
  const std::lock_guard hold(visible().mutex);
  if (!std::exchange(visible().looked, true)) gpu_driver = cuda::open_driver(visible().gpus).release();
  return gpu_driver.load(std::memory_order_acquire);
}

DeviceDriver* find_driver(DeviceKind kind) {
  if (kind != DeviceKind::gpu) return nullptr;
  DeviceDriver* driver = gpu_driver.load(std::memory_order_acquire);
  return driver ? driver : find_gpus();
}

constexpr Device not_chosen(DeviceKind::gpu, 255);
std::atomic<Device> process_default{not_chosen};
std::atomic<bool> default_was_set = false;

Device choose_default() {
  DeviceDriver* driver = find_driver(DeviceKind::gpu);
  Device none = not_chosen;
  process_default.compare_exchange_strong(none, driver && driver->count() > 0 ? Device(DeviceKind::gpu, 0) : Device());
  return process_default;
}
}  // namespace

void add_driver(DeviceKind kind, std::unique_ptr<DeviceDriver> driver) {
  if (kind != DeviceKind::gpu) fail("device", "the host's devices need no driver", Where());
  {
    const std::lock_guard hold(visible().mutex);  // no other thread is loading the driver
    if (gpu_driver.load(std::memory_order_relaxed))
      fail("device", "gpu has a driver already. RILL_CUDA=off keeps rill from looking for one", Where());
    visible().looked = true;
    gpu_driver.store(driver.release(), std::memory_order_release);  // it lives as long as the process
  }
  if (!default_was_set) process_default = not_chosen;
}

DeviceDriver& driver_of(Device d) {
  DeviceDriver* driver = find_driver(d.kind());
  if (!driver) fail("device", fmt::format("nothing drives {} here", to_string(d)), Where());
  return *driver;
}

namespace {
DeviceDriver& any_driver_of(Device d) { return is_host(d) ? host_driver() : driver_of(d); }
}  // namespace

std::string unreadable_place(Device d, const void* memory) {
  DeviceDriver* driver = is_host(d) ? gpu_driver.load(std::memory_order_acquire) : find_driver(d.kind());
  return driver ? driver->unreadable_place(d, memory) : "";
}

bool fuses(Device d) {
  if (is_host(d)) return d.kind() == DeviceKind::cpu;
  const DeviceDriver* driver = find_driver(d.kind());
  return driver && driver->fuses();
}

double DeviceDriver::seconds_of(Device d, const Callback<void()>& work) {
  using Clock = std::chrono::steady_clock;
  synchronize(d);
  const Clock::time_point start = Clock::now();
  work();
  synchronize(d);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void run_together(Device d, const Callback<void()>& work) {
  if (is_host(d)) work();
  else driver_of(d).together(d, work);
}
void run_on_driver(Kernel kernel, const KernelArgs& args) { driver_of(args.out[0]->device()).run(kernel, args); }

std::vector<Device> devices() {
  std::vector<Device> all{Device(DeviceKind::cpu, 0)};
  if (DeviceDriver* driver = find_driver(DeviceKind::gpu))
    for (int i = 0; i < driver->count(); ++i) all.emplace_back(DeviceKind::gpu, i);
  all.emplace_back(DeviceKind::ref, 0);
  return all;
}

bool has_device(Device d) {
  if (is_host(d)) [[likely]]
    return d.index() == 0;
  const DeviceDriver* driver = find_driver(d.kind());
  return driver && d.index() < driver->count();
}

void detail::require_device(std::string_view op, Device d, const Where& where) {
  if (has_device(d)) return;
  std::string there;
  for (Device x : devices()) there += (there.empty() ? "" : ", ") + to_string(x);
  fail(op, fmt::format("there is no {} here. this machine has {}", to_string(d), there), where);
}

namespace {
void require_device(Device d, const Where& where = Where()) { detail::require_device("device", d, where); }

struct Placement {
  Device device;
  bool set = false;
};
thread_local constinit Placement scoped;
}  // namespace

Device default_device() {
  if (scoped.set) return scoped.device;
  const Device d = process_default.load(std::memory_order_relaxed);
  return d == not_chosen ? choose_default() : d;
}
void set_default_device(Device d, Where where) {
  require_device(d, where);
  default_was_set = true;
  process_default.store(d, std::memory_order_relaxed);
}

WithDevice::WithDevice(Device d, Where where) : outer_(scoped.device), outer_set_(scoped.set) {
  require_device(d, where);
  scoped = {d, true};
}
WithDevice::~WithDevice() { scoped = {outer_, outer_set_}; }

// --- Memory ----------------------------------------------------------------------------------------------------------

namespace {
std::atomic<void (*)()> memory_saver = nullptr;
}
void set_memory_saver(void (*give_back)()) { memory_saver.store(give_back, std::memory_order_release); }

MemoryStats memory_stats(Device d) {
  require_device(d);
  return any_driver_of(d).stats(d);
}
void reset_peak_memory(Device d) {
  require_device(d);
  any_driver_of(d).reset_peak(d);
}
void release_cached_memory(Device d) {
  require_device(d);
  any_driver_of(d).release_cached(d);
}

Ref<Buffer> allocate(Device d, size_t bytes) {
  require_device(d);
  if (is_host(d)) [[likely]]  // each eager call of an op
    return host_memory::allocate(d, bytes);
  DeviceDriver& driver = driver_of(d);
  const auto save = memory_saver.load(std::memory_order_acquire);
  if (!save) return driver.allocate(d, bytes);
  try {
    return driver.allocate(d, bytes);
  } catch (const host_memory::OutOfMemory&) {
    save();
  }
  return driver.allocate(d, bytes);
}

namespace {
DeviceDriver& gpu_driver_of(const char* what, Device d, const Where& where) {
  detail::require_device(what, d, where);
  if (is_host(d)) fail(what, fmt::format("takes a GPU. {} has no memory of its own", to_string(d)), where);
  return driver_of(d);
}
}  // namespace

void set_memory_limit(Device d, size_t bytes, Where where) {
  gpu_driver_of("set_memory_limit", d, where).set_limit(d, bytes);
}

void reserve_memory(Device d, size_t bytes, Where where) {
  DeviceDriver& driver = gpu_driver_of("reserve_memory", d, where);
  try {
    driver.reserve(d, bytes);
  } catch (const host_memory::OutOfMemory& e) {
    fail("reserve_memory", e.reason, where);
  }
}

void synchronize(Device d, Where where) {
  detail::require_device("synchronize", d, where);
  if (is_host(d)) return;
  try {
    driver_of(d).synchronize(d);
  } catch (const Error& e) {
    if (*e.what() != '[') throw;  // it already has its source line
    fail_placed(e.what(), where);
  }
}

void set_visible_devices(const std::vector<Device>& gpus, Where where) {
  std::vector<int> numbers;
  for (const Device d : gpus) {
    if (d.kind() != DeviceKind::gpu)
      fail("set_visible_devices", fmt::format("takes GPUs. {} is always there", to_string(d)), where);
    if (std::find(numbers.begin(), numbers.end(), d.index()) != numbers.end())
      fail("set_visible_devices", fmt::format("{} stands there twice", to_string(d)), where);
    numbers.push_back(d.index());
  }
  const std::lock_guard hold(visible().mutex);
  if (visible().looked)
    fail("set_visible_devices", "devices are in use already. call it before the first tensor is made", where);
  std::string why_none;
  const int count = numbers.empty() ? 0 : cuda::count_gpus(why_none);
  for (const int number : numbers)
    if (number >= count)
      fail("set_visible_devices",
           count ? fmt::format("there is no gpu:{}. this machine has gpu:0 to gpu:{}", number, count - 1)
                 : fmt::format("there is no gpu:{}: {}", number, why_none),
           where);
  visible().gpus = std::move(numbers);
}

namespace {
// A buffer of std::string objects wraps their block, so that they are destroyed before the block is freed.
struct StringBlock {
  Ref<Buffer> block;
  size_t count;
};
void release_strings(Buffer* b) {
  auto* s = static_cast<StringBlock*>(b->owner);
  std::destroy_n(static_cast<std::string*>(b->data), s->count);
  delete s;
  delete b;
}
Ref<Buffer> allocate_strings(Device d, size_t count) {
  Ref<Buffer> block = allocate(d, count * sizeof(std::string));
  auto* b = new Buffer;
  b->device = d;
  b->data = block->data;
  b->bytes = block->bytes;
  b->release = release_strings;
  b->owner = new StringBlock{std::move(block), count};
  std::uninitialized_value_construct_n(static_cast<std::string*>(b->data), count);
  return Ref<Buffer>::adopt(b);
}
}  // namespace

Tensor empty_tensor(Spec spec) {
  size_t n = size_t(spec.shape.numel());
  if (spec.dtype == DType::string) {
    if (!is_host(spec.device)) spec.device = Device();  // strings are always on the host
    Ref<Buffer> b = allocate_strings(spec.device, n);
    return make_tensor(std::move(spec), std::move(b));
  }
  Ref<Buffer> b = allocate(spec.device, n * size_of(spec.dtype));
  return make_tensor(std::move(spec), std::move(b));
}

void copy_elements(const Tensor& from, Tensor& to) {
  any_driver_of(is_host(from.device()) ? to.device() : from.device()).copy(from, to);
}

// --- Placement log ---------------------------------------------------------------------------------------------------

bool detail::placement_log = false;
namespace {

// No lock is held while the sink runs, because it may do anything, such as wait for a function that another thread
// traces.
struct PlacementLog {
  ForkMutex mutex;
  ForkCondition changed;
  Callback<void(std::string_view)> sink;
  std::deque<std::string> lines;  // for the thread that runs the sink
  bool busy = false;              // a thread runs it
};

// Never destroyed: a thread may still run ops while the process ends.
PlacementLog& placement() {
  static PlacementLog* log = new PlacementLog;
  return *log;
}

thread_local constinit bool in_sink = false;

// Cleans up after a thread has run the sink, even if the sink throws.
struct LeaveSink {
  PlacementLog& log;
  std::unique_lock<ForkMutex>& lock;
  ~LeaveSink() {
    if (!lock.owns_lock()) lock.lock();
    in_sink = log.busy = false;
    log.changed.notify_all();
  }
};

}  // namespace

void log_placement(Callback<void(std::string_view)> sink) {
  PlacementLog& log = placement();
  std::unique_lock lock(log.mutex);
  if (!in_sink) log.changed.wait(lock, [&] { return !log.busy; });
  log.lines.clear();
  std::swap(log.sink, sink);
  __atomic_store_n(&detail::placement_log, bool(log.sink), __ATOMIC_RELAXED);
}

void report_placement(std::string_view op, std::span<const Tensor* const> inputs, Device d) {
  if (in_sink) return;
  std::string line = fmt::format("{}: {}(", to_string(d), op);
  for (size_t i = 0; i < inputs.size(); ++i) line += (i ? ", " : "") + to_string(inputs[i]->spec());
  line += ")\n";
  PlacementLog& log = placement();
  std::unique_lock lock(log.mutex);
  log.lines.push_back(std::move(line));
  if (log.busy) return;
  in_sink = log.busy = true;
  LeaveSink leave{log, lock};
  while (log.sink && !log.lines.empty()) {
    const std::string next = std::move(log.lines.front());
    log.lines.pop_front();
    const Callback<void(std::string_view)> sink = log.sink;  // a copy, as it may set another
    lock.unlock();
    sink(next);
    lock.lock();
  }
  log.lines.clear();
}

}  // namespace rill
