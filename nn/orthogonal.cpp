// The initializer that needs a factorisation; the others are in initializers.cpp.
#include <algorithm>

#include "rill/nn/initializers.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"

namespace rill::nn {

Tensor orthogonal(const Shape& shape) {
  if (shape.size() < 2) fail("orthogonal", "takes two axes or more. got " + to_string(shape), Where::current());
  const int64_t columns = shape.back(), rows = int64_t(shape.numel()) / std::max<int64_t>(columns, 1);
  const linalg::Qr parts = linalg::qr(random::normal({std::max(rows, columns), std::min(rows, columns)}));
  // With r's diagonal made positive, every orthogonal matrix is as likely as any other (Mezzadri 2006).
  const Tensor q = parts.q * where(less(rill::diagonal(parts.r), 0), -1.f, 1.f);
  return reshape(rows < columns ? q.T() : q, shape);
}

}  // namespace rill::nn
