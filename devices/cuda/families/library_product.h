// Products of matrices by cuBLASLt.
#pragma once
#include "rill/devices/cuda/driver/gpu.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// The largest number of rows, columns and matrices.
inline constexpr int64_t most_of_library = (int64_t(1) << 31) - 1;

// A batch of matrices in memory: element [b, i, j] is b * batch + i * row + j * column elements behind `data`.
struct Matrices {
  const char* data;
  int64_t batch, row, column;
};

// Whether cuBLASLt is there and supports products of this dtype.
bool has_library_product(DType d);
// Whether such matrices have a leading dimension: one direction is dense, the other steps over it.
bool has_leading_dimension(const Matrices& m, int64_t rows, int64_t columns);

// out[b, i, j] = sum over k of left[b, i, k] right[b, k, j], `out` dense at that address. Returns false if the
// library has no kernel for that; all of `out` must then be computed otherwise. Operands have leading dimensions;
// no size is 0.
struct LibraryProduct {
  Gpu& gpu;
  DType dtype;
  int64_t batch, m, n, k;
  Matrices left, right;
  char* out;
};
bool run_library_product(const LibraryProduct& p);

}  // namespace rill::cuda
