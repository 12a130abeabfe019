// Families around the gamma distribution, and others on positive numbers.
#include <cmath>

#include "rill/nn/distributions/family.h"
#include "rill/ops/distributions.h"
#include "rill/ops/special.h"

namespace rill::distributions {

namespace impl {

namespace {
const std::vector<Parameter> concentration_rate = {{"concentration", Constraint::positive},
                                                   {"rate", Constraint::positive}};
const double least_log = -745, most_log = 709.7;  // of f64

Tensor a_of(D d) { return d.at(0); }
Tensor b_of(D d) { return d.at(1); }
// A mean or variance that is infinite where it is not `finite`.
Tensor or_endless(const Tensor& finite, const Tensor& x) { return rill::where(finite, x, infinity); }
Tensor search_positive(D d, const Tensor& p) {
  const Tensor x = search(d, p, Scale::exp, least_log, most_log);
  return rill::where(equal(p, 0), 0, rill::where(equal(p, 1), infinity, x));
}

Tensor gamma_log_prob(D d, const Tensor& x) {
  return xlogy(a_of(d) - 1, x) - b_of(d) * x + a_of(d) * log(b_of(d)) - lgamma(a_of(d));
}
Tensor gamma_kl(D p, D q) {
  const Tensor a = a_of(p), b = b_of(p), other_a = a_of(q), other_b = b_of(q);
  return (a - other_a) * digamma(a) - lgamma(a) + lgamma(other_a) + other_a * log(b / other_b) + a * (other_b - b) / b;
}
Tensor gamma_entropy(D d) {
  const Tensor a = a_of(d);
  return a - log(b_of(d)) + lgamma(a) + (1 - a) * digamma(a);
}

Tensor inverse_gamma_log_prob(D d, const Tensor& x) {
  const Tensor empty = equal(x, 0), safe = rill::where(empty, 1, x);
  const Tensor y = a_of(d) * log(b_of(d)) - (a_of(d) + 1) * log(safe) - b_of(d) / safe - lgamma(a_of(d));
  return inside_or_none(logical_not(empty), y);
}
Tensor inverse_gamma_variance(D d) {
  const Tensor a = a_of(d), some = a > 2, safe = rill::where(some, a, 3);
  return or_endless(some, square(b_of(d) / (safe - 1)) / (safe - 2));
}
Tensor inverse_gamma_mean(D d) {
  const Tensor a = a_of(d), some = a > 1;
  return or_endless(some, b_of(d) / rill::where(some, a - 1, 1));
}

Gamma as_gamma(D d) { return Gamma(0.5 * d.at(0), number(d, 0.5)); }

// Weibull(scale, concentration), Pareto(scale, alpha).
Tensor weibull_log_prob(D d, const Tensor& x) {
  const Tensor k = d.at(1), z = x / d.at(0);
  return log(k / d.at(0)) + xlogy(k - 1, z) - power(z, k);
}
Tensor weibull_moment(D d, double n) { return exp(lgamma(1 + n / d.at(1))); }
Tensor weibull_mode(D d) {
  const Tensor k = d.at(1), some = k > 1, safe = rill::where(some, k, 2);
  return d.at(0) * rill::where(some, power((safe - 1) / safe, 1 / safe), 0);
}
Tensor weibull_kl(D p, D q) {
  const Tensor k = p.at(1), other = q.at(1), ratio = other / k;
  return log(k / other) + other * log(q.at(0) / p.at(0)) - euler * (1 - ratio) +
         power(p.at(0) / q.at(0), other) * exp(lgamma(1 + ratio)) - 1;
}
Tensor pareto_log_prob(D d, const Tensor& x) {
  const Tensor below = x < d.at(0), a = d.at(1), safe = rill::where(below, d.at(0), x);
  return inside_or_none(logical_not(below), log(a) + a * log(d.at(0)) - (a + 1) * log(safe));
}
Tensor pareto_mean(D d) {
  const Tensor a = d.at(1), some = a > 1, safe = rill::where(some, a, 2);
  return or_endless(some, d.at(0) * safe / (safe - 1));
}
Tensor pareto_variance(D d) {
  const Tensor a = d.at(1), some = a > 2, safe = rill::where(some, a, 3);
  return or_endless(some, square(d.at(0) / (safe - 1)) * safe / (safe - 2));
}
Tensor pareto_kl(D p, D q) {
  const Tensor ratio = q.at(1) / p.at(1);
  return rill::where(p.at(0) < q.at(0), infinity, q.at(1) * log(p.at(0) / q.at(0)) - log(ratio) + ratio - 1);
}

Tensor beta_log_prob(D d, const Tensor& x) {
  return xlogy(a_of(d) - 1, x) + xlog1py(b_of(d) - 1, -x) - betaln(a_of(d), b_of(d));
}
Tensor beta_entropy(D d) {
  const Tensor a = a_of(d), b = b_of(d);
  return betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b);
}
Tensor beta_mode(D d) {
  const Tensor a = a_of(d), b = b_of(d), some = logical_and(a > 1, b > 1);
  return rill::where(some, (a - 1) / rill::where(some, a + b - 2, 1), not_a_number);
}
Tensor beta_quantile(D d, const Tensor& p) {
  const Tensor x = search(d, p, Scale::sigmoid, least_log, 745);
  return rill::where(equal(p, 0), 0, rill::where(equal(p, 1), 1, x));
}
Tensor beta_kl(D p, D q) {
  const Tensor a = a_of(p), b = b_of(p), c = a_of(q), e = b_of(q);
  return betaln(c, e) - betaln(a, b) + (a - c) * digamma(a) + (b - e) * digamma(b) + (c - a + e - b) * digamma(a + b);
}

}  // namespace

const Family exponential = {
    .name = "Exponential",
    .parameters = {{"rate", Constraint::positive}},
    .support = Support::positive,
    .log_prob = [](D d, const Tensor& x) { return log(d.at(0)) - d.at(0) * x; },
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return random::exponential(s, drawn(d, o)) / d.at(0); },
    .cdf = [](D d, const Tensor& x) { return -expm1(-d.at(0) * x); },
    .quantile = [](D d, const Tensor& p) { return -log1p(-p) / d.at(0); },
    .entropy = [](D d) { return 1 - log(d.at(0)); },
    .mean = [](D d) { return 1 / d.at(0); },
    .variance = [](D d) { return 1 / square(d.at(0)); },
    .mode = [](D d) { return number(d, 0); },
    .kl = [](D p, D q) { return log(p.at(0) / q.at(0)) + q.at(0) / p.at(0) - 1; },
};
const Family gamma = {
    .name = "Gamma",
    .parameters = concentration_rate,
    .support = Support::positive,
    .cancels = true,
    .log_prob = gamma_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return random::gamma(a_of(d), s, drawn(d, o)) / b_of(d); },
    .cdf = [](D d, const Tensor& x) { return igamma(a_of(d), b_of(d) * x); },
    .quantile = search_positive,
    .entropy = gamma_entropy,
    .mean = [](D d) { return a_of(d) / b_of(d); },
    .variance = [](D d) { return a_of(d) / square(b_of(d)); },
    .mode = [](D d) { return maximum(a_of(d) - 1, 0) / b_of(d); },
    .kl = gamma_kl,
};
const Family inverse_gamma = {
    .name = "InverseGamma",
    .parameters = concentration_rate,
    .support = Support::positive,
    .cancels = true,
    .log_prob = inverse_gamma_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return b_of(d) * exp(-random::log_gamma(a_of(d), s, drawn(d, o))); },
    .cdf = [](D d, const Tensor& x) { return igammac(a_of(d), b_of(d) / x); },
    .quantile = search_positive,
    .entropy = [](D d) { return gamma_entropy(d) + 2 * (log(b_of(d)) - digamma(a_of(d))); },
    .mean = inverse_gamma_mean,
    .variance = inverse_gamma_variance,
    .mode = [](D d) { return b_of(d) / (a_of(d) + 1); },
    .kl = gamma_kl,
};
const Family chi2 = {
    .name = "Chi2",
    .parameters = {{"df", Constraint::positive}},
    .support = Support::positive,
    .cancels = true,
    .log_prob = [](D d, const Tensor& x) { return gamma_log_prob(as_gamma(d), x); },
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return random::chisquare(d.at(0), s, drawn(d, o)); },
    .cdf = [](D d, const Tensor& x) { return igamma(0.5 * d.at(0), 0.5 * x); },
    .quantile = search_positive,
    .entropy = [](D d) { return gamma_entropy(as_gamma(d)); },
    .mean = [](D d) { return d.at(0); },
    .variance = [](D d) { return 2 * d.at(0); },
    .mode = [](D d) { return maximum(d.at(0) - 2, 0); },
    .kl = [](D p, D q) { return gamma_kl(as_gamma(p), as_gamma(q)); },
};
const Family weibull = {
    .name = "Weibull",
    .parameters = {{"scale", Constraint::positive}, {"concentration", Constraint::positive}},
    .support = Support::positive,
    .log_prob = weibull_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return d.at(0) * random::weibull(d.at(1), s, drawn(d, o)); },
    .cdf = [](D d, const Tensor& x) { return -expm1(-power(x / d.at(0), d.at(1))); },
    .quantile = [](D d, const Tensor& p) { return d.at(0) * power(-log1p(-p), 1 / d.at(1)); },
    .entropy = [](D d) { return euler * (1 - 1 / d.at(1)) + log(d.at(0) / d.at(1)) + 1; },
    .mean = [](D d) { return d.at(0) * weibull_moment(d, 1); },
    .variance = [](D d) { return square(d.at(0)) * (weibull_moment(d, 2) - square(weibull_moment(d, 1))); },
    .mode = weibull_mode,
    .kl = weibull_kl,
};
const Family pareto = {
    .name = "Pareto",
    .parameters = {{"scale", Constraint::positive}, {"alpha", Constraint::positive}},
    .support = Support::positive,
    .log_prob = pareto_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return d.at(0) * random::pareto(d.at(1), s, drawn(d, o)); },
    .cdf = [](D d, const Tensor& x) { return -expm1(d.at(1) * log(d.at(0) / maximum(x, d.at(0)))); },
    .quantile = [](D d, const Tensor& p) { return d.at(0) * exp(-log1p(-p) / d.at(1)); },
    .entropy = [](D d) { return log(d.at(0) / d.at(1)) + 1 + 1 / d.at(1); },
    .mean = pareto_mean,
    .variance = pareto_variance,
    .mode = [](D d) { return d.at(0); },
    .kl = pareto_kl,
};
const Family beta = {
    .name = "Beta",
    .parameters = {{"concentration1", Constraint::positive}, {"concentration0", Constraint::positive}},
    .support = Support::unit,
    .cancels = true,
    .log_prob = beta_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return random::beta(a_of(d), b_of(d), s, drawn(d, o)); },
    .cdf = [](D d, const Tensor& x) { return betainc(a_of(d), b_of(d), x); },
    .quantile = beta_quantile,
    .entropy = beta_entropy,
    .mean = [](D d) { return a_of(d) / (a_of(d) + b_of(d)); },
    .variance =
        [](D d) {
          const Tensor n = a_of(d) + b_of(d);
          return a_of(d) * b_of(d) / (square(n) * (n + 1));
        },
    .mode = beta_mode,
    .kl = beta_kl,
};

}  // namespace impl

Exponential::Exponential(const Tensor& rate, Where where) : Distribution(impl::exponential, {rate}, false, where) {}
Gamma::Gamma(const Tensor& concentration, const Tensor& rate, Where where)
    : Distribution(impl::gamma, {concentration, rate}, false, where) {}
InverseGamma::InverseGamma(const Tensor& concentration, const Tensor& rate, Where where)
    : Distribution(impl::inverse_gamma, {concentration, rate}, false, where) {}
Chi2::Chi2(const Tensor& df, Where where) : Distribution(impl::chi2, {df}, false, where) {}
Weibull::Weibull(const Tensor& scale, const Tensor& concentration, Where where)
    : Distribution(impl::weibull, {scale, concentration}, false, where) {}
Pareto::Pareto(const Tensor& scale, const Tensor& alpha, Where where)
    : Distribution(impl::pareto, {scale, alpha}, false, where) {}
Beta::Beta(const Tensor& concentration1, const Tensor& concentration0, Where where)
    : Distribution(impl::beta, {concentration1, concentration0}, false, where) {}

}  // namespace rill::distributions
