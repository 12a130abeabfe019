// Launches of maps (recorded kernels that reduce no rows) that are deferred until more of their kind arrive, so
// that an optimizer's step on hundreds of small parameters is a few launches. Each one's memory accesses are known, and
// none is launched before those that it depends on. Gpu::gather() says which are deferred, and until when. Start at
// Gathered::add.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "rill/devices/cuda/driver/api.h"
#include "rill/devices/cuda/driver/memory_ranges.h"
#include "rill/devices/cuda/kernel_text.h"
#include "rill/tensor/buffer.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::cuda {

class Gpu;

// A recorded kernel on a GPU. Its address is valid forever.
struct LoadedKernel {
  Function function = nullptr;  // of a map; null if it reduces rows
  kernel::Kernel kernel;
  RowPasses passes;  // if it reduces rows; then Gpu::row_function() loads variants as they are called for
};

class Gathered {
 public:
  // Launches a kernel: its parameters, the number of blocks of 256 threads, and its memory accesses.
  using StartKernel = Callback<void(Function, std::span<const char>, int64_t, std::span<const MemoryAccess>)>;
  using Memory = std::vector<Ref<Buffer>>;

  bool is_empty() const { return held_.empty(); }
  // Whether so many are gathered that they should be launched.
  bool is_full() const;
  // Defers a launch of the map `k` over `s`. `memory`: the buffers of its operands, which are kept until then.
  void add(const LoadedKernel& k, const Space& s, const Memory& memory);
  // Whether a deferred map reads or writes any of these bytes.
  bool touches(const char* begin, size_t bytes) const;
  // Launches all, those of one kernel on small operands together, and returns their memory.
  Memory launch_all(Gpu& gpu, const StartKernel& begin);

 private:
  struct Held {
    const LoadedKernel* kernel;
    Space space;
    int level;  // it depends on maps of lower levels alone
  };
  // The highest levels of maps that read and write a range.
  struct Levels {
    int read = -1, written = -1;
    void add(const Levels& o) { read = std::max(read, o.read), written = std::max(written, o.written); }
  };
  static void append_accesses(std::vector<MemoryAccess>& to, const LoadedKernel& k, const Space& s);
  static bool joins(const Held& a, const Held& b);
  void launch_grouped(Gpu& gpu, const std::vector<const Held*>& runs, const StartKernel& begin) const;

  std::vector<Held> held_;
  MemoryRanges<Levels> ranges_;
  Memory memory_;
  size_t bytes_ = 0;
};

}  // namespace rill::cuda

#pragma GCC visibility pop
