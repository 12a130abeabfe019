// Families on all numbers that are a shifted and scaled standard distribution, and those on positive numbers that are
// derived from one.
#include <cmath>

#include "rill/nn/distributions/family.h"
#include "rill/ops/distributions.h"
#include "rill/ops/numeric.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/special.h"

namespace rill::distributions {

namespace impl {

namespace {
constexpr Constraint positive = Constraint::positive;
const std::vector<Parameter> loc_scale = {{"loc"}, {"scale", positive}};

Tensor loc(D d) { return d.at(0); }
Tensor scale(D d) { return d.at(1); }
Tensor standard(D d, const Tensor& x) { return (x - loc(d)) / scale(d); }
Tensor placed(D d, const Tensor& z) { return loc(d) + scale(d) * z; }
Tensor nothing(D d) { return number(d, not_a_number); }
Tensor endless(D d) { return number(d, infinity); }
Tensor zero(D d) { return number(d, 0); }

// --- Normal ----------------------------------------------------------------------------------------------------------

Tensor normal_log_prob(D d, const Tensor& x) { return -0.5 * square(standard(d, x)) - log(scale(d)) - 0.5 * log_2_pi; }
Tensor normal_sample(D d, const Shape& s, const SampleOptions& o) {
  return placed(d, random::normal(s, {.dtype = d.dtype(), .key = o.key}));
}
Tensor normal_kl(D p, D q) {
  return log(scale(q) / scale(p)) + (square(scale(p)) + square(loc(p) - loc(q))) / (2 * square(scale(q))) - 0.5;
}
Tensor normal_entropy(D d) { return 0.5 * (1 + log_2_pi) + log(scale(d)); }

Tensor log_normal_log_prob(D d, const Tensor& x) {
  const Tensor empty = equal(x, 0), y = log(rill::where(empty, 1, x));
  return inside_or_none(logical_not(empty), normal_log_prob(d, y) - y);
}

// --- Uniform ---------------------------------------------------------------------------------------------------------

Tensor width(D d) { return d.at(1) - d.at(0); }
Tensor uniform_log_prob(D d, const Tensor& x) {
  const Tensor inside = logical_not(logical_or(x < d.at(0), x >= d.at(1)));
  return inside_or_none(inside, x * 0 - log(width(d)));
}
Tensor uniform_sample(D d, const Shape& s, const SampleOptions& o) {
  return d.at(0) + width(d) * random::uniform(s, {.dtype = d.dtype(), .key = o.key});
}
Tensor uniform_kl(D p, D q) {
  const Tensor within = logical_and(q.at(0) <= p.at(0), p.at(1) <= q.at(1));
  return rill::where(within, log(width(q) / width(p)), infinity);
}

// --- Laplace, Cauchy -------------------------------------------------------------------------------------------------

Tensor laplace_cdf(D d, const Tensor& x) {
  const Tensor z = standard(d, x), left = z < 0;
  const Tensor tail = 0.5 * exp(rill::where(left, z, -z));  // -|z|, whose derivative at 0 would be 0
  return rill::where(left, tail, 1 - tail);
}
Tensor laplace_quantile(D d, const Tensor& p) {
  const Tensor lower = p < 0.5;
  return placed(d, rill::where(lower, log(2 * rill::where(lower, p, 0.25)), -log(2 * rill::where(lower, 0.25, 1 - p))));
}
Tensor laplace_kl(D p, D q) {
  const Tensor apart = abs(loc(p) - loc(q));
  return log(scale(q) / scale(p)) + apart / scale(q) + scale(p) / scale(q) * exp(-apart / scale(p)) - 1;
}
// tan(pi (p - 0.5)), near 0 and 1 as the cotangent of the remaining distance, which loses no digit.
Tensor cauchy_quantile(D d, const Tensor& p) {
  const Tensor rest = minimum(p, 1 - p), far = rest < 0.25;
  const Tensor tail = 1 / tan(pi * rill::where(far, rest, 0.25));
  const Tensor middle = tan(pi * (rill::where(far, 0.5, p) - 0.5));
  return placed(d, rill::where(far, rill::where(p < 0.5, -tail, tail), middle));
}
Tensor cauchy_kl(D p, D q) {
  const Tensor both = square(scale(p) + scale(q)) + square(loc(p) - loc(q));
  return log(both / (4 * scale(p) * scale(q)));
}

// --- StudentT --------------------------------------------------------------------------------------------------------

Tensor t_standard(D d, const Tensor& x) { return (x - d.at(1)) / d.at(2); }
// Where 1 + t^2 / df rounds to t^2 / df, and t^2 may overflow f64.
Tensor t_far_out(const Tensor& df, const Tensor& t) { return logical_and(abs(t) > 1e120, abs(t) > 1e20 * df); }
Tensor t_log_prob(D d, const Tensor& x) {
  const Tensor df = d.at(0), t = t_standard(d, x), far_out = t_far_out(df, t);
  const Tensor far = 2 * log(abs(rill::where(far_out, t, 1))) - log(df);  // of t^2 / df, where t^2 is too large
  const Tensor near = log1p(square(rill::where(far_out, 1, t)) / df);
  return -0.5 * (df + 1) * rill::where(far_out, far, near) - log(d.at(2)) - 0.5 * log(df) -
         betaln(0.5 * df, number(d, 0.5));
}
// There the first term of the tail's series, (df / t^2)^(df / 2) / (df B(df / 2, 1 / 2)).
Tensor t_far_tail(const Tensor& df, const Tensor& t) {
  const Tensor half = full_like(df, 0.5);
  return exp(df * (0.5 * log(df) - log(abs(t))) - log(df) - betaln(0.5 * df, half));
}
// By the incomplete beta function of the smaller ratio: of t^2 / (df + t^2) around 0, of df / (df + t^2) in the tails.
// At 0 itself, where its derivative is infinite and that of t^2 is 0, a number that changes no digit. In f64, for t^2
// may overflow f32.
Tensor t_cdf(D narrow, const Tensor& x) {
  if (x.dtype() != f64 || narrow.dtype() != f64)
    return t_cdf(narrow.astype(f64), x.astype(f64)).astype(promote(x.dtype(), narrow.dtype()));
  const Distribution& d = narrow;
  const Tensor df = d.at(0), half = number(d, 0.5), all = t_standard(d, x);
  const Tensor far_out = t_far_out(df, all);
  const Tensor z = rill::where(far_out, sign(all), all), t = z + rill::where(equal(z, 0), 1e-150, 0);
  const Tensor square_t = square(t), middle = logical_and(square_t < df, logical_not(far_out));
  const Tensor near = betainc(half, 0.5 * df, rill::where(middle, square_t / (df + square_t), 0.5));
  const Tensor far = betainc(0.5 * df, half, rill::where(middle, 0.5, df / (df + square_t)));
  const Tensor beyond = rill::where(far_out, t_far_tail(df, rill::where(far_out, all, 1e120)), 0.5 * far);
  return rill::where(middle, 0.5 + 0.5 * sign(t) * near, rill::where(t < 0, beyond, 1 - beyond));
}
Tensor t_quantile(D d, const Tensor& p) {
  const Tensor ends = logical_or(equal(p, 0), equal(p, 1));
  const Tensor inner = search(StudentT(d.at(0).astype(d.dtype())), rill::where(ends, 0.5, p), Scale::sinh, -709, 709);
  return d.at(1) + d.at(2) * rill::where(ends, rill::where(p > 0.5, infinity, -infinity), inner);
}
Tensor t_entropy(D d) {
  const Tensor df = d.at(0), more = 0.5 * (df + 1);
  return more * (digamma(more) - digamma(0.5 * df)) + 0.5 * log(df) + betaln(0.5 * df, number(d, 0.5)) + log(d.at(2));
}
Tensor t_variance(D d) {
  const Tensor df = d.at(0), some = df > 2;
  const Tensor y = square(d.at(2)) * df / rill::where(some, df - 2, 1);
  return rill::where(some, y, rill::where(df > 1, infinity, not_a_number));
}

// --- Logistic, Gumbel ------------------------------------------------------------------------------------------------

Tensor logistic_log_prob(D d, const Tensor& x) {
  const Tensor z = standard(d, x);
  return log_sigmoid(z) + log_sigmoid(-z) - log(scale(d));
}
Tensor gumbel_log_prob(D d, const Tensor& x) {
  const Tensor z = standard(d, x);
  return inside_or_none(logical_not(equal(z, -infinity)), -z - exp(-z) - log(scale(d)));
}
Tensor gumbel_kl(D p, D q) {
  const Tensor ratio = scale(p) / scale(q), apart = (loc(q) - loc(p)) / scale(q);
  return -log(ratio) - apart + ratio * euler + exp(apart + lgamma(1 + ratio)) - (1 + euler);
}

// --- Half of them ----------------------------------------------------------------------------------------------------

Tensor half_normal_log_prob(D d, const Tensor& x) {
  return 0.5 * std::log(2 / pi) - log(d.at(0)) - 0.5 * square(x / d.at(0));
}
Tensor half_normal_kl(D p, D q) { return log(q.at(0) / p.at(0)) + 0.5 * square(p.at(0) / q.at(0)) - 0.5; }
Tensor half_cauchy_log_prob(D d, const Tensor& x) {
  return std::log(2 / pi) - log(d.at(0)) - log1p(square(x / d.at(0)));
}
Tensor half_cauchy_quantile(D d, const Tensor& p) {
  const Tensor far = p > 0.5;
  const Tensor tail = 1 / tan((1 - rill::where(far, p, 0.5)) * (pi / 2));
  return d.at(0) * rill::where(far, tail, tan(rill::where(far, 0.5, p) * (pi / 2)));
}
Tensor half_cauchy_kl(D p, D q) { return log(square(p.at(0) + q.at(0)) / (4 * p.at(0) * q.at(0))); }

}  // namespace

const Family normal = {
    .name = "Normal",
    .parameters = loc_scale,
    .log_prob = normal_log_prob,
    .sample = normal_sample,
    .cdf = [](D d, const Tensor& x) { return ndtr(standard(d, x)); },
    .quantile = [](D d, const Tensor& p) { return placed(d, ndtri(p)); },
    .entropy = normal_entropy,
    .mean = loc,
    .variance = [](D d) { return square(scale(d)); },
    .mode = loc,
    .kl = normal_kl,
};
const Family log_normal = {
    .name = "LogNormal",
    .parameters = loc_scale,
    .support = Support::positive,
    .log_prob = log_normal_log_prob,
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return exp(normal_sample(d, s, o)); },
    .cdf = [](D d, const Tensor& x) { return ndtr(standard(d, log(x))); },
    .quantile = [](D d, const Tensor& p) { return exp(placed(d, ndtri(p))); },
    .entropy = [](D d) { return normal_entropy(d) + loc(d); },
    .mean = [](D d) { return exp(loc(d) + 0.5 * square(scale(d))); },
    .variance = [](D d) { return expm1(square(scale(d))) * exp(2 * loc(d) + square(scale(d))); },
    .mode = [](D d) { return exp(loc(d) - square(scale(d))); },
    .kl = normal_kl,
};
const Family uniform = {
    .name = "Uniform",
    .parameters = {{"low"}, {"high"}},
    .log_prob = uniform_log_prob,
    .sample = uniform_sample,
    .cdf = [](D d, const Tensor& x) { return clip((x - d.at(0)) / width(d), 0, 1); },
    .quantile = [](D d, const Tensor& p) { return d.at(0) + width(d) * p; },
    .entropy = [](D d) { return log(width(d)); },
    .mean = [](D d) { return 0.5 * (d.at(0) + d.at(1)); },
    .variance = [](D d) { return square(width(d)) / 12; },
    .mode = nothing,
    .kl = uniform_kl,
};
const Family laplace = {
    .name = "Laplace",
    .parameters = loc_scale,
    .log_prob = [](D d, const Tensor& x) { return -abs(standard(d, x)) - log(2 * scale(d)); },
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return placed(d, random::laplace(s, drawn(d, o))); },
    .cdf = laplace_cdf,
    .quantile = laplace_quantile,
    .entropy = [](D d) { return 1 + log(2 * scale(d)); },
    .mean = loc,
    .variance = [](D d) { return 2 * square(scale(d)); },
    .mode = loc,
    .kl = laplace_kl,
};
const Family cauchy = {
    .name = "Cauchy",
    .parameters = loc_scale,
    .log_prob = [](D d, const Tensor& x) { return -log1p(square(standard(d, x))) - log(pi * scale(d)); },
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return placed(d, random::cauchy(s, drawn(d, o))); },
    .cdf = [](D d, const Tensor& x) { return atan2(number(d, 1), -standard(d, x)) / pi; },
    .quantile = cauchy_quantile,
    .entropy = [](D d) { return log(4 * pi * scale(d)); },
    .mean = nothing,
    .variance = endless,
    .mode = loc,
    .kl = cauchy_kl,
};
const Family student_t = {
    .name = "StudentT",
    .parameters = {{"df", positive}, {"loc"}, {"scale", positive}},
    .cancels = true,
    .log_prob = t_log_prob,
    .sample = [](D d, const Shape& s,
                 const SampleOptions& o) { return d.at(1) + d.at(2) * random::student_t(d.at(0), s, drawn(d, o)); },
    .cdf = t_cdf,
    .quantile = t_quantile,
    .entropy = t_entropy,
    .mean = [](D d) { return rill::where(d.at(0) > 1, d.at(1), not_a_number); },
    .variance = t_variance,
    .mode = [](D d) { return d.at(1); },
};
const Family logistic = {
    .name = "Logistic",
    .parameters = loc_scale,
    .log_prob = logistic_log_prob,
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return placed(d, random::logistic(s, drawn(d, o))); },
    .cdf = [](D d, const Tensor& x) { return sigmoid(standard(d, x)); },
    .quantile = [](D d, const Tensor& p) { return placed(d, log(p) - log1p(-p)); },
    .entropy = [](D d) { return 2 + log(scale(d)); },
    .mean = loc,
    .variance = [](D d) { return square(scale(d)) * (pi * pi / 3); },
    .mode = loc,
};
const Family gumbel = {
    .name = "Gumbel",
    .parameters = loc_scale,
    .log_prob = gumbel_log_prob,
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return placed(d, random::gumbel(s, drawn(d, o))); },
    .cdf = [](D d, const Tensor& x) { return exp(-exp(-standard(d, x))); },
    .quantile = [](D d, const Tensor& p) { return placed(d, -log(-log(p))); },
    .entropy = [](D d) { return log(scale(d)) + (1 + euler); },
    .mean = [](D d) { return loc(d) + euler * scale(d); },
    .variance = [](D d) { return square(scale(d)) * (pi * pi / 6); },
    .mode = loc,
    .kl = gumbel_kl,
};
const Family half_normal = {
    .name = "HalfNormal",
    .parameters = {{"scale", positive}},
    .support = Support::positive,
    .log_prob = half_normal_log_prob,
    .sample =
        [](D d, const Shape& s, const SampleOptions& o) {
          return d.at(0) * abs(random::normal(s, {.dtype = d.dtype(), .key = o.key}));
        },
    .cdf = [](D d, const Tensor& x) { return erf(x / d.at(0) * std::numbers::sqrt2 / 2); },
    .quantile = [](D d, const Tensor& p) { return d.at(0) * (std::numbers::sqrt2 * erfinv(p)); },
    .entropy = [](D d) { return 0.5 * std::log(pi / 2) + 0.5 + log(d.at(0)); },
    .mean = [](D d) { return d.at(0) * std::sqrt(2 / pi); },
    .variance = [](D d) { return square(d.at(0)) * (1 - 2 / pi); },
    .mode = zero,
    .kl = half_normal_kl,
};
const Family half_cauchy = {
    .name = "HalfCauchy",
    .parameters = {{"scale", positive}},
    .support = Support::positive,
    .log_prob = half_cauchy_log_prob,
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return d.at(0) * abs(random::cauchy(s, drawn(d, o))); },
    .cdf = [](D d, const Tensor& x) { return atan(x / d.at(0)) * (2 / pi); },
    .quantile = half_cauchy_quantile,
    .entropy = [](D d) { return log(2 * pi * d.at(0)); },
    .mean = endless,
    .variance = endless,
    .mode = zero,
    .kl = half_cauchy_kl,
};

}  // namespace impl

