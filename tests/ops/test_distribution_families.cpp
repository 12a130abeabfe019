// Distributions beside scipy and torch; draws by moments and Kolmogorov's distance; traced; what they refuse.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "catch.h"
#include "distribution_numbers.h"
#include "messages.h"
#include "rill/distributions.h"
#include "rill/nn/distributions/family.h"
#include "rill/rill.h"

using namespace rill;
namespace ds = rill::distributions;

namespace {

using Make = std::function<ds::Distribution(const std::vector<Tensor>&)>;
struct Made {
  const char* name;
  std::vector<Shape> shapes;  // of the parameters in distribution_numbers.h; {3} each where empty
  Make make;
};
#define ONE(Type) {#Type, {}, [](const std::vector<Tensor>& p) { return ds::Type(p[0]); }}
#define TWO(Type) {#Type, {}, [](const std::vector<Tensor>& p) { return ds::Type(p[0], p[1]); }}
const std::vector<Made>& all_made() {
  static const std::vector<Made> all = {
      TWO(Normal),
      TWO(LogNormal),
      TWO(Uniform),
      TWO(Laplace),
      TWO(Cauchy),
      {"StudentT", {}, [](const std::vector<Tensor>& p) { return ds::StudentT(p[0], p[1], p[2]); }},
      TWO(Logistic),
      TWO(Gumbel),
      TWO(VonMises),
      ONE(HalfNormal),
      ONE(HalfCauchy),
      ONE(Exponential),
      TWO(Gamma),
      TWO(InverseGamma),
      ONE(Chi2),
      TWO(Weibull),
      TWO(Pareto),
      TWO(Beta),
      ONE(Bernoulli),
      TWO(Binomial),
      ONE(Geometric),
      TWO(NegativeBinomial),
      ONE(Poisson),
      {"Categorical", {{2, 3}}, [](const std::vector<Tensor>& p) { return ds::Categorical(p[0]); }},
      {"OneHotCategorical", {{2, 3}}, [](const std::vector<Tensor>& p) { return ds::OneHotCategorical(p[0]); }},
      {"Multinomial", {{2}, {2, 3}}, [](const std::vector<Tensor>& p) { return ds::Multinomial(p[0], p[1]); }},
      {"Dirichlet", {{2, 3}}, [](const std::vector<Tensor>& p) { return ds::Dirichlet(p[0]); }},
      {"MultivariateNormal",
       {{2, 2}, {2, 2, 2}},
       [](const std::vector<Tensor>& p) { return ds::MultivariateNormal(p[0], p[1]); }},
  };
  return all;
}

std::vector<Tensor> tensors(const Made& m, const std::vector<std::vector<double>>& values) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < values.size(); ++i)
    out.push_back(reshape(tensor(values[i], {.dtype = f64}), m.shapes.empty() ? Shape{3} : m.shapes[i]));
  return out;
}
// x of the numbers, with an axis for values before the batch's.
Tensor values_of(const Made& m, const DistributionNumbers& n) {
  const Tensor x = tensor(n.x, {.dtype = f64});
  if (m.shapes.empty()) return reshape(x, {-1, 1});
  const Shape last = m.shapes.back();
  if (std::string(m.name) == "Categorical") return reshape(x, {-1, 2});
  if (std::string(m.name) == "MultivariateNormal") return reshape(x, {-1, 2, 2});
  return reshape(x, {-1, 2, 3});
}

void compare(const Tensor& got, const std::vector<double>& wanted, double tolerance, const std::string& what) {
  if (wanted.empty()) return;
  INFO(what);
  const std::vector<double> g = got.to_vector<double>();
  REQUIRE(g.size() == wanted.size());
  for (size_t i = 0; i < g.size(); ++i) {
    INFO("at " << i << ": got " << g[i] << ", wanted " << wanted[i]);
    if (std::isnan(wanted[i])) CHECK(std::isnan(g[i]));
    else if (std::isinf(wanted[i])) CHECK(g[i] == wanted[i]);
    else CHECK(std::abs(g[i] - wanted[i]) <= tolerance * std::max(1e-3, std::abs(wanted[i])));
  }
}

bool univariate(const Made& m) { return m.shapes.empty(); }
bool of_two_noises(const Made& m) { return m.name == std::string("StudentT") || m.name == std::string("Beta"); }
bool discrete(const ds::Distribution& d) { return d.record().discrete(); }

}  // namespace

