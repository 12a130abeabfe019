// rill::linalg: factorisations multiply to what they were made of, values and gradients against finite differences in
// both modes (of complex matrices too, which the records' tests cannot take), batches, vmap, traces, odd sizes, errors.
// tests/oracle has numpy's, scipy's and torch's values.
#include <dlfcn.h>

#include <cmath>
#include <complex>

#include "catch.h"
#include "messages.h"
#include "random_matrices.h"
#include "threads.h"

using namespace rill;

namespace {

const double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

const std::vector<DType> dtypes = {f32, f64, c64, c128};
const std::vector<Shape> shapes = {{3, 3}, {5, 3}, {3, 5}, {2, 4, 4}, {2, 1, 6, 2}, {1, 1},
                                   {0, 0}, {0, 3}, {3, 0}, {0, 4, 3}, {40, 30}};

}  // namespace

TEST_CASE("qr, lu and svd multiply to the matrix") {
  for (DType d : dtypes)
    for (const Shape& shape : shapes) {
      const Tensor x = random_matrix(shape, d);
      INFO(to_string(x.spec()));
      for (linalg::QrMode mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
        const auto [q, r] = linalg::qr(x, mode);
        CHECK(distance(matmul(q, r), x) < 60);
        CHECK(is_identity(matmul(adjoint(q), q)));
        CHECK(array_equal(triu(r), r));
      }
      const auto [p, l, u] = linalg::lu(x);
      CHECK(distance(matmul(p, matmul(l, u)), x) < 60);
      CHECK(array_equal(tril(l), l));
      CHECK(array_equal(triu(u), u));
      CHECK(is_identity(matmul(p, matrix_transpose(p))));
      for (bool full : {false, true}) {
        const auto [a, s, b] = linalg::svd(x, {.full_matrices = full});
        const Dim k = s.shape().back();
        CHECK(distance(matmul(slice_axis(a, -1, 0, k) * expand_dims(s.astype(d), -2), slice_axis(b, -2, 0, k)), x) <
              200);
        CHECK(is_identity(matmul(adjoint(a), a)));
        CHECK(is_identity(matmul(b, adjoint(b))));
        CHECK(ascends(-s));
        CHECK(distance(linalg::svdvals(x), s) < 200);
      }
    }
}

TEST_CASE("cholesky, eigh and eig: the equations that define them") {
  for (DType d : dtypes)
    for (const Shape& shape : std::vector<Shape>{{3, 3}, {2, 4, 4}, {1, 1}, {0, 0}, {0, 2, 2}, {30, 30}}) {
      const Tensor x = hermitian_matrix(shape, d), positive = matmul(x, x) + eye(shape.back(), -1, 0, {d, {}});
      INFO(to_string(x.spec()));
      const Tensor l = linalg::cholesky(positive), u = linalg::cholesky(positive, {.upper = true});
      CHECK(distance(matmul(l, adjoint(l)), positive) < 4000);
      CHECK(array_equal(l, tril(l)));
      CHECK(array_equal(u, adjoint(l)));
      const auto [w, v] = linalg::eigh(x);
      CHECK(distance(matmul(x, v), v * expand_dims(w.astype(d), -2)) < 1000);
      CHECK(is_identity(matmul(adjoint(v), v)));
      CHECK(ascends(w));
      CHECK(distance(linalg::eigvalsh(x), w) < 300);
      const Tensor y = random_matrix(shape, d);
      const auto [lambda, z] = linalg::eig(y);
      CHECK(distance(matmul(y.astype(z.dtype()), z), z * expand_dims(lambda, -2)) < 1000);
      CHECK(distance(linalg::eigvals(y), lambda) < 1000);
      CHECK(ascends(real(lambda)));
    }
  // A rotation has no real eigenvalues; each vector's largest element is real and positive.
  const auto [w, v] = linalg::eig(tensor({{0., -1.}, {1., 0.}}));
  CHECK(to_string(w) == "[0.-1.j 0.+1.j]");
  CHECK(all(real(v(0)) > 0.7).item<bool>());
}