#define RILL_LOC_SCALE(Type, record)                              \
  Type::Type(const Tensor& loc, const Tensor& scale, Where where) \
      : Distribution(impl::record, {loc, scale}, false, where) {}
RILL_LOC_SCALE(Normal, normal)
RILL_LOC_SCALE(LogNormal, log_normal)
RILL_LOC_SCALE(Laplace, laplace)
RILL_LOC_SCALE(Cauchy, cauchy)
RILL_LOC_SCALE(Logistic, logistic)
RILL_LOC_SCALE(Gumbel, gumbel)
#undef RILL_LOC_SCALE
Uniform::Uniform(const Tensor& low, const Tensor& high, Where where)
    : Distribution(impl::uniform, {low, high}, false, where) {
  const CallerScope caller(where);
  // Both in one tensor, for the message has the numbers that the user gave.
  require_elements([](const Tensor& limits) { return all(limits(1) > limits(0)); }, "Uniform",
                   "high must be greater than low, for {low, high}", stack(broadcast_arrays({at(0), at(1)})), where);
}
StudentT::StudentT(const Tensor& df, const Tensor& loc, const Tensor& scale, Where where)
    : Distribution(impl::student_t, {df, loc, scale}, false, where) {}
HalfNormal::HalfNormal(const Tensor& scale, Where where) : Distribution(impl::half_normal, {scale}, false, where) {}
HalfCauchy::HalfCauchy(const Tensor& scale, Where where) : Distribution(impl::half_cauchy, {scale}, false, where) {}

}  // namespace rill::distributions
