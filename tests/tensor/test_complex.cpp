// Complex numbers on the CPU, whose kernels compute in other formats than the reference's: at ordinary points, at the
// ends of the range, near zeros of the functions and at infinities and NaN.
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "catch.h"
#include "op_check.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"

using namespace rill;
using namespace op_check;

namespace {

using C = std::complex<double>;
constexpr double inf = std::numeric_limits<double>::infinity(), NaN = std::numeric_limits<double>::quiet_NaN();

Tensor numbers(const std::vector<C>& z, DType d) { return tensor(z, Shape{int64_t(z.size())}).astype(d); }

// Magnitudes from 2^-low to 2^high, in every direction.
std::vector<C> points(int n, double low, double high, unsigned seed) {
  std::mt19937 draw(seed);
  std::uniform_real_distribution<double> exponent(low, high), angle(-3.14159265358979, 3.14159265358979);
  std::vector<C> z;
  for (int i = 0; i < n; ++i) z.push_back(std::polar(std::exp2(exponent(draw)), angle(draw)));
  return z;
}
// All pairs of these as parts.
std::vector<C> grid(const std::vector<double>& parts) {
  std::vector<C> z;
  for (double a : parts)
    for (double b : parts) z.push_back({a, b});
  return z;
}

// The elementwise records that have kernels for complex operands, of so many.
std::vector<const Op*> complex_ops(int inputs) {
  std::vector<const Op*> found;
  for (const Op* op : all_ops())
    if (op->kind == OpKind::elementwise && op->cpu && op->ref && op->inputs == inputs && contains(op->dtypes, c64) &&
        op->name != "cast" && op->name != "bitcast")
      found.push_back(op);
  return found;
}

// Where the parts of `got` are farther from `want` than `ulps` of the whole number's size, or are not NaN or infinite
// where its are.
std::string difference(const Tensor& got, const Tensor& want, const std::vector<Tensor>& in, double ulps) {
  if (got.dtype() != want.dtype()) return "another dtype";
  const auto a = op_check::numbers(got), b = op_check::numbers(want);
  const size_t parts = is_complex(got.dtype()) ? 2 : 1;
  const double eps = is_differentiable(got.dtype()) ? epsilon(got.dtype()) : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t element = i / parts, first = element * parts;
    double size = 0;
    for (size_t k = first; k < first + parts; ++k)
      if (std::isfinite(b[k])) size = std::max(size, std::abs(b[k]));
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (same || std::abs(a[i] - b[i]) <= ulps * std::max(eps * size, smallest(got.dtype()))) continue;
    std::string at;
    for (const Tensor& x : in) at += to_string(x(int64_t(element))) + " ";
    return fmt::format("at {}: {} where {} is right, off by {} ulp", at, a[i], b[i],
                       std::abs(a[i] - b[i]) / std::max(eps * size, smallest(got.dtype())));
  }
  return "";
}

void compare(const Op& op, const Inputs& in, double ulps) {
  INFO(op.name << " of " << to_string(in[0].spec()));
  CHECK(difference(run_on("cpu:0", op, in, {})[0], run_on("ref:0", op, in, {})[0], in, ulps) == "");
}

}  // namespace

TEST_CASE("functions of one complex number are the reference's to a few units in the last place") {
  CHECK(complex_ops(1).size() > 30);
  for (const Op* op : complex_ops(1))
    for (DType d : {c64, c128}) {
      compare(*op, {numbers(points(400, -4, 4, 1), d)}, 4);
      compare(*op, {numbers(points(400, -30, 6, 2), d)}, 4);
      std::vector<C> circle = points(400, -1e-7, 1e-7, 3), beside = points(400, -20, -1, 4);
      for (C& z : beside) z -= 1.0;
      compare(*op, {numbers(circle, d)}, 4);
      compare(*op, {numbers(beside, d)}, 4);
      compare(*op, {numbers(grid({0.0, -0.0, 0.5, 1, -1, 2, -3, 88, -90, 1e-30, -1e-30}), d)}, 4);
    }
}