TEST_CASE("distributions: densities, cumulative functions, quantiles and moments are scipy's", "[distributions]") {
  for (const Made& m : all_made()) {
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const ds::Distribution d = m.make(tensors(m, n.parameters));
    const Tensor x = values_of(m, n), p = reshape(tensor(n.p, {.dtype = f64}), {-1, 1});
    const std::string name = m.name;
    CHECK(d.family() == name);
    compare(d.log_prob(x), n.log_prob, 1e-11, name + " log_prob");
    if (!n.cdf.empty()) compare(d.cdf(x), n.cdf, 1e-11, name + " cdf");
    if (!n.quantile.empty()) compare(d.quantile(p), n.quantile, 1e-10, name + " quantile");
    if (!n.entropy.empty()) compare(d.entropy(), n.entropy, 1e-10, name + " entropy");
    compare(d.mean(), n.mean, 1e-10, name + " mean");
    compare(d.variance(), n.variance, 1e-10, name + " variance");
    if (!n.mode.empty()) compare(d.mode(), n.mode, 1e-12, name + " mode");
    compare(square(d.stddev()), n.variance, 1e-10, name + " stddev");
  }
}

TEST_CASE("distributions: gradients of log_prob are torch's", "[distributions]") {
  for (const Made& m : all_made()) {
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const std::vector<Tensor> parameters = tensors(m, n.parameters);
    const Tensor x = values_of(m, n);
    for (size_t i = 0; i < n.gradients.size(); ++i) {
      if (n.gradients[i].empty()) continue;
      const auto loss = [&](const Tensor& v) {
        std::vector<Tensor> p = parameters;
        p[i] = v;
        const Tensor y = m.make(p).log_prob(x);
        return sum(where(isfinite(y), y, 0));
      };
      Tensor g = grad(loss)(parameters[i]);
      if (std::string(m.name) == "MultivariateNormal" && i == 1) g = tril(g);
      compare(g, n.gradients[i], 1e-9, std::string(m.name) + " by parameter " + std::to_string(i));
    }
  }
}

TEST_CASE("distributions: divergences are what integrals give", "[distributions]") {
  for (const Made& m : all_made()) {
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    if (n.kl.empty()) continue;
    const ds::Distribution p = m.make(tensors(m, n.parameters)), q = m.make(tensors(m, n.others));
    compare(kl_divergence(p, q), n.kl, 1e-7, std::string(m.name) + " kl");
    compare(kl_divergence(p, p), std::vector<double>(n.kl.size(), 0), 1e-9, std::string(m.name) + " kl of itself");
  }
}

TEST_CASE("distributions: divergences of two families agree with draws", "[distributions]") {
  const auto by_draws = [](const ds::Distribution& p, const ds::Distribution& q) {
    const Tensor x = p.sample({200000}, {.key = random::Key(3)});
    return mean(p.log_prob(x) - q.log_prob(x)).item<double>();
  };
  const auto check = [&](const ds::Distribution& p, const ds::Distribution& q) {
    INFO(p.family() << " and " << q.family());
    CHECK(kl_divergence(p, q).item<double>() == Approx(by_draws(p, q)).epsilon(0.02));
  };
  const Tensor two = tensor(2., {.dtype = f64});
  check(ds::Exponential(two), ds::Gamma(two, 3));
  check(ds::Chi2(two * 2), ds::Exponential(two));
  check(ds::Uniform(0, two), ds::Normal(two, 1));
  check(ds::Laplace(0, two), ds::Normal(1, two));
  check(ds::Gamma(two, two), ds::Normal(1, two));
}

TEST_CASE("distributions: quantile turns cdf around", "[distributions]") {
  for (const Made& m : all_made()) {
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const ds::Distribution d = m.make(tensors(m, n.parameters));
    if (!d.record().quantile || discrete(d)) continue;
    INFO(m.name);
    const Tensor p = reshape(tensor({0.01, 0.3, 0.5, 0.9}, {.dtype = f64}), {-1, 1});
    CHECK(max(abs(d.cdf(d.quantile(p)) - p)).item<double>() < 1e-12);
    // dx/dp = 1 / density, also where x was found by bisection.
    const Tensor slope = grad([&](const Tensor& v) { return sum(d.quantile(v)); })(p);
    const Tensor wanted = sum(1 / d.prob(d.quantile(p)), -1, true);
    CHECK(max(abs(slope / wanted - 1)).item<double>() < 1e-8);
    CHECK(all(isnan(d.quantile(tensor(1.5, {.dtype = f64})))).item<bool>());
    const Tensor ends = d.quantile(tensor({0., 1.}, {.dtype = f64})(all, newaxis));
    CHECK(!any(isnan(ends)).item<bool>());
    CHECK(all(ends(0) < ends(1)).item<bool>());
  }
}

