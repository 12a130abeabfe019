// The list of devices, the default one, and dispatch of allocation, copies and kernels to the host or a driver.
#include "rill/devices/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"

namespace rill {

// --- Devices ---------------------------------------------------------------------------------------------------------

namespace {
std::atomic<DeviceDriver*> gpu_driver = nullptr;  // never destroyed: tensors may outlive every static object

DeviceDriver* find_driver(DeviceKind kind) {
  return kind == DeviceKind::gpu ? gpu_driver.load(std::memory_order_acquire) : nullptr;
}

std::atomic<Device> process_default{Device()};
std::atomic<bool> default_was_set = false;
}  // namespace

void add_driver(DeviceKind kind, std::unique_ptr<DeviceDriver> driver) {
  if (kind != DeviceKind::gpu) fail("device", "the host's devices need no driver", Where());
  DeviceDriver* none = nullptr;
  if (!gpu_driver.compare_exchange_strong(none, driver.get())) fail("device", "gpu has a driver already", Where());
  if (driver.release()->count() > 0 && !default_was_set) process_default = Device(kind, 0);
}

DeviceDriver& driver_of(Device d) {
  DeviceDriver* driver = find_driver(d.kind());
  if (!driver) fail("device", fmt::format("nothing drives {} here", to_string(d)), Where());
  return *driver;
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

Device default_device() { return scoped.set ? scoped.device : process_default.load(std::memory_order_relaxed); }
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

MemoryStats memory_stats(Device d) {
  require_device(d);
  return is_host(d) ? host_memory::stats(d) : driver_of(d).stats(d);
}
void reset_peak_memory(Device d) {
  require_device(d);
  if (is_host(d)) host_memory::reset_peak(d);
  else driver_of(d).reset_peak(d);
}
void release_cached_memory(Device d) {
  require_device(d);
  if (is_host(d)) host_memory::release_cached();
  else driver_of(d).release_cached(d);
}

Ref<Buffer> allocate(Device d, size_t bytes) {
  require_device(d);
  if (is_host(d)) [[likely]]
    return host_memory::allocate(d, bytes);
  return driver_of(d).allocate(d, bytes);
}

namespace {
// A buffer of std::string objects wraps their block, so that they are destroyed before the block is returned.
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
    if (!is_host(spec.device))
      fail("device", fmt::format("strings live on the host, not on {}", to_string(spec.device)), Where());
    Ref<Buffer> b = allocate_strings(spec.device, n);
    return make_tensor(std::move(spec), std::move(b));
  }
  Ref<Buffer> b = allocate(spec.device, n * size_of(spec.dtype));
  return make_tensor(std::move(spec), std::move(b));
}

void copy_elements(const Tensor& from, Tensor& to) {
  for (const Device d : {from.device(), to.device()})
    if (!is_host(d)) return driver_of(d).copy(from, to);
  const TensorRep& f = *from.rep();
  TensorRep& t = *to.mutable_rep();
  cpu::strided_copy(f.spec.dtype, f.spec.shape, f.data, f.strides, t.data, t.strides);
}

// --- Placement log ---------------------------------------------------------------------------------------------------

bool detail::placement_log = false;
namespace {

// No lock is held while the sink runs, which may do anything, such as wait for a function that another thread traces.
struct PlacementLog {
  std::mutex mutex;
  std::condition_variable changed;
  Callback<void(std::string_view)> sink;
  std::deque<std::string> lines;  // for the thread that is in the sink
  bool busy = false;              // a thread is in it
};

// Never destroyed: a thread may still run ops while the process ends.
PlacementLog& placement() {
  static PlacementLog* log = new PlacementLog;
  return *log;
}

thread_local constinit bool in_sink = false;

// What a thread in the sink leaves behind, also where the sink throws.
struct LeaveSink {
  PlacementLog& log;
  std::unique_lock<std::mutex>& lock;
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
    const Callback<void(std::string_view)> sink = log.sink;  // it may put another in its place
    lock.unlock();
    sink(next);
    lock.lock();
  }
  log.lines.clear();
}

}  // namespace rill
