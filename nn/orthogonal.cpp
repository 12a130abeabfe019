// Initializers that are orthogonal matrices, which takes a factorisation of librill_ops.
#include <algorithm>

#include "rill/nn/initial_matrices.h"
#include "rill/nn/initializers.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"

namespace rill::nn {

namespace {
// A matrix of f32, rows * columns.
Tensor orthogonal_matrix(int64_t rows, int64_t columns, double gain) {
  const int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  const auto [q, r] = linalg::qr(random::normal({longer, shorter}, {.dtype = DType::f64}));
  // Without the signs that the factorization chooses, all such matrices are equally likely.
  const Tensor signs = where(diagonal(r) < 0, -1.0, 1.0), fair = q * signs;
  return astype(gain * (rows < columns ? fair.T() : fair), DType::f32);
}
}  // namespace

Initializer orthogonal(double gain) {
  return [gain](const Shape& shape) {
    require_matrix("orthogonal", shape);
    const int64_t columns = shape.back();
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= int64_t(shape[d]);
    return reshape(orthogonal_matrix(rows, columns, gain), shape);
  };
}

Initializer delta_orthogonal(double gain) {
  return [gain](const Shape& shape) {
    require_matrix("delta_orthogonal", shape);
    const int64_t in = shape[shape.size() - 2], out = shape.back();
    if (shape.size() < 3 || in > out)
      fail("delta_orthogonal", "a kernel of shape " + to_string(shape) + " must be [space..., in, out] and in <= out");
    return at_centre(shape, orthogonal_matrix(in, out, gain));
  };
}

}  // namespace rill::nn
