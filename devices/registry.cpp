// Which devices there are, the one in force, and the way to each one's memory.
#include "rill/devices/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "rill/devices/host_memory.h"

namespace rill {

// --- Devices ---------------------------------------------------------------------------------------------------------

std::vector<Device> devices() { return {Device(DeviceKind::cpu, 0), Device(DeviceKind::ref, 0)}; }

bool has_device(Device d) { return d.index() == 0 && (d.kind() == DeviceKind::cpu || d.kind() == DeviceKind::ref); }

namespace {
void require_device(Device d, const Where& where) {
  if (has_device(d)) return;
  std::string there;
  for (Device x : devices()) there += (there.empty() ? "" : ", ") + to_string(x);
  fail("device", fmt::format("there is no {} here. this machine has {}", to_string(d), there), where);
}

Device process_default;
struct Placement {
  Device device;
  bool set = false;
};
thread_local constinit Placement scoped;
}  // namespace

Device default_device() { return scoped.set ? scoped.device : process_default; }
void set_default_device(Device d, Where where) {
  require_device(d, where);
  process_default = d;
}

WithDevice::WithDevice(Device d, Where where) : outer_(scoped.device), outer_set_(scoped.set) {
  require_device(d, where);
  scoped = {d, true};
}
WithDevice::~WithDevice() { scoped = {outer_, outer_set_}; }

// --- Memory ----------------------------------------------------------------------------------------------------------

MemoryStats memory_stats(Device d) {
  require_device(d, Where::current());
  return host_memory::stats(d);
}
void reset_peak_memory(Device d) {
  require_device(d, Where::current());
  host_memory::reset_peak(d);
}
void release_cached_memory(Device d) {
  require_device(d, Where::current());
  host_memory::release_cached();
}

Ref<Buffer> allocate(Device d, size_t bytes) {
  if (!has_device(d)) require_device(d, Where::current());
  return host_memory::allocate(d, bytes);
}

namespace {
// A buffer of std::string objects wraps the block that holds them, so that they are destroyed before it goes back.
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
    Ref<Buffer> b = allocate_strings(spec.device, n);
    return make_tensor(std::move(spec), std::move(b));
  }
  Ref<Buffer> b = allocate(spec.device, n * size_of(spec.dtype));
  return make_tensor(std::move(spec), std::move(b));
}

namespace {
// Copies `from`, walking its strides, into dense `to`.
template <class T>
void copy_strided(const TensorRep& from, T* to) {
  const Shape& shape = from.spec.shape;
  int n = shape.ndim();
  if (n == 0) {
    *to = *reinterpret_cast<const T*>(from.data);
    return;
  }
  int64_t inner = shape[size_t(n - 1)], step = from.strides[size_t(n - 1)];
  Dims index(size_t(n), 0);
  const T* base = reinterpret_cast<const T*>(from.data);
  for (int64_t row = 0, rows = inner ? shape.numel() / inner : 0; row < rows; ++row) {
    int64_t offset = 0;
    for (int i = 0; i + 1 < n; ++i) offset += index[size_t(i)] * from.strides[size_t(i)];
    for (int64_t j = 0; j < inner; ++j) *to++ = base[offset + j * step];
    for (int i = n - 2; i >= 0 && ++index[size_t(i)] == shape[size_t(i)]; --i) index[size_t(i)] = 0;
  }
}
struct Bytes16 {
  uint64_t a, b;
};
}  // namespace

void copy_elements(const Tensor& from, Tensor& to) {
  const TensorRep& f = *from.rep();
  char* out = to.mutable_rep()->data;
  if (f.spec.shape.numel() == 0) return;
  if (f.spec.dtype == DType::string) return copy_strided(f, reinterpret_cast<std::string*>(out));
  if (from.is_contiguous()) {
    std::memcpy(out, f.data, size_t(f.spec.shape.numel()) * size_of(f.spec.dtype));
    return;
  }
  switch (size_of(f.spec.dtype)) {
    case 1: return copy_strided(f, reinterpret_cast<uint8_t*>(out));
    case 2: return copy_strided(f, reinterpret_cast<uint16_t*>(out));
    case 4: return copy_strided(f, reinterpret_cast<uint32_t*>(out));
    case 8: return copy_strided(f, reinterpret_cast<uint64_t*>(out));
    default: return copy_strided(f, reinterpret_cast<Bytes16*>(out));
  }
}

// --- Placement log ---------------------------------------------------------------------------------------------------

bool placement_is_logged = false;
namespace {
std::mutex log_mutex;
Callback<void(std::string_view)> log_sink;
}  // namespace

void log_placement(Callback<void(std::string_view)> sink) {
  std::lock_guard lock(log_mutex);
  log_sink = std::move(sink);
  placement_is_logged = bool(log_sink);
}

void report_placement(std::string_view op, std::span<const Tensor* const> inputs, Device d) {
  std::string line = fmt::format("{}: {}(", to_string(d), op);
  for (size_t i = 0; i < inputs.size(); ++i) line += (i ? ", " : "") + to_string(inputs[i]->spec());
  line += ")\n";
  std::lock_guard lock(log_mutex);
  if (log_sink) log_sink(line);
}

}  // namespace rill
