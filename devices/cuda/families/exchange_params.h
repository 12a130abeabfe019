// The parameters of the kernel of exchange.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// The blocks of `members`, `count` numbers each: member i's block is `i * stride` bytes after `blocks`, but that of
// `me` is `own`.
struct AddingUp {
  const char *blocks, *own;
  char* to;
  long long count, stride;
  int members, me;
};

}  // namespace rill::cuda