TEST_CASE("distributions: quantiles far out keep their digits", "[distributions]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor p = tensor({0., 1e-30, 1e-10, 0.5, 1.}).astype(dtype);
    const std::vector<double> q = ds::Cauchy().astype(dtype).quantile(p).to_vector<double>();
    CHECK(q[0] == -INFINITY);
    CHECK(q[1] == Approx(-3.18309886e29).epsilon(1e-6));
    CHECK(q[2] == Approx(-3.18309886e9).epsilon(1e-6));
    CHECK(q[3] == 0);
    CHECK(q[4] == INFINITY);
    const Tensor near_one = tensor({1 - 0x1p-20, 1.}).astype(dtype);
    const std::vector<double> half = ds::HalfCauchy().astype(dtype).quantile(near_one).to_vector<double>();
    CHECK(half[0] == Approx(667544.214).epsilon(1e-6));
    CHECK(half[1] == INFINITY);
  }
  const ds::InverseGamma wide(tensor(1e-3, {.dtype = f64}), 0.5);
  CHECK(wide.quantile(tensor(0.9, {.dtype = f64})).item<double>() > 1e308);
}

TEST_CASE("distributions: nothing is at infinity, and NaN stays NaN", "[distributions]") {
  for (const Made& m : all_made()) {
    const ds::Distribution d = m.make(tensors(m, distribution_numbers().at(m.name).parameters));
    if (!d.event_shape().empty() || m.name == std::string("VonMises")) continue;
    INFO(m.name);
    const auto at = [](double x) { return full({}, x, {.dtype = f64}); };
    for (const double x : {INFINITY, -INFINITY}) CHECK(all(equal(d.log_prob(at(x)), -INFINITY)).item<bool>());
    CHECK(all(isnan(d.log_prob(at(NAN)))).item<bool>());
    if (!d.record().cdf) continue;
    CHECK(all(equal(d.cdf(at(-INFINITY)), 0)).item<bool>());
    CHECK(all(abs(d.cdf(at(INFINITY)) - 1) < 1e-15).item<bool>());
    CHECK(all(isnan(d.cdf(at(NAN)))).item<bool>());
  }
}

TEST_CASE("distributions: ways to choose of a million keep their digits in f32", "[distributions]") {
  const ds::Binomial many(1e6, 1e-6);
  CHECK(many.log_prob(1).item<double>() == Approx(-0.9999995).epsilon(1e-6));
  CHECK(ds::NegativeBinomial(1e6, 1e-6).log_prob(1).item<double>() == Approx(-1.0000005).epsilon(1e-6));
}

TEST_CASE("distributions: draws have the moments and the cumulative function", "[distributions]") {
  constexpr int64_t count = 20000;
  for (const Made& m : all_made()) {
    INFO(m.name);
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const ds::Distribution d = m.make(tensors(m, n.parameters));
    const Tensor drawn = d.sample({count}, {.key = random::Key(11)});
    Shape wanted = {count};
    for (Dim s : d.batch_shape()) wanted.push_back(s);
    for (Dim s : d.event_shape()) wanted.push_back(s);
    REQUIRE(drawn.shape() == wanted);
    const Tensor x = drawn.astype(f64);
    CHECK(all(isfinite(d.log_prob(x))).item<bool>());
    if (m.name != std::string("VonMises")) {
      const Tensor apart = abs(mean(x, 0) - d.mean()) / (d.stddev() / std::sqrt(double(count)));
      CHECK(!any(logical_and(isfinite(apart), apart > 5)).item<bool>());
    }
    if (!univariate(m)) continue;
    // Kolmogorov's distance, of which 1.95 / sqrt(n) is exceeded once in a thousand times.
    for (int64_t i = 0; i < int64_t(d.batch_shape()[0]); ++i) {
      std::vector<double> v = x(all, i).contiguous().to_vector<double>();
      std::sort(v.begin(), v.end());
      const Tensor at = broadcast_to(tensor(v, {.dtype = f64})(all, newaxis), {count, d.batch_shape()[0]});
      const std::vector<double> f = d.cdf(at)(all, i).contiguous().to_vector<double>();
      double distance = 0;
      for (size_t k = 0; k < v.size(); ++k) {
        if (k + 1 < v.size() && v[k] == v[k + 1]) continue;  // of counts, the last of equals
        distance = std::max(distance, std::abs(double(k + 1) / count - f[k]));
      }
      CHECK(distance < 1.95 / std::sqrt(double(count)));
    }
  }
}

