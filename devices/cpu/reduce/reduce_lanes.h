// Step 1 of the reduction tree (reduce_tree.h), which fusion asks about too: in how many lanes rows are dealt.
#pragma once
#include <cstdint>

namespace rill::cpu {

// Up to so many columns fold side by side as each does by itself.
inline constexpr int64_t columns_alike = 4;

// For k columns.
inline int64_t lanes_of(int64_t k) {
  if (k >= 1 && k <= columns_alike) return 32;
  int64_t lanes = 1;
  while (k > 0 && lanes * 2 * k <= 64) lanes *= 2;
  return lanes;
}

}  // namespace rill::cpu
