// Parameters of the kernels of order.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Dense lines of n elements, one after the other; short ones may be [outer, n, inner] along n, outer * inner of them. The
// first `kept` elements of each in order are stored in the same way, the elements at `values` and their indices at
// `indices`, if these are not null.
struct Sorting {
  const char* from;
  char *values, *indices;
  long long lines, n, inner, kept;
  int descending;
  // The radix sort of long lines: a pass over the 8 bits of keys from `shift` on. `order` has the numbers, u32, that go
  // along with the elements, line after line; null stands for their indices. `order_to` takes them, if it is not null.
  // `counts` has, for each line and digit, how many there are in each of `pieces` pieces of `piece` elements, and a total.
  int shift;
  char *order, *order_to, *counts;
  long long piece, pieces;
  // Selection: `order` has the indices of `candidates` elements of each line; null stands for all elements.
  long long candidates;
};

}  // namespace rill::cuda
