// Tests of sizes whose outcome makes a computation cheaper, and no other.
#pragma once
#include "rill/tensor/dim_table.h"

namespace rill {

// Whether two sizes are equal, where what is done with those that differ is right for equal ones as well, and only costs
// more. So a model that was traced for sizes that differ takes all.
inline bool saves_if_equal(Dim a, Dim b) {
  if (a.hint() == b.hint()) return a == b;
  const CostDims right_for_all;
  return a == b;
}

}  // namespace rill
