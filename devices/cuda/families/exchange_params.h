// What the kernel of exchange.cuh is told. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// What `members` have given, `count` numbers each: member i's block lies `i * stride` bytes behind `blocks`, but of `me`
// it is `own`.
struct AddingUp {
  const char *blocks, *own;
  char* to;
  long long count, stride;
  int members, me;
};

}  // namespace rill::cuda