TEST_CASE("functions of two complex numbers are the reference's to a few units in the last place") {
  CHECK(complex_ops(2).size() >= 8);
  for (const Op* op : complex_ops(2))
    for (DType d : {c64, c128}) {
      compare(*op, {numbers(points(1000, -3, 3, 1), d), numbers(points(1000, -3, 3, 2), d)}, 4);
      compare(*op, {numbers(points(1000, -40, 40, 3), d), numbers(points(1000, -40, 40, 4), d)}, 4);
      const std::vector<C> circle = points(500, -1e-9, 1e-9, 5), large = points(500, 20, 28, 6);
      compare(*op, {numbers(circle, d), numbers(large, d)}, 4);
    }
}

TEST_CASE("infinities, NaN and the ends of the range of complex numbers") {
  const std::vector<C> odd = grid({0.0, -0.0, 1, -1, 1e-300, 1e300, 720, -720, inf, -inf, NaN});
  for (const Op* op : complex_ops(1)) compare(*op, {numbers(odd, c128)}, 4);
  const std::vector<C> few = grid({0.0, -0.0, 1, -2, 1e300, inf, -inf, NaN});
  std::vector<C> x, y;
  for (C a : few)
    for (C b : few) x.push_back(a), y.push_back(b);
  for (const Op* op : complex_ops(2)) compare(*op, {numbers(x, c128), numbers(y, c128)}, 4);
}

namespace {
// How far a product is from the reference's, in epsilons of the sums of magnitudes.
double error_of_product(const Tensor& a, const Tensor& b) {
  const Tensor want = matmul(a.to("ref:0").astype(c128), b.to("ref:0").astype(c128)).to("cpu:0");
  const Tensor sizes = matmul(abs(a).astype(f64), abs(b).astype(f64));
  return max(abs(matmul(a, b).astype(c128) - want) / sizes).item<double>() / epsilon(a.dtype());
}
Tensor matrix(Shape shape, DType d, uint64_t seed) {
  return random::normal(shape, {.dtype = c128, .key = random::Key(seed)}).astype(d);
}
}  // namespace

TEST_CASE("products of complex matrices, in every layout") {
  for (DType d : {c64, c128})
    for (auto [m, k, n] : {std::array{1, 1, 1},
                           {2, 3, 4},
                           {33, 65, 17},
                           {1, 300, 40},
                           {40, 300, 1},
                           {1, 5000, 1},
                           {1, 200, 1},
                           {90, 80, 100}}) {
      const Tensor a = matrix({m, k}, d, 1), b = matrix({k, n}, d, 2);
      const Tensor at = transpose(transpose(a).contiguous()), bt = transpose(transpose(b).contiguous());
      const Tensor every_other = repeat(b, 2, 1)(all, slice(0, none, 2));
      INFO(to_string(a.spec()) << " times " << to_string(b.spec()));
      for (const Tensor& y : {bt, every_other.contiguous()})
        CHECK(array_equal(matmul(at, y), matmul(a, y.contiguous())));
      for (const Tensor& x : {a, at})
        for (const Tensor& y : {b, bt, every_other}) CHECK(error_of_product(x, y) < 8);
      CHECK(error_of_product(flip(a, 1), flip(b, 0)) < 8);
      CHECK(error_of_product(a, reshape(b, {k, n})) < 8);
      if (n == 1) CHECK(error_of_product(a, reshape(b, {k})) < 8);
    }
  CHECK(error_of_product(matrix({5, 7, 9}, c64, 3), matrix({5, 9, 3}, c64, 4)) < 8);
  CHECK(error_of_product(matrix({5, 7, 9}, c64, 3), matrix({9, 3}, c64, 4)) < 8);
  CHECK(error_of_product(broadcast_to(matrix({9}, c64, 3), {4, 9}), matrix({9, 3}, c64, 4)) < 8);
  CHECK(sum(abs(matmul(zeros({3, 0}, c64), zeros({0, 2}, c64)))).item<float>() == 0);
  const Tensor z = matrix({100}, c128, 5);
  CHECK(imag(dot(conj(z), z)).item<double>() == 0);
}

