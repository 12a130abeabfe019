// rill::fft: every function against the sum that defines it, all norms, lengths and axes; gradients in both modes; that
// a line's bits depend on nothing but itself; messages. tests/oracle has numpy's and torch's values.
#include <cmath>
#include <complex>
#include <numbers>

#include "catch.h"
#include "messages.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"

using namespace rill;
using fft::Norm;

namespace {

Tensor complex_numbers(const Shape& shape, DType d = c128) {
  return complex(samples::uniform(shape), samples::uniform(shape, -2, 2, 2)).astype(d);
}

// The matrix exp(sign 2 pi i jk / n) / n^(halves / 2), c128[n, n].
Tensor fourier_matrix(int64_t n, int sign, int halves = 0) {
  const Tensor k = arange(n), products = (expand_dims(k, 0) * expand_dims(k, 1)) % n;
  const Tensor angle = products.astype(f64) * (sign * 2 * std::numbers::pi / double(n));
  return complex(cos(angle), sin(angle)) * std::pow(double(n), -halves / 2.0);
}
// `x` times that matrix along an axis.
Tensor by_definition(const Tensor& x, int64_t axis, int sign, int halves = 0) {
  const Tensor moved = moveaxis(x.astype(c128), axis, -1);
  return moveaxis(matmul(moved, fourier_matrix(moved.shape().back(), sign, halves)), -1, axis);
}
int halves_of(Norm norm, bool inverse) { return norm == Norm::ortho ? 1 : (norm == Norm::forward) != inverse ? 2 : 0; }

// The largest difference, in epsilons of x's dtype times the largest magnitude.
double distance(const Tensor& x, const Tensor& y) {
  REQUIRE(x.shape() == y.shape());
  const double epsilon = real_of(x.dtype()) == f32 ? 0x1p-23 : 0x1p-52;
  if (x.size() == 0) return 0;
  return (max(abs(x.astype(c128) - y.astype(c128))) / max(abs(y).astype(f64))).item<double>() / epsilon;
}

}  // namespace

TEST_CASE("transforms of every kind of length are the sums that define them") {
  for (int64_t n : {1,  2,  3,  4,  5,  6,   7,   8,   9,   11,  12,  13,  16,  17,  19,  25,  31,   32,   36,
                    49, 60, 64, 77, 97, 101, 121, 128, 169, 210, 243, 256, 289, 331, 512, 625, 1000, 1024, 1021})
    for (DType d : {c64, c128}) {
      INFO(n << " " << name(d));
      const Tensor x = complex_numbers({3, n}, d), r = real(x);
      CHECK(distance(fft::fft(x), by_definition(x, -1, -1)) < 20);
      CHECK(distance(fft::ifft(x), by_definition(x, -1, 1, 2)) < 20);
      CHECK(distance(fft::rfft(r), slice_axis(by_definition(r, -1, -1), -1, 0, n / 2 + 1)) < 20);
      CHECK(distance(fft::irfft(fft::rfft(r), {.n = n}), r) < 20);
      CHECK(distance(fft::ifft(fft::fft(x)), x) < 20);
      CHECK(distance(fft::hfft(fft::ihfft(r), {.n = n}), r) < 20);
      CHECK(array_equal(imag(fft::rfft(r))(0, 0), zeros({}, {real_of(d), {}})));  // whatever was rounded
      CHECK(fft::fft(x).dtype() == d);
      CHECK(fft::rfft(r).dtype() == d);
      CHECK(fft::irfft(x, {.n = n}).dtype() == r.dtype());
    }
  // Long ones: a wave of frequency 3 has one element. 2^17 goes in one line; 10007 is a prime, done by convolution.
  for (int64_t n : {131072, 10007, 65536 + 1}) {
    const Tensor wave = cos(arange(n).astype(f64) * (6 * std::numbers::pi / double(n)));
    const Tensor y = abs(fft::rfft(wave)) / double(n);
    CHECK(y(3).item<double>() == Approx(0.5));
    CHECK(sum(y).item<double>() == Approx(0.5).epsilon(1e-8));
  }
}

