// Linear algebra. TensorFlow's kernels read one triangle of a Hermitian matrix, where rill uses (x + H(x)) / 2, and do
// not normalise the signs of vectors, where rill makes the largest element of each positive.
#include <limits>

#include "rill/devices/params/matrix_params.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/ops.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

namespace {

using In = std::span<const Tensor>;

Value hermitian(Call& c) {
  return c.e.composed({c.in[0]}, {&c.specs[0], 1},
                      [](In x) { return Tensors{(x[0] + matrix_transpose(x[0])) * 0.5}; })[0];
}

// -1 for each column whose largest element is negative, else 1: [..., 1, n].
Tensor column_signs(const Tensor& v) {
  for (Dim d : v.shape())
    // There is no largest element.
    if (!d.is_open() && d == 0) return ones({v.shape().back()}, {v.dtype(), v.device()});
  const Tensor largest = take_along_axis(v, argmax(abs(v), -2, true), -2);
  return astype(where(largest < 0, -1, 1), v.dtype());
}

Values write_cholesky(Call& c) { return {writer(c).node("Cholesky", {hermitian(c)})}; }
Values write_solve(Call& c) { return {writer(c).node("MatrixSolve", c.in, {{"adjoint", flag_attr(false)}})}; }
Values write_triangular(Call& c) {
  const TriangularParams& p = c.attrs<TriangularParams>();
  Value a = c.in[0];
  if (p.unit)
    a = c.e.composed({a}, {&c.specs[0], 1}, [](In x) {
      const Dim n = x[0].shape().back();
      const Tensor on = eye(n, n, 0, {DType::boolean, x[0].device()});
      return Tensors{where(on, astype(Tensor(1), x[0].dtype()), x[0])};
    })[0];
  return {writer(c).node("MatrixTriangularSolve", {a, c.in[1]},
                         {{"lower", flag_attr(p.lower)}, {"adjoint", flag_attr(p.adjoint)}})};
}
Values write_det(Call& c) { return {writer(c).node("MatrixDeterminant", c.in)}; }
Values write_slogdet(Call& c) {
  return writer(c).nodes("LogMatrixDeterminant", c.in, {}, {c.in[0].dtype, c.in[0].dtype});
}
Values write_qr(Call& c) {
  return writer(c).nodes("Qr", c.in, {{"full_matrices", flag_attr(c.attrs<FactorParams>().full)}},
                         {c.in[0].dtype, c.in[0].dtype});
}

// Both factors in one matrix, and the order of the rows.
Values write_lu(Call& c) {
  const Shape& shape = c.specs[0].shape;
  const Dim m = shape[shape.size() - 2], n = shape.back();
  if (m.is_open() || n.is_open() || m != n) c.e.refuse(c.node, "TensorFlow's Lu takes square matrices of a known size");
  const Values y = writer(c).nodes("Lu", c.in, {}, {c.in[0].dtype, DType::i64});
  const Values factors = c.e.composed({y[0]}, {&c.specs[0], 1}, [](In x) {
    const Dim n = x[0].shape().back();
    return Tensors{tril(x[0], -1) + eye(n, n, 0, {x[0].dtype(), x[0].device()}), triu(x[0])};
  });
  return {y[1], factors[0], factors[1]};
}

Values decomposed(Call& c, bool vectors, bool full) {
  const DType d = c.in[0].dtype;
  return writer(c).nodes("Svd", c.in, {{"compute_uv", flag_attr(vectors)}, {"full_matrices", flag_attr(full)}},
                         {d, d, d});
}
Values write_svdvals(Call& c) { return {decomposed(c, false, false)[0]}; }
// TensorFlow returns v, whose transpose is vh. Columns of u without a singular value keep their own sign, and so do
// rows of vh.
Values write_svd(Call& c) {
  const Values y = decomposed(c, true, c.attrs<FactorParams>().full);
  Spec v = c.out(2);
  std::swap(v.shape[v.shape.size() - 2], v.shape[v.shape.size() - 1]);
  const Spec specs[] = {c.out(0), v};
  const Values uv = c.e.composed({y[1], y[2]}, specs, [](In x) {
    const Tensor u_signs = column_signs(x[0]), v_signs = column_signs(x[1]);
    const Dim k = smaller(x[0].shape().back(), x[1].shape().back()), n = x[1].shape().back();
    const Tensor signs = concat({slice_axis(u_signs, -1, 0, k), slice_axis(v_signs, -1, k, n)}, -1);
    return Tensors{x[0] * u_signs, matrix_transpose(x[1] * signs)};
  });
  return {uv[0], y[0], uv[1]};
}

Values eigen(Call& c, bool vectors) {
  return writer(c).nodes("SelfAdjointEigV2", {hermitian(c)}, {{"compute_v", flag_attr(vectors)}},
                         {c.in[0].dtype, c.in[0].dtype});
}
Values write_eigvalsh(Call& c) { return {eigen(c, false)[0]}; }
Values write_eigh(Call& c) {
  const Values y = eigen(c, true);
  const Values v = c.e.composed({y[1]}, {&c.out(1), 1}, [](In x) { return Tensors{x[0] * column_signs(x[0])}; });
  return {y[0], v[0]};
}

// 1 / s for the singular values above rtol * the largest, 0 for others.
Tensor inverse_values(const Tensor& x, const linalg::Svd& y, AttrsView attrs) {
  const Dim m = x.shape()[x.shape().size() - 2], n = x.shape().back();
  const double asked = attrs.as<PinvParams>().rtol, epsilon = x.dtype() == DType::f64
                                                                  ? std::numeric_limits<double>::epsilon()
                                                                  : std::numeric_limits<float>::epsilon();
  const Tensor largest = slice_axis(y.s, -1, 0, 1);
  const Tensor counts = y.s > (asked >= 0 ? largest * asked : largest * larger(m, n) * epsilon);
  return where(counts, 1 / where(counts, y.s, 1), 0);
}
// V diag(1 / s) H(U).
Tensors compose_pinv(In in, AttrsView attrs) {
  const Tensor& x = in[0];
  const Dim k = smaller(x.shape()[x.shape().size() - 2], x.shape().back());
  if (!k.is_open() && k == 0) return {matrix_transpose(zeros_like(x))};
  const linalg::Svd y = linalg::svd(x, {.full_matrices = false});
  const Tensor inverses = expand_dims(inverse_values(x, y, attrs), -2);
  return {matmul(matrix_transpose(y.vh) * inverses, matrix_transpose(y.u))};
}
// V diag(1 / s) (H(U) b), and s.
Tensors compose_lstsq(In in, AttrsView attrs) {
  const linalg::Svd y = linalg::svd(in[0], {.full_matrices = false});
  const Tensor inverses = expand_dims(inverse_values(in[0], y, attrs), -1);
  return {matmul(matrix_transpose(y.vh), inverses * matmul(matrix_transpose(y.u), in[1])), y.s};
}

// In f64, which holds the sums.
Tensors compose_byte_matmul(In in, AttrsView) {
  const auto less_zero = [&](size_t i) { return astype(in[i], DType::f64) - astype(in[i + 2], DType::f64); };
  return {astype(matmul(less_zero(0), less_zero(1)), DType::i32)};
}

constexpr std::string_view no_operator = "TensorFlow has no operator that does this. compute it outside of the model";

}  // namespace

std::span<const onnx_out::Rule> matrix_rules() {
  static const onnx_out::Rule rules[] = {
      {.op = "byte_matmul", .composite = compose_byte_matmul},
      {"cholesky", write_cholesky},
      {"solve", write_solve},
      {"triangular_solve", write_triangular},
      {"det", write_det},
      {"slogdet", write_slogdet},
      {"qr", write_qr},
      {"svd", write_svd},
      {"svdvals", write_svdvals},
      {"eigh", write_eigh},
      {"eigvalsh", write_eigvalsh},
      {"lu", write_lu},
      {.op = "pinv", .composite = compose_pinv},
      {.op = "lstsq", .composite = compose_lstsq},
      {.op = "expm", .refusal = no_operator},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
