// A kernel of the IR (devices/kernel/ir.h) as CUDA C++, for NVRTC. Each instruction is one statement, so that a kernel
// gives the bits of the interpreter when it is compiled without contraction (--fmad=false) and with IEEE division and
// square root, which are NVRTC's defaults.
#pragma once
#include <string>
#include <string_view>

#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

namespace rill::cuda {

// How the points of a kernel lie in memory: the parameter of every kernel, after the text's own struct of this layout.
// Row r is at the sum of outer_stride[a][k] times r's place along axis a.
struct Space {
  static constexpr int most_operands = 24, most_axes = 6;
  int64_t n = 1, rows = 1;                        // points of a row; rows, the product of `outer`
  int64_t axes = 0, outer[most_axes] = {};        // outer axes of the rows, the outermost first
  int64_t stride[most_operands][most_axes] = {};  // bytes (of a counter: numbers) by operand and outer axis
  int64_t point[most_operands] = {};              // from point to point of a row
  char* base[most_operands] = {};                 // the operands, inputs first
};

// What stands in front of kernels in a translation unit: math_scalar.h and prelude.cuh.
std::string_view prelude();

// Whether a kernel reduces rows, or has an element a row: then a warp takes a row, else a thread takes a point.
bool takes_rows(const kernel::Kernel& k);

// The kernel as RILL_KERNEL(NAME, Space) of the prelude, for grids of any size and blocks of a multiple of 32
// threads. Warps or threads take rows or points i, i + all of them, ... What a row's later passes need of earlier ones
// is computed again. Throws for added outputs, and more operands than Space holds.
std::string kernel_text(const kernel::Kernel& k, std::string_view name);

}  // namespace rill::cuda

#pragma GCC visibility pop