TEST_CASE("norms, lengths and axes") {
  const Tensor x = complex_numbers({4, 6, 5}), r = real(x);
  for (Norm norm : {Norm::backward, Norm::ortho, Norm::forward}) {
    const int ahead = halves_of(norm, false), back = halves_of(norm, true);
    for (int64_t axis : {0, 1, 2, -1, -3}) {
      CHECK(distance(fft::fft(x, {.axis = axis, .norm = norm}), by_definition(x, axis, -1, ahead)) < 20);
      CHECK(distance(fft::ifft(x, {.axis = axis, .norm = norm}), by_definition(x, axis, 1, back)) < 20);
      CHECK(distance(
                fft::irfft(fft::rfft(r, {.axis = axis, .norm = norm}), {.n = r.dim(axis), .axis = axis, .norm = norm}),
                r) < 20);
    }
    CHECK(distance(fft::fftn(x, {.norm = norm}),
                   by_definition(by_definition(by_definition(x, 0, -1, ahead), 1, -1, ahead), 2, -1, ahead)) < 20);
    CHECK(distance(fft::fft2(x, {.norm = norm}), by_definition(by_definition(x, 1, -1, ahead), 2, -1, ahead)) < 20);
    CHECK(distance(fft::ifft2(x, {.axes = {0, 1}, .norm = norm}),
                   by_definition(by_definition(x, 0, 1, back), 1, 1, back)) < 20);
    CHECK(distance(fft::rfft2(r, {.norm = norm}), slice_axis(fft::fft2(r, {.norm = norm}), -1, 0, 3)) < 20);
    CHECK(distance(fft::rfftn(r, {.norm = norm}), slice_axis(fft::fftn(r, {.norm = norm}), -1, 0, 3)) < 20);
    CHECK(distance(fft::irfft2(fft::rfft2(r, {.norm = norm}), {.s = Shape{6, 5}, .norm = norm}), r) < 20);
    CHECK(distance(fft::irfftn(fft::rfftn(r, {.norm = norm}), {.s = Shape{4, 6, 5}, .norm = norm}), r) < 20);
    CHECK(distance(fft::ifftn(fft::fftn(x, {.norm = norm}), {.norm = norm}), x) < 20);
    CHECK(distance(fft::hfft(x, {.axis = 1, .norm = norm}),
                   fft::irfft(conj(x), {.axis = 1}) * std::pow(10.0, 1 - ahead / 2.0)) < 20);
  }
  const Tensor longer = pad(x, {{0, 0, 0}, {0, 3, 0}, {0, 0, 0}}), shorter = slice_axis(x, 1, 0, 2);
  CHECK(same_bits(fft::fft(x, {.n = 9, .axis = 1}), fft::fft(longer, {.axis = 1})));
  CHECK(same_bits(fft::fft(x, {.n = 2, .axis = 1}), fft::fft(shorter, {.axis = 1})));
  CHECK(same_bits(fft::fftn(x, {.s = Shape{9, 5}, .axes = Axes{1, 2}}), fft::fftn(longer, {.axes = Axes{1, 2}})));
  CHECK(same_bits(fft::fftn(x, {.s = Shape{6, 5}}), fft::fft2(x)));
  CHECK(fft::irfft(x).shape() == Shape{4, 6, 8});
  CHECK(fft::hfft(x, {.n = 7}).shape() == Shape{4, 6, 7});
  CHECK(fft::fft(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(fft::fft(arange(4)).dtype() == c64);
  CHECK(fft::rfft(ones({4}, f16)).dtype() == c64);
}

TEST_CASE("frequencies and shifts follow numpy") {
  CHECK(fft::fftfreq(5, 0.5).to_vector<float>() == std::vector<float>{0, 0.4f, 0.8f, -0.8f, -0.4f});
  CHECK(fft::fftfreq(4, 1, {f64, {}}).to_vector<double>() == std::vector<double>{0, 0.25, -0.5, -0.25});
  CHECK(fft::rfftfreq(5, 1, {f64, {}}).to_vector<double>() == std::vector<double>{0, 0.2, 0.4});
  CHECK(fft::rfftfreq(4).to_vector<double>() == std::vector<double>{0, 0.25, 0.5});
  CHECK(fft::fftshift(arange(5)).to_vector<int>() == std::vector<int>{3, 4, 0, 1, 2});
  CHECK(fft::ifftshift(arange(5)).to_vector<int>() == std::vector<int>{2, 3, 4, 0, 1});
  const Tensor x = reshape(arange(12), {3, 4});
  CHECK(fft::fftshift(x, 1)(0).to_vector<int>() == std::vector<int>{2, 3, 0, 1});
  CHECK(array_equal(fft::ifftshift(fft::fftshift(x)), x));
}

TEST_CASE("gradients and tangents agree with finite differences") {
  const auto parts = [](const Tensor& y) { return is_complex(y.dtype()) ? stack({real(y), imag(y)}) : y; };
  const auto check = [](const auto& f, const Tensor& x) {
    const GradCheck c = gradcheck(f, x, {.order = 2});
    INFO(c.message);
    CHECK(c);
  };
  for (int64_t n : {1, 4, 5}) {
    const Tensor x = complex_numbers({2, n}), r = real(x);
    for (Norm norm : {Norm::backward, Norm::ortho, Norm::forward}) {
      check([&](const Tensor& y) { return parts(fft::fft(y, {.axis = 0, .norm = norm})); }, x);
      check([&](const Tensor& y) { return parts(fft::ifftn(y, {.norm = norm})); }, x);
      check([&](const Tensor& y) { return parts(fft::rfft(y, {.norm = norm})); }, r);
      check([&](const Tensor& y) { return parts(fft::rfft2(y, {.s = Shape{3, 4}, .norm = norm})); }, r);
      check([&](const Tensor& y) { return parts(fft::irfft(y, {.n = 2 * n - 1, .norm = norm})); }, x);
      check([&](const Tensor& y) { return parts(fft::irfft(y, {.n = 2 * n, .norm = norm})); }, x);
      check([&](const Tensor& y) { return parts(fft::hfft(y, {.n = 4, .norm = norm})); }, x);
      check([&](const Tensor& y) { return parts(fft::ihfft(y, {.norm = norm})); }, r);
    }
  }
}

TEST_CASE("a line's bits depend on no other line, on threads, traces and vmap") {
  for (int64_t n : {8, 60, 97, 4096}) {
    const Tensor x = complex_numbers({37, n}, c64), all_lines = fft::fft(x), half = fft::rfft(real(x));
    for (int64_t i : {0, 5, 36}) {
      CHECK(same_bits(all_lines(i), fft::fft(x(i))));
      CHECK(same_bits(half(i), fft::rfft(real(x(i)))));
    }
    CHECK(same_bits(all_lines, fft::fft(x.T().contiguous(), {.axis = 0}).T().contiguous()));
    const auto f = [](const Tensor& y) { return fft::irfft(fft::fft2(y)); };
    const Tensor y = reshape(x, {37, n / 2 * 2 == n ? 2 : 1, -1}), eager = f(y);
    const int threads = num_threads();
    set_num_threads(1);
    CHECK(same_bits(f(y), eager));
    set_num_threads(threads);
    CHECK(same_bits(function("transforms", f)(y), eager));
    CHECK(same_bits(vmap(f)(y), eager));
  }
  auto f = function("sizes", [](const Tensor& y) { return fft::irfft(fft::rfft(y), {.n = y.dim(-1)}); },
                    {.signature = {spec(f32, {any, any})}});
  for (int64_t n : {3, 8, 17}) CHECK(distance(f(samples::uniform({2, n})), samples::uniform({2, n})) < 20);
  CHECK(f.trace_count() <= 2);
}

// Lines that all threads share: as a matrix, by convolution, of real numbers of even and of odd lengths.
TEST_CASE("long lines") {
  for (int64_t n : {16384, 20000, 16807, 16411, 45045}) {
    INFO(n);
    // A sum of waves has as many elements.
    const std::vector<int64_t> frequencies = {0, 1, 130, n / 2, n - 7};
    const Tensor j = arange(n);
    Tensor x = zeros({n}, {c128, {}}), y = x;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const Tensor angle = (j * frequencies[i] % n).astype(f64) * (2 * std::numbers::pi / double(n));
      x = x + complex(cos(angle), sin(angle)) * double(i + 1);
      y = y + (j == frequencies[i]).astype(c128) * double(i + 1) * double(n);
    }
    CHECK(distance(fft::fft(x), y) < 60);
    CHECK(distance(fft::ifft(conj(x)), conj(y) / double(n)) < 60);
    const Tensor r = real(x), half = slice_axis(fft::fft(r), -1, 0, n / 2 + 1);
    CHECK(distance(fft::rfft(r), half) < 60);
    CHECK(distance(fft::irfft(half, {.n = n}), r) < 60);
    CHECK(distance(fft::rfft(r, {.norm = Norm::ortho}), half / std::sqrt(double(n))) < 60);
    CHECK(array_equal(imag(fft::rfft(r))(0), tensor(0.0)));

    const Tensor lines = stack({x, conj(x) * 2., x.T()}).astype(c64), all_lines = fft::fft(lines);
    CHECK(same_bits(all_lines(1), fft::fft(lines(1))));
    CHECK(same_bits(all_lines, fft::fft(lines.T().contiguous(), {.axis = 0}).T().contiguous()));
    const Tensor reals = real(lines), halves = fft::rfft(reals), back = fft::irfft(halves, {.n = n});
    CHECK(same_bits(halves, fft::rfft(reals.T().contiguous(), {.axis = 0}).T().contiguous()));
    CHECK(same_bits(back, fft::irfft(halves.T().contiguous(), {.n = n, .axis = 0}).T().contiguous()));
    const int threads = num_threads();
    for (int t : {1, 3}) {
      set_num_threads(t);
      CHECK(same_bits(fft::fft(lines), all_lines));
      CHECK(same_bits(fft::rfft(reals), halves));
    }
    set_num_threads(threads);
  }
}

TEST_CASE("lengths and axes that may be left out are given with one pair of braces, or two") {
  const Tensor x = reshape(arange(12).astype(f64), {3, 4}), both = fft::fft2(x);
  CHECK(same_bits(fft::fftn(x, {.axes = {0, 1}}), both));
  CHECK(same_bits(fft::fftn(x, {.axes = {{0, 1}}}), both));
  CHECK(same_bits(fft::fftn(x, {.s = {3, 4}, .axes = {0, 1}}), both));
  CHECK(same_bits(fft::fftn(x, {.axes = {1}}), fft::fft(x)));
  CHECK(same_bits(fft::fftn(x, {.axes = std::optional<Axes>()}), both));
  CHECK(fft::fft2(x, {.s = {8, 6}}).shape() == Shape{8, 6});
  fft::FftnOptions options;
  options.axes = {0, 1}, options.s = {3, 4};
  CHECK(same_bits(fft::fftn(x, options), both));
}

TEST_CASE("messages name the function, the operand and the rule") {
  const Tensor x = ones({2, 3});
  CHECK(has(message_of([&] { fft::rfft(complex_numbers({4})); }), "[rfft] the operand must be real"));
  CHECK(has(message_of([&] { fft::fft(x, {.n = 0}); }), "[fft] n is 0 and must be at least 1"));
  CHECK(has(message_of([&] { fft::fft(x, {.axis = 2}); }), "axis 2 is out of bounds"));
  CHECK(has(message_of([&] { fft::fft(zeros({2, 0})); }), "axis 1 is empty"));
  CHECK(has(message_of([&] { fft::irfft(ones({1})); }), "axis 0 has 1 elements, which make 2 (m - 1) = 0 real"));
  CHECK(has(message_of([&] { fft::hfft(ones({2, 0})); }), "[hfft] axis 1 has 0 elements"));
  CHECK(has(message_of([&] { fft::rfft(zeros({2, 0})); }), "axis 1 is empty"));
  CHECK(has(message_of([&] { fft::fftfreq(4, 1, {i32, {}}); }), "[fftfreq] frequencies are not whole numbers"));
  CHECK(has(message_of([&] { fft::rfftfreq(4, 1, {c64, {}}); }), "use f32 or f64, not c64"));
  CHECK(has(message_of([&] { fft::fftn(x, {.s = Shape{1, 2, 3}}); }), "3 lengths are given for an operand of 2 axes"));
  CHECK(has(message_of([&] { fft::fftn(x, {.s = Shape{1, 2}, .axes = Axes{0}}); }), "2 lengths are given for 1 axes"));
  CHECK(has(message_of([&] { fft::fft2(x, {.axes = {0, 0}}); }), "[fft2]"));
  CHECK(has(message_of([&] { fft::fft2(x, {.axes = {0}}); }), "two axes are needed, not 1"));
  CHECK(has(message_of([&] { fft::fftfreq(0); }), "n is 0 and must be at least 1"));
  CHECK(has(message_of([&] { fft::fftfreq(3, 0); }), "d is 0"));
  CHECK(has(message_of([&] { fft::fft(Tensor()); }), "test_fft.cpp"));
}
