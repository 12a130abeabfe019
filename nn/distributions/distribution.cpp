// Distributions: code for all families. Start at Distribution::log_prob().
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rill/nn/distributions/family.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/option_checks.h"
#include "rill/trace/control_flow.h"

namespace rill::distributions {

namespace {

struct Rule {
  std::string_view words;
  Tensor (*holds)(const Tensor& x);
};
Tensor is_finite(const Tensor& x) { return all(isfinite(x)); }
Tensor is_positive(const Tensor& x) { return all(logical_and(x > 0, isfinite(x))); }
Tensor is_count(const Tensor& x) { return all(logical_and(logical_and(x >= 0, isfinite(x)), equal(x, floor(x)))); }
Tensor is_probability(const Tensor& x) { return all(logical_and(x >= 0, x <= 1)); }
Tensor are_probabilities(const Tensor& x) {
  return all(logical_and(all(logical_and(x >= 0, isfinite(x)), -1), sum(x, -1) > 0));
}
Tensor is_triangular(const Tensor& x) { return is_positive(linalg::diagonal(x)); }
Rule rule_of(Constraint c) {
  switch (c) {
    case Constraint::real: return {"finite", is_finite};
    case Constraint::positive: return {"positive and finite", is_positive};
    case Constraint::count: return {"a whole number, 0 or more", is_count};
    case Constraint::probability: return {"a probability, in [0, 1]", is_probability};
    case Constraint::probabilities: return {"not negative, and not all 0 along the last axis", are_probabilities};
    case Constraint::triangular: return {"a matrix with a positive diagonal", is_triangular};
  }
  return {};
}
// For logits: -infinity is a probability of 0.
Tensor are_logits(const Tensor& x) { return logical_not(any(isnan(x))); }

std::string_view name_of(const Family& f, size_t i, bool from_logits) {
  return from_logits && i + 1 == f.parameters.size() ? "logits" : f.parameters[i].name;
}
void check_parameter(const Family& f, size_t i, const Tensor& x, bool from_logits, const Where& where) {
  const Parameter& p = f.parameters[i];
  const std::string_view name = name_of(f, i, from_logits);
  if (x.ndim() < p.rank)
    fail(f.name, fmt::format("{} is {} and must have {} axes or more", name, to_string(x.spec()), p.rank), where);
  if (p.rank == 2 && x.dim(-1) != x.dim(-2))
    fail(f.name, fmt::format("{} is {} and must be square, [..., k, k]", name, to_string(x.spec())), where);
  const Rule rule = name == "logits" ? Rule{"numbers and not NaN", are_logits} : rule_of(p.constraint);
  require_elements(rule.holds, f.name, fmt::format("{} must be {}", name, rule.words), x, where);
}
Shape without_last(const Shape& s, int n) {
  Shape out = s;
  for (int i = 0; i < n && !out.empty(); ++i) out.pop_back();
  return out;
}
Shape joined(const Shape& a, const Shape& b) {
  Shape out = a;
  for (Dim n : b) out.push_back(n);
  return out;
}
// A value in the distribution's dtype, or a wider one that it has.
Tensor taken(std::string_view function, const Distribution& d, const Tensor& x, const Where& where) {
  require_real(function, x, where);
  return is_floating(x.dtype()) && !x.spec().weak ? x : x.astype(d.dtype());
}
Tensor whole(const Tensor& x) { return logical_not(x - floor(x) > 0); }
Tensor inside_positive(const Tensor& x) { return logical_not(logical_or(x < 0, equal(x, impl::infinity))); }
// Where values are in the support, as a bool tensor: NaN counts as inside, so that it stays NaN. Undefined: everywhere.
Tensor inside(const Family& f, const Tensor& x) {
  switch (f.support) {
    case Support::positive: return inside_positive(x);
    case Support::unit: return logical_not(logical_or(x < 0, x > 1));
    case Support::bits: return logical_and(logical_not(logical_or(x < 0, x > 1)), whole(x));
    case Support::counts:
    case Support::classes: return logical_and(inside_positive(x), whole(x));
    default: return {};
  }
}
template <class F>
const F& wanted(const Distribution& d, const F& f, std::string_view what, const Where& where) {
  if (!f) fail(d.family(), fmt::format("has no {}: see docs/distributions.md", what), where);
  return f;
}

}  // namespace

Distribution::Distribution(const Family& family, std::vector<Tensor> parameters, bool from_logits, const Where& where)
    : family_(&family), from_logits_(from_logits) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    require_defined(family.name, parameters[i], name_of(family, i, from_logits), where);
    if (!is_real(parameters[i]) || is_float8(parameters[i].dtype()))
      fail(family.name,
           fmt::format("{} is {} and must be real numbers", name_of(family, i, from_logits),
                       to_string(parameters[i].spec())),
           where);
  }
  const CallerScope caller(where, family.name.data());
  const CommonDtype common(parameters);
  dtype_ = is_floating(common.dtype) && !common.weak ? common.dtype : f32;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor x = parameters[i].astype(dtype_).to(common.device);
    check_parameter(family, i, x, from_logits, where);
    parameters_.push_back(x);
  }
  Shape batch, event;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Shape& whole = parameters_[i].shape();
    if (family.parameters[i].rank > 0 && !broadcast_into(event, Shape{Dim(whole.back())}))
      fail(family.name,
           fmt::format("{} {} does not go with an event of {}", name_of(family, i, from_logits),
                       to_string(parameters_[i].spec()), to_string(event)),
           where);
    const int rank = family.parameters[i].rank;
    if (!broadcast_into(batch, without_last(parameters_[i].shape(), rank)))
      fail(family.name,
           fmt::format("{} {} does not broadcast with the others' {}", name_of(family, i, from_logits),
                       to_string(parameters_[i].spec()), to_string(batch)),
           where);
  }
}

