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
  // assigned values. Any number of threads may run at once. If `results` already has a dense tensor of the result's
  // shape, dtype and device, the result is computed into it if possible; otherwise the tensor is replaced. Results may
  // reuse the memory of inputs that only `inputs` holds (ValueLocation::over), whose elements are lost. `packs`: from
  // packs_for() for these inputs.
  void run(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs = nullptr) const;

  // The same with a timer around each kernel, for profile(): reports each kernel after it has run, including those in
  // the inner graphs of nodes.
  struct Timing {
    const Graph* graph = nullptr;  // graph() of the executable that ran it
    int32_t node = -1;             // its index there
    std::chrono::steady_clock::time_point start;
    double seconds = 0;
    int64_t bytes_read = 0, bytes_written = 0;  // of the tensors that it read (each once) and wrote
  };
  using Note = std::function<void(const Timing&)>;
  void run_timed(std::span<const Tensor> inputs, std::span<Tensor> results, const Note& note,
                 const Packs* packs = nullptr) const;
  // The receiver of the run_timed() that is active on this thread; null if there is none.
  static const Note* note_now();

  // For a loop, whose steps all have the same inputs from number `first` on: lets kernels keep such operands packed
  // while the loop runs. By instruction; null if there is nothing to pack.
  Packs packs_for(size_t first) const;

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  size_t result_count() const { return graph_.outputs.size() + graph_.assigns.size(); }
  // Frees the memory that it keeps between calls, and keeps none from now on: another executable has replaced it.
  void retire() const;
  // Frees what all executables keep between calls, because memory has run out.
  static void give_back_memory();
  // The number of kernels that a replay runs.
  size_t kernel_count() const;

 private:
  struct Instruction {
    const Op* op = nullptr;
    Kernel kernel = nullptr;  // null: run by run_kernel, which makes operands dense, or a view
    const Node* node = nullptr;
    SmallVec<uint32_t, 4> in, out;  // value numbers
    bool is_view = false;
    std::unique_ptr<Packed> packed;  // if the kernel may keep its constant operand packed
    int32_t range = -1;              // the range of ranges_ that begins here
  };
  struct Frame;

  // For each node, whether its outputs are the same in every call: constants, captured tensors, inputs from number
  // `first_fixed` on, views of these.
  std::vector<bool> constant_nodes(size_t first_fixed) const;
  void list_instructions();
  void find_capture_ranges();
  void number_results();
  std::unique_ptr<Frame> make_frame() const;
  void make_outputs(Frame& f, std::span<const Tensor> wanted) const;
  void execute(const Instruction& i, size_t at, Frame& f, const Packs* packs) const;
  // With watchers: the same, and its numbers are checked. All nodes share this code.
  void execute_checked(const Instruction& i, size_t at, Frame& f, const Packs* packs) const;
  void run_watched(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs) const;
  void show_nodes(size_t begin, size_t end, Frame& f) const;  // to the watcher
  // Lets the device run the range that begins at instruction `at` as one; false if it does not.
  bool launch_range(const CaptureRange& range, Frame& f, const Packs* packs) const;
  // The common part of run() and run_timed(). execute_some(instruction, its index, frame) executes the instruction, and
  // perhaps some that follow it, and returns how many it has executed.
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
    size_t index;  // of the node's outputs
    SmallVec<uint32_t, 2> results;
  };
  std::vector<Output> outputs_;  // the values that each call allocates
  mutable ForkMutex mutex_;
  mutable std::unique_ptr<Frame> idle_;  // a linked list
  mutable bool retired_ = false;
};

}  // namespace rill

#pragma GCC visibility pop
