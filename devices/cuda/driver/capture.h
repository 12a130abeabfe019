// A traced function's kernels as a CUDA graph. While a thread makes a Capture, what it starts on the GPU goes to a
// stream of the capture's own, where nothing runs, and what kernels allocate for themselves is the capture's for as
// long as it lives. A launch writes the new addresses of memory that has moved into the parameters of rill's own
// kernels, and begins the graph on the GPU's stream. Start at capture().
//
// Addresses are found in parameters as words that lie in one of the moving blocks. A number that only looks like one
// would be changed too, so no block may move before a second capture, with the block elsewhere, has shown that the
// parameters are then what would have been written. What a library's kernels read cannot be found and may not move.
#pragma once
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

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
  // Throws where there is one: for what waits for the GPU, or reads the host's memory when it is begun.
  static void require_none(const Gpu& gpu);

  // Captures what `work` starts. False where the driver refuses, or memory would be needed by others afterwards.
  bool make(const Callback<void()>& work);
  bool launch(std::span<char* const> at) override;
  bool replaces(CapturedWork& earlier) override;

  // --- While it is made ---
  Stream stream() const { return stream_; }
  Ref<Buffer> allocate(size_t bytes);
  void note_kernel(Function f, std::span<const char> params, unsigned blocks, unsigned threads, unsigned shared_bytes);
  // A library will read or write at `address`.
  void note_library_operand(const char* address);

 private:
  // What kernels have for themselves. A block that is given back serves the next kernel, which comes later in the
  // graph. Which one is taken depends on the sizes that are wanted alone: two captures of the same work correspond.
  struct RoomBlock {
    Ref<Buffer> memory;
    size_t bytes;  // that were wanted
    bool is_free;
  };
  struct Room {
    std::mutex mutex;  // a buffer that outlives the capture may go on another thread
    std::vector<RoomBlock> blocks;
    int in_use = 0;
  };
  struct RoomPlace {
    std::shared_ptr<Room> room;
    size_t block;
  };
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
  std::vector<char> moved(const Kernel& k, std::span<const MovingMemory> to) const;
  // The parameters without the addresses of what kernels have for themselves.
  std::vector<char> without_room(std::vector<char> params) const;
  bool write(Kernel& k, std::span<const MovingMemory> to);

  Gpu& gpu_;
  std::shared_ptr<Room> room_ = std::make_shared<Room>();
  std::vector<MovingMemory> blocks_;  // where kernels' parameters point now; the last is the thread's fault_place()
  std::vector<bool> may_move_, of_a_library_;  // by block
  std::vector<Kernel> kernels_;
  Stream stream_ = nullptr;
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;
};

// As DeviceDriver::capture().
std::unique_ptr<CapturedWork> capture(Gpu& gpu, std::span<const MovingMemory> moving, const Callback<void()>& work);

// To be called before a library's kernel is started that reads or writes there.
void note_library_call(const Gpu& gpu, std::span<char* const> operands);
inline void note_library_call(const Gpu& gpu, std::initializer_list<const char*> operands) {
  if (Capture* c = Capture::current(gpu))
    for (const char* o : operands) c->note_library_operand(o);
}

}  // namespace rill::cuda

#pragma GCC visibility pop
