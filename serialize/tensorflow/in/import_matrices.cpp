// Linear algebra, and diagonals. TensorFlow reads one triangle of a Hermitian matrix; its choice of the unit vectors
// that span a space, and the order of Eig's values, are unspecified: here they are rill's.
#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/linear_algebra.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

Tensor adjoint_of(const Tensor& x) {
  const Tensor y = matrix_transpose(x);
  return is_complex(x.dtype()) ? conj(y) : y;
}
Tensor adjoint_if(const Call& c, const Tensor& x) { return c.flag("adjoint") ? adjoint_of(x) : x; }
// `x` with these elements on diagonal d.
Tensor with_diagonal(const Tensor& x, const Tensor& elements, int64_t d) {
  const Dim rows = x.dim(-2), columns = x.dim(-1);
  const TensorOptions places{i64, x.device()};
  const Tensor on = iota({1, columns}, 1, places) - iota({rows, 1}, 0, places) == d;
  std::vector<Padding> behind(size_t(elements.ndim()));
  behind.back().hi = (d < 0 ? columns : rows) - elements.dim(-1);
  return where(on, expand_dims(pad(elements, behind), d < 0 ? -2 : -1), x);
}
// The Hermitian matrix with this one's lower triangle.
Tensor from_lower(const Tensor& x) {
  const Tensor below = tril(x, -1), on = linalg::diagonal(x);
  return with_diagonal(below + adjoint_of(below), is_complex(x.dtype()) ? real(on).astype(x.dtype()) : on, 0);
}
// A result that is not computed because the attributes do not ask for it.
Tensor nothing(const Tensor& x, DType dtype) { return zeros({0}, {dtype, x.device()}); }

// --- Solving ---------------------------------------------------------------------------------------------------------

Values inverse_rule(const Call& c) { return {linalg::inv(adjoint_if(c, c.x()))}; }
Values solve_rule(const Call& c) { return {linalg::solve(adjoint_if(c, c.x(0)), c.x(1))}; }
Values triangular_rule(const Call& c) {
  const bool adjoint = c.flag("adjoint");
  return {linalg::triangular_solve(c.x(0), c.x(1),
                                   {.lower = c.flag("lower", true), .transpose = adjoint, .conjugate = adjoint})};
}
// `fast`: by the normal equations, for independent columns, or rows.
Values least_squares_rule(const Call& c) {
  const Tensor a = c.x(0), b = c.x(1);
  if (!c.flag("fast", true)) return {linalg::lstsq(a, b).solution};
  const bool tall = a.dim(-2) >= a.dim(-1);
  const Tensor h = adjoint_of(a), square = tall ? matmul(h, a) : matmul(a, h);
  const Tensor damped = square + c.x(2).astype(a.dtype()) * eye(a.dim(tall ? -1 : -2), -1, 0, {a.dtype(), a.device()});
  return {tall ? linalg::solve(damped, matmul(h, b)) : matmul(h, linalg::solve(damped, b))};
}
Values log_determinant_rule(const Call& c) {
  const Tensor x = c.x();
  const linalg::Slogdet y = linalg::slogdet(x);
  return {y.sign, y.logabsdet.astype(x.dtype())};
}

// --- Factorisations --------------------------------------------------------------------------------------------------

Values qr_rule(const Call& c) {
  const linalg::Qr y = linalg::qr(c.x(), c.flag("full_matrices") ? linalg::QrMode::complete : linalg::QrMode::reduced);
  return {y.q, y.r};
}
// x[p] = l u, both in one matrix.
Values lu_rule(const Call& c) {
  const linalg::Lu y = linalg::lu(c.x());
  const DType indices = c.attribute("output_idx_type") ? c.dtype("output_idx_type") : i32;
  return {tril(y.l, -1) + y.u, argmax(abs(y.p), -2).astype(indices)};
}
Values svd_rule(const Call& c) {
  const Tensor x = c.x();
  if (!c.flag("compute_uv", true)) return {linalg::svdvals(x), nothing(x, x.dtype()), nothing(x, x.dtype())};
  const linalg::Svd y = linalg::svd(x, {.full_matrices = c.flag("full_matrices")});
  return {y.s.astype(x.dtype()), y.u, adjoint_of(y.vh)};
}
Values symmetric_eigen_rule(const Call& c) {
  const Tensor x = from_lower(c.x());
  if (!c.flag("compute_v", true)) return {linalg::eigvalsh(x).astype(x.dtype()), nothing(x, x.dtype())};
  const linalg::Eigen y = linalg::eigh(x);
  return {y.eigenvalues.astype(x.dtype()), y.eigenvectors};
}
Values eigen_rule(const Call& c) {
  const Tensor x = c.x();
  const DType to = c.dtype("Tout");
  if (!c.flag("compute_v", true)) return {linalg::eigvals(x).astype(to), nothing(x, to)};
  const linalg::Eigen y = linalg::eig(x);
  return {y.eigenvalues.astype(to), y.eigenvectors.astype(to)};
}

