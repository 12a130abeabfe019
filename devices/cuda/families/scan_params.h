// Parameters of the kernels of scan.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Dense lines: [outer, n, inner] along n, outer * inner of them.
struct Scanning {
  const char *from, *factors;  // factors: of recurrences
  char* to;
  long long lines, n, inner;
  // Long lines are cut into pieces of `piece` elements: `totals` stores the total of each.
  long long piece, pieces;
  char* totals;
  int reverse, exclusive;
};

}  // namespace rill::cuda
