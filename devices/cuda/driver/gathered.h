// Launches of maps (recorded kernels that reduce no rows) that are held back until others of their kind have come: a step of
// an optimizer on hundreds of small parameters is then some launches and not hundreds. It is known what each reads and
// writes, and none begins before what it depends on. Gpu::gather() says what is held back, and until when; start at
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

// A recorded kernel on a GPU. It stays where it is, for ever.
struct LoadedKernel {
  Function function = nullptr;
  kernel::Kernel kernel;
  RowPasses passes;  // where it reduces rows
};

class Gathered {
 public:
  // Starts a kernel: its parameters, blocks of 256 threads, and what it touches.
  using Begin = Callback<void(Function, std::span<const char>, int64_t, std::span<const Touched>)>;
  using Memory = std::vector<Ref<Buffer>>;

  bool is_empty() const { return held_.empty(); }
  // Whether so much is held back that it should begin.
  bool is_full() const;
  // Holds back a launch of `k`, a map, over `s`. `memory`: what its operands lie in, which nobody else gets meanwhile.
  void add(const LoadedKernel& k, const Space& s, const Memory& memory);
  // Whether one of them reads or writes any of these bytes.
  bool touches(const char* begin, size_t bytes) const;
  // Begins all, those of one kernel on small operands together, and gives back their memory.
  Memory begin_all(Gpu& gpu, const Begin& begin);

 private:
  struct Held {
    const LoadedKernel* kernel;
    Space space;
    int level;  // it comes after what is held of lower levels; those of one level need no order
  };
  // The highest levels that read and write any of the bytes.
  struct Levels {
    int read = -1, written = -1;
    void add(const Levels& o) { read = std::max(read, o.read), written = std::max(written, o.written); }
  };
  static void append_touched(std::vector<Touched>& to, const LoadedKernel& k, const Space& s);
  static bool joins(const Held& a, const Held& b);
  void begin_together(Gpu& gpu, const std::vector<const Held*>& runs, const Begin& begin) const;

  std::vector<Held> held_;
  MemoryRanges<Levels> ranges_;
  Memory memory_;
  size_t bytes_ = 0;
};

}  // namespace rill::cuda

#pragma GCC visibility pop