// --- Diagonals -------------------------------------------------------------------------------------------------------

// The diagonals that operands, or the first version's lack of them, ask for: from `low` to `high`, in rows of which the
// highest is first, and shorter ones are aligned left or right.
struct Diagonals {
  int64_t low = 0, high = 0;
  bool above_left = true, below_left = true;

  // `k`: the operand that says so.
  Diagonals(const Call& c, size_t k) {
    if (!c.has(k)) return;
    const Dims both = c.dims(k);
    if (both.empty() || both.size() > 2) c.reject("k should be one number or two");
    low = both[0], high = both.back();
    constexpr int64_t far = 1 << 20;
    if (low > high || low < -far || high > far || high - low > 10000)
      c.reject(fmt::format("takes up to 10000 diagonals, from a lower to a higher one, not {} to {}", low, high));
    const std::string align = c.text("align", c.node.op().ends_with("V3") ? "RIGHT_LEFT" : "LEFT_LEFT");
    above_left = align.starts_with("LEFT"), below_left = align.ends_with("LEFT");
  }
  bool one() const { return low == high; }
  // Whether the row of diagonal d is aligned left.
  bool left(int64_t d) const { return d == 0 || (d > 0 ? above_left : below_left); }
  // The elements of diagonal d, `length` of them, from a tensor that has them as rows.
  Tensor row(const Tensor& rows, int64_t d, Dim length) const {
    if (one()) return rows;
    const Tensor r = rows(ellipsis, high - d, slice(none));
    return left(d) ? slice_axis(r, -1, 0, length) : slice_axis(r, -1, r.dim(-1) - length, r.dim(-1));
  }
};
Dim length_of(Dim rows, Dim columns, int64_t d) {
  return d < 0 ? smaller(rows + d, columns) : smaller(rows, columns - d);
}

Tensor with_diagonals(const Tensor& x, const Tensor& rows, const Diagonals& k) {
  Tensor y = x;
  for (int64_t d = k.low; d <= k.high; ++d) y = with_diagonal(y, k.row(rows, d, length_of(x.dim(-2), x.dim(-1), d)), d);
  return y;
}

Values diagonal_part_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Diagonals k(c, 1);
  if (k.one()) return {linalg::diagonal(x, int(k.low))};
  const Dim rows = x.dim(-2), columns = x.dim(-1);
  const Dim longest = smaller(rows + std::min<int64_t>(k.high, 0), columns - std::max<int64_t>(k.low, 0));
  std::vector<Tensor> all;
  for (int64_t d = k.high; d >= k.low; --d) {
    const Tensor elements = linalg::diagonal(x, int(d));
    std::vector<Padding> widths(size_t(elements.ndim()));
    (k.left(d) ? widths.back().hi : widths.back().lo) = longest - elements.dim(-1);
    all.push_back(pad(elements, widths, c.x(2)));
  }
  return {stack(all, -2)};
}
Values set_diagonal_rule(const Call& c) { return {with_diagonals(c.x(0), c.x(1), Diagonals(c, 2))}; }
// As few rows and columns as hold the diagonals, unless operands say how many.
Values diagonal_rule(const Call& c) {
  const Tensor rows = c.x(0);
  const Diagonals k(c, 1);
  if (rows.ndim() < (k.one() ? 1 : 2)) c.reject("the diagonals need an axis each, and one for their elements");
  const Dim longest = rows.dim(-1);
  const auto asked = [&](size_t i) { return c.has(i) ? c.dim(i) : Dim(-1); };
  Dim m = asked(2), n = asked(3);
  const Dim least_m = longest + std::max<int64_t>(-k.high, 0), least_n = longest + std::max<int64_t>(k.low, 0);
  if (m == -1 && n == -1) m = n = larger(least_m, least_n);
  if (m == -1) m = least_m;
  if (n == -1) n = least_n;
  Shape shape(rows.shape().begin(), rows.shape().end() - (k.one() ? 1 : 2));
  shape.push_back(m);
  shape.push_back(n);
  const Tensor otherwise = c.has(4) ? c.x(4) : zeros({}, {rows.dtype(), rows.device()});
  return {with_diagonals(broadcast_to(otherwise, shape), rows, k)};
}