TEST_CASE("distributions: reparameterised draws move as the implicit function theorem says", "[distributions]") {
  for (const Made& m : all_made()) {
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const std::vector<Tensor> parameters = tensors(m, n.parameters);
    const ds::Distribution d = m.make(parameters);
    // Of two noises the theorem says nothing of a single draw.
    if (!univariate(m) || !d.reparameterised() || of_two_noises(m)) continue;
    const random::Key key(5);
    const Tensor x = d.sample({50}, {.key = key});
    for (size_t i = 0; i < parameters.size(); ++i) {
      INFO(m.name << " by parameter " << i);
      const auto with = [&](const Tensor& v) {
        std::vector<Tensor> p = parameters;
        p[i] = v;
        return m.make(p);
      };
      const Tensor weight = 1 / (1 + square(x));  // of heavy tails, not of their largest draw alone
      const Tensor got =
          grad([&](const Tensor& v) { return sum(with(v).sample({50}, {.key = key}) * weight); })(parameters[i]);
      const Tensor density = d.prob(x);
      const Tensor wanted =
          grad([&](const Tensor& v) { return sum(-with(v).cdf(x) / density * weight); })(parameters[i]);
      CHECK(max(abs(got - wanted) / (abs(wanted) + 1e-3)).item<double>() < 1e-6);
    }
  }
}

TEST_CASE("distributions: draws of two noises move as their density does", "[distributions]") {
  for (const Made& m : all_made()) {
    const std::vector<Tensor> parameters = tensors(m, distribution_numbers().at(m.name).parameters);
    if (!of_two_noises(m)) continue;
    constexpr int64_t count = 100000;
    const Tensor x = m.make(parameters).sample({count}, {.key = random::Key(5)});
    for (size_t i = 0; i < parameters.size(); ++i) {
      INFO(m.name << " by parameter " << i);
      const auto with = [&](const Tensor& v) {
        std::vector<Tensor> p = parameters;
        p[i] = v;
        return m.make(p);
      };
      // d/dp of the mean of f(x), by draws that move and by the score function; a bounded f.
      const auto f = [](const Tensor& y) { return 1 / (1 + square(y)); };
      const Tensor each =
          broadcast_to(parameters[i], {count, 3});  // a parameter for each draw, for errors of both means
      const random::Key key(6);
      const Tensor moved = grad([&](const Tensor& v) { return sum(f(with(v).sample({}, {.key = key}))); })(each);
      const Tensor score = grad([&](const Tensor& v) { return sum(f(x) * with(v).log_prob(x)); })(each);
      const Tensor error = sqrt((var(moved, 0) + var(score, 0)) / double(count));
      CHECK(max(abs(mean(moved, 0) - mean(score, 0)) / error).item<double>() < 4.5);
    }
  }
}

TEST_CASE("distributions: draws without a gradient say so and have none", "[distributions]") {
  CHECK(!ds::VonMises(0, 1).reparameterised());
  CHECK(!ds::Poisson(2).reparameterised());
  CHECK(ds::Independent(ds::Normal(zeros({3}), 1)).reparameterised());
  CHECK(!ds::Independent(ds::Poisson(ones({3}))).reparameterised());
  const Tensor g = grad([](const Tensor& k) {
    return sum(ds::VonMises(0, k).sample({4}, {.key = random::Key(1)})) + 0 * k;
  })(tensor(2.f));
  CHECK(g.item<float>() == 0);
}

