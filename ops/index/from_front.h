// Indices that do not count from the back: class labels, ids of rows, places of pixels.
#pragma once
#include <limits>

#include "rill/devices/params/gather_layout.h"
#include "rill/ops/ops.h"

namespace rill {

// `ids`, integers, as i64, where one beyond i64 is the largest, not a negative one.
inline Tensor as_places(const Tensor& ids) {
  const bool wide = ids.dtype() == DType::u64;
  return astype(wide ? minimum(ids, uint64_t(std::numeric_limits<int64_t>::max())) : ids, DType::i64);
}
// For a gather or a scatter, which refuses and names those below 0 as it does those behind the last.
inline Tensor from_front(const Tensor& ids) {
  if (is_unsigned(ids.dtype())) return ids;
  const Tensor places = as_places(ids);
  return where(logical_and(places < 0, places >= -most_from_back), places + out_of_range_shift, places);
}

}  // namespace rill
