// Indices that may not count from the back: class labels, row ids, offsets of pixels.
#pragma once
#include <limits>

#include "rill/devices/params/gather_layout.h"
#include "rill/ops/ops.h"

namespace rill {

// Integer `ids` as i64; u64 above its range become the largest i64, not a negative number.
inline Tensor as_i64_indices(const Tensor& ids) {
  const bool wide = ids.dtype() == DType::u64;
  return astype(wide ? minimum(ids, uint64_t(std::numeric_limits<int64_t>::max())) : ids, DType::i64);
}
// For a gather or a scatter: negative ids are out of bounds, and errors name them, as for those beyond the last row.
inline Tensor from_front(const Tensor& ids) {
  if (is_unsigned(ids.dtype())) return ids;
  const Tensor indices = as_i64_indices(ids);
  return where(logical_and(indices < 0, indices >= -most_from_back), indices + out_of_range_shift, indices);
}

}  // namespace rill
