// Triangular factorisations: the records of cholesky, qr and lu.
#include <fmt/format.h>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/matrix/matrix_rules.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/dim_table.h"

namespace rill {
namespace {

using namespace matrix_rules;

const ReadableAttrs readable_factor{std::type_identity<FactorParams>()};

using linalg::triangular_solve;

// x L^-1, H(L)^-1 x and the like, for a triangular matrix.
Tensor times_inverse(const Tensor& x, const Tensor& l, bool lower, bool conjugated, bool unit = false) {
  return triangular_solve(
      l, x, {.lower = lower, .left = false, .transpose = conjugated, .conjugate = conjugated, .unit = unit});
}
Tensor inverse_times(const Tensor& l, const Tensor& x, bool lower, bool conjugated, bool unit = false) {
  return triangular_solve(l, x, {.lower = lower, .transpose = conjugated, .conjugate = conjugated, .unit = unit});
}

// --- cholesky --------------------------------------------------------------------------------------------------------

Tensors cholesky_vjp(const VjpArgs& args) {
  const Tensor& l = args.out[0];
  const Tensor phi = halved_diagonal(tril(matmul(adjoint(l), args.cotangent[0])));
  return {hermitian(times_inverse(inverse_times(l, phi, true, true), l, true, false))};
}
Tensors cholesky_jvp(const JvpArgs& args) {
  const Tensor& l = args.out[0];
  const Tensor inner = times_inverse(inverse_times(l, hermitian(args.tangent[0]), true, false), l, true, true);
  return {matmul(l, halved_diagonal(tril(inner)))};
}

const Op cholesky_op({
    .name = "cholesky",
    .doc = "the lower triangular L with a positive diagonal for which L H(L) = (x + H(x)) / 2",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_square,
    .vjp = cholesky_vjp,
    .saves_out = save(0),
    .jvp = cholesky_jvp,
    .batch = batch_rows,
    .cpu = cpu::cholesky,
    .ref = ref::cholesky,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      return {{{spread({3, 3})}, {}},
              {{spread({2, 5, 5}, 3)}, {}},
              {{spread({1, 1})}, {}},
              {{samples::uniform({0, 0})}, {}}};
    },
    .norm_tolerance = 100,
});

// --- qr --------------------------------------------------------------------------------------------------------------

OutSpecs infer_qr(const InferArgs& args) {
  check_matrix(args, 0, false);
  const ExactDims exact;
  const Dim m = rows_of(args[0]), n = columns_of(args[0]), k = args.attrs.as<FactorParams>().full ? m : smaller(m, n);
  return {with_axes(args[0], {m, k}), with_axes(args[0], {k, n})};
}

// The strictly lower triangle of x and its H, and the real part of the diagonal.
Tensor mirrored(const Tensor& x) {
  const Tensor low = halved_diagonal(tril(x));
  return low + adjoint(low);
}

// Of a matrix whose columns are all in r's square part.
Tensor tall_qr_gradient(const Tensor& q, const Tensor& r, const Tensor& by_q, const Tensor& by_r) {
  const Tensor inner = matmul(r, adjoint(by_r)) - matmul(adjoint(by_q), q);
  return times_inverse(by_q + matmul(q, mirrored(inner)), r, false, true);
}
// Walter, Lehmann 2018, "Algorithmic differentiation of linear algebra functions with application in optimum
// experimental design", for m >= n; the columns beyond the m-th of a wide matrix are q times those of r.
Tensors qr_vjp(const VjpArgs& args) {
  const Tensor &q = args.out[0], &r = args.out[1], &by_q = args.cotangent[0], &by_r = args.cotangent[1];
  const Dim m = rows_of(args.in[0].spec()), n = columns_of(args.in[0].spec());
  if (m >= n) {
    if (args.attrs.as<FactorParams>().full && m > n)
      fail("qr",
           fmt::format("there is no gradient of the complete mode for a matrix of more rows than columns, {} > {}. the "
                       "reduced mode has one",
                       m, n));
    return {tall_qr_gradient(q, r, by_q, by_r)};
  }
  const Tensor rest = slice_axis(args.in[0], -1, m, n), by_rest = slice_axis(by_r, -1, m, n);
  const Tensor left =
      tall_qr_gradient(q, slice_axis(r, -1, 0, m), by_q + matmul(rest, adjoint(by_rest)), slice_axis(by_r, -1, 0, m));
  return {concat({left, matmul(q, by_rest)}, -1)};
}

const Op qr_op({
    .name = "qr",
    .doc = "q, r: x = q r, where q has orthonormal columns and r is upper triangular",
    .dtypes = matrix_rules::dtypes,
    .outputs = 2,
    .infer = infer_qr,
    .vjp = qr_vjp,
    .saves_in = save(0),
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::qr,
    .ref = ref::qr,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      const FactorParams thin{false}, full{true};
      return {{{spread({4, 3})}, thin},          {{spread({3, 3})}, full}, {{spread({2, 3, 5})}, thin},
              {{spread({2, 4})}, full},          {{spread({1, 1})}, thin}, {{samples::uniform({0, 2})}, thin},
              {{samples::uniform({2, 0})}, thin}};
    },
    .norm_tolerance = 100,
});

// --- lu --------------------------------------------------------------------------------------------------------------