TEST_CASE("solvers solve") {
  for (DType d : dtypes)
    for (const Shape& shape : std::vector<Shape>{{3, 3}, {2, 4, 4}, {1, 1}, {0, 0}, {20, 20}}) {
      const Dim n = shape.back();
      const Tensor a = random_matrix(shape, d, 6), b = random_matrix({n, 2}, d, 0, 7),
                   v = random_matrix({1, n}, d, 0, 9)(0);
      INFO(to_string(a.spec()));
      CHECK(distance(matmul(a, linalg::solve(a, b)), broadcast_to(b, matmul(a, b).shape())) < 300);
      const Tensor along = linalg::solve(a, v);
      CHECK(distance(squeeze(matmul(a, expand_dims(along, -1)), -1), broadcast_to(v, along.shape())) < 300);
      CHECK(is_identity(matmul(a, linalg::inv(a))));
      for (bool lower : {false, true})
        for (bool left : {false, true})
          for (bool transpose : {false, true})
            for (bool conjugate : {false, true})
              for (bool unit : {false, true}) {
                const Tensor mixed = unit ? a / 6.0 : a, right = left ? b : matrix_transpose(b);
                const Tensor x = linalg::triangular_solve(
                    mixed, right,
                    {.lower = lower, .left = left, .transpose = transpose, .conjugate = conjugate, .unit = unit});
                Tensor t = lower ? tril(mixed, unit ? -1 : 0) : triu(mixed, unit ? 1 : 0);
                if (unit) t = t + eye(n, -1, 0, {d, {}});
                if (transpose) t = matrix_transpose(t);
                if (conjugate) t = conj(t);
                const Tensor product = left ? matmul(t, x) : matmul(x, t);
                CHECK(distance(product, broadcast_to(right, product.shape())) < 20000);
              }
      const auto [sign, logarithm] = linalg::slogdet(a);
      const Tensor det = linalg::det(a);
      CHECK(distance(sign * exp(logarithm) / det, ones_like(det)) < 400);
    }
  const Tensor low = tensor({{2., 0.}, {1., 4.}}), pair = tensor({2., 9.});
  CHECK(linalg::triangular_solve(low, pair, {.lower = true}).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(linalg::triangular_solve(low, pair, {.lower = true, .left = false}).to_vector<double>() ==
        std::vector<double>{-0.125, 2.25});
  CHECK(linalg::det(tensor({{1., 2.}, {3., 4.}})).item<double>() == Approx(-2));
  CHECK(linalg::det(tensor({{1., 2.}, {2., 4.}})).item<double>() == 0);
  CHECK(linalg::det(zeros({0, 0})).item<double>() == 1);
  CHECK(to_string(linalg::slogdet(zeros({2, 2})).logabsdet) == "-inf");
  CHECK(linalg::solve(tensor({{2, 0}, {0, 4}}), tensor({1, 1})).dtype() == f32);
}

TEST_CASE("pinv, lstsq, rank and norms") {
  for (DType d : dtypes)
    for (const Shape& shape : shapes) {
      const Tensor x = random_matrix(shape, d), p = linalg::pinv(x);
      INFO(to_string(x.spec()));
      CHECK(distance(matmul(matmul(x, p), x), x) < 1000);
      CHECK(distance(matmul(x, p), adjoint(matmul(x, p))) < 1000);
      CHECK(distance(matmul(p, x), adjoint(matmul(p, x))) < 1000);
    }
  const Tensor low = matmul(tensor({{1.}, {2.}, {3.}}), tensor({{1., -1.}}));
  CHECK(linalg::matrix_rank(low).item<int64_t>() == 1);
  CHECK(linalg::matrix_rank(stack({eye(3), zeros({3, 3})})).to_vector<int64_t>() == std::vector<int64_t>{3, 0});
  CHECK(linalg::matrix_rank(eye(3) * tensor({1., 1e-3, 1e-7}), {.rtol = 1e-4}).item<int64_t>() == 2);
  CHECK(distance(matmul(matmul(low, linalg::pinv(low)), low), low) < 100);

  // A line through three points: numpy.linalg.lstsq.
  const Tensor a = tensor({{0., 1.}, {1., 1.}, {2., 1.}}), b = tensor({1., 2., 4.});
  const linalg::Lstsq fit = linalg::lstsq(a, b);
  CHECK(distance(fit.solution, tensor({1.5, 0.83333333333333337})) < 20);
  CHECK(fit.residuals.item<double>() == Approx(1.0 / 6));
  CHECK(fit.rank.item<int64_t>() == 2);
  CHECK(distance(fit.singular_values, tensor({2.6762431989952593, 0.9152717300515842})) < 20);

  const Tensor m = tensor({{1., -2.}, {3., 4.}, {0., 1.}});
  const auto norm_of = [&](linalg::MatrixOrd ord) { return linalg::matrix_norm(m, {.ord = ord}).item<double>(); };
  CHECK(norm_of("fro") == Approx(std::sqrt(31)));
  CHECK(norm_of("nuc") == Approx(7.209450531309791));
  CHECK(norm_of(1) == 7);
  CHECK(norm_of(-1) == 4);
  CHECK(norm_of(inf) == 7);
  CHECK(norm_of(-inf) == 1);
  CHECK(norm_of(2) == Approx(5.187746351790277));
  CHECK(norm_of(-2) == Approx(2.0217041795195145));
  CHECK(linalg::matrix_norm(m, {.keepdims = true, .ord = 2}).shape() == Shape{1, 1});
  CHECK(linalg::vector_norm(m, {.ord = 1, .axis = 0}).to_vector<double>() == std::vector<double>{4, 7});
  CHECK(linalg::cond(tensor({{2., 0.}, {0., 8.}})).item<double>() == Approx(4));
  CHECK(linalg::cond(tensor({{2., 1.}, {0., 8.}}), 1).item<double>() == Approx(4.5));
  CHECK(linalg::cond(ones({2, 2})).item<double>() > 1e7);
}

TEST_CASE("powers and products") {
  for (DType d : dtypes) {
    const Tensor x = random_matrix({2, 3, 3}, d, 2);
    CHECK(distance(linalg::matrix_power(x, 3), matmul(x, matmul(x, x))) < 300);
    CHECK(distance(matmul(linalg::matrix_power(x, -2), matmul(x, x)), linalg::matrix_power(x, 0)) < 300);
    // exp(v diag(w) v^-1) = v diag(exp w) v^-1
    const Tensor h = hermitian_matrix({2, 4, 4}, d);
    const auto [w, v] = linalg::eigh(h);
    const Tensor expected = matmul(v * expand_dims(exp(w).astype(d), -2), adjoint(v));
    CHECK(distance(linalg::expm(h) / max(abs(expected)), expected / max(abs(expected))) < 300);
    CHECK(is_identity(linalg::expm(zeros({3, 3}, {d, {}}))));
    const Tensor p = random_matrix({5, 2}, d), q = random_matrix({2, 7}, d), r = random_matrix({7, 3}, d),
                 s = q(0)(slice(0, 5));
    CHECK(distance(linalg::multi_dot({p, q, r}), matmul(matmul(p, q), r)) < 60);
    CHECK(distance(linalg::multi_dot({s, p, q}), matmul(matmul(s, p), q)) < 60);
    CHECK(distance(linalg::multi_dot({s, p, q(all, 1)}), matmul(matmul(s, p), q(all, 1))) < 60);
    // A chain longer than those whose cheapest order is searched for: columns of length 1, and their adjoints.
    const Tensor columns = linalg::qr(p).q;
    std::vector<Tensor> chain{s};
    for (int i = 0; i < 150; ++i) chain.insert(chain.end(), {columns, adjoint(columns)});
    CHECK(distance(linalg::multi_dot(chain), matmul(matmul(s, columns), adjoint(columns))) < 1000);
    CHECK(distance(linalg::vecdot(p, s(slice(0, 2))), sum(conj(p) * s(slice(0, 2)), -1)) < 60);
    CHECK(distance(linalg::vecdot(p, expand_dims(s, 1), -2), sum(conj(p) * expand_dims(s, 1), -2)) < 60);
  }
  CHECK(linalg::matrix_power(tensor({{1, 1}, {1, 0}}), 10).to_vector<int64_t>() ==
        std::vector<int64_t>{89, 55, 55, 34});
  const Tensor stack_of = reshape(arange(12), {3, 2, 2});
  CHECK(linalg::trace(stack_of).to_vector<int64_t>() == std::vector<int64_t>{3, 11, 19});
  CHECK(linalg::diagonal(stack_of, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 5, 9});
  // 2^10 times as large: squarings.
  const Tensor big = tensor({{-3000., 1000.}, {2000., -3000.}});
  CHECK(max(abs(linalg::expm(big))).item<double>() < 1e-300);
}

namespace {

// Gradients of `f`, whose results are real and do not depend on what is free in a factorisation.
template <class F>
void check_gradients(F&& f, const Tensor& x, int order = 2) {
  const GradCheck c = gradcheck(f, x, {.order = order});
  INFO(c.message);
  CHECK(c);
}
// The real and imaginary parts of a tensor: what has free phases is made into projections first.
Tensor parts(const Tensor& y) { return is_complex(y.dtype()) ? stack({real(y), imag(y)}) : y; }
// v H(v) of each column v, weighted: the same for every choice of phases.
Tensor projections(const Tensor& v) {
  const Tensor weights = arange(1., double(v.shape().back()) + 1, 1., {f64, {}}).astype(v.dtype());
  return parts(matmul(v * expand_dims(weights, -2), adjoint(v)));
}

}  // namespace

TEST_CASE("gradients and tangents of real and complex matrices agree with finite differences") {
  for (DType d : {f64, c128}) {
    INFO(name(d));
    const Tensor x = random_matrix({3, 3}, d, 3), tall = random_matrix({4, 2}, d), wide = random_matrix({2, 4}, d),
                 b = random_matrix({3, 2}, d, 0, 5), h = hermitian_matrix({3, 3}, d, 6),
                 apart = random_matrix({3, 3}, d) + diag(tensor({1., 4., 8.})).astype(d);
    check_gradients([&](const Tensor& a) { return parts(linalg::solve(a, b)); }, x);
    check_gradients([&](const Tensor& y) { return parts(linalg::solve(x, y)); }, b);
    check_gradients([](const Tensor& a) { return parts(linalg::inv(a)); }, x);
    check_gradients([](const Tensor& a) { return parts(linalg::det(a)); }, x);
    check_gradients([](const Tensor& a) { return parts(linalg::slogdet(a).sign); }, x);
    check_gradients([](const Tensor& a) { return linalg::slogdet(a).logabsdet; }, x);
    for (bool transpose : {false, true})
      for (bool left : {false, true})
        check_gradients(
            [&](const Tensor& a) {
              return parts(
                  linalg::triangular_solve(a, left ? b : matrix_transpose(b),
                                           {.lower = true, .left = left, .transpose = transpose, .conjugate = left}));
            },
            x);
    check_gradients([](const Tensor& a) { return parts(linalg::cholesky(a)); }, h);
    for (const Tensor& a : {x, tall, wide}) {
      check_gradients([](const Tensor& y) { return parts(linalg::qr(y).q); }, a);
      check_gradients([](const Tensor& y) { return parts(linalg::qr(y).r); }, a);
      check_gradients([](const Tensor& y) { return parts(linalg::lu(y).l); }, a);
      check_gradients([](const Tensor& y) { return parts(linalg::lu(y).u); }, a);
      check_gradients([](const Tensor& y) { return linalg::svdvals(y); }, a);
      check_gradients([](const Tensor& y) { return linalg::svd(y, {.full_matrices = false}).s; }, a);
      check_gradients([](const Tensor& y) { return projections(linalg::svd(y, {.full_matrices = false}).u); }, a, 1);
      check_gradients([](const Tensor& y) { return projections(adjoint(linalg::svd(y, {.full_matrices = false}).vh)); },
                      a, 1);
      check_gradients(
          [](const Tensor& y) {
            const auto f = linalg::svd(y, {.full_matrices = false});
            return parts(matmul(f.u, f.vh));
          },
          a, 1);
      check_gradients([](const Tensor& y) { return parts(linalg::pinv(y)); }, a);
    }
    check_gradients([](const Tensor& a) { return linalg::eigvalsh(a); }, h);
    check_gradients([](const Tensor& a) { return projections(linalg::eigh(a).eigenvectors); }, h, 1);
    check_gradients([](const Tensor& a) { return parts(linalg::eigvals(a)); }, apart, 1);
    check_gradients([](const Tensor& a) { return parts(linalg::eig(a).eigenvalues); }, apart, 1);
    check_gradients([](const Tensor& a) { return projections(linalg::eig(a).eigenvectors); }, apart, 1);
    check_gradients([](const Tensor& a) { return parts(linalg::expm(a)); }, random_matrix({2, 2}, d));
    check_gradients([](const Tensor& a) { return parts(linalg::matrix_power(a, -2)); }, x, 1);
    check_gradients([&](const Tensor& a) { return parts(linalg::lstsq(a, samples::uniform({4}).astype(d)).solution); },
                    tall, 1);
    for (const linalg::MatrixOrd& ord : {linalg::MatrixOrd("nuc"), linalg::MatrixOrd(2), linalg::MatrixOrd(1)})
      check_gradients([&](const Tensor& a) { return linalg::matrix_norm(a, {.ord = ord}); }, tall, 1);
    check_gradients([](const Tensor& a) { return linalg::cond(a); }, x, 1);
  }
  // Equal singular values are no obstacle for what does not depend on the choice of vectors.
  check_gradients([](const Tensor& a) { return linalg::pinv(a); }, eye(3, -1, 0, {f64, {}}), 2);
}

namespace {

// Exactly, by Laplace's expansion.
std::complex<double> exact_det(const std::vector<std::complex<double>>& x, size_t n) {
  if (n == 0) return 1;
  std::complex<double> sum = 0;
  for (size_t k = 0; k < n; ++k) {
    std::vector<std::complex<double>> minor;
    for (size_t i = 1; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (j != k) minor.push_back(x[i * n + j]);
    sum += (k % 2 ? -1. : 1.) * x[k] * exact_det(minor, n - 1);
  }
  return sum;
}
// d^2 det / dx_a dx_b: det is of degree 1 in each element.
std::complex<double> exact_second(const std::vector<std::complex<double>>& x, size_t n, size_t a, size_t b) {
  std::complex<double> sum = 0;
  for (int k = 0; k < 4; ++k) {
    auto y = x;
    y[a] = k & 1 ? 1 : 0, y[b] = k >> 1 ? 1 : 0;
    if (a == b) return 0;
    sum += (k == 0 || k == 3 ? 1. : -1.) * exact_det(y, n);
  }
  return sum;
}

}  // namespace

TEST_CASE("second derivatives of the determinant of a matrix of any rank") {
  for (DType d : {f64, c128})
    for (int64_t n : {2, 3, 4, 5})
      for (int64_t rank = 0; rank <= n; ++rank)
        for (double scale : {1., 1. / 3}) {  // with thirds, no pivot is exactly 0
          INFO(name(d) << ", " << n << " x " << n << " of rank " << rank << ", scale " << scale);
          Tensor x =
              matmul(round(3 * random_matrix({n, rank}, f64, 0, 4)), round(3 * random_matrix({rank, n}, f64, 0, 5)));
          x = x.astype(d);
          if (is_complex(d)) x = x * tensor(std::complex<double>(1, 2));
          x = x * scale;
          const auto numbers = x.astype(c128).to_vector<std::complex<double>>();
          const auto gradient = [](const Tensor& a) {
            return parts(grad([](const Tensor& y) { return real(linalg::det(y)); })(a));
          };
          const size_t count = size_t(n * n);
          double largest = 1e-300, wrong = 0;
          for (size_t b = 0; b < count; ++b) {
            Tensor along = zeros({n * n}, {d, {}});
            along = reshape(along.at(int64_t(b)).set(1), {n, n});
            const Tensor second = jvp(gradient, x, along).second;
            for (size_t a = 0; a < count; ++a) {
              // The gradient of Re det is conj(d det / dx).
              const std::complex<double> right = std::conj(exact_second(numbers, size_t(n), a, b));
              const int64_t i = int64_t(a) / n, j = int64_t(a) % n;
              const std::complex<double> got =
                  is_complex(d) ? std::complex<double>(second(0, i, j).item<double>(), second(1, i, j).item<double>())
                                : second(i, j).item<double>();
              largest = std::max(largest, std::abs(right)), wrong = std::max(wrong, std::abs(got - right));
            }
          }
          const double size = std::pow(max(abs(x)).item<double>() + 1e-300, double(n - 2));
          CHECK(wrong <= 1e-12 * std::max(largest, size));
        }
}

TEST_CASE("a batch is its matrices, under vmap, in a trace and for any number of threads, bit for bit") {
  const Tensor x = random_matrix({64, 5, 5}, f32, 4), b = random_matrix({64, 5, 2}, f32);
  const auto all_of = [](const Tensor& a, const Tensor& y) {
    const Tensor h = matmul(a, matrix_transpose(a));
    const auto [u, s, vh] = linalg::svd(a);
    const auto [w, v] = linalg::eigh(h);
    return std::vector<Tensor>{
        linalg::solve(a, y), linalg::cholesky(h), linalg::qr(a).r,         u, s, vh, w, v, linalg::det(a),
        linalg::pinv(a),     linalg::expm(a),     real(linalg::eigvals(a))};
  };
  const std::vector<Tensor> together = all_of(x, b);
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> alone = all_of(x, b);
  set_num_threads(threads);
  const auto traced = function("all_of", all_of)(x, b);
  const std::vector<Tensor> mapped = vmap(all_of)(x, b);
  for (size_t i = 0; i < together.size(); ++i) {
    INFO(i);
    CHECK(same_bits(together[i], alone[i]));
    CHECK(same_bits(together[i], traced[i]));
    CHECK(distance(together[i], mapped[i]) < 400);
  }
  CHECK(same_bits(linalg::solve(x(2), b(2)), linalg::solve(x, b)(2)));
  CHECK(same_bits(linalg::svdvals(x(2)), linalg::svdvals(x)(2)));
}

// Matrices of up to 4 rows have kernels of their own. As a part of a larger one, which LAPACK takes, they are the same.
TEST_CASE("small matrices, several in a vector, are what LAPACK makes of them") {
  const auto enlarged = [](const Tensor& x) {  // x and the identity on the diagonal
    const int64_t n = x.shape().back(), rest = 6 - n;
    const Tensor one = broadcast_to(eye(rest, -1, 0, {x.dtype(), {}}), {x.dim(0), rest, rest});
    const Tensor above = zeros({x.dim(0), n, rest}, {x.dtype(), {}});
    return concat({concat({x, above}, -1), concat({matrix_transpose(above), one}, -1)}, -2);
  };
  const auto part = [](const Tensor& x, int64_t n) { return slice_axis(slice_axis(x, -1, 0, n), -2, 0, n); };
  for (DType d : {f32, f64})
    for (int64_t n : {1, 2, 3, 4})
      for (double scale : {1.0, 1e-9, 1e9}) {
        INFO(name(d) << " " << n << " " << scale);
        const Tensor x = random_matrix({37, n, n}, d, 0, uint64_t(n)), scaled = x * scale, large = enlarged(x);
        const Tensor well = random_matrix({37, n, n}, d, 3), positive = hermitian_matrix({37, n, n}, d, 3 + double(n));
        CHECK(distance(matmul(scaled, linalg::inv(scaled)), broadcast_to(eye(n, -1, 0, {d, {}}), x.shape())) < 3000);
        CHECK(distance(linalg::inv(well), part(linalg::inv(enlarged(well)), n)) < 20);
        CHECK(distance(linalg::det(x), linalg::det(large)) < 20);
        CHECK(distance(linalg::slogdet(well).logabsdet, linalg::slogdet(enlarged(well)).logabsdet) < 20);
        CHECK(array_equal(linalg::slogdet(x).sign, linalg::slogdet(large).sign));
        CHECK(distance(linalg::cholesky(positive), part(linalg::cholesky(enlarged(positive)), n)) < 20);
        for (int64_t i : {0, 15, 36}) {
          CHECK(same_bits(linalg::inv(well(i)), linalg::inv(well)(i)));
          CHECK(same_bits(linalg::det(x(i)), linalg::det(x)(i)));
          CHECK(same_bits(linalg::cholesky(positive(i)), linalg::cholesky(positive)(i)));
        }
      }
  const Tensor half = concat({eye(3), ones({3, 3})}, 0).reshape({2, 3, 3});
  CHECK(array_equal(linalg::det(half), tensor({1.f, 0.f})));
  CHECK(array_equal(linalg::slogdet(half).logabsdet, tensor({0.0, -inf}).astype(f32)));
  Tensor many = broadcast_to(eye(3), {5000, 3, 3});
  const Tensor zero_at = reshape(iota({5000}, 0, {i64, {}}), {5000, 1, 1});
  many = where(logical_or(zero_at == 4321, zero_at == 4999), zeros({}), many);
  CHECK(has(message_of([&] { linalg::inv(many); }), "matrix [4321] is singular"));
  CHECK(has(message_of([&] { linalg::cholesky(many); }), "matrix [4321] is not positive definite"));
  for (int64_t at : {0, 1, 2, 3}) {  // wherever a NaN stands
    const Tensor x = reshape(where(iota({4}, 0, {i64, {}}) == at, full({}, not_a_number), ones({4})), {2, 2});
    CHECK(isnan(linalg::det(x)).item<bool>());
    CHECK(any(isnan(linalg::solve(x, ones({2})))).item<bool>());
  }
}

TEST_CASE("OpenBLAS has as many threads after a factorisation as before") {
  linalg::det(eye(5));  // opens the library
  void* library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return skip_case("LAPACK is another one here");
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  REQUIRE((set && get));
  const int before = get();
  for (int threads : {2, 1}) {
    set(threads);
    linalg::inv(random_matrix({3, 8, 8}, f64, 5));
    CHECK_THROWS(linalg::inv(ones({8, 8})));
    CHECK(get() == threads);
  }
  set(before);
  dlclose(library);
}

TEST_CASE("a matrix of many rows and few columns is not too large") {
  const Tensor a = random_matrix({60000, 2}, f64), x = tensor({2.0, -3.0});
  CHECK(distance(linalg::lstsq(a, matmul(a, x)).solution, x) < 100);
  CHECK(distance(matmul(linalg::qr(a).q, linalg::qr(a).r), a) < 60);
  CHECK(linalg::svd(a, {.full_matrices = false}).u.shape() == Shape{60000, 2});
  CHECK(linalg::svdvals(a.T()).shape() == Shape{2});
}

TEST_CASE("norms and conditions of nothing and of zeros are numpy's") {
  for (const linalg::MatrixOrd& ord : {linalg::MatrixOrd("fro"), linalg::MatrixOrd("nuc"), linalg::MatrixOrd(1),
                                       linalg::MatrixOrd(inf), linalg::MatrixOrd(2)})
    for (const Shape& shape : {Shape{2, 0, 0}, Shape{2, 0, 3}, Shape{2, 3, 0}})
      CHECK(array_equal(linalg::matrix_norm(zeros(shape), {.ord = ord}), zeros({2})));
  CHECK(has(message_of([&] { linalg::matrix_norm(zeros({3, 0}), {.ord = -1}); }), "[matrix_norm] a matrix without"));
  for (int ord : {1, 2})
    CHECK(has(message_of([&] { linalg::cond(zeros({0, 0}), ord); }),
              "[cond] a matrix without elements has no condition"));
  CHECK(array_equal(linalg::cond(stack({zeros({2, 2}), eye(2)})), tensor({inf, 1.0}).astype(f32)));
}

TEST_CASE("one trace for all sizes of matrices") {
  auto f = function("sizes", [](const Tensor& a) { return linalg::solve(a, linalg::cholesky(matmul(a, a.T()))); },
                    {.signature = {spec(f32, {any, any})}});
  for (int64_t n : {2, 3, 7}) {
    const Tensor a = random_matrix({n, n}, f32, 4);
    CHECK(same_bits(f(a), linalg::solve(a, linalg::cholesky(matmul(a, a.T())))));
  }
}

TEST_CASE("infinities and NaN come out as NaN, at once") {
  for (DType d : dtypes)
    for (double odd : {not_a_number, inf, -inf}) {
      const Tensor x = stack({random_matrix({4, 4}, d, 5), random_matrix({4, 4}, d, 5).at(1, 2).set(Tensor(odd))});
      INFO(name(d) << " " << odd);
      for (const Tensor& y : {linalg::svdvals(x), linalg::svd(x).s, abs(linalg::svd(x).u), linalg::eigvalsh(x),
                              abs(linalg::eigh(x).eigenvectors), abs(linalg::eigvals(x)),
                              abs(linalg::eig(x).eigenvectors), abs(linalg::pinv(x)), abs(linalg::expm(x))}) {
        CHECK(all(isfinite(y(0))).item<bool>());
        CHECK(all(isnan(y(1))).item<bool>());
      }
      CHECK_NOTHROW(linalg::qr(x));
      CHECK_NOTHROW(linalg::lu(x));
      CHECK_NOTHROW(linalg::det(x));
    }
}

TEST_CASE("finite matrices near the largest numbers") {
  for (const char* device : {"cpu:0", "ref:0"}) {
    const WithDevice here(device);
    const Tensor large = tensor({{3e38f, 2e38f}, {2e38f, 3e38f}});
    const Tensor l = linalg::cholesky(large) / 1e19f;
    CHECK(allclose(l, tensor({{1.7320508f, 0.f}, {1.1547005f, 1.2909944f}})));
    CHECK(all(isfinite(linalg::cholesky(eye(5) * 1e38f + 2e38f))).item<bool>());
    CHECK(allclose(linalg::eigvalsh(tensor({{0.f, 2e38f}, {2e38f, 0.f}})) / 1e38f, tensor({-2.f, 2.f})));
    CHECK(allclose(linalg::eigvalsh(tensor({{0., 1.7e308}, {1.7e308, 0.}})) / 1e308, tensor({-1.7, 1.7})));
    CHECK(all(isnan(linalg::expm(full({2, 2}, 1e308, {.dtype = f64})))).item<bool>());
    CHECK(all(isnan(linalg::expm(full({2, 2}, -1e308, {.dtype = f64})))).item<bool>());
    for (int64_t n : {1, 3, 4, 5, 40})  // NaN is not positive, whatever the size
      CHECK(has(message_of([&] { linalg::cholesky(full({n, n}, not_a_number)); }), "is not positive definite"));
  }
}

TEST_CASE("messages name the op, the matrix, the rule and a cure") {
  const Tensor wide = ones({2, 3}), square = ones({2, 2});
  const Tensor batch = stack({eye(2), eye(2), ones({2, 2})}), batches = stack({batch, batch});
  CHECK(has(message_of([&] { linalg::solve(square, square); }), "[solve] the matrix is singular"));
  CHECK(has(message_of([&] { linalg::inv(batch); }), "matrix [2] is singular. linalg::lstsq"));
  CHECK(has(message_of([&] { linalg::inv(batches); }), "matrix [0,2] is singular"));
  CHECK(has(message_of([&] { linalg::cholesky(-batches); }), "matrix [0,0] is not positive definite"));
  CHECK(has(message_of([&] { linalg::cholesky(-square); }), "test_linear_algebra.cpp"));
  CHECK(has(message_of([&] { linalg::inv(wide); }), "must be square, and has 2 rows and 3 columns"));
  CHECK(has(message_of([&] { linalg::cond(wide, 1); }), "must be square, and has 2 rows and 3 columns"));
  CHECK(has(message_of([&] { linalg::det(wide); }), "must be square, and has 2 rows and 3 columns"));
  CHECK(has(message_of([&] { linalg::eigh(wide); }), "[eigh] the matrix must be square"));
  CHECK(has(message_of([&] { linalg::svd(ones({3})); }), "a matrix has at least two axes, and the operand has 1"));
  CHECK(has(message_of([&] { linalg::solve(eye(2), ones({3})); }), "the matrix has 2 rows, and the right side 3"));
  CHECK(has(message_of([&] { linalg::solve(ones({2, 2, 2}), ones({3, 2, 1})); }), "leading axes do not broadcast"));
  CHECK(has(message_of([&] { linalg::cholesky(square.astype(f16)); }), "[cholesky]"));
  CHECK(has(message_of([&] { linalg::matrix_norm(wide, {.ord = 3}); }), "ord is 3 and must be \"fro\", \"nuc\""));
  CHECK(has(message_of([&] { linalg::matrix_norm(wide, {.ord = "nuclear"}); }), "ord is \"nuclear\""));
  CHECK(has(message_of([&] { linalg::pinv(wide, {.rtol = -1.0}); }), "rtol is -1"));
  CHECK(has(message_of([&] { linalg::lstsq(wide, ones({3})); }), "equally many rows"));
  CHECK(has(message_of([&] { linalg::multi_dot({wide}); }), "two operands or more are needed, not 1"));
  CHECK(has(message_of([&] { linalg::multi_dot({wide, ones({3}), wide}); }), "those between must be matrices"));
  CHECK(has(message_of([&] { linalg::matrix_power(wide, 2); }), "must be square"));
  CHECK(has(message_of([&] { linalg::vecdot(ones({3}), ones({4})); }), "axis -1 differs in size: 3 != 4"));
  const auto backward = [](const Tensor& x, auto f) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(f(x)), x);
  };
  CHECK(has(message_of([&] { backward(ones({3, 2}), [](const Tensor& x) { return linalg::svd(x).u; }); }),
            "full_matrices = false"));
  CHECK(has(message_of([&] {
              backward(ones({3, 2}), [](const Tensor& x) { return linalg::qr(x, linalg::QrMode::complete).q; });
            }),
            "the reduced mode has one"));
}

