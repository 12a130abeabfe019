// A fused kernel as an operation on tensors: which operand each of the kernel's inputs reads, and how the axes of the
// operands map to its index space. Fusion (trace/fusion/fusion.h) makes them, cpu/fused.cpp runs them compiled,
// ref/fused.cpp by the interpreter.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/devices/kernel.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/tensor/small_vec.h"

#pragma GCC visibility push(default)

namespace rill {

// Axes of an index space without those of size one, the outer ones first; sizes, and for each kernel operand (inputs,
// then outputs) the byte stride along each axis (of a counter, the step).
struct FusedLayout {
  int64_t n = 1;     // points of a row
  int64_t rows = 1;  // product of `outer`
  std::vector<int64_t> outer;
  std::vector<std::vector<int64_t>> outer_stride;  // by axis of `outer`, then by operand
  std::vector<int64_t> row_stride;                 // by operand: from point to point
  std::vector<int64_t> no_stride;                  // zeros, by operand
  bool gathers = false;  // an input is not dense: its elements are gathered first, or generated (random words)
  bool joined = true;    // false: the row axes of an operand are not one run, so it must be made dense
};

// How many points are worth a thread, from the measured cost of a point. It affects how work is divided, never the
// result.
class Grain {
 public:
  int64_t points() const { return points_.load(std::memory_order_relaxed); }
  void guess(double nanoseconds_a_point);
  // Whether to time the next run of this many points, and the time it took: the first few are timed, and the fastest is
  // used.
  bool wants(int64_t points) const { return points >= 4096 && left_.load(std::memory_order_relaxed) > 0; }
  void saw(double nanoseconds_a_point);

 private:
  std::atomic<int64_t> points_{1};
  std::atomic<int> left_{4};
};

// The layout for non-dense operands: cached for the first strides that a kernel gets, which are mostly the only ones.
struct StridedLayout {
  std::vector<Strides> strides;  // by operand
  FusedLayout layout;
  const StridedLayout* next = nullptr;
};

struct FusedKernel {
  FusedKernel() = default;
  FusedKernel(const FusedKernel&) = delete;
  ~FusedKernel();

  // A kernel input: operand `operand` of the node, whose axis for axis i of the space is axes[i]; -1 if it is broadcast
  // along it. A counter has no operand (-1); its value moves by steps[i] along axis i. With `random`, the operand is a
  // key, and the input is the words of random_bits for the complete space, generated row by row when they are used.
  struct Access {
    int operand = -1;
    std::vector<int> axes;
    std::vector<int64_t> steps;
    bool random = false;
  };

  // A reduction over axes other than the last, or over few long rows: the kernel's first output is not stored but
  // folded over these axes of the space, by the tree of the eager reductions.
  struct Fold {
    kernel::Code code;          // reduce_*
    std::vector<bool> reduced;  // by axis of the space
  };

  // Labels: elements of an operand that must be in [0, classes). They are checked before the kernel runs, and a label
  // out of bounds is an error of `op`, called at `place`.
  struct Check {
    int operand;
    int64_t classes;
    std::string op, place, function, scope;  // and where the op was called
  };

  // Counters start here, so that no null pointer is moved: kernels subtract it again.
  static constexpr int64_t counter_base = 4096;
  static char* counter_start() {
    return reinterpret_cast<char*>(counter_base);  // NOLINT(performance-no-int-to-ptr): a number, never read through
  }

  kernel::Kernel kernel;
  std::optional<Fold> fold;
  std::vector<int64_t> space;  // sizes, none of them 1
  int row_axes = 0;            // the last this many are the row that the kernel folds; 0: it folds nothing
  bool sums_rows = false;      // an output is added: it is the sum of all rows (cpu/fused_sums.cpp)
  std::vector<Check> checks;
  std::vector<Access> inputs;
  // Dense; a per-row output lacks the row axes, an added one the others, and the folded one the reduced axes.
  std::vector<Spec> outputs;
  std::vector<std::string> fused;  // the fused ops, in program order
  int64_t scratch_slots = 0;
  mutable Grain grain;
  FusedLayout layout;                                          // for dense operands
  mutable std::atomic<const StridedLayout*> strided{nullptr};  // for the first few others
  kernel::Compiled code;                                       // if it has no function, the interpreter runs it

  // Computes the other members: sums_rows, layout, scratch_slots, a first grain. `operands`: the node's input
  // specs.
  void complete(std::span<const Spec* const> operands);
  // The layout for these operands, cached here or made in `room`.
  const FusedLayout& layout_of(Operands in, FusedLayout& room) const;
  // Throws the errors that `checks` find.
  void check(Operands in) const;
  // "multiply, add, tanh".
  std::string ops() const;
};

// The attributes of a fused node.
struct FusedParams {
  std::shared_ptr<const FusedKernel> fused;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("ops", s.fused->ops());
    v("kernel", kernel::to_string(s.fused->kernel));
  }
};

#pragma GCC visibility pop  // kernels are not exported

namespace cpu {
void run_fused(const KernelArgs& args);
}
namespace ref {
void run_fused(const KernelArgs& args);
}

}  // namespace rill
