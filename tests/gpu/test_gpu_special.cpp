// Special functions, Fourier transforms and factorisations on the GPU (see test_gpu.cpp) against the CPU's: sizes at
// which kernels change their way, axes of every kind, operands that are strided and broadcast, and mistakes.
#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

const Device host("cpu:0"), gpu("gpu:0");

// Whether `f` of operands gives on the GPU what it gives on the CPU, up to a share of the largest number.
template <class F, class... X>
void check_on_gpu(F f, double share, const X&... x) {
  const Tensor want = f(x...), got = f(x.to(gpu)...);
  CHECK(got.device() == gpu);
  CHECK(got.dtype() == want.dtype());
  REQUIRE(got.shape() == want.shape());
  if (want.size() == 0) return;
  const double largest = max(abs(want)).astype(f64).item<double>();
  CHECK(allclose(got.to(host), want, {.rtol = 0, .atol = share * std::max(largest, 1e-30)}));
}

}  // namespace

TEST_CASE("special functions of strided and broadcast operands") {
  const WithDevice here(host);
  random::seed(2);
  const random::UniformOptions near{.low = 0.5, .high = 9};
  const Tensor a = random::uniform({40, 33}, near), x = random::uniform({40, 1}, near),
               wide = random::uniform({1000003}, near);
  const auto p = [](const Tensor& a, const Tensor& x) { return igamma(a, x); };
  check_on_gpu(p, 1e-6, a, x);
  check_on_gpu([](const Tensor& a, const Tensor& x) { return igamma(transpose(a), transpose(x)); }, 1e-6, a, x);
  check_on_gpu([](const Tensor& a) { return zeta(1 + a(slice(none, none, 2)), flip(a, 0)(slice(none, none, 2)) + 1); },
               1e-6, a);
  check_on_gpu([](const Tensor& a, const Tensor& x) { return betainc(a, 2.5, x / 10); }, 1e-6, a, x);
  check_on_gpu([](const Tensor& x) { return exp1(x); }, 1e-6, wide);
  check_on_gpu([](const Tensor& x) { return exp1(x); }, 1e-6, ones({0, 3}));
  check_on_gpu(p, 1e-13, a.astype(f64), x.astype(f64));
  check_on_gpu(p, 1e-3, a.astype(f16), x.astype(f16));
}

TEST_CASE("remainders, divisors and next numbers have the CPU's bits") {
  const WithDevice here(host);
  random::seed(3);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor special = tensor({0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 1e30, -1e-30, 1e-310, 65504.0, inf, -inf, nan});
  for (const DType d : {f16, bf16, f32, f64}) {
    const Tensor x = concat({special, random::normal({50}, {.stddev = 100, .dtype = f64})}, 0).astype(d),
                 y = expand_dims(x, 1);
    INFO(name(d));
    CHECK(same(fmod(x.to(gpu), y.to(gpu)).to(host), fmod(x, y)));
    CHECK(same(remainder(x.to(gpu), y.to(gpu)).to(host), remainder(x, y)));
    CHECK(same(floor_divide(x.to(gpu), y.to(gpu)).to(host), floor_divide(x, y)));
    CHECK(same(nextafter(x.to(gpu), y.to(gpu)).to(host), nextafter(x, y)));
  }
  for (const DType d : {DType::i8, DType::u8, DType::i16, i32, i64, DType::u64}) {
    const Tensor x = concat({tensor({0, 1, -1, 127, -128, 12, 18}), random::randint(-1000000, 1000000, {40})}, 0)
                         .astype(d),
                 y = expand_dims(x, 1);
    INFO(name(d));
    CHECK(same(gcd(x.to(gpu), y.to(gpu)).to(host), gcd(x, y)));
    CHECK(same(lcm(x.to(gpu), y.to(gpu)).to(host), lcm(x, y)));
  }
}