TEST_CASE("distributions: logits are what their probabilities are", "[distributions]") {
  const Tensor p = tensor({0.1, 0.5, 0.8}, {.dtype = f64}), logits = log(p) - log1p(-p), k = tensor({0., 1., 1.});
  const auto same = [](const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>() < 1e-13; };
  CHECK(same(ds::Bernoulli({.logits = logits}).log_prob(k), ds::Bernoulli(p).log_prob(k)));
  CHECK(same(ds::Geometric({.logits = logits}).log_prob(k), ds::Geometric({.probs = p}).log_prob(k)));
  CHECK(same(ds::Binomial(5, {.logits = logits}).variance(), ds::Binomial(5, p).variance()));
  CHECK(same(ds::NegativeBinomial(5, {.logits = logits}).cdf(k), ds::NegativeBinomial(5, p).cdf(k)));
  CHECK(same(ds::Categorical({.logits = log(p)}).entropy(), ds::Categorical(p).entropy()));
  CHECK(same(ds::Multinomial(3, {.logits = log(p) + 4}).mean(), ds::Multinomial(3, p).mean()));
  CHECK(ds::Bernoulli({.logits = logits}).parameter("logits").shape() == Shape{3});
  // Beyond what a probability holds.
  CHECK(ds::Bernoulli({.logits = tensor(-800., {.dtype = f64})}).log_prob(1).item<double>() == -800);
  CHECK(ds::Bernoulli(tensor(0., {.dtype = f64})).log_prob(0).item<double>() == 0);
  CHECK(ds::Bernoulli(tensor(0., {.dtype = f64})).entropy().item<double>() == 0);
}

TEST_CASE("distributions: compositions", "[distributions]") {
  const Tensor loc = tensor({{0., 1., 2.}, {3., 4., 5.}}, {.dtype = f64}), x = loc + 0.3;
  const ds::Normal each(loc, 2);
  const ds::Independent rows(each);
  CHECK(rows.batch_shape() == Shape{2});
  CHECK(rows.event_shape() == Shape{3});
  CHECK(max(abs(rows.log_prob(x) - sum(each.log_prob(x), -1))).item<double>() == 0);
  CHECK(rows.sample({4}).shape() == Shape{4, 2, 3});
  CHECK(kl_divergence(rows, ds::Independent(ds::Normal(loc + 1, 2))).shape() == Shape{2});

  const Tensor weights = tensor({0.2, 0.5, 0.3}, {.dtype = f64});
  const ds::Mixture mixture(ds::Categorical(weights), each);
  CHECK(mixture.batch_shape() == Shape{2});
  const Tensor at = tensor({0.7, 3.}, {.dtype = f64});
  const Tensor dense = sum(weights * each.prob(at(all, newaxis)), -1);
  CHECK(max(abs(mixture.prob(at) - dense)).item<double>() < 1e-15);
  CHECK(max(abs(mixture.cdf(at) - sum(weights * each.cdf(at(all, newaxis)), -1))).item<double>() < 1e-15);
  const Tensor drawn = mixture.sample({40000}, {.key = random::Key(2)});
  CHECK(drawn.shape() == Shape{40000, 2});
  CHECK(max(abs(mean(drawn, 0) - mixture.mean())).item<double>() < 0.06);
  CHECK(max(abs(var(drawn, 0) / mixture.variance() - 1)).item<double>() < 0.05);
  const ds::Mixture of_rows(ds::Categorical(tensor({0.4, 0.6})), rows);
  CHECK(of_rows.event_shape() == Shape{3});
  CHECK(of_rows.sample({5}).shape() == Shape{5, 3});
  CHECK(of_rows.log_prob(x).shape() == Shape{2});

  const ds::Transformed lognormal(ds::Normal(loc, 0.5), {ds::Transform::exp()});
  const ds::LogNormal same(loc, 0.5);
  const Tensor y = exp(x);
  CHECK(max(abs(lognormal.log_prob(y) - same.log_prob(y))).item<double>() < 1e-13);
  CHECK(max(abs(lognormal.cdf(y) - same.cdf(y))).item<double>() < 1e-14);
  CHECK(max(abs(kl_divergence(lognormal, ds::Transformed(each, {ds::Transform::exp()})) -
                kl_divergence(ds::Normal(loc, 0.5), each)))
            .item<double>() == 0);
  // Beyond what transforms give.
  const Tensor v = tensor({-3., -1., 0., 1., 2.}, {.dtype = f64});
  const auto of = [](const ds::Transform& t) { return ds::Transformed(ds::Normal().astype(f64), {t}); };
  CHECK(of(ds::Transform::exp()).cdf(v).to_vector<double>()[0] == 0);
  CHECK(of(ds::Transform::softplus()).cdf(v).to_vector<double>()[1] == 0);
  CHECK(of(ds::Transform::tanh()).cdf(v).to_vector<double>() == std::vector<double>{0, 0, 0.5, 1, 1});
  CHECK(of(ds::Transform::sigmoid()).cdf(v).to_vector<double>() == std::vector<double>{0, 0, 0, 1, 1});
  const ds::Transformed turned(ds::Gamma(2, 1).astype(f64), {ds::Transform::power(-1)});
  CHECK(turned.cdf(v).to_vector<double>()[1] == 0);
  CHECK(turned.log_prob(v).to_vector<double>()[1] == -INFINITY);
  CHECK(turned.log_prob(v).to_vector<double>()[3] == Approx(-1));
  // Downward: -2 x + 1.
  const ds::Transformed down(ds::Exponential(tensor(1., {.dtype = f64})), {ds::Transform::affine(1, -2)});
  CHECK(down.cdf(tensor(0., {.dtype = f64})).item<double>() == Approx(std::exp(-0.5)).epsilon(1e-14));
  CHECK(down.quantile(tensor(std::exp(-0.5), {.dtype = f64})).item<double>() == Approx(0).margin(1e-14));
  CHECK(std::isinf(down.log_prob(tensor(1.5, {.dtype = f64})).item<double>()));
  for (const ds::Transform& t : {ds::Transform::affine(1, -2), ds::Transform::exp(), ds::Transform::sigmoid(),
                                 ds::Transform::tanh(), ds::Transform::softplus(), ds::Transform::power(3)}) {
    INFO(t.name());
    const Tensor u = tensor({0.3, 1.2}, {.dtype = f64});
    CHECK(max(abs(t.inverse(t(u)) - u)).item<double>() < 1e-13);
    const Tensor slope = grad([&](const Tensor& v) { return sum(t(v)); })(u);
    CHECK(max(abs(broadcast_to(t.log_slope(u), {2}) - log(abs(slope)))).item<double>() < 1e-13);
  }
}