Distribution::Distribution(const Family& family, std::vector<Distribution> parts, std::vector<Transform> transforms,
                           int64_t folded)
    : family_(&family), parts_(std::move(parts)), transforms_(std::move(transforms)), folded_(folded) {
  dtype_ = parts_[0].dtype();
}

std::string_view Distribution::family() const { return family_->name; }
std::vector<Transform> Distribution::transforms() const&& { return transforms_; }  // a complete type here

Shape Distribution::batch_shape() const {
  if (!parts_.empty()) {
    const Shape batch = parts_[0].batch_shape();
    return without_last(batch, int(folded_) + (family_ == &impl::mixture ? 1 : 0));
  }
  Shape batch;
  for (size_t i = 0; i < parameters_.size(); ++i)
    broadcast_into(batch, without_last(parameters_[i].shape(), family_->parameters[i].rank));
  return batch;
}

Shape Distribution::event_shape() const {
  if (!parts_.empty()) {
    const Shape batch = parts_[0].batch_shape();
    Shape event;
    for (size_t i = batch.size() - size_t(folded_); i < batch.size(); ++i) event.push_back(batch[i]);
    return joined(event, parts_[0].event_shape());
  }
  Shape event;
  if (family_->event_rank == 1) {
    Dim n = 1;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (family_->parameters[i].rank > 0 && Dim(parameters_[i].shape().back()) != 1) n = parameters_[i].shape().back();
    event.push_back(n);
  }
  return event;
}

bool Distribution::reparameterised() const {
  return family_->reparameterised && (parts_.empty() || parts_[0].reparameterised());
}

Tensor Distribution::parameter(std::string_view name, Where where) const {
  std::string names;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string_view own = name_of(*family_, i, from_logits_);
    if (own == name) return parameters_[i];
    names += fmt::format("{}{}", names.empty() ? "" : ", ", own);
  }
  fail(family(), fmt::format("has no parameter '{}'. it has {}", name, names.empty() ? "none" : names), where);
}

Distribution Distribution::astype(DType dtype) const {
  Distribution d = *this;
  d.dtype_ = dtype;
  for (Tensor& p : d.parameters_) p = p.astype(dtype);
  for (Distribution& p : d.parts_) p = p.astype(dtype);
  for (Transform& t : d.transforms_) t = t.astype(dtype);
  return d;
}

Tensor Distribution::sample(const Shape& shape, const SampleOptions& options, Where where) const {
  const CallerScope caller(where);
  return family_->sample(*this, joined(shape, batch_shape()), options);
}

Tensor Distribution::log_prob(const Tensor& value, Where where) const {
  const CallerScope caller(where);
  const Tensor x = taken("log_prob", *this, value, where);
  const Shape event = event_shape(), batch = batch_shape();
  const auto mismatch = [&] {
    fail("log_prob",
         fmt::format("the value is {}, and a {} has the batch shape {} and the event shape {}", to_string(value.spec()),
                     family(), to_string(batch), to_string(event)),
         where);
  };
  Shape all = joined(batch, event);
  if (x.ndim() < event.ndim() || !broadcast_into(all, x.shape())) mismatch();
  for (size_t i = 0; i < event.size(); ++i)
    if (all[all.size() - event.size() + i] != event[i]) mismatch();
  const Tensor in = inside(*family_, x);
  const Tensor safe = in.defined() ? rill::where(in, x, family_->support == Support::unit ? 0.5 : 1.) : x;
  const DType result = promote(x.dtype(), dtype_);
  const Tensor each = family_->cancels && (x.dtype() != f64 || dtype_ != f64)
                          ? family_->log_prob(astype(f64), safe.astype(f64)).astype(result)
                          : family_->log_prob(*this, safe);
  const Tensor y = broadcast_to(each, without_last(all, event.ndim()));
  return in.defined() ? impl::inside_or_none(in, y) : y;
}

