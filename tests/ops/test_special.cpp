// Special functions, beside what the records' tests (test_ops) and the judges' cases (tests/oracle) say of them:
// identities over wide ranges, transforms, dtypes, mistakes.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {
// Places spread evenly on a logarithmic scale.
Tensor spread(double from, double to, int64_t n) { return geomspace(from, to, n, true, {.dtype = f64}); }
bool near(const Tensor& a, const Tensor& b, double share) {
  const Tensor off = where(a == b, 0, abs(a - b) / maximum(abs(b), 1e-290));
  const double worst = max(off).item<double>();
  UNSCOPED_INFO("off by " << worst);
  return worst <= share;
}
}  // namespace

TEST_CASE("incomplete functions satisfy their recurrences over wide ranges") {
  const Tensor a = expand_dims(spread(1e-6, 1e6, 60), 1);
  const Tensor x = a * spread(0.2, 5, 40);
  CHECK(near(igamma(a, x) + igammac(a, x), ones(x.shape(), f64), 4e-16));
  // P(a, x) = P(a + 1, x) + x^a e^-x / Gamma(a + 1); the last loses digits where a is large.
  const Tensor small = a(slice(0, 30));
  const Tensor z = small * spread(0.2, 5, 40), step = exp(small * log(z) - z - lgamma(small + 1));
  CHECK(near(igamma(small, z), igamma(small + 1, z) + step, 1e-12));
  const Tensor b = spread(1e-3, 1e5, 40), share = tensor({0.001, 0.2, 0.5, 0.9}).reshape({4, 1, 1});
  const Tensor p = expand_dims(spread(1e-3, 1e5, 30), 1);
  CHECK(near(betainc(p, b, share) + betainc(b, p, 1 - share), ones({4, 30, 40}, f64), 1e-13));
  CHECK(near(betainc(1.0, b, tensor(0.25)), -expm1(b * std::log(0.75)), 1e-13));
  CHECK(near(betaln(p, b), betaln(b, p), 0));
  CHECK(near(betaln(p, 1.0), -log(p), 1e-12));
}

TEST_CASE("zeta and polygamma satisfy their recurrences") {
  const Tensor s = expand_dims(spread(1.01, 60, 40), 1), q = spread(0.01, 1e4, 50);
  CHECK(near(zeta(s, q), zeta(s, q + 1) + power(q, -s), 1e-12));
  CHECK(zeta(2.0).item<double>() == Approx(constants::pi * constants::pi / 6).epsilon(1e-15));
  const Tensor x = tensor({-7.3, -0.5, 0.2, 3.0, 40.0});
  CHECK(near(polygamma(1, x), polygamma(1, x + 1) + 1 / square(x), 1e-13));
  CHECK(near(polygamma(2, x), polygamma(2, x + 1) - 2 / power(x, 3), 1e-12));
  CHECK(same_bits(polygamma(0, x), digamma(x)));
  // Below 0 the largest terms cancel: exactly -60! times the sum of (k + 1/2)^-61 over k > 0.
  CHECK(polygamma(60, tensor(-0.5)).item<double>() == Approx(-1.5087179138556403e+71).epsilon(1e-14));
}

TEST_CASE("Wronskians of Bessel functions") {
  const Tensor x = spread(1e-3, 300, 200);
  CHECK(near(j1(x) * y0(x) - j0(x) * y1(x), 2 / (constants::pi * x), 1e-12));
  CHECK(near(i0e(x) * (k1(x) * exp(x)) + i1e(x) * (k0(x) * exp(x)), 1 / x, 1e-14));
  CHECK(near(i0(x), i0e(x) * exp(x), 1e-13));
  CHECK(near(erfcx(x / 20) * exp(-square(x / 20)), erfc(x / 20), 1e-13));
}

TEST_CASE("derivatives of special functions") {
  const Tensor a = tensor({0.4, 2.0, 30.0}), x = tensor({0.6, 1.5, 33.0});
  const auto checked = [](const GradCheck& c) {
    UNSCOPED_INFO(c.message);
    return c.ok;
  };
  const GradCheckOptions tight{.rtol = 1e-6, .atol = 1e-9};
  const Tensor share = tensor({0.2, 0.5, 0.45});
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& t) { return igamma(p, t); }, {a, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& t) { return igammac(p, t); }, {a, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& p, const Tensor& q, const Tensor& t) { return betainc(p, q, t); },
                          {a, x, share}, tight)));
  CHECK(checked(gradcheck([](const Tensor& s, const Tensor& q) { return zeta(s, q); }, {a + 1, x}, tight)));
  CHECK(checked(gradcheck([](const Tensor& t) { return polygamma(3, t); }, x, {.order = 2, .rtol = 1e-5})));
  // At 0, and under a transform.
  const Tensor zero = tensor({0.0});
  for (auto [f1, slope] : std::vector<std::pair<Tensor (*)(const Tensor&, Where), double>>{
           {j0, 0}, {j1, 0.5}, {i0, 0}, {i1, 0.5}, {i1e, 0.5}}) {
    GradientTape tape;
    tape.watch(zero);
    CHECK(tape.gradient(f1(zero, Where::current()), zero).item<double>() == slope);
  }
  const Tensor rows = stack({x, 2 * x});
  CHECK(same_bits(vmap([&](const Tensor& r) { return igamma(a, r); })(rows), igamma(a, rows)));
  // A derivative by a parameter is given once.
  GradientTape outer, inner;
  outer.watch(a), inner.watch(a);
  const Tensor once = inner.gradient(igamma(a, x), a);
  says([&] { outer.gradient(once * a, a); }, {"have no derivatives themselves", "igamma"});
  const auto twice = grad(grad([&](const Tensor& t) { return square(igamma(t, 2.0)); }));
  says([&] { twice(tensor(1.5)); }, {"have no derivatives themselves"});
  says([&] { function("twice", twice)(tensor(1.5)); }, {"have no derivatives themselves"});
}

