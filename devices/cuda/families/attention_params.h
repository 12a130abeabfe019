// Parameters of the kernels of attention.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// An operand as matrices: the offset of matrix b is the sum of b's digits, in mixed radix, times their strides, in
// elements.
struct MatrixGrid {
  static constexpr int most_digits = 6;
  char* data;
  int digits;
  long long size[most_digits], stride[most_digits], row, column;
};

struct Attention {
  MatrixGrid q, k, v, mask, log_sums, delta, g;  // g: the cotangent
  MatrixGrid out, out_sums, dq, dk, dv;
  long long heads, shared, group;  // matrices of queries; of keys and values; of queries for one of those
  long long queries, keys, width, value_width;
  double scale;
  int causal, mask_kind;  // 0: none; 1: bool; 2: numbers to add
};

}  // namespace rill::cuda
