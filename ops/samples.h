// Inputs for the records' samples: small tensors of repeatable numbers, made without any op so that a sample can test
// any op. Include from .cpp files only.
#pragma once
#include <vector>

#include "rill/ops/op.h"

#pragma GCC visibility push(default)

namespace rill::samples {

// f32, uniform in [lo, hi), the same numbers for the same seed and shape; never within 1e-3 of zero when lo < 0 < hi.
Tensor uniform(const Shape& shape, double lo = -2, double hi = 2, uint64_t seed = 1);
// Integers in [lo, hi), of an integer dtype or bool.
Tensor integers(const Shape& shape, int64_t lo, int64_t hi, DType dtype = DType::i64, uint64_t seed = 1);
// All different values (a shuffled range scaled into [lo, hi)), for ops with ties: max, sort, pooling.
Tensor distinct(const Shape& shape, double lo = -2, double hi = 2, uint64_t seed = 1);
// Exactly these numbers.
Tensor values(std::vector<double> v, const Shape& shape, DType dtype = DType::f32);

}  // namespace rill::samples

#pragma GCC visibility pop