TEST_CASE("distributions: traced equals eager", "[distributions]") {
  for (const Made& m : all_made()) {
    INFO(m.name);
    const DistributionNumbers& n = distribution_numbers().at(m.name);
    const std::vector<Tensor> parameters = tensors(m, n.parameters),
                              others = n.others.empty() ? parameters : tensors(m, n.others);
    const Tensor x = values_of(m, n);
    const auto everything = [&](const std::vector<Tensor>& mine, const std::vector<Tensor>& theirs,
                                const random::Key& key) {
      const ds::Distribution d = m.make(mine), q = m.make(theirs);
      std::vector<Tensor> out = {d.log_prob(x), d.sample({7}, {.key = key}), d.mean(), d.variance()};
      if (d.record().cdf) out.push_back(d.cdf(x));
      if (d.record().quantile) out.push_back(d.quantile(tensor({0.2, 0.9}, {.dtype = f64})(all, newaxis)));
      if (d.record().entropy) out.push_back(d.entropy());
      if (d.record().kl) out.push_back(kl_divergence(d, q));
      return out;
    };
    const random::Key key(9);
    const std::vector<Tensor> eager = everything(parameters, others, key);
    const std::vector<Tensor> traced = function(everything)(parameters, others, key);
    REQUIRE(eager.size() == traced.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      INFO("result " << i);
      CHECK(same_bits(eager[i], traced[i]));
    }
  }
}

TEST_CASE("distributions: a traced function takes and gives them", "[distributions]") {
  const auto f = function([](const ds::Distribution& d) { return d.mean() + 1; });
  const ds::Normal d(tensor({1.f, 2.f}), 3);
  CHECK(f(d).to_vector<float>() == std::vector<float>{2, 3});
  CHECK(f(ds::Exponential(tensor({0.5f, 0.25f}))).to_vector<float>() == std::vector<float>{3, 5});
}

TEST_CASE("distributions: the slope of a cdf is the density, in the middle too", "[distributions]") {
  const Tensor zero = tensor(0.), one = tensor(1.);
  for (const ds::Distribution& d : std::vector<ds::Distribution>{
           ds::Normal(zero, one), ds::Cauchy(zero, one), ds::Logistic(zero, one), ds::Gumbel(zero, one),
           ds::Laplace(zero, one), ds::StudentT(tensor(3.)), ds::VonMises(zero, tensor(2.))}) {
    INFO(d.family());
    for (const double x : {-2., 0., 0.5}) {
      const Tensor slope = grad([&](const Tensor& v) { return d.cdf(v); })(tensor(x));
      CHECK(slope.item<double>() == Approx(d.prob(tensor(x)).item<double>()).epsilon(1e-12));
    }
  }
}