TEST_CASE("norms of complex numbers along every axis") {
  for (DType d : {c64, c128}) {
    const Tensor x = matrix({37, 65, 5}, d, 1);
    for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}, Axes{0, 1, 2}}) {
      const Tensor want = sqrt(sum(square(abs(x.astype(c128))), {.axis = axes}));
      CHECK(max(abs(norm(x, {.axis = axes}).astype(f64) / want - 1)).item<double>() < 4 * epsilon(d));
    }
  }
  const Tensor far = complex(tensor({3e300, 1e-300}), tensor({4e300, 0.0}));
  CHECK(norm(stack({far, far}), {.axis = {0}})(0).item<double>() == Approx(5e300 * std::sqrt(2.0)).epsilon(1e-14));
  CHECK(norm(stack({far, far}), {.axis = {0}})(1).item<double>() == Approx(1e-300 * std::sqrt(2.0)).epsilon(1e-14));
}

TEST_CASE("complex operands of any strides, traced too") {
  const Tensor x = matrix({64, 96}, c64, 1), y = matrix({96}, c64, 2);
  const auto f = function("f", [](const Tensor& a, const Tensor& b) {
    const Tensor z = transpose(a * b + 2 / b) - power(transpose(a), 2);
    return abs(z) + real(exp(z * 0.1)) + imag(conj(log(z)));
  });
  CHECK(f.verify(x, y));
  CHECK(f.verify(x(slice(0, 64, 3)), y));
  CHECK(f.verify(flip(x, 1), y(0)));
}

TEST_CASE("a product has the same bits whatever stands beside it") {
  for (DType d : {c64, c128}) {
    std::vector<C> first = points(4001, -1, 1, 5), second = points(4001, -1, 1, 6);
    for (size_t i = 0; i < first.size(); i += 2) second[i] = -conj(first[i]) * (1 + 0x1p-40);  // parts that cancel
    for (size_t i = 0; i < first.size(); i += 7) first[i] *= d == c64 ? 1e-30 : 1e-300;        // beyond the fast way
    const Tensor x = numbers(first, d), y = numbers(second, d), xy = multiply(x, y), xx = square(x);
    for (int64_t begin = 1; begin < 8; ++begin) {
      CHECK(array_equal(multiply(x(slice(begin, none)), y(slice(begin, none))), xy(slice(begin, none))));
      CHECK(array_equal(square(x(slice(begin, none))), xx(slice(begin, none))));
    }
    for (int64_t i = 0; i < 40; ++i) CHECK(array_equal(multiply(x(i), y(i)), xy(i)));
    CHECK(array_equal(multiply(x(slice(none, none, 3)), y(slice(none, none, 3))), xy(slice(none, none, 3))));
    CHECK(array_equal(multiply(x, y(3))(3), xy(3)));
    if (d == c64) continue;
    double worst = 0;  // in ulps of each part, against long double where that is exact enough
    const std::vector<C> z = xy.to_vector<C>();
    for (size_t i = 0; i < z.size(); ++i) {
      const std::complex<long double> exact =
          std::complex<long double>(first[i]) * std::complex<long double>(second[i]);
      const long double lost = std::abs(first[i].real() * second[i].real()) * 0x1p-63L;
      const auto off = [&](double got, long double want) {
        const double ulp = std::nextafter(std::abs(double(want)), inf) - std::abs(double(want));
        if (std::abs(want) > lost * 0x1p20L) worst = std::max(worst, double(std::abs(got - want)) / ulp);
      };
      off(z[i].real(), exact.real()), off(z[i].imag(), exact.imag());
    }
    CHECK(worst < 0.52);
  }
}

TEST_CASE("products of complex infinities, which are padded with 1") {
  for (DType d : {c64, c128}) {
    const C alone = prod(numbers({C(inf, 0)}, d)).astype(c128).item<C>();
    CHECK(alone.real() == inf);
    CHECK(alone.imag() == 0);
    const Tensor many = concat({numbers({C(inf, 0)}, d), ones({70}, d)});
    CHECK(prod(many).astype(c128).item<C>().real() == inf);
    CHECK(std::abs(prod(numbers(points(50, -0.1, 0.1, 9), d)).astype(c128).item<C>()) > 0);
  }
}
