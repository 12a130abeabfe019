// One GPU: its context, its stream, its memory, its loaded kernels. All of rill's work on a GPU goes
// through its one stream, in the order of the calls, so memory that is freed may be reused at once: its
// next user comes later in the stream. Start at Gpu.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "rill/devices/cuda/driver/api.h"
#include "rill/devices/cuda/driver/gathered.h"
#include "rill/devices/kernel.h"
#include "rill/devices/registry.h"

#pragma GCC visibility push(default)

namespace rill::cuda {

// A kernel's report of an element of an operand that breaks a rule. Faults are in pinned host memory that the GPU
// writes to, `kept` of them for each host thread (Gpu::fault_slot). Kernels call rill::report() of prelude.cuh, which
// declares the same struct.
struct Fault {
  static constexpr int kept = 8;
  int code = 0;  // 0: none; else 1 + the index in Gpu's list of rules
  long long value = 0, limit = 0, position = 0;
};

// Restores the calling thread's current context at its end, for programs that use CUDA themselves; a thread that had
// none keeps rill's.
class RestoredContext {
 public:
  RestoredContext();
  ~RestoredContext();
  RestoredContext(const RestoredContext&) = delete;

 private:
  Context callers_ = nullptr;
};

class Gpu {
 public:
  // gpu:INDEX, which has this number in the driver. It allocates no memory there before open().
  Gpu(int index, int number_of_driver);
  Gpu(const Gpu&) = delete;
  // Creates the context and what depends on it, once: called by gpu_of(). Throws if the driver cannot.
  void open();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  const Device device;
  const int ordinal;
  int architecture = 0;  // 90 for sm_90
  int processors = 0;    // streaming multiprocessors
  Context context = nullptr;
  std::string name;
  // Launches gathered maps first.
  Stream stream() {
    launch_gathered();
    return stream_;
  }

  // Makes the context current on this thread; every call of the driver for this GPU comes after it.
  void enter() const;

  // --- Memory (memory.cpp) ---
  Ref<Buffer> allocate(size_t bytes);
  // The same outside of a Capture's arena, which allocate() uses while this thread makes one.
  Ref<Buffer> allocate_block(size_t bytes);
  MemoryStats stats();
  void reset_peak();
  void release_cached();
  // At most this many bytes, cached ones included; 0: no limit.
  void set_limit(size_t bytes);
  // Allocates this many bytes from the system ahead of their use.
  void reserve(size_t bytes);

  // Copies from the host; `from` may be overwritten as soon as this returns.
  void upload(void* to, const void* from, size_t bytes);

  // --- Kernels (modules.cpp) ---
  // The kernel that `key` names. If it is not loaded yet, `text` returns its CUDA C++, to follow prelude(),
  // in which it is called "k"; machine code is cached on disk. Any thread may call it.
  Function function(const std::string& key, const Callback<std::string()>& text);
  // The same for the kernel that `record` returns.
  const LoadedKernel& recorded(const std::string& key, const Callback<kernel::Kernel()>& record);
  // A variant of a kernel that reduces rows; compiled at its first use, which may take seconds.
  Function row_function(const LoadedKernel& k, RowVariant v);
  // Addresses in parameters are those of elements of their operands, or of fault_slot(): a Capture finds them there.
  // Launches `count` threads in blocks of 256, but no more than fill the GPU a few times over: kernels are grid-stride
  // loops. Nothing is launched if `count` is 0.
  template <class Params>
  void launch(Function f, const Params& params, int64_t count) {
    launch_blocks(f, params, blocks_for(count), 256);
  }
  // Launches a grid of this size.
  template <class Params>
  void launch_blocks(Function f, Params params, int64_t blocks, int threads, int shared_bytes = 0) {
    // A capture compares parameters byte by byte, and what lies between members is arbitrary. (clang has no such function:
    // there a step may be captured again without need.)
#if defined(__GNUC__) && !defined(__clang__)
    __builtin_clear_padding(&params);
#endif
    start(f, &params, sizeof params, unsigned(blocks), unsigned(threads), unsigned(shared_bytes));
  }

  // --- Gathering ---
  // Launches a map for a record's call: later and together with others while this thread gathers or makes a Capture.
  // `more`: what it reads besides the call's operands.
  void launch_map(const LoadedKernel& k, const Space& s, const KernelArgs& args, std::span<const Tensor> more = {});
  // Runs `work` and gathers the maps that it starts on this thread. They are launched at its end, or before any other
  // work that any thread starts on this GPU.
  void gather(const Callback<void()>& work);
  unsigned blocks_for(int64_t count) const;

