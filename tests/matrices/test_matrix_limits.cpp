// Matrices at the edge of what linear algebra defines: ill-conditioned least squares, singular matrices, values that
// coincide, exponentials of matrices whose powers are far smaller than they are. Numbers are mathematics' or mpmath's.
#include <cmath>
#include <limits>

#include "messages.h"
#include "values.h"
#include "within.h"

using namespace values;

namespace {

bool near(const Tensor& t, const std::vector<double>& expected, double relative = 1e-12, double absolute = 1e-14) {
  return within(t.to_vector<double>(), expected, relative, absolute);
}
// The backward error, |a x - b| / (|a| |x| + |b|): how much a and b must change for x to solve them exactly.
double residual(const Tensor& a, const Tensor& x, const Tensor& b) {
  const auto size = [](const Tensor& t) { return norm(t).item<double>(); };
  return size(matmul(a, x) - b) / (size(a) * size(x) + size(b));
}
Tensor hilbert(int64_t n) { return 1.0 / (expand_dims(arange(n, f64), 1) + arange(n, f64) + 1.0); }
// A matrix with these singular values.
Tensor with_values(const Tensor& s, int64_t rows) {
  random::seed(5);
  const Tensor u = linalg::qr(random::normal({rows, s.shape()[0]}, {.dtype = f64})).q;
  const Tensor v = linalg::qr(random::normal({s.shape()[0], s.shape()[0]}, {.dtype = f64})).q;
  return matmul(u * s, v.T());
}

}  // namespace

TEST_CASE("least squares lose the condition number once") {
  for (const char* device : {"cpu:0", "ref:0"}) {
    INFO(device);
    const Tensor h = hilbert(10).to(device), b = matmul(h, ones({10}, f64).to(device));
    CHECK(residual(h, linalg::lstsq(h, b).solution, b) < 1e-14);
    const Tensor a = with_values(logspace(0, -5, 8, {.dtype = f64}), 30).astype(f32).to(device);
    const Tensor y = matmul(a, ones({8}, f32).to(device));
    CHECK(residual(a, linalg::lstsq(a, y).solution, y) < 3e-6);
    const Tensor wide = with_values(logspace(0, -10, 6, {.dtype = f64}), 20).T().to(device),
                 z = matmul(wide, ones({20}, f64).to(device));
    CHECK(residual(wide, linalg::lstsq(wide, z).solution, z) < 1e-14);
  }
  const Tensor x = linspace(0.0, 1.0, 60, true, f64), y = polyval(ones({13}, f64), x);
  const Tensor p = polyfit(x, y, 12);
  CHECK(norm(polyval(p, x) - y).item<double>() / norm(y).item<double>() < 1e-14);
}

TEST_CASE("the gradients of least squares") {
  random::seed(3);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{6, 3}, {3, 6}, {4, 4}}) {
    const Tensor a = random::normal({m, n}, {.dtype = f64}), b = random::normal({m, 2}, {.dtype = f64});
    const auto f = [](const Tensor& p, const Tensor& q) { return linalg::lstsq(p, q).solution; };
    CHECK(gradcheck([&](const Tensor& p) { return f(p, b); }, a, {.order = 2}));
    CHECK(gradcheck([&](const Tensor& q) { return f(a, q); }, b));
    const Tensor along = random::normal({m, n}, {.dtype = f64});
    CHECK(allclose(jvp([&](const Tensor& p) { return f(p, b); }, a, along).second,
                   jvp([&](const Tensor& p) { return matmul(linalg::pinv(p), b); }, a, along).second));
    CHECK(allclose(jvp([&](const Tensor& p) { return linalg::lstsq(p, b).singular_values; }, a, along).second,
                   jvp([&](const Tensor& p) { return linalg::svdvals(p); }, a, along).second));
  }
}

