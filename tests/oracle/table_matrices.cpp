// The table of linear algebra and Fourier transforms. Complex results are returned as two real ones, and vectors that
// are unique up to a factor as quantities that do not depend on it (matrices.py).
#include <limits>
#include <stdexcept>

#include "cases.h"

namespace oracle {

using namespace rill;

namespace {

Values parts(const Tensor& y) {
  if (!is_complex(y.dtype())) return {y};
  return {real(y), imag(y)};
}
Values joined(std::initializer_list<Values> all) {
  Values out;
  for (const Values& v : all) out.insert(out.end(), v.begin(), v.end());
  return out;
}
Tensor adjoint(const Tensor& x) { return conj(matrix_transpose(x)); }
// The sum of k v_k H(v_k).
Tensor projections(const Tensor& v) {
  const Tensor weights = astype(arange(1, v.dim(-1) + 1), v.dtype());
  return matmul(v * weights, adjoint(v));
}

double number_of(const Call& c, const char* name, double otherwise) {
  if (!c.has(name) || c.options[name].is_number()) return c.number(name, otherwise);
  const double inf = std::numeric_limits<double>::infinity();
  return c.text(name) == "inf" ? inf : -inf;
}
linalg::MatrixOrd ord_of(const Call& c) {
  const bool named = c.has("ord") && c.options["ord"].is_string();
  if (named && c.text("ord") == "fro") return "fro";
  if (named && c.text("ord") == "nuc") return "nuc";
  return number_of(c, "ord", 2);
}

void add_solvers(Table& t) {
  t["linalg::solve"] = {[](const Call& c) { return parts(linalg::solve(c[0], c[1])); }};
  t["linalg::triangular_solve"] = {[](const Call& c) {
    return parts(linalg::triangular_solve(
        c[0], c[1], {.lower = c.flag("lower"), .left = c.flag("left", true), .unit = c.flag("unit")}));
  }};
  t["linalg::inv"] = {[](const Call& c) { return parts(linalg::inv(c[0])); }};
  t["linalg::det"] = {[](const Call& c) { return parts(linalg::det(c[0])); }};
  t["linalg::slogdet"] = {[](const Call& c) {
    const auto y = linalg::slogdet(c[0]);
    return joined({parts(y.sign), {y.logabsdet}});
  }};
}

void add_factorisations(Table& t) {
  t["linalg::cholesky"] = {[](const Call& c) { return parts(linalg::cholesky(c[0], {.upper = c.flag("upper")})); }};
  t["linalg::qr"] = {[](const Call& c) {
    const auto y = linalg::qr(c[0], c.text("mode") == "complete" ? linalg::QrMode::complete : linalg::QrMode::reduced);
    return joined({parts(y.q), parts(y.r)});
  }};
  t["linalg::lu"] = {[](const Call& c) {
    const auto y = linalg::lu(c[0]);
    return joined({{real(y.p)}, parts(y.l), parts(y.u)});
  }};
  t["linalg::eigh"] = {[](const Call& c) {
    const auto y = linalg::eigh(c[0]);
    return joined({{y.eigenvalues}, parts(projections(y.eigenvectors))});
  }};
  t["linalg::eigvalsh"] = {[](const Call& c) -> Values { return {linalg::eigvalsh(c[0])}; }};
  t["linalg::eig"] = {[](const Call& c) {
    const auto y = linalg::eig(c[0]);
    return joined({parts(y.eigenvalues), parts(projections(y.eigenvectors))});
  }};
  t["linalg::eigvals"] = {[](const Call& c) { return parts(linalg::eigvals(c[0])); }};
  t["linalg::svd"] = {[](const Call& c) {
    const auto y = linalg::svd(c[0], {.full_matrices = c.flag("full")});
    return joined({{y.s}, parts(projections(y.u)), parts(projections(adjoint(y.vh)))});
  }};
  t["linalg::svdvals"] = {[](const Call& c) -> Values { return {linalg::svdvals(c[0])}; }};
  t["linalg::pinv"] = {[](const Call& c) { return parts(linalg::pinv(c[0])); }};
  t["linalg::lstsq"] = {[](const Call& c) { return parts(linalg::lstsq(c[0], c[1]).solution); }};
  t["linalg::matrix_rank"] = {[](const Call& c) -> Values { return {linalg::matrix_rank(c[0])}; }};
}

void add_others(Table& t) {
  t["linalg::matrix_norm"] = {[](const Call& c) -> Values {
    return {linalg::matrix_norm(c[0], {.keepdims = c.flag("keepdims"), .ord = ord_of(c)})};
  }};
  t["linalg::vector_norm"] = {[](const Call& c) -> Values {
    return {linalg::vector_norm(c[0], {.ord = number_of(c, "ord", 2), .axis = c.axes("axis")})};
  }};
  t["linalg::cond"] = {[](const Call& c) -> Values { return {linalg::cond(c[0], ord_of(c))}; }};
  t["linalg::matrix_power"] = {[](const Call& c) { return parts(linalg::matrix_power(c[0], c.integer("n", 1))); }};
  t["linalg::expm"] = {[](const Call& c) { return parts(linalg::expm(c[0])); }};
  t["linalg::multi_dot"] = {[](const Call& c) { return parts(linalg::multi_dot(c.in)); }};
  t["linalg::vecdot"] = {[](const Call& c) { return parts(linalg::vecdot(c[0], c[1], c.integer("axis", -1))); }};
  t["linalg::diagonal"] = {[](const Call& c) { return parts(linalg::diagonal(c[0], int(c.integer("k", 0)))); }};
  t["linalg::trace"] = {[](const Call& c) { return parts(linalg::trace(c[0], int(c.integer("k", 0)))); }};
}

// Functions of factors, as functions of the matrix.
Values solved_by_factors(const Call& c) { return parts(linalg::lu_solve(linalg::lu(c[0]), c[1])); }
Values solved_by_cholesky(const Call& c) {
  const bool upper = c.flag("upper");
  const Tensor a = matmul(c[0], adjoint(c[0])) + eye(c[0].shape().back(), c[0].dtype());
  return parts(linalg::cholesky_solve(linalg::cholesky(a, {.upper = upper}), c[1], {.upper = upper}));
}
Tensor projection(const Tensor& columns) { return matmul(columns, adjoint(columns)); }

void add_structures(Table& t) {
  const auto row_of = [](const Call& c) { return c.in.size() > 1 ? std::optional(c[1]) : std::nullopt; };
  t["linalg::toeplitz"] = {[row_of](const Call& c) -> Values { return {linalg::toeplitz(c[0], row_of(c))}; }};
  t["linalg::hankel"] = {[row_of](const Call& c) -> Values { return {linalg::hankel(c[0], row_of(c))}; }};
  t["linalg::circulant"] = {[](const Call& c) -> Values { return {linalg::circulant(c[0])}; }};
  t["linalg::companion"] = {[](const Call& c) -> Values { return {linalg::companion(c[0])}; }};
  t["linalg::hadamard"] = {[](const Call& c) -> Values { return {linalg::hadamard(c.integer("n", 1), *c.dtype())}; }};
  t["linalg::hilbert"] = {[](const Call& c) -> Values { return {linalg::hilbert(c.integer("n", 1), *c.dtype())}; }};
  t["linalg::khatri_rao"] = {[](const Call& c) { return parts(linalg::khatri_rao(c[0], c[1])); }};
  t["linalg::lu_solve"] = {solved_by_factors};
  t["linalg::cholesky_solve"] = {solved_by_cholesky};
  t["linalg::polar"] = {[](const Call& c) {
    const auto y = linalg::polar(c[0], c.flag("left"));
    return joined({parts(y.u), parts(y.p)});
  }};
  t["linalg::orth"] = {
      [](const Call& c) { return parts(projection(linalg::orth(c[0], {.rtol = c.number("rtol", 0)}))); }, false};
  t["linalg::null_space"] = {
      [](const Call& c) { return parts(projection(linalg::null_space(c[0], {.rtol = c.number("rtol", 0)}))); }, false};
}

fft::Norm norm_of(const Call& c) {
  const std::string norm = c.text("norm", "backward");
  return norm == "ortho" ? fft::Norm::ortho : norm == "forward" ? fft::Norm::forward : fft::Norm::backward;
}
fft::FftOptions line_of(const Call& c) {
  fft::FftOptions o{.axis = c.integer("axis", -1), .norm = norm_of(c)};
  if (c.has("n")) o.n = c.integer("n", 1);
  return o;
}
fft::FftnOptions grid_of(const Call& c) {
  fft::FftnOptions o{.norm = norm_of(c)};
  if (c.has("s")) o.s = Shape(c.dims("s"));
  if (c.has("axes")) o.axes = c.axes("axes");
  return o;
}
fft::Fft2Options plane_of(const Call& c) {
  const fft::FftnOptions o = grid_of(c);
  return {.s = o.s, .axes = o.axes.value_or(Axes{-2, -1}), .norm = o.norm};
}

void add_transforms(Table& t) {
#define RILL_LINE(name) t["fft::" #name] = {[](const Call& c) { return parts(fft::name(c[0], line_of(c))); }};
  RILL_LINE(fft)
  RILL_LINE(ifft)
  RILL_LINE(rfft)
  RILL_LINE(irfft)
  RILL_LINE(hfft)
  RILL_LINE(ihfft)
#undef RILL_LINE
#define RILL_GRID(name)                                                                         \
  t["fft::" #name "n"] = {[](const Call& c) { return parts(fft::name##n(c[0], grid_of(c))); }}; \
  t["fft::" #name "2"] = {[](const Call& c) { return parts(fft::name##2(c[0], plane_of(c))); }};
  RILL_GRID(fft)
  RILL_GRID(ifft)
  RILL_GRID(rfft)
  RILL_GRID(irfft)
#undef RILL_GRID
  t["fft::fftshift"] = {[](const Call& c) { return parts(fft::fftshift(c[0])); }};
  t["fft::ifftshift"] = {[](const Call& c) { return parts(fft::ifftshift(c[0])); }};
  t["fft::fftfreq"] = {[](const Call& c) -> Values { return {fft::fftfreq(c.integer("n", 1), c.number("d", 1))}; }};
  t["fft::rfftfreq"] = {[](const Call& c) -> Values { return {fft::rfftfreq(c.integer("n", 1), c.number("d", 1))}; }};
}

}  // namespace

void add_matrices(Table& t) {
  add_solvers(t);
  add_factorisations(t);
  add_others(t);
  add_structures(t);
  add_transforms(t);
}

}  // namespace oracle