// --- Three diagonals: above the main one, it, and below
// ---------------------------------------------------------------

// Elements of the last axis shifted by one, with 0 where there was none.
Tensor moved(const Tensor& x, int64_t axis, bool up) {
  const Dim n = x.dim(int(axis));
  std::vector<Padding> widths(size_t(x.ndim()));
  Padding& p = widths[size_t(x.ndim() + axis)];
  (up ? p.hi : p.lo) = 1;
  return pad(up ? slice_axis(x, axis, 1, n) : slice_axis(x, axis, 0, n - 1), widths);
}
Values tridiagonal_product_rule(const Call& c) {
  const auto column = [&](size_t i) { return matrix_transpose(c.x(i)); };  // each [..., 1, m]
  const Tensor x = c.x(3);
  return {column(0) * moved(x, -2, true) + column(1) * x + column(2) * moved(x, -2, false)};
}
Values tridiagonal_solve_rule(const Call& c) {
  const Tensor rows = c.x(0);
  if (rows.ndim() < 2) c.reject("three diagonals are needed");
  const Dim n = rows.dim(-1);
  const auto row = [&](int i) { return rows(ellipsis, i, slice(none)); };
  Shape shape = rows.shape();
  shape[shape.size() - 2] = n;
  Tensor a = with_diagonal(zeros(shape, {rows.dtype(), rows.device()}), row(1), 0);
  a = with_diagonal(a, slice_axis(row(0), -1, 0, n - 1), 1);
  a = with_diagonal(a, slice_axis(row(2), -1, 1, n), -1);
  return {linalg::solve(a, c.x(1))};
}

}  // namespace

const RuleTable& matrix_rules() {
  static const RuleTable table = {
      {"MatrixInverse", inverse_rule},
      {"MatrixSolve", solve_rule},
      {"MatrixTriangularSolve", triangular_rule},
      {"MatrixSolveLs", least_squares_rule},
      {"MatrixDeterminant", [](const Call& c) -> Values { return {linalg::det(c.x())}; }},
      {"LogMatrixDeterminant", log_determinant_rule},
      {"Cholesky", [](const Call& c) -> Values { return {linalg::cholesky(from_lower(c.x()))}; }},
      {"Qr", qr_rule},
      {"Lu", lu_rule},
      {"Svd", svd_rule},
      {"SelfAdjointEigV2", symmetric_eigen_rule},
      {"Eig", eigen_rule},
      {"MatrixExponential", [](const Call& c) -> Values { return {linalg::expm(c.x())}; }},
      {"Cross", [](const Call& c) -> Values { return {cross(c.x(0), c.x(1))}; }},
      {"MatrixDiagPart", diagonal_part_rule},
      {"MatrixDiagPartV2", diagonal_part_rule},
      {"MatrixDiagPartV3", diagonal_part_rule},
      {"MatrixSetDiag", set_diagonal_rule},
      {"MatrixSetDiagV2", set_diagonal_rule},
      {"MatrixSetDiagV3", set_diagonal_rule},
      {"MatrixDiag", diagonal_rule},
      {"MatrixDiagV2", diagonal_rule},
      {"MatrixDiagV3", diagonal_rule},
      {"TridiagonalMatMul", tridiagonal_product_rule},
      {"TridiagonalSolve", tridiagonal_solve_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
