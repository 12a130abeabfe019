// Distributions composed of others, and kl_divergence() of any two.
#include <fmt/format.h>

#include "rill/nn/distributions/family.h"
#include "rill/ops/option_checks.h"

namespace rill::distributions {

namespace impl {

namespace {

// --- Independent -----------------------------------------------------------------------------------------------------

// The sum over the folded axes, which are the last ones of the base's results.
Tensor folded_sum(D d, const Tensor& x) {
  Axes axes;
  for (int64_t i = 1; i <= d.folded(); ++i) axes.push_back(-i);
  return axes.empty() ? x : sum(x, axes);
}
Tensor sample_of_base(D d, const Shape& s, const SampleOptions& o) {
  Shape leading = s;
  for (size_t i = d.batch_shape().size(); i > 0; --i) leading.pop_back();
  return d.base().sample(leading, o);
}

// --- Mixture ---------------------------------------------------------------------------------------------------------

// [...] with an axis for components, before the axes of an event.
Tensor beside_components(D d, const Tensor& x) { return expand_dims(x, -1 - int64_t(d.base().event_shape().size())); }
// Component weights with axes for those of an event.
Tensor over_events(D d, Tensor weights) {
  for (size_t i = 0; i < d.base().event_shape().size(); ++i) weights = expand_dims(weights, -1);
  return weights;
}
Tensor component_sum(D d, const Tensor& x) { return sum(x, -1 - int64_t(d.base().event_shape().size())); }
Tensor mixture_log_prob(D d, const Tensor& x) {
  return logsumexp(d.base().log_prob(beside_components(d, x)) + log_shares(d, 0), -1);
}
Tensor mixture_sample(D d, const Shape& s, const SampleOptions& o) {
  Shape leading = s;
  for (size_t i = d.batch_shape().size(); i > 0; --i) leading.pop_back();
  const Tensor all = stop_gradient(d.base().sample(leading, part_of(o, 0)));
  const Shape rows = [&] {
    Shape r = s;
    r.push_back(Dim(d.base().batch_shape().back()));
    return r;
  }();
  const Tensor logits = stop_gradient(log_shares(d, 0));
  Shape batch = d.batch_shape();
  batch.push_back(rows.back());
  const Tensor which = random::categorical(broadcast_to(logits, batch), leading, {.key = part_of(o, 1).key});
  const Tensor chosen = over_events(d, equal(expand_dims(which, -1), iota({rows.back()})));
  return component_sum(d, rill::where(chosen, all, 0).astype(all.dtype()));
}
Tensor mixture_mean(D d) { return component_sum(d, over_events(d, shares(d, 0)) * d.base().mean()); }
// The mean of the variances and the variance of the means.
Tensor mixture_variance(D d) {
  const Tensor w = over_events(d, shares(d, 0)), apart = d.base().mean() - beside_components(d, mixture_mean(d));
  return component_sum(d, w * d.base().variance()) + component_sum(d, w * square(apart));
}

// --- Transformed -----------------------------------------------------------------------------------------------------

// The range of a transform's values.
std::pair<double, double> range_of(const Transform& t) {
  if (t.name() == "affine") return {-infinity, infinity};
  if (t.name() == "tanh") return {-1, 1};
  return {0, t.name() == "sigmoid" ? 1 : infinity};
}
Tensor transformed_log_prob(D d, const Tensor& y) {
  Tensor x = y, slopes, beyond = full({}, false);
  for (size_t i = d.transforms().size(); i-- > 0;) {
    const auto [low, high] = range_of(d.transforms()[i]);
    beyond = logical_or(beyond, logical_or(x<low, x> high));
    x = d.transforms()[i].inverse(x);
    const Tensor slope = d.transforms()[i].log_slope(x);
    slopes = slopes.defined() ? slopes + slope : slope;
  }
  const Tensor density = d.base().log_prob(x);
  if (!slopes.defined()) return density;
  Axes axes;
  for (size_t i = 1; i <= d.event_shape().size(); ++i) axes.push_back(-int64_t(i));
  const Tensor all = broadcast_to(slopes, broadcast_shapes(slopes.shape(), x.shape()));
  const Tensor result = density - (axes.empty() ? all : sum(all, axes));
  // At the ends of the transforms' ranges, their inverses are infinite.
  const Tensor inside = logical_and(logical_not(beyond), logical_or(isnan(y), isfinite(x)));
  return inside_or_none(axes.empty() ? inside : rill::all(inside, axes), result);
}
Tensor transformed_sample(D d, const Shape& s, const SampleOptions& o) {
  Tensor x = sample_of_base(d, s, o);
  for (const Transform& t : d.transforms()) x = t(x);
  return x;
}
Tensor all_ascend(D d) {
  Tensor up = full({}, true);
  for (const Transform& t : d.transforms()) up = equal(up, t.ascends());
  return up;
}
Tensor transformed_cdf(D d, const Tensor& y) {
  Tensor x = y;
  for (size_t i = d.transforms().size(); i-- > 0;) {
    const auto [low, high] = range_of(d.transforms()[i]);
    x = d.transforms()[i].inverse(clip(x, low, high));
  }
  const Tensor p = d.base().cdf(x);
  return rill::where(all_ascend(d), p, 1 - p);
}
Tensor transformed_quantile(D d, const Tensor& p) {
  Tensor x = d.base().quantile(rill::where(all_ascend(d), p, 1 - p));
  for (const Transform& t : d.transforms()) x = t(x);
  return x;
}
bool same_functions(D p, D q) {
  if (p.transforms().size() != q.transforms().size()) return false;
  for (size_t i = 0; i < p.transforms().size(); ++i)
    if (p.transforms()[i].has_parameters() || !p.transforms()[i].same_function(q.transforms()[i])) return false;
  return true;
}

// --- Of two families -------------------------------------------------------------------------------------------------

bool is_gamma(D d) { return &d.record() == &gamma || &d.record() == &exponential || &d.record() == &chi2; }
Gamma gamma_of(D d) {
  if (&d.record() == &exponential) return Gamma(number(d, 1), d.at(0));
  if (&d.record() == &chi2) return Gamma(0.5 * d.at(0), number(d, 0.5));
  return Gamma(d.at(0), d.at(1));
}
// Whether draws are counts or classes, or computed from those.
bool is_discrete(D d) {
  const Family& f = d.record();
  if (&f == &independent || &f == &mixture || &f == &transformed) return is_discrete(d.base());
  return f.discrete() || &f == &one_hot_categorical || &f == &multinomial;
}
bool has_moments(D d) {
  const Family& f = d.record();
  return f.event_rank == 0 && !is_discrete(d) && f.entropy && f.mean && f.variance && &f != &von_mises;
}
// Minus the entropy of p, and the mean under p of -log q, which only needs p's mean and variance.
Tensor kl_to_normal(D p, D q) {
  const Tensor variance = square(q.at(1));
  return -p.entropy() + 0.5 * log_2_pi + log(q.at(1)) + (p.variance() + square(p.mean() - q.at(0))) / (2 * variance);
}

}  // namespace

const Family independent = {
    .name = "Independent",
    .support = Support::vectors,
    .log_prob = [](D d, const Tensor& x) { return folded_sum(d, d.base().log_prob(x)); },
    .sample = sample_of_base,
    .entropy = [](D d) { return folded_sum(d, d.base().entropy()); },
    .mean = [](D d) { return d.base().mean(); },
    .variance = [](D d) { return d.base().variance(); },
    .mode = [](D d) { return d.base().mode(); },
};
const Family mixture = {
    .name = "Mixture",
    .parameters = {{"probs", Constraint::probabilities, 1}},
    .reparameterised = false,
    .log_prob = mixture_log_prob,
    .sample = mixture_sample,
    .cdf = [](D d, const Tensor& x) { return sum(shares(d, 0) * d.base().cdf(expand_dims(x, -1)), -1); },
    .mean = mixture_mean,
    .variance = mixture_variance,
};
const Family transformed = {
    .name = "Transformed",
    .log_prob = transformed_log_prob,
    .sample = transformed_sample,
    .cdf = transformed_cdf,
    .quantile = transformed_quantile,
};

}  // namespace impl

Tensor kl_divergence(const Distribution& p, const Distribution& q, Where where) {
  using namespace impl;
  const CallerScope caller(where);
  const Family &a = p.record(), &b = q.record();
  if (p.event_shape() != q.event_shape())
    fail("kl_divergence",
         fmt::format("the events are {} of a {} and {} of a {}", to_string(p.event_shape()), p.family(),
                     to_string(q.event_shape()), q.family()),
         where);
  if (&a == &categorical && &b == &categorical && p.at(0).dim(-1) != q.at(0).dim(-1))
    fail("kl_divergence", fmt::format("{} classes and {}", p.at(0).dim(-1), q.at(0).dim(-1)), where);
  const Shape batch = broadcast_shapes(p.batch_shape(), q.batch_shape(), where);
  const DType result = promote(p.dtype(), q.dtype());
  if (&a == &b && a.kl && a.cancels && (p.dtype() != f64 || q.dtype() != f64))
    return broadcast_to(a.kl(p.astype(f64), q.astype(f64)).astype(result), batch);
  if (&a == &b && a.kl) return broadcast_to(a.kl(p, q), batch);
  if (&a == &independent && &b == &independent && p.folded() == q.folded())
    return folded_sum(p, kl_divergence(p.base(), q.base(), where));
  if (&a == &transformed && &b == &transformed && same_functions(p, q)) return kl_divergence(p.base(), q.base(), where);
  if (is_gamma(p) && is_gamma(q)) return broadcast_to(gamma.kl(gamma_of(p), gamma_of(q)), batch);
  if (&b == &normal && has_moments(p)) return broadcast_to(kl_to_normal(p, q), batch);
  fail("kl_divergence",
       fmt::format("there is no formula for a {} and a {}: see docs/distributions.md", p.family(), q.family()), where);
}

// --- Transforms ------------------------------------------------------------------------------------------------------

Transform Transform::affine(const Tensor& loc, const Tensor& scale) { return Transform(Kind::affine, {loc, scale}); }
Transform Transform::power(const Tensor& power) { return Transform(Kind::power, {power}); }
Transform Transform::exp() { return Transform(Kind::exp); }
Transform Transform::sigmoid() { return Transform(Kind::sigmoid); }
Transform Transform::tanh() { return Transform(Kind::tanh); }
Transform Transform::softplus() { return Transform(Kind::softplus); }

std::string_view Transform::name() const {
  constexpr std::string_view names[] = {"affine", "power", "exp", "sigmoid", "tanh", "softplus"};
  return names[size_t(kind_)];
}

Transform Transform::astype(DType dtype) const {
  Transform t = *this;
  for (Tensor& p : t.parameters_) p = p.astype(dtype);
  return t;
}

namespace {
// Parameters shaped and converted for x: C++ numbers and integers in its dtype, for their logarithms would be f32.
std::pair<Tensor, Tensor> beside(const std::vector<Tensor>& parameters, const Tensor& x) {
  const DType d = is_floating(x.dtype()) ? x.dtype() : f32;
  const auto taken = [&](size_t i) {
    if (i >= parameters.size()) return Tensor();
    const Tensor& p = parameters[i];
    return is_floating(p.dtype()) && !p.spec().weak ? p : p.astype(d);
  };
  return {taken(0), taken(1)};
}
}  // namespace

Tensor Transform::operator()(const Tensor& x) const {
  const auto [a, b] = beside(parameters_, x);
  switch (kind_) {
    case Kind::affine: return a + b * x;
    case Kind::power: return rill::power(x, a);
    case Kind::exp: return rill::exp(x);
    case Kind::sigmoid: return rill::sigmoid(x);
    case Kind::tanh: return rill::tanh(x);
    case Kind::softplus: return rill::softplus(x);
  }
  return {};
}

Tensor Transform::inverse(const Tensor& y) const {
  const auto [a, b] = beside(parameters_, y);
  switch (kind_) {
    case Kind::affine: return (y - a) / b;
    case Kind::power: return rill::power(y, 1 / a);
    case Kind::exp: return log(y);
    case Kind::sigmoid: return log(y) - log1p(-y);
    case Kind::tanh: return atanh(y);
    case Kind::softplus: return y + log(-expm1(-y));
  }
  return {};
}

Tensor Transform::log_slope(const Tensor& x) const {
  const auto [a, b] = beside(parameters_, x);
  switch (kind_) {
    case Kind::affine: return log(abs(b));
    case Kind::power: return log(abs(a)) + (a - 1) * log(x);
    case Kind::exp: return x;
    case Kind::sigmoid: return log_sigmoid(x) + log_sigmoid(-x);
    case Kind::tanh: return 2 * (std::numbers::ln2 - x - rill::softplus(-2 * x));  // log(1 - tanh(x)^2)
    case Kind::softplus: return log_sigmoid(x);
  }
  return {};
}

Tensor Transform::ascends() const {
  if (!has_parameters()) return full({}, true);
  return parameters_.back() > 0;
}

// --- Constructors ----------------------------------------------------------------------------------------------------

Independent::Independent(const Distribution& base, int64_t axes, Where where)
    : Distribution(impl::independent, {base}, {}, axes) {
  require_option(axes >= 0 && axes <= int64_t(base.batch_shape().size()), "Independent", "axes", axes,
                 fmt::format("from 0 to {}, the axes of the batch", base.batch_shape().size()), where);
}

Mixture::Mixture(const Categorical& weights, const Distribution& components, Where where)
    : Distribution(impl::mixture, {components}, {}, 0) {
  const Shape batch = components.batch_shape();
  if (batch.empty()) fail("Mixture", "the components have no batch, whose last axis they lie along", where);
  hold(weights);
  const Dim count = Dim(weights.at(0).shape().back());
  Shape all = batch;
  if (count != batch.back() || !broadcast_into(all, weights.at(0).shape()) || all != batch)
    fail("Mixture",
         fmt::format("the weights are {}, and the components' batch is {}", to_string(weights.at(0).spec()),
                     to_string(batch)),
         where);
}

Transformed::Transformed(const Distribution& base, std::vector<Transform> transforms, Where where)
    : Distribution(impl::transformed, {base}, std::move(transforms), 0) {
  const CallerScope caller(where);
  if (impl::is_discrete(base))
    fail("Transformed", fmt::format("a {} is discrete and has no density", base.family()), where);
  Shape whole = batch_shape();
  for (const Dim n : event_shape()) whole.push_back(n);
  Tensor like = zeros(whole, {.dtype = dtype()});
  for (const Transform& t : this->transforms())
    if (t.has_parameters()) like = t(like);
  if (like.shape() != whole)
    fail("Transformed",
         fmt::format("its parameters are for {}, and the base's batch and event are {}. give the base that batch",
                     to_string(like.shape()), to_string(whole)),
         where);
}

}  // namespace rill::distributions
