// rill::linalg of large real matrices, which are factorised by blocks on rill's own products: every kind of matrix, and the
// bits of one thread for any number of them.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "random_matrices.h"
#include "threads.h"

using namespace rill;

TEST_CASE("a large matrix is factorised by blocks, with the bits of one thread") {
  for (DType d : {f32, f64})
    for (int64_t n : {255, 256, 257, 384, 700}) {
      INFO(n << " " << name(d));
      const Tensor x = random_matrix({n, n}, d), h = matmul(x, x.T()) / n + eye(n, -1, 0, {d, {}});
      Tensor l;
      for (int count : {1, 2, 3}) {
        const Threads threads(count);
        const Tensor again = linalg::cholesky(h);
        if (count == 1) l = again;
        else CHECK(same_bits(l, again));
      }
      CHECK(distance(matmul(l, l.T()), h) < 30);
      CHECK(same_bits(l, tril(l)));
      CHECK(min(diag(l)).item<double>() > 0);
      CHECK(same_bits(linalg::cholesky(stack({h, h}))(1), l));
      for (int64_t at : {int64_t(0), n / 2, n - 1}) {
        CHECK(has(message_of([&] { linalg::cholesky(Tensor(h.at(at, at).set(-1.f))); }), "is not positive definite"));
        CHECK(has(message_of([&] { linalg::cholesky(Tensor(h.at(at, 0).set(NAN))); }), "is not positive definite"));
      }
    }
}

namespace {

// Large matrices of every kind: of usual numbers, of few and of no directions, far from 1, of numbers far apart.
std::vector<Tensor> kinds_of_matrices(const Shape& shape, DType d) {
  const Tensor x = random_matrix(shape, d);
  const Tensor thin = matmul(random_matrix({shape[0], 3}, d), random_matrix({3, shape[1]}, d));
  const auto falling = [d](Dim n) { return exp2(arange(0, n).astype(d) * (d == f32 ? -0.25 : -1.5)); };
  return {x,
          thin,
          zeros(shape, {.dtype = d}),
          eye(shape[0], shape[1], 0, {d, {}}),
          x * (d == f32 ? 1e-36 : 1e-290),
          x * (d == f32 ? 1e34 : 1e300),
          x * falling(shape[1]),
          x * expand_dims(falling(shape[0]), -1)};
}
// The largest magnitude, for what is wrong relative to it.
double size_of_matrix(const Tensor& x) {
  const double size = max(abs(x)).item<double>();
  return size > 0 ? size : 1;
}

}  // namespace

TEST_CASE("singular values of large matrices: by blocks, of every kind of matrix") {
  for (DType d : {f32, f64})
    for (const Shape& shape : std::vector<Shape>{{256, 256}, {301, 301}, {400, 260}, {260, 400}})
      for (const Tensor& x : kinds_of_matrices(shape, d)) {
        INFO(to_string(x.spec()) << " of size " << size_of_matrix(x));
        for (bool full : {false, true}) {
          const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
          const Dim k = s.shape().back();
          const Tensor scale = tensor(size_of_matrix(x)).astype(d);
          CHECK(distance(matmul(slice_axis(u, -1, 0, k) * (s / scale), slice_axis(vh, -2, 0, k)), x / scale) < 400);
          CHECK(is_identity(matmul(u.T(), u)));
          CHECK(is_identity(matmul(vh, vh.T())));
          CHECK(ascends(-s));
          CHECK(min(s).item<double>() >= 0);
          CHECK(distance(linalg::svdvals(x) / scale, s / scale) < 400);
          CHECK(all(max(u, 0) >= -min(u, 0)).item<bool>());  // the largest element of a vector is positive
        }
      }
}

