// What a kind of device does: memory, copies, which kernels it has and how they run. The host's two kinds, cpu and ref,
// are built in: their memory is the host's, their kernels run immediately, and dispatch calls both directly. Another
// kind is added by the library that drives it (add_driver), and nothing else in rill accesses its memory.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rill/devices/kernel.h"
#include "rill/devices/registry.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

// Devices whose memory the host reads and writes.
constexpr bool is_host(Device d) { return d.kind() == DeviceKind::cpu || d.kind() == DeviceKind::ref; }
// The device on which the host creates a tensor for `d`: `d` itself, or cpu:0.
constexpr Device host_for(Device d) { return is_host(d) ? d : Device(); }

struct FusedKernel;
class DeviceExchanges;

// Memory that a device reads or writes, and whose address may differ in later launches.
struct MovingMemory {
  char* begin;
  size_t bytes;
};

// Captured work of a device: a list of launches that is launched as one, any number of times.
class CapturedWork {
 public:
  CapturedWork() = default;
  CapturedWork(const CapturedWork&) = delete;
  virtual ~CapturedWork() = default;

  // Launches it, with the moving memory at these addresses, each at least as aligned as the captured one. Returns
  // false, having launched nothing, if it cannot work there: capture it again, and compare.
  virtual bool launch(std::span<char* const> at) = 0;
  // Compares it with an earlier capture of the same work on other memory: launch() may replace addresses if they are
  // all that differs. Returns whether the earlier one is of no more use.
  virtual bool replaces(CapturedWork& earlier) = 0;
};

// All functions may be called by several threads at once. Failures throw rill::Error.
class DeviceDriver {
 public:
  DeviceDriver() = default;
  DeviceDriver(const DeviceDriver&) = delete;
  virtual ~DeviceDriver() = default;

  virtual int count() const = 0;                            // devices 0 to count() - 1 are usable
  virtual int number(Device d) const { return d.index(); }  // the system's number, which other libraries use too

  // --- Memory ---
  // At least `bytes` bytes, aligned to 64. Throws host_memory::OutOfMemory.
  virtual Ref<Buffer> allocate(Device d, size_t bytes) = 0;
  virtual MemoryStats stats(Device d) = 0;
  virtual void reset_peak(Device d) = 0;
  virtual void release_cached(Device d) = 0;
  // As for set_memory_limit() and reserve_memory().
  virtual void set_limit(Device d, size_t bytes) = 0;
  virtual void reserve(Device d, size_t bytes) = 0;
  // The owner of `memory`, "the host" or "gpu:1", if `d`, one of the kind's devices or the host, cannot read it; "" if
  // it can, or if that is not known.
  virtual std::string unreadable_place(Device, const void*) { return ""; }

  // --- Work ---
  // Copies the elements of `from` (any strides) into the dense tensor `to`. At least one of the two is of this kind,
  // the other of this kind or on the host. When it returns, the host may read `to`, or overwrite `from`, if they are in
  // its memory.
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  // The kernel of the record `op`, named `name`, for a first operand of `dtype`, or nullptr. `reference` is the
  // record's kernel for host memory, for drivers that can run it.
  virtual Kernel kernel(const Op& op, std::string_view name, DType dtype, Kernel reference) = 0;
  // Runs such a kernel. It may return before the kernel has finished; work on a device runs in the order of these
  // calls, and operands' memory is kept until they have been read.
  virtual void run(Kernel kernel, const KernelArgs& args) = 0;
  // Runs `work`. Its calls of run() on this thread for `d` may be delayed, and many small kernels merged into one, but
  // without a visible change of order.
  virtual void together(Device, const Callback<void()>& work) { work(); }
  // Whether graphs on its devices are fused: then compile() returns what FusedKernel::code keeps, and there is a kernel
  // for the record `fused` (devices/fused.h). compile() may take seconds, and is called on its own thread.
  virtual bool fuses() const { return false; }
  virtual std::shared_ptr<const void> compile(const FusedKernel&, Device) { return nullptr; }
  // Captures the calls of run() by `work` on this thread, all for `d`, without launching them. Memory other than
  // `moving` must stay at its address. Throws what `work` throws; nullptr if it cannot be captured.
  virtual std::unique_ptr<CapturedWork> capture(Device, std::span<const MovingMemory>, const Callback<void()>&) {
    return nullptr;
  }
  // The seconds from the start to the end of what `work` runs on `d`, which it waits for: by the host's
  // clock, or by the device's own if it has one.
  virtual double seconds_of(Device d, const Callback<void()>& work);
  // Returns when all work on `d` has finished; throws the errors of that work.
  virtual void synchronize(Device d) = 0;
  // Returns when nothing in this process uses `d` any more, other libraries included. Throws nothing: for memory
  // that they share with rill and that is about to be freed.
  virtual void wait(Device) {}
  // How its devices exchange memory with those of other processes (exchange.h); nullptr if there is no such library.
  virtual DeviceExchanges* exchanges() { return nullptr; }
};

// Makes the devices of `kind` usable, and its first one the default device unless the program has set another. This
// cannot be undone, as tensors may be there. Throws for the host's kinds, and for one that has a driver.
void add_driver(DeviceKind kind, std::unique_ptr<DeviceDriver> driver);
// The driver of a device that is not the host's. Throws if there is none.
DeviceDriver& driver_of(Device d);

// The owner of `memory` if `d` cannot read it, as in DeviceDriver. It loads no driver.
std::string unreadable_place(Device d, const void* memory);

// Sets the function that frees unneeded memory of devices; it is called when an allocation fails, which is then tried
// again. It may be called from any thread that allocates, with none of rill's locks held, and throws nothing.
void set_memory_saver(void (*give_back)());

// Runs `work`, which has many small, independent elementwise ops on `d`, as few kernels.
void run_together(Device d, const Callback<void()>& work);

// Whether graphs on `d` are fused into kernels that are compiled for it.
bool fuses(Device d);

// Runs a kernel on its outputs' device.
void run_on_driver(Kernel kernel, const KernelArgs& args);
inline void run_on_device(Kernel kernel, const KernelArgs& args) {
  if (is_host(args.out[0]->device())) [[likely]]
    return kernel(args);
  run_on_driver(kernel, args);
}

}  // namespace rill

#pragma GCC visibility pop
