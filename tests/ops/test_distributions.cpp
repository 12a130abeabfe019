// Distributions with parameters: each held to its distribution function by Kolmogorov and Smirnov's test, or to its
// probabilities by the chi-square test; streams, gradients, and mistakes.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/devices/threads.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// How often a sound sampler may fail a test: each draws with a fixed key, so it fails always or never.
constexpr double level = 1e-6;

using Function = Callback<Tensor(const Tensor&)>;

// Whether the largest distance between the draws' distribution function and `cdf` is below Kolmogorov's asymptotic
// critical value: P(D sqrt(n) > t) is about 2 e^(-2 t^2).
bool follows(const Tensor& draws, const Function& cdf) {
  const Tensor u = sort(cdf(draws.astype(f64).reshape({-1})));
  const double n = double(u.size());
  const Tensor place = arange(0, u.size(), 1, f64) / n;
  const double distance = maximum(max(u - place), max(place + 1 / n - u)).item<double>();
  UNSCOPED_INFO("distance " << distance);
  return distance * std::sqrt(n) < std::sqrt(-std::log(level / 2) / 2);
}

// Whether counts of 0, 1, ... fit the probabilities: cells are merged until each expects 10, and the sum of squared
// distances over expectations is of a chi-square distribution of one degree less than there are cells.
bool fits(const Tensor& draws, const std::vector<double>& probabilities) {
  const std::vector<int64_t> k = draws.astype(i64).reshape({-1}).to_vector<int64_t>();
  const double n = double(k.size());
  std::vector<double> seen(probabilities.size() + 1, 0);
  for (int64_t i : k) {
    if (i < 0) return false;
    ++seen[std::min(size_t(i), probabilities.size())];
  }
  double statistic = 0, expected = 0, counted = 0, left = n;
  int cells = 0;
  const auto close = [&] {
    statistic += (counted - expected) * (counted - expected) / expected;
    expected = counted = 0, ++cells;
  };
  for (size_t i = 0; i < probabilities.size(); ++i) {
    expected += probabilities[i] * n, counted += seen[i], left -= probabilities[i] * n;
    if (expected >= 10 && left >= 10) close();
  }
  expected += left, counted += seen.back();
  close();
  const double p = igammac((cells - 1) / 2.0, tensor(statistic / 2)).item<double>();
  UNSCOPED_INFO("statistic " << statistic << ", " << cells << " cells, p " << p);
  return p > level;
}

const Shape many = {300, 100};
random::RandomOptions with(uint64_t seed, DType d = f64) { return {.dtype = d, .key = random::Key(seed)}; }

double poisson_probability(double k, double rate) { return std::exp(k * std::log(rate) - rate - std::lgamma(k + 1)); }
double binomial_probability(double k, double n, double p) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) +
                  (n - k) * std::log1p(-p));
}
template <class F>
std::vector<double> table(int n, F&& f) {
  std::vector<double> p;
  for (int k = 0; k < n; ++k) p.push_back(f(double(k)));
  return p;
}

}  // namespace