TEST_CASE("eigenvalues of large symmetric matrices: by blocks, of every kind of matrix") {
  for (DType d : {f32, f64})
    for (int64_t n : {256, 257, 340})
      for (const Tensor& y : kinds_of_matrices({n, n}, d)) {
        const Tensor x = y / 2 + y.T() / 2;
        const auto [w, v] = linalg::eigh(x);
        INFO(to_string(x.spec()) << " of size " << size_of_matrix(w));
        const Tensor scale = tensor(size_of_matrix(w)).astype(d);  // the norm of x
        CHECK(distance(matmul(x / scale, v), v * (w / scale)) < 60);
        CHECK(is_identity(matmul(v.T(), v)));
        CHECK(ascends(w));
        CHECK(distance(linalg::eigvalsh(x) / scale, w / scale) < 60);
        CHECK(all(max(v, 0) >= -min(v, 0)).item<bool>());
      }
}

TEST_CASE("large matrices have the bits of one thread, alone and in a batch, and NaN where one is not finite") {
  for (DType d : {f32, f64}) {
    const Tensor x = random_matrix({300, 270}, d), y = hermitian_matrix({300, 300}, d);
    const auto all_of = [&](const Tensor& x, const Tensor& y) {
      const auto [u, s, vh] = linalg::svd(x);
      const auto [w, v] = linalg::eigh(y);
      const auto [p, lower, upper] = linalg::lu(x);
      return std::vector<Tensor>{u,
                                 s,
                                 vh,
                                 w,
                                 v,
                                 linalg::svdvals(x),
                                 linalg::eigvalsh(y),
                                 lower,
                                 upper,
                                 linalg::inv(y),
                                 linalg::slogdet(y).logabsdet};
    };
    std::vector<Tensor> expected;
    for (int count : {1, 2, 3}) {
      const Threads threads(count);
      const std::vector<Tensor> again = all_of(x, y), batch = all_of(stack({x * 2, x}), stack({y, y}));
      if (count == 1) expected = again;
      for (size_t i = 0; i < again.size(); ++i) {
        CHECK(same_bits(again[i], expected[i]));
        CHECK(same_bits(batch[i](1), expected[i]));
      }
    }
    for (double value : {constants::nan, constants::inf}) {
      const std::vector<Tensor> all_nan = all_of(Tensor(x.at(7, 250).set(value)), Tensor(y.at(7, 250).set(value)));
      for (size_t i = 0; i < 7; ++i) CHECK(all(isnan(all_nan[i])).item<bool>());
    }
  }
}

TEST_CASE("large matrices are divided into triangles by blocks, singular ones too") {
  for (DType d : {f32, f64})
    for (const Shape& shape : std::vector<Shape>{{256, 256}, {300, 300}, {400, 257}, {257, 400}, {700, 700}}) {
      const Tensor x = random_matrix(shape, d);
      INFO(to_string(x.spec()));
      const auto multiplies = [&](const Tensor& x) {
        const auto [p, l, u] = linalg::lu(x);
        CHECK(distance(matmul(p, matmul(l, u)), x) < 400);
        CHECK(array_equal(tril(l), l));
        CHECK(array_equal(triu(u), u));
        CHECK(max(abs(l)).item<double>() == 1);
      };
      multiplies(x);
      const Tensor lacks = Tensor(x.at(all, slice(100, 101)).set(0));
      multiplies(lacks);
      if (shape[0] != shape[1]) continue;
      CHECK(linalg::slogdet(lacks).logabsdet.item<double>() == -constants::inf);
      CHECK(has(message_of([&] { linalg::inv(lacks); }), "is singular"));
      const Tensor solvable = x + eye(shape[0], -1, 0, {d, {}}) * 30, b = random_matrix({shape[0], 130}, d, 0, 3);
      CHECK(distance(matmul(solvable, linalg::solve(solvable, b)), b) < 300);
      CHECK(is_identity(matmul(solvable, linalg::inv(solvable))));
      const auto [sign, logarithm] = linalg::slogdet(solvable);
      const auto [w, v] = linalg::eig(solvable);
      CHECK(logarithm.item<double>() == Approx(sum(log(abs(w))).item<double>()).epsilon(1e-4));
      CHECK(sign.item<double>() == 1);
    }
}
