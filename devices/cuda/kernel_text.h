// A kernel of the IR (devices/kernel/ir.h) as CUDA C++, for NVRTC. Each instruction is one statement, so that a kernel
// gives the bits of the interpreter when it is compiled without contraction (--fmad=false) and with IEEE division and
// square root, which are NVRTC's defaults.
#pragma once
#include <string>
#include <string_view>

#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

namespace rill::cuda {

// The memory layout of a kernel's points: its parameter. prelude.cuh declares the same struct. Row r of operand k is
// at the sum over axes a of stride[k][a] times r's index along a. Kernels that reduce no rows number their points by 32
// bits, and others their rows (for_each_space).
struct Space {
  static constexpr int most_operands = 24, most_axes = 6;
  int64_t n = 1, rows = 1;                        // points of a row; rows, the product of `outer`
  int64_t axes = 0, outer[most_axes] = {};        // outer axes of the rows, the outermost first
  int64_t stride[most_operands][most_axes] = {};  // bytes (of a counter: numbers) by operand and outer axis
  int64_t point[most_operands] = {};              // from point to point of a row
  char* base[most_operands] = {};                 // the operands, inputs first
};

// For kernels that reduce rows: how the rows are divided among threads. The division does not change a result, because
// each part is a subtree of the row's tree (ir.h).
// * A row of at most `lanes` points, a power of two up to 32, has `lanes` threads: several rows share a warp.
// * A longer row has a warp, or with `warps` = 8 a block of 256 threads. In a variant that keeps its inputs (RowVariant),
//   a row of up to 8192 points has as many warps as it has blocks of 1024, and `piece` is 8192.
// * Few long rows are cut into `pieces` of `piece` points, one block each, and the kernel is launched once for each
//   `step`. Step 2 q folds the pieces for the reductions of pass q over the row, step 2 q + 1 joins them. After the last
//   pass, step 2 passes stores outputs with an element a point, and step 2 passes + 1 those with one a row (step
//   2 passes - 1 where there are no others). `parts` has 32 partial results of a piece, one a lane, and `totals` one
//   result of a row, 8 bytes each.
struct RowSpace : Space {
  int64_t lanes = 32, warps = 1;
  int64_t pieces = 1, piece = 0;  // `piece`: points for a block or warp, a multiple of 1024 for each of several warps
  int64_t step = -1;              // all steps at once
  char *parts = nullptr, *totals = nullptr;
};

// Several runs of points that a map computes in one launch, known as "multi-tensor apply". Each run has these
// words: the number of its first block, the number of its points, and the address of each operand.
struct Runs {
  static constexpr size_t most_words = 484;      // in total, so that parameters are below CUDA's 4096 bytes
  static constexpr int64_t block_points = 1024;  // of a block of 256 threads
  static constexpr size_t words_of_run(size_t operands) { return operands + 2; }
  static char* as_word(int64_t number) {
    return reinterpret_cast<char*>(number);  // NOLINT(performance-no-int-to-ptr): a number, never read through
  }
  int64_t runs = 0, point[Space::most_operands] = {};  // from point to point, the same for all runs
  char* word[most_words] = {};
};

// What determines the steps of a kernel.
struct RowPasses {
  int folds = 0, passes = 0;                        // reductions; passes over the row that compute them
  bool stores_points = false, stores_rows = false;  // outputs of an element a point, and a row
  int kept_bytes = 0;                               // of a point: inputs that more than one pass reads
};
RowPasses row_passes(const kernel::Kernel& k);

// A kernel's variants by the memory of the rows.
struct RowVariant {
  bool dense = false;  // neighbouring points are neighbours in memory
  // If not 0, of dense rows: a warp has at most 1024 points, and a block at most this many warps, which keep what several
  // passes read in shared memory. If 0, each pass reads its inputs from memory.
  int keeping_warps = 0;
};
RowVariant row_variant(const kernel::Kernel& k, const RowPasses& passes, const Space& s);

// How these rows are divided on a GPU with this many multiprocessors, by their number and length.
RowSpace cut_rows(const Space& rows, const RowPasses& passes, int processors);
// The same for a variant that keeps its inputs; rows have at most 8192 points.
RowSpace cut_kept_rows(const Space& rows);

// In maps on GPUs, an input that is a counter of u32 represents the random words with these numbers (random_bits).
// Their key is one more operand, after the outputs.
bool is_words(const kernel::Input& in);
size_t operand_count(const kernel::Kernel& k);

// The text that precedes kernels in a translation unit: math_scalar.h and prelude.cuh.
std::string_view prelude();

// Whether a kernel reduces rows, or has one element for a row: then its parameter is a RowSpace, else a Space.
bool takes_rows(const kernel::Kernel& k);

// The kernel as RILL_KERNEL(NAME, Space) or RILL_KERNEL(NAME, RowSpace) of the prelude, for grids of any size and
// blocks of a multiple of 32 threads: 32 for each of several `warps`. Values of earlier passes that a row's later passes need are
// computed again. Throws for added outputs, and for more operands than Space holds.
std::string kernel_text(const kernel::Kernel& k, std::string_view name, RowVariant v = {});
// The same for a map as RILL_KERNEL(NAME, Runs), for grids of as many blocks as the runs have.
std::string text_of_runs(const kernel::Kernel& k, std::string_view name);

}  // namespace rill::cuda

#pragma GCC visibility pop
