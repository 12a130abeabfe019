// Families of counts and of classes.
#include <cmath>

#include "rill/nn/distributions/family.h"
#include "rill/ops/distributions.h"
#include "rill/ops/special.h"

namespace rill::distributions {

namespace impl {

namespace {
const Parameter probs = {"probs", Constraint::probability}, class_probs = {"probs", Constraint::probabilities, 1};

// n log(p), and 0 where n is 0 even if p is.
Tensor times_log(const Tensor& n, const Tensor& log_p) { return multiply_no_nan(log_p, n); }
Tensor failure(D d, size_t i) { return d.from_logits() ? sigmoid(-d.at(i)) : 1 - d.at(i); }
// log(n! / (k! (n - k)!)) of any numbers, without a difference of large ones.
Tensor log_choose(const Tensor& n, const Tensor& k) { return -betaln(k + 1, n - k + 1) - log1p(n); }
// The relative entropy of one trial.
Tensor trial_kl(D p, D q, size_t i) {
  return times_log(success(p, i), log_success(p, i) - log_success(q, i)) +
         times_log(failure(p, i), log_failure(p, i) - log_failure(q, i));
}
Tensor trial_entropy(D d, size_t i) {
  return -(times_log(success(d, i), log_success(d, i)) + times_log(failure(d, i), log_failure(d, i)));
}

// --- Trials ----------------------------------------------------------------------------------------------------------

Tensor bernoulli_log_prob(D d, const Tensor& x) {
  return times_log(x, log_success(d, 0)) + times_log(1 - x, log_failure(d, 0));
}
Tensor bernoulli_sample(D d, const Shape& s, const SampleOptions& o) {
  return random::bernoulli(stop_gradient(success(d, 0)), s, {.key = o.key});
}

Tensor binomial_log_prob(D d, const Tensor& x) {
  const Tensor n = d.at(0), beyond = x > n, k = rill::where(beyond, n, x);
  const Tensor y = log_choose(n, k) + times_log(k, log_success(d, 1)) + times_log(n - k, log_failure(d, 1));
  return inside_or_none(logical_not(beyond), y);
}
Tensor binomial_sample(D d, const Shape& s, const SampleOptions& o) {
  return random::binomial(stop_gradient(d.at(0)), stop_gradient(success(d, 1)), s, {.key = o.key});
}
Tensor binomial_cdf(D d, const Tensor& x) {
  const Tensor n = d.at(0), all = x >= n, k = rill::where(all, 0, x);
  return rill::where(all, 1, betainc(rill::where(all, 1, n - k), k + 1, failure(d, 1)));
}
// For equal counts; otherwise p may have values that q does not have.
Tensor binomial_kl(D p, D q) {
  return rill::where(p.at(0) > q.at(0), infinity,
                     rill::where(equal(p.at(0), q.at(0)), p.at(0) * trial_kl(p, q, 1), not_a_number));
}

Tensor geometric_log_prob(D d, const Tensor& x) { return times_log(x, log_failure(d, 0)) + log_success(d, 0); }
Tensor geometric_sample(D d, const Shape& s, const SampleOptions& o) {
  return random::geometric(stop_gradient(success(d, 0)), s, {.key = o.key}) - 1;
}
Tensor geometric_quantile(D d, const Tensor& p) {
  const Tensor most = logical_or(equal(p, 1), equal(success(d, 0), 1)), safe = rill::where(most, 0.5, p);
  // One below where rounding has overshot, one above where it has fallen short.
  const Tensor k = maximum(ceil(log1p(-safe) / log_failure(d, 0)) - 1, 0);
  const auto reached = [&](const Tensor& i) { return -expm1((i + 1) * log_failure(d, 0)) >= safe; };
  const Tensor lower = rill::where(logical_and(k > 0, reached(k - 1)), k - 1, k);
  const Tensor found = rill::where(reached(lower), lower, lower + 1);
  return stop_gradient(rill::where(equal(success(d, 0), 1), 0, rill::where(most, infinity, found)));
}
Tensor geometric_kl(D p, D q) {
  return times_log(failure(p, 0) / success(p, 0), log_failure(p, 0) - log_failure(q, 0)) + log_success(p, 0) -
         log_success(q, 0);
}

Tensor negative_binomial_log_prob(D d, const Tensor& x) {
  const Tensor r = d.at(0);
  const Tensor ways = -betaln(r, x + 1) - log(x + r);
  return ways + times_log(r, log_failure(d, 1)) + times_log(x, log_success(d, 1));
}
Tensor negative_binomial_sample(D d, const Shape& s, const SampleOptions& o) {
  const Tensor odds = exp(log_success(d, 1) - log_failure(d, 1));
  const Tensor rate = random::gamma(d.at(0), s, drawn(d, part_of(o, 0))) * odds;
  return random::poisson(stop_gradient(rate), s, {.key = part_of(o, 1).key});
}
Tensor negative_binomial_mean(D d) { return d.at(0) * success(d, 1) / failure(d, 1); }
Tensor negative_binomial_mode(D d) {
  return stop_gradient(floor(maximum(d.at(0) - 1, 0) * success(d, 1) / failure(d, 1)));
}
Tensor negative_binomial_kl(D p, D q) {
  return rill::where(equal(p.at(0), q.at(0)), p.at(0) / failure(p, 1) * trial_kl(p, q, 1), not_a_number);
}

Tensor poisson_log_prob(D d, const Tensor& x) { return xlogy(x, d.at(0)) - d.at(0) - lgamma(x + 1); }

// --- Classes ---------------------------------------------------------------------------------------------------------

Tensor class_count(D d) { return Tensor(Dim(d.at(0).shape().back())).astype(d.dtype()); }
// The number of each class, [classes].
Tensor class_numbers(D d) { return iota({Dim(d.at(0).shape().back())}).astype(d.dtype()); }
Tensor categorical_log_prob(D d, const Tensor& x) {
  const Tensor all = log_shares(d, 0);
  const Tensor beyond = x >= class_count(d), which = rill::where(logical_or(beyond, isnan(x)), 0, x).astype(i64);
  Shape shape = broadcast_shapes(d.batch_shape(), x.shape()), rows = shape;
  rows.push_back(Dim(all.shape().back()));
  const Tensor at = expand_dims(broadcast_to(which, shape), -1);
  const Tensor y = squeeze(take_along_axis(broadcast_to(all, rows), at, -1), -1);
  return inside_or_none(logical_not(beyond), rill::where(isnan(x), not_a_number, y));
}
Tensor categorical_sample(D d, const Shape& s, const SampleOptions& o) {
  Shape leading = s;  // without the batch, which random::categorical adds
  for (size_t i = d.batch_shape().size(); i > 0; --i) leading.pop_back();
  return random::categorical(stop_gradient(log_shares(d, 0)), leading, {.key = o.key});
}
Tensor categorical_cdf(D d, const Tensor& x) {
  return sum(rill::where(class_numbers(d) <= expand_dims(x, -1), shares(d, 0), 0), -1);
}
Tensor categorical_quantile(D d, const Tensor& p) {
  // The class is the number of cumulative sums below u: for the last class, rounding must not leave a gap.
  const Tensor sums = cumsum(shares(d, 0), -1), last = equal(class_numbers(d), class_count(d) - 1);
  const Tensor below = logical_and(sums < expand_dims(p, -1), logical_not(last));
  return stop_gradient(sum(below.astype(d.dtype()), -1));
}
Tensor categorical_entropy(D d) { return -sum(times_log(shares(d, 0), log_shares(d, 0)), -1); }
Tensor classes_kl(D p, D q, size_t i) { return sum(times_log(shares(p, i), log_shares(p, i) - log_shares(q, i)), -1); }
Tensor categorical_kl(D p, D q) { return classes_kl(p, q, 0); }
Tensor categorical_mean(D d) { return sum(shares(d, 0) * class_numbers(d), -1); }
Tensor categorical_variance(D d) {
  return sum(shares(d, 0) * square(class_numbers(d) - expand_dims(categorical_mean(d), -1)), -1);
}
Tensor likeliest(D d) { return argmax(stop_gradient(d.at(0)), -1); }
Tensor one_of(D d, const Tensor& which) { return one_hot(which, Dim(d.at(0).shape().back()), {.dtype = d.dtype()}); }
// A vector with one 1 and zeros; and which it is.
Tensor one_hot_log_prob(D d, const Tensor& x) {
  const Tensor each = logical_or(equal(x, 0), equal(x, 1));
  const Tensor legal = logical_and(all(each, -1), equal(sum(x, -1), 1));
  return inside_or_none(legal, sum(times_log(rill::where(each, x, 0), log_shares(d, 0)), -1));
}
Tensor one_hot_sample(D d, const Shape& s, const SampleOptions& o) {
  return one_hot(categorical_sample(d, s, o), Dim(d.at(0).shape().back()), {.dtype = i64});
}

Tensor multinomial_log_prob(D d, const Tensor& x) {
  const Tensor legal = logical_and(all(logical_and(x >= 0, equal(x, floor(x))), -1), equal(sum(x, -1), d.at(0)));
  const Tensor k = rill::where(expand_dims(legal, -1), x, 0);
  return inside_or_none(legal, lgamma(d.at(0) + 1) + sum(times_log(k, log_shares(d, 1)) - lgamma(k + 1), -1));
}
Tensor multinomial_sample(D d, const Shape& s, const SampleOptions& o) {
  return random::multinomial(stop_gradient(d.at(0)), stop_gradient(shares(d, 1)), s, {.key = o.key});
}
Tensor multinomial_kl(D p, D q) {
  return rill::where(equal(p.at(0), q.at(0)), p.at(0) * classes_kl(p, q, 1), not_a_number);
}

}  // namespace

const Family bernoulli = {
    .name = "Bernoulli",
    .parameters = {probs},
    .support = Support::bits,
    .reparameterised = false,
    .log_prob = bernoulli_log_prob,
    .sample = bernoulli_sample,
    .cdf = [](D d, const Tensor& x) { return rill::where(x >= 1, 1, failure(d, 0)); },
    .quantile = [](D d, const Tensor& p) { return stop_gradient((p > failure(d, 0)).astype(d.dtype())); },
    .entropy = [](D d) { return trial_entropy(d, 0); },
    .mean = [](D d) { return success(d, 0); },
    .variance = [](D d) { return success(d, 0) * failure(d, 0); },
    .mode = [](D d) { return stop_gradient((success(d, 0) > failure(d, 0)).astype(d.dtype())); },
    .kl = [](D p, D q) { return trial_kl(p, q, 0); },
};
const Family binomial = {
    .name = "Binomial",
    .parameters = {{"count", Constraint::count}, probs},
    .support = Support::counts,
    .reparameterised = false,
    .cancels = true,
    .log_prob = binomial_log_prob,
    .sample = binomial_sample,
    .cdf = binomial_cdf,
    .quantile = [](D d, const Tensor& p) { return search_count(d, p, d.at(0)); },
    .mean = [](D d) { return d.at(0) * success(d, 1); },
    .variance = [](D d) { return d.at(0) * success(d, 1) * failure(d, 1); },
    .mode = [](D d) { return stop_gradient(minimum(floor((d.at(0) + 1) * success(d, 1)), d.at(0))); },
    .kl = binomial_kl,
};
const Family geometric = {
    .name = "Geometric",
    .parameters = {probs},
    .support = Support::counts,
    .reparameterised = false,
    .log_prob = geometric_log_prob,
    .sample = geometric_sample,
    .cdf = [](D d, const Tensor& x) { return -expm1((x + 1) * log_failure(d, 0)); },
    .quantile = geometric_quantile,
    .entropy = [](D d) { return trial_entropy(d, 0) / success(d, 0); },
    .mean = [](D d) { return failure(d, 0) / success(d, 0); },
    .variance = [](D d) { return failure(d, 0) / square(success(d, 0)); },
    .mode = [](D d) { return number(d, 0); },
    .kl = geometric_kl,
};
const Family negative_binomial = {
    .name = "NegativeBinomial",
    .parameters = {{"count", Constraint::positive}, probs},
    .support = Support::counts,
    .reparameterised = false,
    .cancels = true,
    .log_prob = negative_binomial_log_prob,
    .sample = negative_binomial_sample,
    .cdf = [](D d, const Tensor& x) { return betainc(d.at(0), x + 1, failure(d, 1)); },
    .quantile = [](D d, const Tensor& p) { return search_count(d, p, number(d, infinity)); },
    .mean = negative_binomial_mean,
    .variance = [](D d) { return negative_binomial_mean(d) / failure(d, 1); },
    .mode = negative_binomial_mode,
    .kl = negative_binomial_kl,
};
const Family poisson = {
    .name = "Poisson",
    .parameters = {{"rate", Constraint::positive}},
    .support = Support::counts,
    .reparameterised = false,
    .cancels = true,
    .log_prob = poisson_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return random::poisson(stop_gradient(d.at(0)), s, {.key = o.key}); },
    .cdf = [](D d, const Tensor& x) { return igammac(x + 1, d.at(0)); },
    .quantile = [](D d, const Tensor& p) { return search_count(d, p, number(d, infinity)); },
    .mean = [](D d) { return d.at(0); },
    .variance = [](D d) { return d.at(0); },
    .mode = [](D d) { return stop_gradient(floor(d.at(0))); },
    .kl = [](D p, D q) { return p.at(0) * log(p.at(0) / q.at(0)) - (p.at(0) - q.at(0)); },
};
const Family categorical = {
    .name = "Categorical",
    .parameters = {class_probs},
    .support = Support::classes,
    .reparameterised = false,
    .log_prob = categorical_log_prob,
    .sample = categorical_sample,
    .cdf = categorical_cdf,
    .quantile = categorical_quantile,
    .entropy = categorical_entropy,
    .mean = categorical_mean,
    .variance = categorical_variance,
    .mode = [](D d) { return likeliest(d).astype(d.dtype()); },
    .kl = categorical_kl,
};
const Family one_hot_categorical = {
    .name = "OneHotCategorical",
    .parameters = {class_probs},
    .support = Support::vectors,
    .event_rank = 1,
    .reparameterised = false,
    .log_prob = one_hot_log_prob,
    .sample = one_hot_sample,
    .entropy = categorical_entropy,
    .mean = [](D d) { return shares(d, 0); },
    .variance = [](D d) { return shares(d, 0) * (1 - shares(d, 0)); },
    .mode = [](D d) { return one_of(d, likeliest(d)); },
    .kl = categorical_kl,
};
const Family multinomial = {
    .name = "Multinomial",
    .parameters = {{"count", Constraint::count}, class_probs},
    .support = Support::vectors,
    .event_rank = 1,
    .reparameterised = false,
    .cancels = true,
    .log_prob = multinomial_log_prob,
    .sample = multinomial_sample,
    .mean = [](D d) { return expand_dims(d.at(0), -1) * shares(d, 1); },
    .variance = [](D d) { return expand_dims(d.at(0), -1) * shares(d, 1) * (1 - shares(d, 1)); },
    .kl = multinomial_kl,
};

}  // namespace impl

