// What the kernels of order.cuh are told. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Dense lines: [outer, n, inner] along n, outer * inner of them. Of each the first `kept` elements in order are stored:
// [outer, kept, inner], the elements at `values` and their places at `places`, where these are not null.
struct Sorting {
  const char* from;
  char *values, *places;
  long long lines, n, inner, kept;
  int descending;
  // Of long lines, `order` has the places of `candidates` elements each; where it is null, there are all.
  long long candidates;
  // Long lines are sorted by digits, line after line: keys and places, before and behind a pass over the 8 bits from
  // `shift` on. `counts` has, for each line, digit and piece of `piece` elements, how many there are.
  int shift;
  char *keys, *keys_to, *order, *order_to, *counts;
  long long piece, pieces;
};

}  // namespace rill::cuda