TEST_CASE("gradients of values that coincide") {
  const Tensor same_values = eye(3, f64), weights = tensor({1.0, 2.0, 4.0});
  const auto weighed = [&](const Tensor& w) { return sum(real(w) * weights); };
  const F1 of_values[] = {[&](const Tensor& x) { return weighed(linalg::eigh(x).eigenvalues); },
                          [&](const Tensor& x) { return weighed(linalg::svd(x).s); },
                          [&](const Tensor& x) { return weighed(linalg::eig(x).eigenvalues); }};
  for (const F1& f : of_values) {
    const Tensor g = gradient_of(f, same_values);
    CHECK(near(trace(g), {7}));
    CHECK(near(g - g * eye(3, f64), std::vector<double>(9, 0.0)));
  }
  // The third vector is simple: its projection's derivative by perturbation theory is that of jacfwd.
  const Tensor x = tensor({{2.0, 1.0, 0.0}, {1.0, 2.0, 0.0}, {0.0, 0.0, 3.0}});
  const F1 f = [](const Tensor& t) {
    return sum(square(linalg::eigh(t).eigenvectors(all, 0)) * tensor({1.0, 2.0, 4.0}));
  };
  CHECK(near(gradient_of(f, x), {0.25, 0, 0, 0, -0.25, 0, 0, 0, 0}));
  CHECK(allclose(gradient_of(f, x), jacfwd(f)(x)));
  // Singular values that are 0, and the values alone.
  const Tensor flat = ones({3, 2}, f64);
  CHECK(near(gradient_of([](const Tensor& t) { return linalg::svd(t, {.full_matrices = false}).s(0); }, flat),
             std::vector<double>(6, 1 / std::sqrt(6.0))));
  // Vectors of small matrices, whose squares vanish.
  const Tensor small = tensor({{3.f, 1.f}, {0.f, 2.f}});
  const F1 g = [](const Tensor& t) { return sum(square(linalg::svd(t).u) * tensor({{1.f, 2.f}, {3.f, 5.f}})); };
  CHECK(allclose(gradient_of(g, small * 1e-25f) * 1e-25f, gradient_of(g, small), {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_CASE("polar factors have gradients where singular values coincide, and singular vectors have none") {
  const Tensor m = tensor({{1.0, 2.0}, {5.0, 4.0}}), twice = 2.0 * eye(2, f64);
  const auto weighed = [](const Tensor& t, const Tensor& by) { return sum(t * by); };
  // At c * 1, du = (dx - dx^T) / 2c and dp = (dx + dx^T) / 2.
  CHECK(near(gradient_of([&](const Tensor& x) { return weighed(linalg::polar(x).u, m); }, twice), {0, -0.75, 0.75, 0}));
  CHECK(near(gradient_of([&](const Tensor& x) { return weighed(linalg::polar(x).p, m); }, twice), {1, 3.5, 3.5, 4}));
  const Tensor turn = tensor({{0.6, -0.8, 0.0}, {0.8, 0.6, 0.0}, {0.0, 0.0, 1.0}});
  random::seed(3);
  for (const Tensor& x : {turn, random::normal({3, 3}, {.dtype = f64}), random::normal({4, 2}, {.dtype = f64}),
                          random::normal({2, 4}, {.dtype = f64}), random::normal({2, 2}, {.dtype = c128})})
    for (const bool left : {false, true}) {
      INFO(to_string(x.spec()) << left);
      const GradCheck u = gradcheck([&](const Tensor& t) { return linalg::polar(t, left).u; }, x);
      INFO(u.message);
      CHECK(u.ok);
      // Of a matrix with more columns than rows, the p that H(p) p = H(x) x defines has no derivative at its zeros.
      if (x.dim(left ? 0 : 1) > x.dim(left ? 1 : 0)) continue;
      const GradCheck p = gradcheck([&](const Tensor& t) { return linalg::polar(t, left).p; }, x);
      INFO(p.message);
      CHECK(p.ok);
    }
  // What is put together again from singular vectors has a gradient that only its formula knows: NaN, and not 0.
  const Tensor g = gradient_of(
      [&](const Tensor& x) {
        const linalg::Svd f = linalg::svd(x);
        return weighed(matmul(f.u * f.s, f.vh), m);
      },
      twice);
  CHECK(any(isnan(g)).item<bool>());
}

TEST_CASE("determinants whose partial products leave the range") {
  const auto det = [](const Tensor& x) { return linalg::det(x); };
  for (const DType d : {f32, f64, c64, c128}) {
    const double large = d == f32 || d == c64 ? 1e30 : 1e200;
    const double tolerance = d == f32 || d == c64 ? 1e-6 : 1e-14;
    for (const std::vector<double>& on : {std::vector<double>{large, large, 1 / large, 1 / large},
                                          {1 / large, 1 / large, large, large},
                                          {large, 1 / large, 1 / large, large}}) {
      const Tensor x = diag(tensor(on)).astype(d);
      CHECK(near(real(det(x)), {1}, tolerance));
    }
  }
  CHECK(det(diag(tensor({1e200, 1e200, -1.0}))).item<double>() == -inf);
  CHECK(near(det(diag(tensor({1e200, 0.0, 1e200}))), {0}));
  CHECK(std::isnan(det(diag(tensor({1.0, std::nan("")}))).item<double>()));
}

TEST_CASE("determinants of singular matrices have gradients") {
  const auto det = [](const Tensor& x) { return linalg::det(x); };
  const Tensor x = tensor({{1.0, 2.0}, {2.0, 4.0}});
  CHECK(near(gradient_of(det, x), {4, -2, -2, 1}));
  jit::set_mode(jit::Mode::wait);
  CHECK(near(function([&](const Tensor& t) { return gradient_of(det, t); })(x), {4, -2, -2, 1}));
  jit::set_mode(jit::Mode::tiered);
  const Tensor three = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {5.0, 7.0, 9.0}});  // rank 2
  CHECK(near(gradient_of(det, stack({three, eye(3, f64)})), {3, -6, 3, 3, -6, 3, -3, 6, -3, 1, 0, 0, 0, 1, 0, 0, 0, 1},
             1e-12, 1e-12));
  CHECK(near(gradient_of(det, zeros({3, 3}, f64)), std::vector<double>(9, 0.0)));
  CHECK(near(gradient_of(det, zeros({1, 1}, f64)), {1}));
  const Tensor turned = complex(x, 2.0 * x);
  CHECK(near(real(gradient_of([](const Tensor& t) { return real(linalg::det(t)); }, turned)), {4, -2, -2, 1}));
  const auto logarithm = [](const Tensor& t) { return linalg::slogdet(t).logabsdet; };
  CHECK(near(gradient_of(logarithm, diag(tensor({1.0, 0.0}))), {0, 0, 0, inf}));
  CHECK(near(gradient_of([&](const Tensor& t) { return rill::where(linalg::det(t) == 0, 0, logarithm(t)); }, x),
             {0, 0, 0, 0}));
}

TEST_CASE("the condition of a singular matrix is infinite") {
  const Tensor x = tensor({{1.0, 2.0}, {2.0, 4.0}}), y = tensor({{1.0, 2.0}, {3.0, 4.0}});
  for (const linalg::MatrixOrd& ord : {linalg::MatrixOrd(1), linalg::MatrixOrd(-1), linalg::MatrixOrd(inf),
                                       linalg::MatrixOrd("fro"), linalg::MatrixOrd("nuc")}) {
    CHECK(near(linalg::cond(x, ord), {inf}));
    CHECK(linalg::cond(stack({x, y}), ord)(0).item<double>() == inf);
    CHECK(near(linalg::cond(stack({x, y}), ord)(1), linalg::cond(y, ord).to_vector<double>()));
  }
  CHECK(near(linalg::cond(y, 1), {21}));
}

TEST_CASE("exponentials of matrices whose powers are small") {
  const auto upper = [](double a, double b, double c) { return tensor({{a, b}, {0.0, c}}); };
  for (const char* device : {"cpu:0", "ref:0"})
    for (const double x : {1e8, 1e15, 1e18, 1e100, 1e300}) {
      INFO(device << " " << x);
      CHECK(near(linalg::expm(upper(0, x, 0).to(device)), {1, x, 0, 1}, 1e-14));
      // exp of [[a, x], [0, c]] has x (e^a - e^c) / (a - c) beside its diagonal.
      const double between = std::exp(-1) - std::exp(-2);
      CHECK(near(linalg::expm(upper(-1, x, -2).to(device)), {std::exp(-1), x * between, 0, std::exp(-2)}, 1e-13));
    }
  CHECK(near(linalg::expm(tensor({{0.f, 1e20f}, {0.f, 0.f}})), {1, 1e20f, 0, 1}, 1e-6));
  CHECK(near(linalg::expm(tensor({{0.0, 30.0}, {-30.0, 0.0}})),
             {std::cos(30), std::sin(30), -std::sin(30), std::cos(30)}, 1e-12));
  CHECK(near(linalg::expm(upper(-100, 1e40, -100)), {std::exp(-100), 1e40 * std::exp(-100), 0, std::exp(-100)}, 1e-10));
  CHECK(near(linalg::expm(diag(tensor({700.0, -700.0}))), {std::exp(700), 0, 0, std::exp(-700)}, 1e-12, 0));
}