// mpmath, with 40 digits.
TEST_CASE("distributions: Student's far left", "[distributions]") {
  for (const auto& [df, t, wanted] : std::vector<std::array<double, 3>>{{1, -1e30, 3.1830988618379067e-31},
                                                                        {0.5, -1e30, 3.207009754142229e-16},
                                                                        {3, -1e12, 1.1026577908435841e-36},
                                                                        {0.5, -1e38, 3.207009754142229e-20},
                                                                        {30, -10, 2.2876257041148066e-11}}) {
    CHECK(ds::StudentT(tensor(df)).cdf(tensor(t)).item<double>() == Approx(wanted).epsilon(1e-13));
    const float single = ds::StudentT(tensor(float(df))).cdf(tensor(float(t))).item<float>();
    CHECK(single == Approx(wanted).epsilon(2e-7 * (1 + df)));  // float(t) is not t
  }
  CHECK(ds::StudentT(0.5).cdf(tensor(-1e200)).item<double>() == Approx(3.2070097541422291e-101).epsilon(1e-12));
  CHECK(ds::StudentT(1).cdf(tensor(-1e300)).item<double>() == Approx(3.1830988618379065e-301).epsilon(1e-12));
  CHECK(ds::StudentT(0.01).cdf(tensor(-1e300)).item<double>() == Approx(0.00048526328575586997).epsilon(1e-6));
  CHECK(ds::StudentT(2).log_prob(tensor(1e200)).item<double>() == Approx(-1381.5510557964274).epsilon(1e-6));
  CHECK(ds::StudentT(1).cdf(tensor({-HUGE_VAL, HUGE_VAL, 1e300})).to_vector<double>() == std::vector<double>{0, 1, 1});
}

TEST_CASE("distributions: f32 parameters of 1e5", "[distributions]") {
  const auto near = [](const Tensor& got, double wanted) {
    CHECK(got.dtype() == f32);
    CHECK(double(got.item<float>()) == Approx(wanted).epsilon(3e-7));
  };
  const Tensor a = tensor(1e5f), half = tensor(0.5f);
  near(ds::Gamma(a).log_prob(tensor(99051.f)), -11.197565115921573);
  near(ds::Gamma(a).log_prob(tensor(101897.f)), -24.462876498478979);
  near(ds::Gamma(a).entropy(), 7.1753979323481203);
  near(kl_divergence(ds::Gamma(a), ds::Gamma(tensor(100500.f))), 1.2479280886921082);
  near(ds::Chi2(a * 2.f).log_prob(tensor(198102.f)), -11.197565115921573 - std::log(2.0));
  near(ds::Poisson(a).log_prob(tensor(99051.f)), -11.1879519318223);
  near(ds::Poisson(a).log_prob(tensor(101897)), -24.565134254645266);
  near(ds::Beta(a, a).log_prob(half), 5.8772437201203594);
  near(ds::Beta(a, a).log_prob(tensor(0.50390625f)), -0.22639713995506219);
  near(ds::Beta(a, a).entropy(), -5.3772474701328595);
  near(ds::Binomial(a, half).log_prob(tensor(50100)), -6.1822547184727216);
  near(ds::StudentT(a).log_prob(tensor(2.f)), -2.918921033871318);
  near(ds::Dirichlet(stack({a, a, a})).log_prob(tensor({0.34375f, 0.328125f, 0.328125f})), -60.083224999186425);
}

TEST_CASE("distributions: dtypes", "[distributions]") {
  CHECK(ds::Normal().dtype() == f32);
  CHECK(ds::Normal(0, tensor(1., {.dtype = f64})).dtype() == f64);
  CHECK(ds::Normal(tensor({1, 2}), 3).dtype() == f32);
  CHECK(ds::Normal(tensor({1.f}).astype(bf16), 3).log_prob(tensor({1.f}).astype(bf16)).dtype() == bf16);
  CHECK(ds::Gamma(2, 1).quantile(0.5).item<float>() == Approx(1.6783469900166605f).epsilon(1e-6));
  CHECK(ds::Poisson(3).sample({2}).dtype() == i64);
  CHECK(ds::Bernoulli(0.5).sample({2}).dtype() == boolean);
  CHECK(ds::Normal(0, tensor(1., {.dtype = f64})).sample({2}).dtype() == f64);
  CHECK(ds::Normal(zeros({0, 3}), 1).sample({2}).shape() == Shape{2, 0, 3});
  CHECK(ds::Gamma(ones({0}), 1).quantile(0.3).shape() == Shape{0});
  CHECK(ds::VonMises(zeros({0}), 1).sample({2}).shape() == Shape{2, 0});
}

