// What a kind of device does: memory, copies, which kernels it has and how they run. The host's two kinds, cpu and ref,
// are built in: their memory is the host's, their kernels run at once, and dispatch calls both directly. Another kind
// is added by the library that drives it (add_driver), and nothing else in rill touches its memory.
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
// Where the host makes a tensor that goes to `d`: there, or on cpu:0 first.
constexpr Device host_for(Device d) { return is_host(d) ? d : Device(); }

namespace kernel {
struct Kernel;
}
class DeviceExchanges;

// Memory that work on a device reads or writes, and that may be elsewhere when the work is begun again.
struct MovingMemory {
  char* begin;
  size_t bytes;
};

// Work on a device that was captured: a list of launches that is begun as one, any number of times.
class CapturedWork {
 public:
  CapturedWork() = default;
  CapturedWork(const CapturedWork&) = delete;
  virtual ~CapturedWork() = default;

  // Begins it, with the moving memory at these addresses, each as well aligned as the one that was captured. False,
  // and nothing has begun, where it cannot work there: capture it again, and compare.
  virtual bool launch(std::span<char* const> at) = 0;
  // Compares it with an earlier capture of the same work on memory elsewhere: launch() may move memory whose addresses
  // are all that differs. Whether the earlier one is of no use any more.
  virtual bool replaces(CapturedWork& earlier) = 0;
};

// All calls may come from several threads at once. What fails throws rill::Error.
class DeviceDriver {
 public:
  DeviceDriver() = default;
  DeviceDriver(const DeviceDriver&) = delete;
  virtual ~DeviceDriver() = default;

  virtual int count() const = 0;                            // devices 0 to count() - 1 are usable
  virtual int number(Device d) const { return d.index(); }  // by which the system and other libraries know it

  // --- Memory ---
  // At least `bytes` bytes, aligned to 64. Throws host_memory::OutOfMemory.
  virtual Ref<Buffer> allocate(Device d, size_t bytes) = 0;
  virtual MemoryStats stats(Device d) = 0;
  virtual void reset_peak(Device d) = 0;
  virtual void release_cached(Device d) = 0;
  // As set_memory_limit() and reserve_memory() say.
  virtual void set_limit(Device d, size_t bytes) = 0;
  virtual void reserve(Device d, size_t bytes) = 0;
  // Whose memory `memory` is, "the host" or "gpu:1", where what runs on `d`, one of its devices or the host, cannot
  // read it; else, or where that is not known, "".
  virtual std::string unreadable_place(Device, const void*) { return ""; }

  // --- Work ---
  // Copies the elements of `from` (any strides) into the dense tensor `to`. At least one of the two is of this kind,
  // the other of it or on the host. When it returns, the host may read `to`, or write over `from`, where they are its
  // own.
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  // The kernel of the record `op`, named `name`, for a first operand of `dtype`, or nullptr. `reference` is the
  // record's kernel for the host's memory, for drivers that can run it.
  virtual Kernel kernel(const Op& op, std::string_view name, DType dtype, Kernel reference) = 0;
  // Runs one of those. It may return before the kernel has ended; work on a device begins in the order of these calls,
  // and operands' memory is kept until they have been read.
  virtual void run(Kernel kernel, const KernelArgs& args) = 0;
  // Runs `work`. What that gives to run() on this thread for `d` may begin later, and many small kernels as one, but
  // in no other order than can be seen.
  virtual void together(Device, const Callback<void()>& work) { work(); }
  // Whether graphs on its devices are fused: then compile() gives what FusedKernel::code keeps, and there is a kernel
  // for the record `fused` (devices/fused.h). compile() may take seconds, and is called on a thread of its own.
  virtual bool fuses() const { return false; }
  virtual std::shared_ptr<const void> compile(const kernel::Kernel&, Device) { return nullptr; }
  // Captures what `work` gives to run() on this thread, all of it for `d`: nothing of that begins. What else it works
  // on than `moving` must stay where it is. Throws what `work` throws; nullptr where it cannot be captured.
  virtual std::unique_ptr<CapturedWork> capture(Device, std::span<const MovingMemory>, const Callback<void()>&) {
    return nullptr;
  }
  // The seconds from the beginning to the end of what `work` gives to run() for `d`, which waits for it: by the host's
  // clock, or by the device's own where it has one.
  virtual double seconds_of(Device d, const Callback<void()>& work);
  // Returns when all that was begun on `d` has ended; throws what of it has failed.
  virtual void synchronize(Device d) = 0;
  // Returns when nothing in this process works on `d` any more, other libraries included. Throws nothing: for memory
  // that they share with rill and that goes away.
  virtual void wait(Device) {}
  // By which devices exchange memory with those of other processes (exchange.h); nullptr where there is no such library.
  virtual DeviceExchanges* exchanges() { return nullptr; }
};

// Makes the devices of `kind` usable, and its first one the default device unless the program has set another. There is
// no way back, for tensors may live there. Throws for the host's kinds, and for one that has a driver.
void add_driver(DeviceKind kind, std::unique_ptr<DeviceDriver> driver);
// The driver of a device that is not the host's. Throws where there is none.
DeviceDriver& driver_of(Device d);

// Whose memory `memory` is where `d` cannot read it, as DeviceDriver says. It looks for no driver.
std::string unreadable_place(Device d, const void* memory);

// What gives back memory of devices that nothing needs now; it is called when an allocation fails, which is tried again
// then. It may be called from any thread that allocates, holds no lock of rill's then, and throws nothing.
void set_memory_saver(void (*give_back)());

// Runs `work`, which has many small elementwise ops on `d` that do not depend on each other: as few kernels there.
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
