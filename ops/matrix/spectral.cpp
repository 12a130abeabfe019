// Singular values and eigenvalues: the records of svd, eigh and eig, and of their values alone, whose gradients need
// the vectors and compute them.
//
// Gradients by vectors divide by the differences of values. They are those of torch.linalg and JAX (Townsend 2016,
// "Differentiating the singular value decomposition"; Boeddeker et al. 2017, "On the computation of complex-valued
// gradients" for eig): of a function that does not change where vectors are multiplied by a factor of magnitude 1.
#include <fmt/format.h>

#include "rill/ops/matrix/matrix_rules.h"
#include "rill/tensor/dim_table.h"

namespace rill {
namespace {

using namespace matrix_rules;

extern const Op svd_op, eigh_op;

// x with zeros on the diagonal.
Tensor off_diagonal(const Tensor& x) { return x * (1 - identity_like(x)); }
// x[i, j] / (values[j] - values[i]), and 0 on the diagonal.
Tensor over_differences(const Tensor& x, const Tensor& values) {
  return over_gaps(off_diagonal(x), expand_dims(values, -2) - expand_dims(values, -1));
}
// x with its columns times the elements of v.
Tensor scale_columns(const Tensor& x, const Tensor& v) { return x * expand_dims(v, -2); }

// --- svd -------------------------------------------------------------------------------------------------------------

OutSpecs infer_svd(const InferArgs& args) {
  check_matrix(args, 0, false);
  const ExactDims exact;
  const bool full = args.attrs.as<FactorParams>().full;
  const Dim m = rows_of(args[0]), n = columns_of(args[0]), k = smaller(m, n);
  return {with_axes(args[0], {m, full ? m : k}), with_axes(args[0], {k}, real_of(args[0].dtype)),
          with_axes(args[0], {full ? n : k, n})};
}

Tensor antihermitian(const Tensor& x) { return x - adjoint(x); }

// The gradient of a decomposition with as many vectors as values.
Tensor svd_gradient(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& by_u, const Tensor& by_s,
                    const Tensor& by_vh) {
  const Dim m = rows_of(u.spec()), n = columns_of(vh.spec()), k = s.shape().back();
  const Tensor along_u = matmul(adjoint(u), by_u), along_v = matmul(vh, adjoint(by_vh));
  const Tensor of_u = antihermitian(along_u), of_v = antihermitian(along_v);
  const Tensor either = off_diagonal(abs(along_u) + abs(along_v)), arrived = either + swapaxes(either, -1, -2) != 0;
  // (s[j] of_u + s[i] of_v) / (s[j]^2 - s[i]^2) at [i, j], in two parts, without the squares.
  const Tensor sums = expand_dims(s, -2) + expand_dims(s, -1), gaps = expand_dims(s, -2) - expand_dims(s, -1);
  Tensor inner =
      0.5 * (over_gaps(off_diagonal(of_u + of_v), gaps, arrived) + over_gaps(off_diagonal(of_u - of_v), sums, arrived));
  Tensor on_diagonal = by_s;
  if (is_complex(u.dtype()))  // the phase that u and vh share is not free
    on_diagonal = astype(by_s, u.dtype()) + over_gaps(diagonal(of_u, 0, -2, -1), 2 * s);
  inner = inner + as_diagonal(on_diagonal);
  Tensor g = matmul(matmul(u, inner), vh);
  if (m > k) {
    const Tensor across = over_gaps(by_u - matmul(u, matmul(adjoint(u), by_u)), expand_dims(s, -2));
    g = g + matmul(across, vh);
  }
  if (n > k) {
    const Tensor across = over_gaps(by_vh - matmul(matmul(by_vh, adjoint(vh)), vh), expand_dims(s, -1));
    g = g + matmul(u, across);
  }
  return g;
}

Tensors svd_vjp(const VjpArgs& args) {
  const Dim m = rows_of(args.in[0].spec()), n = columns_of(args.in[0].spec());
  if (args.attrs.as<FactorParams>().full && m != n)
    fail("svd", fmt::format("there is no gradient through the whole factors of a matrix of {} rows and {} columns. "
                            "{{.full_matrices = false}} has one",
                            m, n));
  return {svd_gradient(args.out[0], args.out[1], args.out[2], args.cotangent[0], args.cotangent[1], args.cotangent[2])};
}

std::vector<Sample> svd_samples() {
  const FactorParams thin{false}, full{true};
  return {{{spread({3, 3})}, full}, {{spread({4, 3})}, thin},     {{spread({2, 3, 4})}, thin},
          {{spread({1, 1})}, thin}, {{spread({2, 2}, -3)}, full}, {{samples::uniform({0, 2})}, thin}};
}

const Op svd_op({
    .name = "svd",
    .doc = "u, s, vh: x = u diag(s) vh, s descending, u and vh with orthonormal columns and rows",
    .dtypes = matrix_rules::dtypes,
    .outputs = 3,
    .infer = infer_svd,
    .vjp = svd_vjp,
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::svd,
    .ref = ref::svd,
    .wants_contiguous = true,
    .samples = svd_samples,
    .norm_tolerance = 400,
});

OutSpecs infer_svdvals(const InferArgs& args) {
  check_matrix(args, 0, false);
  const ExactDims exact;
  return {with_axes(args[0], {smaller(rows_of(args[0]), columns_of(args[0]))}, real_of(args[0].dtype))};
}
Tensors svdvals_vjp(const VjpArgs& args) {
  const Tensors y = apply(svd_op, {&args.in[0]}, FactorParams{false}, Where::current());
  return {matmul(scale_columns(y[0], args.cotangent[0]), y[2])};
}

const Op svdvals_op({
    .name = "svdvals",
    .doc = "the singular values of x, descending",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_svdvals,
    .vjp = svdvals_vjp,
    .saves_in = save(0),
    .batch = batch_rows,
    .cpu = cpu::svdvals,
    .ref = ref::svdvals,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      return {
          {{spread({3, 3})}, {}}, {{spread({4, 3})}, {}}, {{spread({2, 3, 4})}, {}}, {{samples::uniform({0, 2})}, {}}};
    },
    .norm_tolerance = 100,
});

// --- eigh ------------------------------------------------------------------------------------------------------------

OutSpecs infer_eigh(const InferArgs& args) {
  check_matrix(args, 0, true);
  const Dim n = rows_of(args[0]);
  return {with_axes(args[0], {n}, real_of(args[0].dtype)), with_axes(args[0], {n, n})};
}
Tensors eigh_vjp(const VjpArgs& args) {
  const Tensor &w = args.out[0], &v = args.out[1];
  const Tensor turns = over_differences(matmul(adjoint(v), args.cotangent[1]), w);
  return {hermitian(matmul(matmul(v, turns + as_diagonal(args.cotangent[0])), adjoint(v)))};
}
Tensors eigh_jvp(const JvpArgs& args) {
  const Tensor &w = args.out[0], &v = args.out[1];
  const Tensor inner = matmul(matmul(adjoint(v), hermitian(args.tangent[0])), v);
  return {real(diagonal(inner, 0, -2, -1)), matmul(v, over_differences(inner, w))};
}

std::vector<Sample> square_samples() {
  return {
      {{spread({3, 3})}, {}}, {{spread({2, 4, 4}, -2)}, {}}, {{spread({1, 1})}, {}}, {{samples::uniform({0, 0})}, {}}};
}

const Op eigh_op({
    .name = "eigh",
    .doc =
        "w, v: the ascending eigenvalues of the Hermitian (x + H(x)) / 2, and its orthonormal eigenvectors as columns",
    .dtypes = matrix_rules::dtypes,
    .outputs = 2,
    .infer = infer_eigh,
    .vjp = eigh_vjp,
    .saves_out = save_all,
    .jvp = eigh_jvp,
    .batch = batch_rows,
    .cpu = cpu::eigh,
    .ref = ref::eigh,
    .wants_contiguous = true,
    .samples = square_samples,
    .norm_tolerance = 400,
});

OutSpecs infer_eigvalsh(const InferArgs& args) { return {infer_eigh(args)[0]}; }
Tensors eigvalsh_vjp(const VjpArgs& args) {
  const Tensors y = apply(eigh_op, {&args.in[0]}, {}, Where::current());
  return {matmul(scale_columns(y[1], args.cotangent[0]), adjoint(y[1]))};
}

const Op eigvalsh_op({
    .name = "eigvalsh",
    .doc = "the eigenvalues of the Hermitian (x + H(x)) / 2, ascending",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_eigvalsh,
    .vjp = eigvalsh_vjp,
    .saves_in = save(0),
    .batch = batch_rows,
    .cpu = cpu::eigvalsh,
    .ref = ref::eigvalsh,
    .wants_contiguous = true,
    .samples = square_samples,
    .norm_tolerance = 100,
});

// --- eig -------------------------------------------------------------------------------------------------------------

DType complex_of(DType d) { return d == DType::f32 ? DType::c64 : d == DType::f64 ? DType::c128 : d; }

OutSpecs infer_eig(const InferArgs& args) {
  check_matrix(args, 0, true);
  const Dim n = rows_of(args[0]);
  const DType d = complex_of(args[0].dtype);
  return {with_axes(args[0], {n}, d), with_axes(args[0], {n, n}, d)};
}
// Of the operand's dtype: real operands take no imaginary gradient.
Tensor like_operand(const Tensor& g, const Tensor& x) { return is_complex(x.dtype()) ? g : real(g); }

Tensors eig_vjp(const VjpArgs& args) {
  const Tensor &w = args.out[0], &v = args.out[1], vh = adjoint(v);
  const Tensor along = matmul(vh, args.cotangent[1]);
  // Vectors stay of length 1: what is along one does not count.
  const Tensor own = real(diagonal(along, 0, -2, -1));
  const Tensor turns = over_differences(along - scale_columns(matmul(vh, v), own), conj(w));
  const Tensor g = linalg::solve(vh, matmul(turns + as_diagonal(args.cotangent[0]), vh));
  return {like_operand(g, args.in[0])};
}

constexpr std::string_view complex_results =
    "its results are complex; tests/matrices/test_linear_algebra.cpp has a test";

const Op eig_op({
    .name = "eig",
    .doc =
        "w, v: the eigenvalues of x, by real part and then by imaginary part, and eigenvectors of length 1 as columns",
    .dtypes = matrix_rules::dtypes,
    .outputs = 2,
    .infer = infer_eig,
    .vjp = eig_vjp,
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::eig,
    .ref = ref::eig,
    .wants_contiguous = true,
    .samples = square_samples,
    .norm_tolerance = 400,
    .no_finite_difference = complex_results,
});

OutSpecs infer_eigvals(const InferArgs& args) { return {infer_eig(args)[0]}; }
Tensors eigvals_vjp(const VjpArgs& args) {
  const Tensors y = apply(eig_op, {&args.in[0]}, {}, Where::current());
  const Tensor vh = adjoint(y[1]);
  return {like_operand(linalg::solve(vh, expand_dims(args.cotangent[0], -1) * vh), args.in[0])};
}

const Op eigvals_op({
    .name = "eigvals",
    .doc = "the eigenvalues of x, by real part and then by imaginary part",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_eigvals,
    .vjp = eigvals_vjp,
    .saves_in = save(0),
    .batch = batch_rows,
    .cpu = cpu::eigvals,
    .ref = ref::eigvals,
    .wants_contiguous = true,
    .samples = square_samples,
    .norm_tolerance = 100,
    .no_finite_difference = complex_results,
});

}  // namespace

namespace linalg {

Svd svd(const Tensor& x, const SvdOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("svd", x, where);
  Tensors y = apply(svd_op, {&a}, FactorParams{o.full_matrices}, where);
  return {std::move(y[0]), std::move(y[1]), std::move(y[2])};
}
Tensor svdvals(const Tensor& x, Where where) {
  const Tensor a = operand("svdvals", x, where);
  return apply1(svdvals_op, {&a}, {}, where);
}

Eigen eigh(const Tensor& x, Where where) {
  const Tensor a = operand("eigh", x, where);
  Tensors y = apply(eigh_op, {&a}, {}, where);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor eigvalsh(const Tensor& x, Where where) {
  const Tensor a = operand("eigvalsh", x, where);
  return apply1(eigvalsh_op, {&a}, {}, where);
}

Eigen eig(const Tensor& x, Where where) {
  const Tensor a = operand("eig", x, where);
  Tensors y = apply(eig_op, {&a}, {}, where);
  return {std::move(y[0]), std::move(y[1])};
}
Tensor eigvals(const Tensor& x, Where where) {
  const Tensor a = operand("eigvals", x, where);
  return apply1(eigvals_op, {&a}, {}, where);
}

}  // namespace linalg
}  // namespace rill