TEST_CASE("continuous draws follow their distribution functions") {
  for (DType d : {f32, f64}) {
    INFO(name(d));
    for (double a : {0.2, 1.0, 3.5, 200.0}) {
      INFO("shape " << a);
      CHECK(follows(random::gamma(a, many, with(1, d)), [&](const Tensor& x) { return igamma(a, x); }));
      CHECK(follows(random::log_gamma(a, many, with(2, d)), [&](const Tensor& x) { return igamma(a, exp(x)); }));
      CHECK(follows(random::weibull(a, many, with(3, d)), [&](const Tensor& x) { return -expm1(-power(x, a)); }));
      CHECK(follows(random::pareto(a, many, with(4, d)), [&](const Tensor& x) { return 1 - power(x, -a); }));
      CHECK(follows(random::chisquare(a, many, with(5, d)), [&](const Tensor& x) { return igamma(a / 2, x / 2); }));
      CHECK(follows(random::student_t(a, many, with(6, d)), [&](const Tensor& t) {
        const Tensor tail = betainc(a / 2, 0.5, a / (a + t * t)) / 2;
        return where(t < 0, tail, 1 - tail);
      }));
      for (double b : {0.7, 40.0})
        CHECK(follows(random::beta(a, b, many, with(7, d)), [&](const Tensor& x) { return betainc(a, b, x); }));
    }
    CHECK(follows(random::cauchy(many, with(8, d)), [](const Tensor& x) { return atan(x) / constants::pi + 0.5; }));
    CHECK(follows(random::logistic(many, with(9, d)), [](const Tensor& x) { return sigmoid(x); }));
    CHECK(follows(random::rayleigh(many, with(10, d)), [](const Tensor& x) { return -expm1(-x * x / 2); }));
    // The distance hardly shows a scale that is off by a hundredth; moments of a million draws do, within five
    // deviations.
    const Shape more = {1000, 1000};
    const auto square_of = [](const Tensor& x) { return mean(square(x.astype(f64))).item<double>(); };
    CHECK(square_of(random::logistic(more, with(9, d))) == Approx(constants::pi * constants::pi / 3).epsilon(0.009));
    CHECK(square_of(random::rayleigh(more, with(10, d))) == Approx(2).epsilon(0.005));
  }
  // What the test is worth: a shape that is off by five hundredths fails.
  CHECK_FALSE(follows(random::gamma(2.0, many, with(1)), [](const Tensor& x) { return igamma(2.05, x); }));
}

TEST_CASE("counts have their probabilities") {
  for (double rate : {0.3, 4.0, 9.9, 10.1, 55.0, 1000.0}) {
    INFO("rate " << rate);
    const auto p = table(int(rate + 15 * std::sqrt(rate) + 20), [&](double k) { return poisson_probability(k, rate); });
    CHECK(fits(random::poisson(rate, many, with(1)), p));
  }
  CHECK_FALSE(
      fits(random::poisson(4.0, many, with(1)), table(40, [](double k) { return poisson_probability(k, 4.1); })));
  for (double n : {1.0, 7.0, 40.0, 3000.0})
    for (double share : {0.01, 0.3, 0.5, 0.93}) {
      INFO("n " << n << ", p " << share);
      const auto p = table(int(n) + 1, [&](double k) { return binomial_probability(k, n, share); });
      CHECK(fits(random::binomial(n, share, many, with(2)), p));
    }
  for (double share : {0.02, 0.5, 0.9}) {
    const auto p = table(2000, [&](double k) { return k == 0 ? 0 : share * std::pow(1 - share, k - 1); });
    CHECK(fits(random::geometric(share, many, with(3)), p));
  }
  CHECK(random::poisson(0.0, {3}).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
  CHECK(random::binomial(5, tensor({0.0, 1.0}), {2}).to_vector<int64_t>() == std::vector<int64_t>{0, 5});
  CHECK(array_equal(random::geometric(1.0, {4}), ones({4}, i64)));
  // The largest parameters: within eight standard deviations of the mean.
  CHECK(allclose(astype(random::poisson(1e18, {9}), f64), full({9}, 1e18, f64), {.rtol = 8e-9}));
  CHECK(allclose(astype(random::binomial(1e15, 0.25, {9}), f64), full({9}, 0.25e15, f64),
                 {.rtol = 8 * std::sqrt(3e-15)}));
}

TEST_CASE("draws of several classes") {
  const Tensor alpha = tensor({0.4, 2.0, 5.0}), x = random::dirichlet(alpha, many, with(1));
  CHECK(x.shape() == Shape{300, 100, 3});
  CHECK(allclose(sum(x, -1), ones(many)));
  for (int64_t k = 0; k < 3; ++k) {  // each share is of a Beta distribution
    const double a = alpha(k).item<double>();
    CHECK(follows(x(ellipsis, k), [&](const Tensor& t) { return betainc(a, 7.4 - a, t); }));
  }
  const Tensor p = tensor({0.1, 0.0, 0.6, 0.3}), counts = random::multinomial(20, p, many, with(2, i64));
  CHECK(array_equal(sum(counts, -1), full(many, int64_t(20))));
  CHECK(max(counts(ellipsis, 1)).item<int64_t>() == 0);
  for (int64_t k : {0, 2, 3}) {
    const double share = p(k).item<double>();
    CHECK(fits(counts(ellipsis, k), table(21, [&](double n) { return binomial_probability(n, 20, share); })));
  }
  const Tensor mean = tensor({1.0, -2.0}), cov = tensor({{2.0, 0.9}, {0.9, 1.0}});
  const Tensor y = random::multivariate_normal(mean, cov, many, with(3));
  CHECK(y.shape() == Shape{300, 100, 2});
  for (int64_t k = 0; k < 2; ++k)
    CHECK(follows(y(ellipsis, k), [&](const Tensor& t) { return ndtr((t - mean(k)) / sqrt(cov(k, k))); }));
  CHECK(follows(sum(y, -1), [](const Tensor& t) { return ndtr((t + 1) / std::sqrt(4.8)); }));
  // Batches of parameters.
  CHECK(random::dirichlet(ones({2, 1, 4}), {2, 5}).shape() == Shape{2, 5, 4});
  CHECK(random::multinomial(tensor({{3}, {4}}), ones({5, 2}), {2, 5}).shape() == Shape{2, 5, 2});
}

TEST_CASE("the same bits on any number of threads, eager and traced") {
  const auto all = [](const Tensor& a) {
    const random::RandomOptions o{.key = random::Key(7)};
    return std::vector<Tensor>{random::gamma(a, {50, 40}, o), random::beta(a, 2, {50, 40}, o),
                               random::poisson(a * 9, {50, 40}, o), random::binomial(90, sigmoid(a), {50, 40}, o),
                               random::student_t(a, {50, 40}, o)};
  };
  const Tensor a = linspace(0.1, 4, 40);
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> one = all(a);
  set_num_threads(4);
  const std::vector<Tensor> four = all(a);
  set_num_threads(threads);
  const std::vector<Tensor> traced = function("draws", all)(a);
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(same_bits(one[i], four[i]));
    CHECK(same_bits(one[i], traced[i]));
  }
  // The process's generator goes on in the same way.
  auto two = function("two", [](const Tensor& x) { return random::gamma(x, {3}) + random::gamma(x, {3}); });
  random::seed(3);
  const Tensor eager = random::gamma(a(5), {3}) + random::gamma(a(5), {3});
  random::seed(3);
  CHECK(same_bits(two(a(5)), eager));
  CHECK_FALSE(array_equal(random::gamma(2, {3}), random::gamma(2, {3})));
}

