// Devices: which there are, the default one, and their memory.
#pragma once
#include <string_view>
#include <vector>

#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// Every usable device of this machine, cpu:0 first. ref:0, the slow reference device, comes last.
std::vector<Device> devices();
bool has_device(Device d);  // whether `d` is one of them
// The device of new tensors unless one is given: the innermost WithDevice, else set_default_device's, else gpu:0
// where there is one, else cpu:0.
Device default_device();
// Throws where there is no such device.
void set_default_device(Device d, Where where = Where::current());

// Scoped placement: tensors made while it lives, on this thread, are made on `d`.
class WithDevice {
 public:
  [[nodiscard]] explicit WithDevice(Device d, Where where = Where::current());
  ~WithDevice();
  WithDevice(const WithDevice&) = delete;

 private:
  Device outer_;
  bool outer_set_;
};

// Bytes of tensors' memory on a device. `reserved` counts what the allocator keeps for later as well.
struct MemoryStats {
  size_t in_use = 0, peak = 0, reserved = 0;
  size_t allocations = 0;  // calls so far
};
MemoryStats memory_stats(Device d);  // the counts now
// Sets `peak` back to what is in use now.
void reset_peak_memory(Device d);
// Returns the memory that the allocator keeps for later to the system.
void release_cached_memory(Device d);

// At most so many bytes of `d`, a GPU, are taken from the system, those kept for later included: what asks for more
// throws an error, as where memory is out. 0: as many as there are, which is the default. Throws for the host's
// devices.
void set_memory_limit(Device d, size_t bytes, Where where = Where::current());
// Takes so many bytes of `d`, a GPU, from the system now, for tensors to come: else memory grows as they need it.
// Throws for the host's devices, and where there is not so much.
void reserve_memory(Device d, size_t bytes, Where where = Where::current());

// Returns when all that was begun on `d` has ended, at once for the host. Throws what of it has failed: kernels of a
// GPU run on after the call that began them, and what is wrong with the elements of their operands (an index out of
// range) is found then. Reading a tensor waits by itself.
void synchronize(Device d, Where where = Where::current());

// Lets the program see these GPUs alone, as gpu:0, gpu:1, ... in this order; none: {}. To be called before devices or
// tensors are first used: later it throws, and where there is no such GPU.
void set_visible_devices(const std::vector<Device>& gpus, Where where = Where::current());

// Calls `sink` with a line for each op that runs: its name, operands and device; nullptr ends it, and returns when no
// thread is in the sink any more. One thread at a time is in it; lines of others that come meanwhile are kept for that
// one. The sink may run ops itself, of which it is not told, but not read a Variable that a call is about to assign.
void log_placement(Callback<void(std::string_view)> sink);
// Reports an op to that sink, if there is one.
namespace detail {
extern bool placement_log;
// Throws, as an error of `op`, where there is no such device.
void require_device(std::string_view op, Device d, const Where& where);
}  // namespace detail
inline bool placement_is_logged() { return __atomic_load_n(&detail::placement_log, __ATOMIC_RELAXED); }
void report_placement(std::string_view op, std::span<const Tensor* const> inputs, Device d);

// At least `bytes` bytes on `d`, aligned to 64. Throws where there is no such device or the memory is exhausted.
Ref<Buffer> allocate(Device d, size_t bytes);
// An uninitialised dense tensor (strings are made empty).
Tensor empty_tensor(Spec spec);
// Copies the elements of `from` (any strides) into the dense tensor `to` of the same shape and dtype, across devices.
void copy_elements(const Tensor& from, Tensor& to);

}  // namespace rill

#pragma GCC visibility pop