  // --- Waiting ---
  // Held shared while a library's call is captured, and exclusively by wait(): CUDA refuses cuCtxSynchronize() while a
  // stream of the context is captured.
  std::shared_mutex capturing;
  // Returns when all started work has ended; throws its errors, and those that this thread's kernels report.
  void synchronize();
  // Returns when nothing in this process uses the GPU any more, other libraries' streams included. Never throws.
  void wait() noexcept;
  // For Params of kernels that report faults: the address for this thread's faults, and a code for `rule`, an error of
  // `op` that is called from where the thread is now (StartedFrom); {value}, {limit} and {position} in it are replaced
  // by the kernel's report. The error is thrown when the thread next waits for the GPU.
  Fault* fault_slot() const;
  int fault_code(std::string_view op, std::string_view rule);
  // Prints the errors of a thread that had this slot and ended without waiting for the GPU: the thread that gets the
  // slot next must not throw them. Waits for the stream.
  void print_unreported_faults(int slot);

 private:
  std::string collect_faults(Fault* slot);
  void throw_faults();
  void launch_gathered();
  bool is_gathered(const void* memory, size_t bytes);  // whether a gathered map accesses some of it
  void start(Function f, const void* params, size_t bytes, unsigned blocks, unsigned threads, unsigned shared_bytes);
  void make_pool();
  DevicePointer allocate_from_driver(size_t bytes);
  static void release(Buffer* b);
  void give_back(DevicePointer block, size_t bytes);
  // With memory_mutex_ held. Returns it to the pool, and from there to the system, which waits for the stream.
  void free_cached();
  void free_to_driver(DevicePointer block);
  void trim_pool();

  int device_of_driver_ = 0;  // CUdevice
  Stream stream_ = nullptr;
  std::atomic<bool> open_ = false;
  std::mutex open_mutex_;

  std::mutex memory_mutex_;
  std::map<size_t, std::vector<DevicePointer>> cached_;  // by size
  MemoryStats counts_;
  size_t limit_ = 0;
  Pool pool_ = nullptr;  // null if the GPU has none

  // Pinned memory for uploads: a ring of slots, the current one with this many bytes in use.
  struct StagingSlot {
    char* memory = nullptr;
    Event read = nullptr;  // the copies from it are done
  };
  static constexpr size_t staging_slots = 4, staging_bytes = 2 << 20;
  void make_staging(StagingSlot& slot);
  void next_staging();
  std::mutex staging_mutex_;
  StagingSlot staging_[staging_slots];
  size_t staging_now_ = 0, staged_ = 0;

  std::mutex gather_mutex_;
  Gathered gathered_;
  std::atomic<bool> has_gathered_ = false;  // whether gathered_ is not empty

  std::mutex module_mutex_;
  std::unordered_map<std::string, Function> functions_, by_text_;
  std::unordered_map<std::string, LoadedKernel> recorded_;
  std::map<std::tuple<const LoadedKernel*, bool, int>, Function> row_functions_;

  static constexpr int fault_slots = 64;  // for threads; more threads share slots
  Fault* faults_ = nullptr;
  struct Rule {
    std::string beginning, text;  // of the message
  };
  std::mutex fault_mutex_;
  std::vector<Rule> rules_;
  std::unordered_map<std::string, int> codes_;  // by both
};

// The GPU of a device, opened, for work there. rill_cuda_open() has found them.
Gpu& gpu_of(Device d);
// The same without opening it.
Gpu& found_gpu(Device d);

// The one T that belongs to a GPU: for example handles of a library, and objects made with them.
template <class T>
T& of_gpu(const Gpu& gpu) {
  static std::mutex mutex;
  static auto* all = new std::map<int, T>;  // tensors may outlive every static object
  const std::lock_guard hold(mutex);
  return (*all)[gpu.device.index()];
}
int gpu_count();
// The location of memory that kernels on `d` (or the host, if d is the host) cannot read: "the host", "gpu:1"; or "".
std::string unreadable_place(Device d, const void* memory);
// The number of the driver's GPUs. Throws if it fails.
int count_gpus();
// Finds the GPUs, all or those with these driver numbers. Throws if the driver fails.
void find_gpus(const std::vector<int>* wanted);

// RILL_TF32=on: products and convolutions of f32 may round their operands to TF32, for tensor cores.
bool allows_tf32();

// Throws in the child of a fork(), which cannot use CUDA, and whose locks may be held for ever.
void require_no_fork();
bool in_fork();

// A workspace for a library; an undefined tensor if it needs none. `hold` is released meanwhile: freeing
// memory on demand may run any code (set_memory_saver).
Tensor take_workspace(const Gpu& gpu, size_t bytes, std::unique_lock<std::mutex>& hold);

// The address of a tensor's first element.
inline char* address(const Tensor& t) { return t.rep()->data; }

}  // namespace rill::cuda

#pragma GCC visibility pop
