// The axes of an operand of dot_general that are neither contracted nor batches.
#pragma once
#include <algorithm>

#include "rill/tensor/shape.h"

namespace rill {

inline Dims free_axes(int ndim, const Dims& batch, const Dims& contract) {
  const auto has = [](const Dims& axes, int64_t a) { return std::find(axes.begin(), axes.end(), a) != axes.end(); };
  Dims out;
  for (int64_t a = 0; a < ndim; ++a)
    if (!has(batch, a) && !has(contract, a)) out.push_back(a);
  return out;
}

}  // namespace rill
