// Parameters of the kernels of products.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// An index in mixed radix, the outermost digit first: each digit's stride in an operand, in elements, and its step along
// the three spatial axes that a window slides over.
struct IndexLayout {
  static constexpr int most_digits = 6;
  int digits;
  long long size[most_digits], stride[most_digits], step[most_digits][3];
};

// out[b, i, j] = sum over k of left[b, i, k] right[b, k, j]. An element's offset is the sum of those of its layouts.
// The left operand may be read through a window: then elements outside of it count as 0.
struct Product {
  const char *left, *right;
  char* out;  // if parts > 1, sums: `parts` times `out_count` of them
  long long batch, m, n, k;
  long long parts, part;  // ranges of k, each of `part` products, that are summed by different blocks (split-K)
  long long out_count;
  IndexLayout left_batch, left_m, left_k, right_batch, right_k, right_n, out_batch, out_m, out_n;
  int left_by_k, right_by_k;  // whether neighbours along k are neighbours in memory
  int m_is_dense;             // of the result: not n
  int batch_is_dense;         // of the result: not m or n

  long long first_m;  // of unfold(): the first row that is stored

  // An element's index along a spatial axis is start + the layouts' steps, divided by `divide`; if that is not an
  // integer, or not in [0, limit), there is no element and 0 is read.
  long long start[3], limit[3], divide[3], space[3];
};

// A product whose NaNs are recomputed if find_nans() has found any: `found` has a number from each of its blocks.
struct NanCorrection : Product {
  const char* found;
  long long finders;  // blocks; 0: unknown
};
struct NanSearch {
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
