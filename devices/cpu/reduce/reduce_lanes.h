// Step 1 of the reduction tree (reduce_tree.h), which fusion uses too: over how many lanes rows are distributed.
#pragma once
#include <cstdint>

namespace rill::cpu {

// Up to this many columns, each folds as it would by itself.
inline constexpr int64_t independent_columns = 4;

// For k columns.
inline int64_t lanes_of(int64_t k) {
  if (k >= 1 && k <= independent_columns) return 32;
  int64_t lanes = 1;
  while (k > 0 && lanes * 2 * k <= 64) lanes *= 2;
  return lanes;
}

}  // namespace rill::cpu