namespace {
// The last parameter: probabilities or logits, of which one is given.
Tensor given(std::string_view name, const ProbabilityOptions& o, const Where& where) {
  if (o.probs.defined() == o.logits.defined())
    fail(name, o.probs.defined() ? "takes probs or logits and not both" : "needs probs or logits", where);
  return o.probs.defined() ? o.probs : o.logits;
}
}  // namespace

#define RILL_OF_PROBS(Type, record)                                                                   \
  Type::Type(const Tensor& probs, Where where) : Distribution(impl::record, {probs}, false, where) {} \
  Type::Type(const ProbabilityOptions& o, Where where)                                                \
      : Distribution(impl::record, {given(#Type, o, where)}, o.logits.defined(), where) {}
#define RILL_OF_COUNT_AND_PROBS(Type, record)                               \
  Type::Type(const Tensor& count, const Tensor& probs, Where where)         \
      : Distribution(impl::record, {count, probs}, false, where) {}         \
  Type::Type(const Tensor& count, const ProbabilityOptions& o, Where where) \
      : Distribution(impl::record, {count, given(#Type, o, where)}, o.logits.defined(), where) {}
RILL_OF_PROBS(Bernoulli, bernoulli)
RILL_OF_PROBS(Geometric, geometric)
RILL_OF_PROBS(Categorical, categorical)
RILL_OF_PROBS(OneHotCategorical, one_hot_categorical)
RILL_OF_COUNT_AND_PROBS(Binomial, binomial)
RILL_OF_COUNT_AND_PROBS(NegativeBinomial, negative_binomial)
RILL_OF_COUNT_AND_PROBS(Multinomial, multinomial)
#undef RILL_OF_PROBS
#undef RILL_OF_COUNT_AND_PROBS
Poisson::Poisson(const Tensor& rate, Where where) : Distribution(impl::poisson, {rate}, false, where) {}

}  // namespace rill::distributions
