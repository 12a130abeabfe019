// Parameters of the kernels of sparse.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Entries of a sparse matrix [rows, columns], and dense operands with rows of n elements.
struct Entries {
  const char *values, *row, *column;  // of each entry
  long long count, rows, columns, n;
  const char *left, *right;  // dense; `left` only for sampled_matmul
  char* to;
  char *keys, *order;  // the entries' rows (for bad ones `rows`), and the entries, sorted by them
  void* fault;         // Gpu::fault_slot(), and the codes of a bad row and a bad column
  int bad_row, bad_column;
};

}  // namespace rill::cuda
