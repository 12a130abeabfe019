// A fused kernel as an operation on tensors: which operand each of the kernel's inputs reads, and how the axes of the
// operands lie in its index space. Fusion (trace/fusion.h) makes them, cpu/fused.cpp runs them compiled, ref/fused.cpp
// by the interpreter.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/devices/kernel.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/tensor/small_vec.h"

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
  bool packs = false;  // a dense input is not there as such: it is copied together first, or made (random words)
  bool joined = true;  // false: the row axes of an operand are no single run, so that it must be made dense
};

struct FusedKernel {
  // A kernel input: operand `operand` of the node, whose axis for axis i of the space is axes[i]; -1 where it does not
  // move. A counter has no operand (-1); its value moves by steps[i] along axis i. With `random`, the operand is a key,
  // and the input is the words that random_bits makes of it for the whole space, made row by row where they are used.
  struct Access {
    int operand = -1;
    std::vector<int> axes;
    std::vector<int64_t> steps;
    bool random = false;
  };

  // A reduction over other axes than the last, or over few long rows: the kernel's first output is not stored but
  // folded over these axes of the space, by the tree of the eager reductions.
  struct Fold {
    kernel::Code code;          // reduce_*
    std::vector<bool> reduced;  // by axis of the space
  };

  // Counters start here, so that no null pointer is moved: kernels take it away again.
  static constexpr int64_t counter_base = 4096;

  kernel::Kernel kernel;
  std::optional<Fold> fold;
  std::vector<int64_t> space;  // sizes, none of them 1
  int row_axes = 0;            // the last so many make the row that the kernel folds; 0: it folds nothing
  std::vector<Access> inputs;
  std::vector<Spec> outputs;       // dense; a per-row output lacks the row axes, the folded one what is reduced
  std::vector<std::string> fused;  // the ops in it, in program order
  int64_t scratch_slots = 0;
  int64_t grain_points = 1;  // points worth a thread
  FusedLayout layout;        // where all operands are dense
  kernel::Compiled code;     // without a function, the interpreter runs it

  // Fills what follows from the rest: layout, scratch_slots, grain_points. `operands`: the node's input specs.
  void complete(std::span<const Spec* const> operands);
  // The layout for these operands.
  FusedLayout layout_of(Operands in) const;
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

namespace cpu {
void run_fused(const KernelArgs& args);
}
namespace ref {
void run_fused(const KernelArgs& args);
}

}  // namespace rill