Tensor Distribution::prob(const Tensor& value, Where where) const {
  const CallerScope caller(where);
  return exp(log_prob(value, where));
}

Tensor Distribution::cdf(const Tensor& value, Where where) const {
  const CallerScope caller(where);
  wanted(*this, family_->cdf, "cdf", where);
  Tensor x = taken("cdf", *this, value, where);
  if (family_->discrete()) x = floor(x);
  Shape all = batch_shape();
  if (!broadcast_into(all, x.shape()))
    fail("cdf",
         fmt::format("the value {} does not broadcast with the batch shape {}", to_string(value.spec()),
                     to_string(batch_shape())),
         where);
  switch (family_->support) {
    case Support::positive: x = maximum(x, 0); break;
    case Support::unit: x = clip(x, 0, 1); break;
    case Support::bits:
    case Support::counts:
    case Support::classes: {
      const Tensor below = x < 0;
      const Tensor y = rill::where(isnan(x), impl::not_a_number, family_->cdf(*this, rill::where(below, 0, x)));
      return broadcast_to(rill::where(below, 0, y), all);
    }
    default: break;
  }
  return broadcast_to(family_->cdf(*this, x), all);
}

Tensor Distribution::quantile(const Tensor& p, Where where) const {
  const CallerScope caller(where);
  wanted(*this, family_->quantile, "quantile", where);
  const Tensor x = taken("quantile", *this, p, where);
  Shape all = batch_shape();
  if (!broadcast_into(all, x.shape()))
    fail("quantile",
         fmt::format("the probabilities {} do not broadcast with the batch shape {}", to_string(p.spec()),
                     to_string(batch_shape())),
         where);
  const Tensor legal = logical_and(x >= 0, x <= 1);
  const Tensor y = family_->quantile(*this, rill::where(legal, x, 0.5));
  return broadcast_to(rill::where(legal, y, impl::not_a_number), all);
}

Tensor Distribution::entropy(Where where) const {
  const CallerScope caller(where);
  const auto entropy = wanted(*this, family_->entropy, "entropy", where);
  const Tensor y = family_->cancels && dtype_ != f64 ? entropy(astype(f64)).astype(dtype_) : entropy(*this);
  return broadcast_to(y, batch_shape());
}
Tensor Distribution::mean(Where where) const {
  const CallerScope caller(where);
  return broadcast_to(wanted(*this, family_->mean, "mean", where)(*this), joined(batch_shape(), event_shape()));
}
Tensor Distribution::variance(Where where) const {
  const CallerScope caller(where);
  return broadcast_to(wanted(*this, family_->variance, "variance", where)(*this), joined(batch_shape(), event_shape()));
}
Tensor Distribution::stddev(Where where) const {
  const CallerScope caller(where);
  return sqrt(variance(where));
}
Tensor Distribution::mode(Where where) const {
  const CallerScope caller(where);
  return broadcast_to(wanted(*this, family_->mode, "mode", where)(*this), joined(batch_shape(), event_shape()));
}

const std::vector<const Family*>& families() {
  using namespace impl;
  static const std::vector<const Family*> all = {&normal,
                                                 &log_normal,
                                                 &uniform,
                                                 &laplace,
                                                 &cauchy,
                                                 &student_t,
                                                 &logistic,
                                                 &gumbel,
                                                 &von_mises,
                                                 &half_normal,
                                                 &half_cauchy,
                                                 &exponential,
                                                 &gamma,
                                                 &inverse_gamma,
                                                 &chi2,
                                                 &weibull,
                                                 &pareto,
                                                 &beta,
                                                 &bernoulli,
                                                 &binomial,
                                                 &geometric,
                                                 &negative_binomial,
                                                 &poisson,
                                                 &categorical,
                                                 &one_hot_categorical,
                                                 &multinomial,
                                                 &dirichlet,
                                                 &multivariate_normal,
                                                 &independent,
                                                 &mixture,
                                                 &transformed};
  return all;
}