TEST_CASE("Fourier transforms of many lengths") {
  const WithDevice here(host);
  random::seed(4);
  for (const int64_t n : {1,   2,   3,   4,    5,    7,    8,    16,   31,   32,   33,   64,
                          100, 256, 512, 1000, 1024, 1025, 2048, 2049, 4096, 5000, 8192, 16384}) {
    INFO(n);
    const int64_t lines = n > 1000 ? 3 : 70;
    for (const DType d : {c64, c128}) {
      const double share = d == c64 ? 3e-6 : 1e-14;
      const Tensor x = random::normal({lines, n}, {.dtype = d});
      check_on_gpu([](const Tensor& x) { return fft::fft(x); }, share, x);
      check_on_gpu([](const Tensor& x) { return fft::ifft(x); }, share, x);
      const Tensor reals = real(x), half = fft::rfft(reals);
      check_on_gpu([](const Tensor& x) { return fft::rfft(x); }, share, reals);
      check_on_gpu([n](const Tensor& x) { return fft::irfft(x, {.n = n}); }, share, half);
    }
  }
}

TEST_CASE("Fourier transforms along every axis") {
  const WithDevice here(host);
  random::seed(5);
  const Tensor x = random::normal({5, 64, 3, 10}, {.dtype = c64}), reals = real(x),
               tall = random::normal({4096, 3}, {.dtype = c64}), odd = random::normal({5000, 2}, {.dtype = c64});
  for (int64_t axis = 0; axis < 4; ++axis) {
    INFO(axis);
    check_on_gpu([=](const Tensor& x) { return fft::fft(x, {.axis = axis}); }, 3e-6, x);
    check_on_gpu([=](const Tensor& x) { return fft::rfft(x, {.axis = axis}); }, 3e-6, reals);
  }
  check_on_gpu([](const Tensor& x) { return fft::fftn(x); }, 3e-6, x);
  check_on_gpu([](const Tensor& x) { return fft::fft(transpose(x)); }, 3e-6, x);
  for (const Tensor& t : {tall, odd}) check_on_gpu([](const Tensor& x) { return fft::fft(x, {.axis = 0}); }, 3e-6, t);
  check_on_gpu([](const Tensor& x) { return fft::fft(x(slice(0, 0)), {.axis = 1}); }, 3e-6, x);
}

TEST_CASE("Fourier transforms across lines, and of numbers that are not aligned in pairs") {
  const WithDevice here(host);
  random::seed(9);
  for (const DType d : {f32, f64})
    for (const int64_t n : {8, 16, 128, 1024, 4096})
      for (const int64_t inner : {1, 2, 37}) {
        if (n > 1000 && inner > 2) continue;
        INFO(name(d) << " " << n << " " << inner);
        const double share = d == f32 ? 3e-6 : 1e-14;
        const Tensor x = random::normal({3, n, inner}, {.dtype = d}), y = complex(x, flip(x, 1)),
                     half = fft::rfft(x, {.axis = 1});
        check_on_gpu([](const Tensor& x) { return fft::rfft(x, {.axis = 1}); }, share, x);
        check_on_gpu([n](const Tensor& x) { return fft::irfft(x, {.n = n, .axis = 1}); }, share, half);
        check_on_gpu([](const Tensor& x) { return fft::fft(x, {.axis = 1}); }, share, y);
        check_on_gpu([](const Tensor& x) { return fft::ifft(x, {.axis = 1, .norm = fft::Norm::ortho}); }, share, y);
      }
  const Tensor longer = random::normal({1025}).to(gpu), x = longer(slice(1, none));
  CHECK(same(fft::rfft(x).to(host), fft::rfft(x.to(host).to(gpu)).to(host)));
}

TEST_CASE("spectra of real numbers beyond half of the largest") {
  const WithDevice here(host);
  for (const int64_t n : {16, 64, 1024}) {
    const Tensor x = zeros({n}).at(3).set(2.2e38);
    check_on_gpu([](const Tensor& t) { return fft::rfft(t); }, 1e-6, x);
  }
}