TEST_CASE("special functions at the ends of their ranges") {
  // Far below 0, K(m) = log(16 - 16 m) / (2 sqrt(1 - m)) and E(m) = sqrt(1 - m).
  const Tensor m = -spread(1e20, 1e307, 50), root = sqrt(1 - m);
  CHECK(near(ellipk(m), (std::log(16.) + log(1 - m)) / (2 * root), 1e-13));
  CHECK(near(ellipe(m), root, 1e-12));
  // n over 1 is n, and n over 2 is n (n - 1) / 2, also of a small n.
  const Tensor n = spread(1e-300, 1e-5, 50);
  CHECK(near(binom(n, 1), n, 1e-15));
  CHECK(near(binom(n, 2), n * (n - 1) / 2, 1e-15));
  // As xlogy.
  const Tensor none = tensor({constants::nan, -2., 1.});
  CHECK(array_equal(isnan(xlog1py(0, none)), tensor({true, false, false})));
  CHECK(array_equal(isnan(xlogy(0, none)), tensor({true, false, false})));
}

TEST_CASE("beta and its kin at poles and ends, as scipy has them") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor a = tensor({-1.0, -2.0, -3.0, -1.0, -2.0, 0.0, -2.0, -1.0, 3.0, 2.0, -1.0, -4.0, -4.0, -4.0});
  const Tensor b = tensor({2.0, 1.0, 2.0, 1.0, 3.0, 1.0, -1.0, 0.5, -2.0, -3.0, -2.0, 2.0, 4.0, 5.0});
  const Tensor want = tensor({inf, -0.5, 1.0 / 6, -1.0, inf, inf, -inf, inf, inf, 1.0 / 6, inf, 1.0 / 12, 0.25, inf});
  CHECK(near(beta(a, b), want, 1e-15));
  CHECK(near(betaln(a, b), log(abs(want)), 1e-15));
  CHECK(isnan(beta(-1.0, std::nan(""))).item<bool>());
  const Tensor p = tensor({2.0, 2.0, 0.0, 2.0, 0.0, 0.0, inf, inf, 2.0, 2.0}),
               q = tensor({0.0, 0.0, 2.0, 0.0, 2.0, 2.0, 2.0, 2.0, inf, inf}),
               x = tensor({1.0, 0.5, 0.5, 0.0, 0.0, 1.0, 0.5, 1.0, 0.5, 0.0});
  CHECK(same_bits(betainc(p, q, x), tensor({1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0})));
  CHECK(polygamma(1, tensor(1e300)).item<double>() == Approx(1e-300).epsilon(1e-14));
  CHECK(zeta(3.0, tensor(1e120)).item<double>() == Approx(5e-241).epsilon(1e-14));
  // By mpmath: where an argument is hardly below 0, and where one is far below it and the other large.
  CHECK(zeta(2.0, tensor(-1e-10)).item<double>() == Approx(1e20).epsilon(1e-14));
  CHECK(polygamma(1, tensor(-1e-10)).item<double>() == Approx(1e20).epsilon(1e-14));
  CHECK(betaln(-171.5, tensor(1e300)).item<double>() == Approx(117754.860).epsilon(1e-8));
  CHECK(betaln(-171.5, tensor(1e17)).item<double>() == Approx(6000.0438).epsilon(1e-8));
  CHECK(beta(-171.5, tensor(1e300)).item<double>() == inf);
}
TEST_CASE("dtypes and mistakes of special functions") {
  CHECK(igamma(2, tensor({1, 2})).dtype() == f32);
  CHECK(igamma(tensor(2.0), tensor({1.f})).dtype() == f64);
  CHECK(j0(tensor({1, 2})).dtype() == f32);
  CHECK(i0(ones({2}, f16)).dtype() == f16);
  CHECK(polygamma(1, ones({2}, bf16)).dtype() == bf16);
  CHECK(betainc(1, 2, zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(multigammaln(tensor({2.0}), 1).item<double>() == Approx(0).margin(1e-15));
  says([] { igamma(ones({2}), ones({3})); }, {"[igamma]", "[2]", "[3]", "do not broadcast", "test_special.cpp"});
  says([] { igamma(complex(ones({2}), ones({2})), 1); }, {"[igamma]", "real numbers"});
  says([] { j0(Tensor()); }, {"[j0]"});
  says([] { i0(complex(ones({2}), ones({2}))); }, {"[i0]", "c64"});
  says([] { multigammaln(ones({2}), 0); }, {"[multigammaln]", "p is 0"});
}
