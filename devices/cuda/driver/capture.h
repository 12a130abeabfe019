// A traced function's kernels as a CUDA graph. While a thread makes a Capture, a kernel that it launches on the GPU
// becomes a node of the graph, work of a library is captured from a stream of its own, and memory that kernels allocate
// is kept for as long as the graph lives. A launch writes the new addresses of memory that has moved
// into the parameters of rill's own kernels, and starts the graph on the GPU's stream. Start at capture().
//
// Addresses are found in parameters as words that point into one of the moving blocks. A number that happens to look
// like one would be changed too, so a block may move only after a second capture, with the block elsewhere, has shown
// that rewriting gives the same parameters. The parameters of a library's kernels cannot be rewritten, so what those
// read may not move.
#pragma once
#include <span>
#include <vector>

#include "rill/devices/cuda/driver/branches.h"
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/driver.h"

#pragma GCC visibility push(default)

namespace rill::cuda {

class Capture final : public CapturedWork {
 public:
  Capture(Gpu& gpu, std::span<const MovingMemory> moving);
  ~Capture() override;

  // The one that this thread is making on `gpu`, or nullptr.
  static Capture* current(const Gpu& gpu);
  // Throws if there is one: for functions that wait for the GPU, or read the host's memory when they are called.
  static void require_none(const Gpu& gpu);

  // Captures the work that `work` starts. False if the driver refuses, or if others would need its memory afterwards.
  bool make(const Callback<void()>& work);
  bool launch(std::span<char* const> at) override;
  bool replaces(CapturedWork& earlier) override;

  // --- While it is being captured ---
  // Runs a record's call. Its kernels depend on those of calls that wrote what it reads, or accessed what it writes,
  // and on no others. Work outside of a call is a barrier: it depends on all before it, and all after it on
  // it.
  void run_call(rill::Kernel kernel, const KernelArgs& args);
  Ref<Buffer> allocate(size_t bytes);
  void add_kernel(Function f, std::span<const char> params, unsigned blocks, unsigned threads, unsigned shared_bytes);
  // It may be reordered after later maps that do not depend on it, and share a launch with others (gathered.h).
  void add_map(const LoadedKernel& k, const Space& s, const Gathered::Memory& memory);
  void add_library_call(std::span<const char* const> operands, const Callback<int(Stream)>& call);

 private:
  // The arena: temporary memory of the kernels. Which block an allocation gets depends only on the sizes asked for so
  // far, so that replaces() can match the blocks of two captures of the same work by number. A block that is freed
  // while capturing serves later kernels, which come later in the graph.
  struct ArenaBlock {
    Ref<Buffer> memory;
    size_t bytes;  // that were requested
    bool is_free;
    int freed;  // after this many allocations
  };
  struct Arena;
  struct ArenaAllocation;
  struct Address {
    size_t offset;  // in the parameters
    size_t block;
    bool operator==(const Address&) const = default;
  };
  struct Kernel {
    GraphNode node;
    Function function;
    unsigned blocks, threads, shared_bytes;
    std::vector<char> params;
    std::vector<Address> addresses;
  };

  static void give_back(Buffer* b);
  // The moving block that holds `address`, or -1.
  int block_of(const char* address) const;
  // The parameters with the addresses of the blocks in `to`.
  std::vector<char> moved(const Kernel& k, std::span<const MovingMemory> to) const;
  // The parameters with block and offset in the arena in place of an address there.
  std::vector<char> without_arena_addresses(std::vector<char> params) const;
  bool write(Kernel& k, std::span<const MovingMemory> to);
  GraphNode add_node(Function f, std::span<const char> params, unsigned blocks, unsigned threads, unsigned shared_bytes,
                     const Branches::Nodes& after);
  void add_gathered();
  Branches::Nodes next_after();
  void node_added(GraphNode node, const Branches::Nodes& after);
  // Runs `call`, which starts work that becomes a part of a graph; nullptr if it could not be captured.
  Graph captured(const Callback<void(Stream)>& call);

  Gpu& gpu_;
  std::shared_ptr<Arena> arena_;
  std::vector<MovingMemory> blocks_;           // where parameters point now; the last is the thread's fault_slot()
  std::vector<bool> may_move_, library_uses_;  // by block
  std::vector<Kernel> kernels_;
  Gathered gathered_;
  Graph graph_ = nullptr;
  Branches branches_;
  struct CallNow {
    std::vector<MemoryAccess> accesses;  // of operands, and of temporary memory
    Branches::Nodes after;               // what its next kernel depends on
    bool has_dependencies = false;       // whether `after` has been found
    bool gathers = false;                // whether some of its maps are gathered
    GraphNode last = nullptr;            // of its kernels
  };
  CallNow* call_ = nullptr;
  GraphExec exec_ = nullptr;
};

// As DeviceDriver::capture().
std::unique_ptr<CapturedWork> capture(Gpu& gpu, std::span<const MovingMemory> moving, const Callback<void()>& work);

// Calls a library that starts its work, which accesses `operands`, on the stream that it is given; `call`
// returns the library's status. While this thread makes a Capture, a status other than 0 throws: if the caller fell
// back on rill's own kernels, every later launch of the capture would run those.
int library_call(Gpu& gpu, std::span<const char* const> operands, const Callback<int(Stream)>& call);

}  // namespace rill::cuda

#pragma GCC visibility pop