TEST_CASE("conditions and pseudo-inverses of matrices whose inverse is beyond f32") {
  const Tensor one = eye(2);
  for (double size : {1e-39, 1e-38, 1e-30, 1.0, 1e30, 1e38}) {
    INFO(size);
    const Tensor a = tensor({{1.f, 0.5f}, {0.25f, 2.f}}) * tensor(float(size));
    const Tensor plain = tensor({{1.f, 0.5f}, {0.25f, 2.f}});
    for (const linalg::MatrixOrd& ord : std::vector<linalg::MatrixOrd>{1, 2, -2, HUGE_VAL, "fro", "nuc"})
      CHECK(linalg::cond(a, ord).item<float>() ==
            Approx(linalg::cond(plain, ord).item<float>()).epsilon(size < 1e-37 ? 1e-5 : 1e-6));
  }
  CHECK(linalg::cond(one * 1e-39f, 1).item<float>() == 1);
  CHECK(std::isinf(linalg::cond(zeros({2, 2}), "fro").item<float>()));
  CHECK(linalg::cond(complex(one * 1e-39f, one * 0.f), "fro").item<float>() == Approx(2));
  const float large = std::numeric_limits<float>::infinity();
  CHECK(linalg::pinv(one * 1e-39f).to_vector<float>() == std::vector<float>{large, 0, 0, large});
  // The inverse of a singular value is infinite, and no element is.
  const Tensor thin = full({1, 9}, 1.2e-39f), p = linalg::pinv(thin);
  for (float x : p.to_vector<float>()) CHECK(x == Approx(1 / (9 * 1.2e-39)).epsilon(1e-5));
  CHECK(linalg::pinv(one * 1e-30f).to_vector<float>()[0] == Approx(1e30));
}
