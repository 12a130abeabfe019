// Parameters of the kernels of order.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Dense lines: [outer, n, inner] along n, outer * inner of them. The first `kept` elements of each in order are stored:
// [outer, kept, inner], the elements at `values` and their indices at `indices`, if these are not null.
struct Sorting {
  const char* from;
  char *values, *indices;
  long long lines, n, inner, kept;
  int descending;
  // Long lines: `order` has the indices of `candidates` elements of each; null stands for all elements.
  long long candidates;
  // Radix sort of long lines, line after line: keys and indices, before and after a pass over the 8 bits from
  // `shift` on. `counts` has, for each line, digit and piece of `piece` elements, how many there are.
  int shift;
  char *keys, *keys_to, *order, *order_to, *counts;
  long long piece, pieces;
};

}  // namespace rill::cuda