OutSpecs infer_lu(const InferArgs& args) {
  check_matrix(args, 0, false);
  const ExactDims exact;
  const Dim m = rows_of(args[0]), n = columns_of(args[0]), k = smaller(m, n);
  return {with_axes(args[0], {m}, DType::i64), with_axes(args[0], {m, k}), with_axes(args[0], {k, n})};
}

// Of the rows in the order of l: the square part's first, then the rest of l's rows or of u's columns.
Tensors lu_vjp(const VjpArgs& args) {
  const Tensor &l = args.out[1], &u = args.out[2], &by_l = args.cotangent[1], &by_u = args.cotangent[2];
  const Dim m = rows_of(args.in[0].spec()), n = columns_of(args.in[0].spec()), k = smaller(m, n);
  const Tensor low = slice_axis(l, -2, 0, k), high = slice_axis(u, -1, 0, k);
  Tensor for_l = matmul(adjoint(low), slice_axis(by_l, -2, 0, k)),
         for_u = matmul(slice_axis(by_u, -1, 0, k), adjoint(high));
  if (n > k) for_l = for_l - matmul(slice_axis(by_u, -1, k, n), adjoint(slice_axis(u, -1, k, n)));
  if (m > k) for_u = for_u - matmul(adjoint(slice_axis(l, -2, k, m)), slice_axis(by_l, -2, k, m));
  Tensor g = times_inverse(inverse_times(low, tril(for_l, -1) + triu(for_u), true, true, true), high, false, true);
  if (n > k) g = concat({g, inverse_times(low, slice_axis(by_u, -1, k, n), true, true, true)}, -1);
  if (m > k) g = concat({g, times_inverse(slice_axis(by_l, -2, k, m), high, false, true)}, -2);
  const Tensor back = argsort(args.out[0], {.axis = -1});
  return {take_along_axis(g, broadcast_to(expand_dims(back, -1), g.shape()), -2)};
}

const Op lu_op({
    .name = "lu",
    .doc = "rows, l, u: the rows of x in this order are l u, l with a unit diagonal; by partial pivoting",
    .dtypes = matrix_rules::dtypes,
    .outputs = 3,
    .infer = infer_lu,
    .vjp = lu_vjp,
    .saves_in = save_none,
    .saves_out = save_all,
    .batch = batch_rows,
    .cpu = cpu::lu,
    .ref = ref::lu,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = []() -> std::vector<Sample> {
      return {{{spread({3, 3})}, {}},
              {{spread({2, 4, 3})}, {}},
              {{spread({3, 5}, -1, 1)}, {}},
              {{spread({1, 1})}, {}},
              {{samples::uniform({0, 2})}, {}}};
    },
    .norm_tolerance = 100,
});

}  // namespace

namespace {
// A square matrix with as many rows as the right side.
void check_factor(std::string_view op, const Tensor& a, const Tensor& b, const Where& where) {
  const auto rows = [](const Tensor& x) { return x.shape()[size_t(std::max<int64_t>(x.ndim() - 2, 0))]; };
  if (a.ndim() >= 2 && rows(a) == a.shape().back() && b.ndim() >= 1 && rows(b) == rows(a)) return;
  fail(op,
       fmt::format("takes a square factor and a right side with as many rows. operands: {}, {}", to_string(a.spec()),
                   to_string(b.spec())),
       where);
}
}  // namespace

namespace linalg {

Tensor cholesky(const Tensor& x, const CholeskyOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("cholesky", x, where), l = apply1(cholesky_op, {&a}, {}, where);
  return o.upper ? adjoint(l) : l;
}

Qr qr(const Tensor& x, QrMode mode, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("qr", x, where);
  Tensors y = apply(qr_op, {&a}, FactorParams{mode == QrMode::complete}, where);
  return {std::move(y[0]), std::move(y[1])};
}

Lu lu(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("lu", x, where);
  Tensors y = apply(lu_op, {&a}, {}, where);
  const Tensor rows = iota({y[0].shape().back(), 1}, 0, {DType::i64, a.device()});
  return {astype(equal(rows, expand_dims(y[0], -2)), a.dtype()), std::move(y[1]), std::move(y[2])};
}

Tensor lu_solve(const Lu& f, const Tensor& b, Where where) {
  CallerScope caller(where);
  for (const Tensor* t : {&f.p, &f.l, &f.u, &b}) require_operand("lu_solve", *t, where);
  for (const Tensor* t : {&f.p, &f.l, &f.u}) check_factor("lu_solve", *t, b, where);
  const bool vector = b.ndim() == 1;
  const Tensor right = vector ? expand_dims(b, -1) : b;
  const Tensor y = triangular_solve(f.l, matmul(matrix_transpose(f.p), right), {.lower = true, .unit = true});
  const Tensor x = triangular_solve(f.u, y);
  return vector ? squeeze(x, -1) : x;
}

Tensor cholesky_solve(const Tensor& factor, const Tensor& b, const CholeskySolveOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("cholesky_solve", factor, where);
  require_operand("cholesky_solve", b, where);
  check_factor("cholesky_solve", factor, b, where);
  const TriangularOptions own{.lower = !o.upper}, turned{.lower = !o.upper, .transpose = true, .conjugate = true};
  const bool vector = b.ndim() == 1;
  const Tensor y = triangular_solve(factor, vector ? expand_dims(b, -1) : b, o.upper ? turned : own);
  const Tensor x = triangular_solve(factor, y, o.upper ? own : turned);
  return vector ? squeeze(x, -1) : x;
}

}  // namespace linalg
}  // namespace rill
