// Indices that do not count from the back: class labels, ids of rows, places of pixels.
#pragma once
#include <limits>

#include "rill/ops/ops.h"

namespace rill {

// `ids`, integers, as i64, where one beyond i64 is the largest, not a negative one.
inline Tensor as_places(const Tensor& ids) {
  const bool wide = ids.dtype() == DType::u64;
  return astype(wide ? minimum(ids, uint64_t(std::numeric_limits<int64_t>::max())) : ids, DType::i64);
}
// The same, and those below 0 as `size`: a place behind the last, which is refused where it is read.
inline Tensor from_front(const Tensor& ids, Dim size) {
  const Tensor places = as_places(ids);
  return is_unsigned(ids.dtype()) ? places : where(places < 0, size, places);
}

// The same for a gather or a scatter, which names the index that it refuses: unsigned ones as they are.
inline Tensor front_indices(const Tensor& ids, Dim size) {
  return is_unsigned(ids.dtype()) ? ids : from_front(ids, size);
}

}  // namespace rill
