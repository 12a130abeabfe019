// What the kernels of products.cuh are told. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// An index in mixed radix, the outermost digit first: how far each digit moves in an operand, in elements, and along
// the three axes of space that a window slides over.
struct Walk {
  static constexpr int most_digits = 6;
  int digits;
  long long size[most_digits], stride[most_digits], step[most_digits][3];
};

// out[b, i, j] = sum over k of left[b, i, k] right[b, k, j], each operand an element at the sum of its walks' places.
// The left one may be seen through a window: then what lies outside of it counts as 0.
struct Product {
  const char *left, *right;
  char* out;  // where parts > 1, sums: `parts` times `out_count` of them
  long long batch, m, n, k;
  long long parts, part;  // ranges of k, each of `part` products, that are summed apart
  long long out_count;
  Walk left_batch, left_m, left_k, right_batch, right_k, right_n, out_batch, out_m, out_n;
  int left_by_k, right_by_k;  // whether neighbours along k are neighbours in memory
  int m_is_dense;             // of the result: not n
  int batch_is_dense;         // of the result: not m or n

  long long first_m;  // of unfold(): the first row that is stored

  // The place of an element along an axis of space is start + the walks' steps; where divide > 1, it is that many times
  // the place, and there is no element where it is no multiple.
  long long start[3], limit[3], divide[3], space[3];
};

// A product whose NaNs are computed once more, where a block of find_nans() has found some: a number of each in `found`.
struct Corrected : Product {
  const char* found;
  long long finders;  // blocks; 0: it is not known
};
struct FoundNans {
  const char* from;  // `count` elements, dense
  char* found;
  long long count;
};

// out[i] = the sum of element i of all parts.
struct Join {
  const char* sums;
  char* out;
  long long count, parts;
};

}  // namespace rill::cuda