TEST_CASE("solvers and factorisations of batches") {
  const WithDevice here(host);
  random::seed(6);
  for (const DType d : {f32, f64, c64, c128})
    for (const int64_t n : {1, 2, 5, 33}) {
      if (n > 32 && d != f32) continue;  // the same code as for a smaller one
      INFO(name(d) << " " << n);
      const double share = real_of(d) == f32 ? 2e-5 : 1e-13;
      const Tensor x = random::normal({1, 3, n, n}, {.dtype = d}), b = random::normal({1, 3, n, 4}, {.dtype = d}),
                   apart = x + 3 * std::sqrt(double(n)) * eye(n, {.dtype = d}),
                   definite = matmul(x, conj(swapaxes(x, -1, -2))) + double(n) * eye(n, {.dtype = d});
      check_on_gpu([](const Tensor& x) { return linalg::cholesky(x); }, share, definite);
      check_on_gpu([](const Tensor& x, const Tensor& b) { return linalg::solve(x, b); }, share, apart, b);
      for (const bool lower : {false, true})
        for (const bool adjoint : {false, true})
          check_on_gpu(
              [=](const Tensor& x, const Tensor& b) {
                return linalg::triangular_solve(x, b, {.lower = lower, .transpose = adjoint, .conjugate = adjoint});
              },
              share, apart, b);
      check_on_gpu([](const Tensor& x) { return linalg::det(x); }, share, apart);
      check_on_gpu([](const Tensor& x) { return linalg::slogdet(x).sign; }, share, apart);
      check_on_gpu([](const Tensor& x) { return linalg::slogdet(x).logabsdet; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::expm(x); }, share * 10, x);
    }
}

TEST_CASE("factorisations of matrices of every place in memory") {
  const WithDevice here(host);
  random::seed(10);
  for (const DType d : {f32, f64, c64, c128})
    for (const int64_t n : {16, 32, 33, 64, 65, 96, 97}) {
      if (n > 65 && is_complex(d)) continue;
      INFO(name(d) << " " << n);
      const double share = real_of(d) == f32 ? 2e-5 : 1e-13;
      const Tensor x = random::normal({2, n, n}, {.dtype = d}), b = random::normal({2, n, 5}, {.dtype = d}),
                   definite = matmul(x, conj(swapaxes(x, -1, -2))) + double(n) * eye(n, {.dtype = d});
      check_on_gpu([](const Tensor& x) { return linalg::cholesky(x); }, share, definite);
      // The two triangles' mean is factorised.
      check_on_gpu([](const Tensor& x) { return linalg::cholesky(x); }, share, definite + tril(x / 8));
      check_on_gpu([](const Tensor& x, const Tensor& b) { return linalg::solve(x, b); }, share, definite, b);
    }
}

TEST_CASE("decompositions of batches") {
  const WithDevice here(host);
  random::seed(7);
  for (const DType d : {f32, f64, c64, c128})
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {7, 3}, {3, 8}, {34, 5}}) {
      INFO(name(d) << " " << m << " " << n);
      const double share = real_of(d) == f32 ? 1e-4 : 1e-12;
      const Tensor x = random::normal({3, m, n}, {.dtype = d}), square = random::normal({2, n, n}, {.dtype = d}),
                   hermitian = square + conj(swapaxes(square, -1, -2));
      check_on_gpu([](const Tensor& x) { return linalg::qr(x).q; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::qr(x, linalg::QrMode::complete).r; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::svd(x, {.full_matrices = false}).u; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::svd(x, {.full_matrices = false}).vh; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::svdvals(x); }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::pinv(x); }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::lstsq(x, slice_axis(x, -1, 0, 1)).solution; }, share, x);
      check_on_gpu([](const Tensor& x) { return linalg::eigh(x).eigenvalues; }, share, hermitian);
      check_on_gpu([](const Tensor& x) { return linalg::eigh(x).eigenvectors; }, share, hermitian);
      check_on_gpu([](const Tensor& x) { return linalg::eigvalsh(x); }, share, hermitian);
      check_on_gpu([](const Tensor& x) { return linalg::eigvals(x); }, share * 10, square);
      check_on_gpu([](const Tensor& x) { return linalg::eig(x).eigenvectors; }, share * 10, square);
      // Whole factors, whose further columns nothing but orthonormality decides.
      const linalg::Svd whole = linalg::svd(x.to(gpu));
      for (const Tensor& y : {whole.u.to(host), swapaxes(whole.vh.to(host), -1, -2)})
        CHECK(allclose(matmul(conj(swapaxes(y, -1, -2)), y), eye(y.shape().back(), {.dtype = d}),
                       {.rtol = 0, .atol = share}));
    }
}

