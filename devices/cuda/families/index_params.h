// Parameters of the kernels of index.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Elements that index tensors select. The Space's operand 0 is the indexed tensor without the axes that they index,
// operand 1 the result, and the further ones are the index tensors.
struct IndexedElements {
  static constexpr int most = 12;
  Space space;
  int count, skips;                    // index tensors; whether an index out of range is skipped
  int kind[most], code[most];          // an integer's bytes, negative if it is signed; Gpu::fault_code()
  long long size[most], stride[most];  // of the axes that they index
  void* fault;                         // Gpu::fault_slot()
  int bits;                            // of find_targets: the width of an update's number, the low bits of a word
};

// A step of a stable sort of `count` words, by the 8 bits from `shift` on. Block b has the words from b * chunk on.
struct SortStep {
  const char* from;
  char* to;
  char* counts;  // u32 [256, blocks]: how many words of a block have the digit, later the position of the first of them
  long long count, chunk, blocks;
  int shift;
};

// Updates of `columns` numbers each, to the targets that words name: target << bits | update. Words of one target
// follow one another, in the order of the updates.
struct Scatter {
  Space column;  // operand 0: of an update, operand 1: of a target, both from the first's first number
  Space update;  // operand 0: the first number of each
  const char* words;
  long long count, columns, unit, none;  // unit: bytes from target to target; none: a target that is skipped
  int bits;
};

// How many of `n` sorted numbers are ordered before each of `count` values.
struct Search {
  const char *sorted, *values;
  char* to;
  long long n, count;
  int right;  // or equal it
};

}  // namespace rill::cuda