TEST_CASE("a draw's derivative keeps its place in the distribution") {
  const Tensor a = tensor({0.02, 0.3, 1.0, 4.0, 30.0, 60.0, 1e4}), wide = broadcast_to(a, {50, 7});
  GradientTape tape({.persistent = true});
  tape.watch(wide);
  const Tensor x = random::gamma(wide, {50, 7}, with(1)), log_x = random::log_gamma(wide, {50, 7}, with(1));
  const Tensor slope = tape.gradient(x, wide), log_slope = tape.gradient(log_x, wide);
  CHECK(allclose(log_slope * x, slope, {.rtol = 1e-11, .atol = 1e-300}));
  // Differences of the distribution function by its parameter and by x: dx/da = -(dP/da) / (dP/dx).
  const Tensor h = 1e-5 * wide, k = 1e-5 * x;
  const Tensor by_a = (igamma(wide + h, x) - igamma(wide - h, x)) / (2 * h);
  const Tensor by_x = (igamma(wide, x + k) - igamma(wide, x - k)) / (2 * k);
  CHECK(allclose(where(x > 1e-200, slope * by_x + by_a, 0), zeros({50, 7}), {.atol = 1e-6}));
  // The mean of Beta(a, b) is a / (a + b), of which the derivative by a is b / (a + b)^2; within six deviations.
  const Tensor p = tensor(2.0), q = tensor(3.0);
  GradientTape other;
  other.watch(p), other.watch(q);
  const Tensor mean_of = mean(random::beta(p, q, many, with(2)));
  const auto g = other.gradient(std::vector<Tensor>{mean_of}, std::vector<Source>{p, q});
  CHECK(g[0].item<double>() == Approx(3.0 / 25).margin(0.003));
  CHECK(g[1].item<double>() == Approx(-2.0 / 25).margin(0.003));
}

