// Executable: a graph ready to run. A flat list of instructions with resolved kernels, over a frame of tensors at
// planned addresses; a replay allocates only what it returns, and never goes through apply().
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "rill/devices/packed.h"
#include "rill/ops/apply.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/trace/graph.h"
#include "rill/trace/run/captures.h"
#include "rill/trace/run/memory_plan.h"

#pragma GCC visibility push(default)

namespace rill {

class Executable {
 public:
  using Packs = std::vector<std::unique_ptr<Packed>>;

  // `g` must have been through optimize().
  explicit Executable(Graph g);
  ~Executable();

  // `inputs`: one per graph input, of its shape, dtype and device, with any strides. `results`: the outputs, then the
  // assigned values. Any number of threads may run at once. A tensor that is in `results` already, dense and of the
  // result's shape, dtype and device, is where the result is computed if it can be; else it is replaced.
  // Results may reuse the memory of inputs that only `inputs` holds (ValuePlace::over), whose elements are lost.
  // `packs`: what packs_for() gave for these inputs.
  void run(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs = nullptr) const;

  // The same with a timer around each kernel, for profile(): reports each kernel after it has run, also those in the
  // inner graphs of nodes.
  struct Timing {
    const Graph* graph = nullptr;  // graph() of the executable that ran it
    int32_t node = -1;             // in there
    std::chrono::steady_clock::time_point start;
    double seconds = 0;
    int64_t bytes_read = 0, bytes_written = 0;  // of the tensors that it took (each once) and made
  };
  using Note = std::function<void(const Timing&)>;
  void run_timed(std::span<const Tensor> inputs, std::span<Tensor> results, const Note& note,
                 const Packs* packs = nullptr) const;
  // The receiver of the run_timed() that is active on this thread; null if there is none.
  static const Note* note_now();

  // For a loop, whose steps run on the same inputs from number `first` on: room for kernels to keep such operands
  // packed while it lasts. By instruction; null where there is nothing to keep.
  Packs packs_for(size_t first) const;

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  size_t result_count() const { return graph_.outputs.size() + graph_.assigns.size(); }
  // Frees the memory that it keeps between calls, and keeps none from now on: another executable has replaced it.
  void retire() const;
  // Frees what all executables keep between calls, for memory is out.
  static void give_back_memory();
  // Kernels that a replay runs.
  size_t kernel_count() const;

 private:
  struct Instruction {
    const Op* op = nullptr;
    Kernel kernel = nullptr;  // null: go through run_kernel, which makes operands dense, or a view
    const Node* node = nullptr;
    SmallVec<uint32_t, 4> in, out;  // value numbers
    bool is_view = false;
    std::unique_ptr<Packed> packed;  // where the kernel may keep its constant operand packed
    int32_t range = -1;              // which of ranges_ begins here
  };
  struct Frame;

  // For each node, whether its outputs are the same at every call: constants, captured tensors, inputs from number
  // `first_fixed` on, views of these.
  std::vector<bool> constant_nodes(size_t first_fixed) const;
  void list_instructions();
  void find_capture_ranges();
  void number_results();
  std::unique_ptr<Frame> make_frame() const;
  void make_outputs(Frame& f, std::span<const Tensor> wanted) const;
  void execute(const Instruction& i, size_t at, Frame& f, const Packs* packs) const;
  // Where somebody watches: the same, and its numbers are checked; the common part for all nodes.
  void execute_checked(const Instruction& i, size_t at, Frame& f, const Packs* packs) const;
  void run_watched(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs) const;
  void show_nodes(size_t begin, size_t end, Frame& f) const;  // to the watcher
  // Has the device run the range that begins at instruction `at` as one; false where it does not.
  bool launch_range(const CaptureRange& range, Frame& f, const Packs* packs) const;
  // The common part of run() and run_timed(). execute_some(instruction, its number, frame) executes the instruction,
  // and perhaps some that follow it, and returns how many it has executed.
  template <class F>
  void replay(std::span<const Tensor> inputs, std::span<Tensor> results, F&& execute_some) const;

  Graph graph_;
  MemoryPlan plan_;
  std::vector<Instruction> instructions_;
  std::vector<CaptureRange> ranges_;
  std::shared_ptr<std::atomic<bool>> captures_are_off_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<uint32_t> moving_;  // values that a call sets and must drop afterwards
  struct Output {
    uint32_t value;
    const Node* node;
    size_t index;  // among the node's
    SmallVec<uint32_t, 2> results;
  };
  std::vector<Output> outputs_;  // what is allocated at each call
  mutable ForkMutex mutex_;
  mutable std::unique_ptr<Frame> idle_;  // a list
  mutable bool retired_ = false;
};

}  // namespace rill

#pragma GCC visibility pop