TEST_CASE("decompositions of numbers whose squares no dtype holds") {
  const WithDevice here(host);
  random::seed(8);
  const Tensor x = random::normal({5, 3}, {.dtype = f64}), y = random::normal({4, 4}, {.dtype = f64});
  for (const double size : {1e200, 1e-200, 1e307, 1e-310}) {
    INFO(size);
    const auto near = [&](Tensor (*f)(const Tensor&), const Tensor& z) {
      CHECK(allclose(f((z * size).to(gpu)).to(host) / size, f(z), {.rtol = 1e-9, .atol = 1e-9}));
    };
    near([](const Tensor& z) { return linalg::svdvals(z); }, x);
    near([](const Tensor& z) { return linalg::eigvalsh(z); }, y + y.T());
    near([](const Tensor& z) { return real(linalg::eigvals(z)); }, y);
  }
}

TEST_CASE("matrices that have no factors, and none at all") {
  const WithDevice here(host);
  const Tensor bad = tensor({{1.0f, 2.0f}, {2.0f, 1.0f}}).to(gpu), none = zeros({2, 2}, {.device = gpu}),
               nan = full({2, 2}, std::nan(""), {.device = gpu});
  const auto wait = [](const Tensor& x) { static_cast<void>(x.to(host)); };
  says([&] { wait(linalg::cholesky(bad)); }, {"[cholesky] the matrix is not positive definite"});
  says([&] { wait(linalg::cholesky(broadcast_to(bad, {3, 2, 2}))); }, {"[cholesky] matrix ", "of the batch is not"});
  for (const int64_t n : {20, 50, 90, 100}) {
    const Tensor good = eye(n), indefinite = where(arange(n * n).reshape({n, n}) == (n - 1) * (n + 1), -1.0f, good);
    says([&] { wait(linalg::cholesky(stack({good, good, indefinite, good}).to(gpu))); },
         {"[cholesky] matrix 2 of the batch is not positive definite"});
  }
  says([&] { wait(linalg::solve(none, bad)); }, {"[solve] the matrix is singular"});
  CHECK(linalg::det(none).item<float>() == 0);
  CHECK(linalg::slogdet(none).logabsdet.item<float>() == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(linalg::svdvals(nan)(0).item<float>()));
  CHECK(std::isnan(linalg::pinv(nan)(1, 0).item<float>()));
  CHECK(std::isnan(linalg::eigvalsh(nan)(1).item<float>()));
  CHECK(std::isnan(linalg::expm(nan)(0, 1).item<float>()));
  CHECK(linalg::det(zeros({0, 0}, {.device = gpu})).item<float>() == 1);
  CHECK(linalg::cholesky(zeros({3, 0, 0}, {.device = gpu})).shape() == Shape{3, 0, 0});
  CHECK(linalg::eigh(zeros({0, 2, 2}, {.device = gpu})).eigenvalues.shape() == Shape{0, 2});
  const linalg::Svd empty = linalg::svd(zeros({3, 0}, {.device = gpu}));
  CHECK(same(empty.u.to(host), eye(3)));
  CHECK(same(linalg::qr(zeros({3, 0}, {.device = gpu}), linalg::QrMode::complete).q.to(host), eye(3)));
}
