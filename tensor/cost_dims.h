// Tests of sizes whose outcome affects only the cost of a computation.
#pragma once
#include "rill/tensor/dim_table.h"

namespace rill {

// Whether two sizes are equal, where the code for unequal sizes is right for equal ones as well, but slower. A model
// traced with unequal sizes then accepts all.
inline bool saves_if_equal(Dim a, Dim b) {
  if (a.hint() == b.hint()) return a == b;
  const CostDims right_for_all;
  return a == b;
}

}  // namespace rill
