// Matrices for tests, and how far two are apart.
#pragma once
#include "catch.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"

namespace rill {

// Uniform numbers of any of the four dtypes; `shift` is added to the diagonal.
inline Tensor random_matrix(const Shape& shape, DType d, double shift = 0, uint64_t seed = 1) {
  Tensor x = samples::uniform(shape, -1, 1, seed).astype(d);
  if (is_complex(d)) x = x + complex(0.f, 1.f) * samples::uniform(shape, -1, 1, seed + 100).astype(d);
  return x + shift * eye(shape[shape.size() - 2], shape.back(), 0, {d, {}});
}
inline Tensor adjoint(const Tensor& x) { return conj(matrix_transpose(x)); }
inline Tensor hermitian_matrix(const Shape& shape, DType d, double shift = 0) {
  const Tensor x = random_matrix(shape, d);
  return x + adjoint(x) + shift * eye(shape.back(), -1, 0, {d, {}});
}

// The largest difference of two tensors of one shape, in epsilons of their dtype.
inline double distance(const Tensor& x, const Tensor& y) {
  REQUIRE(x.shape() == y.shape());
  if (x.size() == 0) return 0;
  const double epsilon = real_of(x.dtype()) == f32 ? 0x1p-23 : 0x1p-52;
  return max(abs(x - y)).item<double>() / epsilon;
}
inline bool is_identity(const Tensor& x) {
  return distance(x, broadcast_to(eye(x.shape().back(), -1, 0, {x.dtype(), {}}), x.shape())) < 60;
}
inline bool ascends(const Tensor& x) {
  const Dim n = x.shape().back();
  return n < 2 || all(slice_axis(x, -1, 1, n) >= slice_axis(x, -1, 0, n - 1)).item<bool>();
}

}  // namespace rill