// --- What families share ---------------------------------------------------------------------------------------------

namespace impl {

Tensor number(D d, double x) { return full({}, x, {.dtype = d.dtype()}); }

Tensor log_success(D d, size_t i) { return d.from_logits() ? log_sigmoid(d.at(i)) : log(d.at(i)); }
Tensor log_failure(D d, size_t i) { return d.from_logits() ? log_sigmoid(-d.at(i)) : log1p(-d.at(i)); }
Tensor success(D d, size_t i) { return d.from_logits() ? sigmoid(d.at(i)) : d.at(i); }
Tensor log_shares(D d, size_t i) { return d.from_logits() ? log_softmax(d.at(i), -1) : log(shares(d, i)); }
Tensor shares(D d, size_t i) { return d.from_logits() ? softmax(d.at(i), -1) : d.at(i) / sum(d.at(i), -1, true); }

Tensor inside_or_none(const Tensor& inside, const Tensor& x) { return rill::where(inside, x, -infinity); }

random::RandomOptions drawn(D d, const SampleOptions& o) { return {.dtype = d.dtype(), .key = o.key}; }
SampleOptions part_of(const SampleOptions& o, int64_t i) {
  return {.key = o.key ? std::optional(o.key->fold_in(i)) : std::nullopt};
}

Tensor search(D d, const Tensor& probability, Scale scale, double low, double high) {
  const auto value = [scale](const Tensor& u) {
    switch (scale) {
      case Scale::exp: return exp(u);
      case Scale::sigmoid: return sigmoid(u);
      case Scale::sinh: return sinh(u);
      default: return u;
    }
  };
  const Distribution wide = d.astype(f64);
  const Shape all = broadcast_shapes(d.batch_shape(), probability.shape());
  const Tensor p = broadcast_to(probability.astype(f64), all), fixed = stop_gradient(p);
  const auto cdf_of = [&](const Tensor& x) { return wide.record().cdf(wide, x); };
  const auto [step, below, above] =
      while_loop([](const Tensor& i, const Tensor&, const Tensor&) { return i < 64; },
                 [&](const Tensor& i, const Tensor& a, const Tensor& b) {
                   const Tensor middle = (a + b) * 0.5;
                   const Tensor up = stop_gradient(cdf_of(value(middle))) < fixed;
                   return std::tuple(i + 1, rill::where(up, middle, a), rill::where(up, b, middle));
                 },
                 zeros({}, {.dtype = i64}), full(all, low, {.dtype = f64}), full(all, high, {.dtype = f64}));
  const Tensor x = stop_gradient(value(above));
  // By the implicit function theorem dx = (dp - dF) / density; the numbers themselves are x's.
  const Tensor density = stop_gradient(exp(broadcast_to(wide.record().log_prob(wide, x), all)));
  const Tensor good = logical_and(density > 1e-300, isfinite(density));  // of less the slope is infinite
  const Tensor slope = rill::where(good, (p - cdf_of(x)) / rill::where(good, density, 1), 0);
  const Tensor found = x + (slope - stop_gradient(slope));
  return found.astype(d.dtype());
}

Tensor search_count(D d, const Tensor& probability, const Tensor& top) {
  const Distribution wide = d.astype(f64);
  const Shape all = broadcast_shapes(d.batch_shape(), probability.shape());
  const Tensor p = broadcast_to(stop_gradient(probability.astype(f64)), all), open = p < 1;
  const auto short_of = [&](const Tensor& k) {
    return logical_and(open, stop_gradient(wide.record().cdf(wide, k)) < p);
  };
  const Tensor most =
      while_loop([&](const Tensor& k) { return any(logical_and(short_of(k), k < 0x1p62)); },
                 [&](const Tensor& k) { return rill::where(short_of(k), 2 * k + 1, k); }, zeros(all, {.dtype = f64}));
  const auto [less_than, enough] = while_loop(
      [](const Tensor& a, const Tensor& b) { return any(b - a > 1); },
      [&](const Tensor& a, const Tensor& b) {
        const Tensor middle = floor((a + b) * 0.5);
        const Tensor up = logical_and(short_of(middle), b - a > 1);
        return std::tuple(rill::where(up, middle, a), rill::where(logical_and(b - a > 1, logical_not(up)), middle, b));
      },
      full(all, -1, {.dtype = f64}), most);
  return rill::where(open, enough, top.astype(f64)).astype(d.dtype());
}

}  // namespace impl

}  // namespace rill::distributions