TEST_CASE("second derivatives of draws are refused") {
  const auto twice = grad(grad([](const Tensor& a) { return square(random::gamma(a, {}, with(1))); }));
  says([&] { twice(tensor(2.0)); }, {"have no derivatives themselves"});
}

TEST_CASE("parameters near the least positive number give numbers") {
  // Their logarithms are below what the dtype holds.
  for (const DType d : {f32, bf16, f64}) {
    INFO(name(d));
    const double least = d == f64 ? 5e-324 : d == f32 ? 1.4e-45 : 9.2e-41;
    const Tensor a = full({300}, least, d);
    const random::RandomOptions o{.dtype = d, .key = random::Key(3)};
    for (const Tensor& x : {random::gamma(a, {300}, o), random::log_gamma(a, {300}, o), random::beta(a, a, {300}, o),
                            random::dirichlet(full({3}, least, d), {100}, o), random::chisquare(a, {300}, o)}) {
      CHECK(!any(isnan(x)).item<bool>());
      CHECK(array_equal(where(x <= 1, 0, x), zeros_like(x)));
    }
    CHECK(!any(isnan(random::student_t(a, {300}, o))).item<bool>());
    CHECK(!any(isnan(grad([&](const Tensor& t) { return sum(random::log_gamma(t, {300}, o)); })(a))).item<bool>());
  }
}

TEST_CASE("dtypes of draws") {
  CHECK(random::gamma(2, {3}).dtype() == f32);
  CHECK(random::gamma(tensor(2), {3}).dtype() == f32);
  CHECK(random::gamma(tensor(2.0), {3}).dtype() == f64);
  CHECK(random::beta(ones({}, f16), 2, {3}).dtype() == f16);
  CHECK(random::gamma(2, {3}, {.dtype = bf16}).dtype() == bf16);
  CHECK(random::poisson(2.5, {3}).dtype() == i64);
  CHECK(random::multinomial(5, ones({3}), {2}).dtype() == i64);
  CHECK(random::poisson(2.5, {3}, {.dtype = f32}).dtype() == f32);
  CHECK(random::gamma(2, {0, 3}).shape() == Shape{0, 3});
  CHECK(random::gamma(2, {}).shape() == Shape{});
  CHECK(random::multinomial(4, ones({3}), {0}).shape() == Shape{0, 3});
}

TEST_CASE("mistakes in parameters are said") {
  says([] { random::gamma(0.0, {2}); }, {"[random::gamma]", "a must be positive and finite", "test_distributions.cpp"});
  says([] { random::gamma(tensor({1.f, NAN}), {2}); }, {"[random::gamma]", "positive and finite"});
  says([] { random::gamma(ones({3}), {2}); }, {"[random::gamma]", "a f32[3]", "[2]"});
  says([] { random::gamma(ones({2}), {2}, {.dtype = i32}); }, {"[random::gamma]", "i32"});
  says([] { random::beta(1, -1, {2}); }, {"[random::beta]", "b must be positive"});
  says([] { random::poisson(-1, {2}); }, {"[random::poisson]", "rate must be 0 or more"});
  says([] { random::poisson(1, {2}, {.dtype = c64}); }, {"[random::poisson]", "c64"});
  says([] { random::binomial(2.5, 0.5, {2}); }, {"[random::binomial]", "n must be a whole number"});
  says([] { random::binomial(2, 1.5, {2}); }, {"[random::binomial]", "p must be a probability"});
  says([] { random::geometric(0.0, {2}); }, {"[random::geometric]", "above 0"});
  says([] { random::multinomial(2, zeros({3}), {2}); }, {"[random::multinomial]", "not all 0"});
  says([] { random::multinomial(2, 1.0, {2}); }, {"[random::multinomial]", "axis of classes"});
  says([] { random::dirichlet(1.0, {2}); }, {"[random::dirichlet]", "axis of classes"});
  says([] { random::multivariate_normal(ones({2}), ones({3, 3}), {2}); },
       {"[random::multivariate_normal]", "f32[2]", "f32[3,3]"});
  says([] { random::gamma(complex(ones({2}), ones({2})), {2}); }, {"[random::gamma]", "real numbers"});
}