TEST_CASE("distributions: what they refuse", "[distributions]") {
  says([] { return ds::Normal(0, -1); }, {"[Normal]", "scale must be positive and finite"});
  says([] { return ds::Normal(NAN, 1); }, {"loc must be finite"});
  says([] { return ds::Normal(zeros({2}), ones({3})); }, {"scale f32[3] does not broadcast"});
  says([] { return ds::Bernoulli(1.5); }, {"probs must be a probability"});
  says([] { return ds::Bernoulli({.logits = Tensor(NAN)}); }, {"logits must be numbers and not NaN"});
  says([] { return ds::Bernoulli(ds::ProbabilityOptions()); }, {"needs probs or logits"});
  says([] { return ds::Categorical(zeros({3})); }, {"not all 0"});
  says([] { return ds::Categorical(0.5); }, {"probs is", "must have 1 axes or more"});
  says([] { return ds::Uniform(1, 1); }, {"high must be greater than low", "[1. 1.]"});
  says([] { return ds::Uniform(2., 1.); }, {"{low, high}", "got [2. 1.]"});
  says([] { return ds::MultivariateNormal(zeros({2}), ones({2, 3})); }, {"must be square"});
  says([] { return ds::MultivariateNormal(zeros({3}), eye(2)); }, {"scale_tril f32[2,2]", "3"});
  says([] { return ds::Dirichlet(ones({3})).cdf(1); }, {"has no cdf"});
  says([] { return ds::Dirichlet(ones({3})).log_prob(ones({2})); }, {"the event shape [3]"});
  says([] { return ds::Normal().parameter("rate"); }, {"it has loc, scale"});
  says([] { return kl_divergence(ds::Normal(), ds::Gamma(1, 1)); }, {"no formula for a Normal and a Gamma"});
  says([] { return kl_divergence(ds::Categorical(ones({1})), ds::Categorical(ones({4}))); }, {"1 classes and 4"});
  says([] { return ds::Transformed(ds::Independent(ds::Bernoulli(ones({2}))), {}); }, {"a Independent", "no density"});
  says([] { return ds::Transformed(ds::Multinomial(2, ones({2})), {}); }, {"is discrete and has no density"});
  says([] { return ds::Transformed(ds::Normal(), {ds::Transform::affine(ones({3}), 2)}); },
       {"parameters are for [3]", "the base's batch and event are []"});
  says([] { return ds::Independent(ds::Normal()); }, {"axes is 1"});
  says([] { return ds::Mixture(ds::Categorical(ones({2})), ds::Normal(zeros({3}), 1)); }, {"the weights are f32[2]"});
  says([] { return function([](const Tensor& s) { return ds::Normal(0, s).mean(); })(tensor(-1.f)); },
       {"scale must be positive"});
}

TEST_CASE("distributions: docs/distributions.md has the table of the records", "[distributions]") {
  std::string table;
  const auto yes = [](bool b) { return b ? " yes |" : " |"; };
  for (const ds::Family* f : ds::families()) {
    std::string parameters;
    for (const ds::Parameter& p : f->parameters)
      parameters += (parameters.empty() ? "" : ", ") + ("`" + std::string(p.name) + "`");
    table += "| " + std::string(f->name) + " | " + parameters + (parameters.empty() ? "|" : " |") +
             yes(f->reparameterised) + yes(f->cdf) + yes(f->quantile) + yes(f->entropy) + yes(f->mode) + yes(f->kl) +
             "\n";
  }
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  if (!root) return skip_case("RILL_SOURCE_ROOT is not set");
  std::ifstream file(std::string(root) + "/docs/distributions.md");
  std::stringstream page;
  page << file.rdbuf();
  INFO("the page must have\n" << table);
  CHECK(page.str().find(table) != std::string::npos);
}
