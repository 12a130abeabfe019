// Assigns each instruction of a kernel to a pass over the row. A reduction ends a pass: instructions that depend on it
// run in a later one. A value that a later pass needs too is read again (inputs), recomputed (if that is cheap) or
// stored in a row of scratch memory. Emitters follow the schedule; the interpreter does not need it.
#pragma once
#include "rill/devices/kernel/ir.h"

#pragma GCC visibility push(default)

namespace rill::kernel {

struct Pass {
  std::vector<int32_t> row;       // row-level instructions that run before the pass, in order (uniform inputs included)
  std::vector<int32_t> elements;  // element-level instructions of the pass, in order, including recomputed ones
  std::vector<int32_t> restored;  // values of earlier passes, loaded from scratch memory
  std::vector<int32_t> kept;      // values to store in their scratch slot, for later passes
  std::vector<int32_t> folded;    // reductions that this pass computes
  std::vector<int32_t> stored;    // dense outputs, by number, that this pass writes
};

struct Schedule {
  std::vector<Pass> passes;     // the last one may only have a `row`
  std::vector<bool> row_level;  // by instruction
  std::vector<int32_t> slot;    // by instruction: its scratch row, or -1
  int32_t slots = 0;
  std::vector<int32_t> row_outputs;  // outputs that are per_row: written after all passes

  static constexpr int64_t slot_bytes(int64_t n) { return (n * 8 + 511) / 512 * 512 + 512; }  // room for full vectors
  int64_t scratch_bytes(int64_t n) const { return slots * slot_bytes(n); }
};

Schedule schedule(const Kernel& k);

}  // namespace rill::kernel

#pragma GCC visibility pop
