// Distributions of vectors; and VonMises, of angles.
#include <array>
#include <cmath>

#include "rill/nn/distributions/family.h"
#include "rill/ops/distributions.h"
#include "rill/ops/linear_algebra.h"
#include "rill/ops/numeric.h"
#include "rill/ops/special.h"
#include "rill/trace/control_flow.h"

namespace rill::distributions {

namespace impl {

namespace {

// --- Dirichlet -------------------------------------------------------------------------------------------------------

// log of the multivariate Beta function.
Tensor log_beta(const Tensor& a) { return sum(lgamma(a), -1) - lgamma(sum(a, -1)); }
Tensor class_total(D d) { return sum(d.at(0), -1, true); }
Tensor classes_of(D d) { return Tensor(Dim(d.at(0).shape().back())).astype(d.dtype()); }
Tensor dirichlet_log_prob(D d, const Tensor& x) {
  const Tensor inside = logical_and(all(logical_not(x < 0), -1), abs(sum(x, -1) - 1) < 1e-3);
  return inside_or_none(inside, sum(xlogy(d.at(0) - 1, maximum(x, 0)), -1) - log_beta(d.at(0)));
}
Tensor dirichlet_entropy(D d) {
  const Tensor a = d.at(0), n = sum(a, -1);
  return log_beta(a) + (n - classes_of(d)) * digamma(n) - sum((a - 1) * digamma(a), -1);
}
Tensor dirichlet_variance(D d) {
  const Tensor n = class_total(d), m = d.at(0) / n;
  return m * (1 - m) / (n + 1);
}
Tensor dirichlet_mode(D d) {
  const Tensor some = all(d.at(0) > 1, -1, true), n = class_total(d) - classes_of(d);
  return rill::where(some, (d.at(0) - 1) / rill::where(some, n, 1), not_a_number);
}
Tensor dirichlet_kl(D p, D q) {
  const Tensor a = p.at(0), b = q.at(0);
  return log_beta(b) - log_beta(a) + sum((a - b) * (digamma(a) - digamma(class_total(p))), -1);
}

// --- MultivariateNormal ----------------------------------------------------------------------------------------------

Tensor factor(D d) { return tril(d.at(1)); }
// log of the determinant of the factor.
Tensor log_size(D d) { return sum(log(linalg::diagonal(d.at(1))), -1); }
Tensor solved(D d, const Tensor& x) {  // of vectors [..., k]
  return squeeze(linalg::triangular_solve(d.at(1), expand_dims(x, -1), {.lower = true}), -1);
}
Tensor dimension(D d) { return Tensor(Dim(d.at(1).shape().back())).astype(d.dtype()); }
Tensor normals_log_prob(D d, const Tensor& x) {
  return -0.5 * (sum(square(solved(d, x - d.at(0))), -1) + dimension(d) * log_2_pi) - log_size(d);
}
Tensor normals_sample(D d, const Shape& s, const SampleOptions& o) {
  Shape all = s;
  all.push_back(Dim(d.at(1).shape().back()));
  const Tensor z = random::normal(all, {.dtype = d.dtype(), .key = o.key});
  return d.at(0) + squeeze(matmul(factor(d), expand_dims(z, -1)), -1);
}
Tensor normals_kl(D p, D q) {
  Shape rows = broadcast_shapes(p.at(1).shape(), q.at(1).shape());
  const Tensor between =
      linalg::triangular_solve(broadcast_to(q.at(1), rows), broadcast_to(factor(p), rows), {.lower = true});
  const Tensor moved = solved(q, q.at(0) - p.at(0));
  return 0.5 * (sum(square(between), {-2, -1}) + sum(square(moved), -1) - dimension(p)) + log_size(q) - log_size(p);
}

// --- VonMises --------------------------------------------------------------------------------------------------------

// exp(k (cos(t) - 1)).
Tensor bump(const Tensor& k, const Tensor& t) { return exp(-2 * k * square(sin(0.5 * t))); }
Tensor turned(const Tensor& x) {  // to [-pi, pi)
  return x - 2 * pi * floor((x + pi) / (2 * pi));
}
Tensor von_mises_log_prob(D d, const Tensor& x) {
  const Tensor k = d.at(1);
  return -2 * k * square(sin(0.5 * (x - d.at(0)))) - log_2_pi - log(i0e(k));
}
// The 64 nodes and weights of Gauss and Legendre's rule on [0, 1], by Newton's iteration.
std::array<std::vector<double>, 2> legendre_rule() {
  constexpr int n = 64;
  std::array<std::vector<double>, 2> rule;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(pi * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int step = 0; step < 8; ++step) {
      double before = 1, now = x;
      for (int j = 2; j <= n; ++j) {
        const double next = ((2 * j - 1) * x * now - (j - 1) * before) / j;
        before = now, now = next;
      }
      slope = n * (x * now - before) / (x * x - 1);
      x -= now / slope;
    }
    rule[0].push_back((1 - x) / 2);
    rule[1].push_back(1 / ((1 - x * x) * slope * slope));
  }
  return rule;
}
// The integral of the density from loc to x by Gauss and Legendre's rule, up to where nothing follows that a double
// holds. (Hill 1977 has series; this is as exact for all concentrations and has gradients.)
Tensor von_mises_cdf(D d, const Tensor& x) {
  static const std::array<std::vector<double>, 2> rule = legendre_rule();
  const Tensor k = d.at(1), z = clip(x, -pi, pi) - d.at(0);
  const auto from_loc = [&](const Tensor& angle) {
    const Tensor most = minimum(9 / sqrt(k), pi), end = maximum(minimum(angle, most), -most);
    const Tensor nodes = tensor(rule[0], {.dtype = d.dtype()}), weights = tensor(rule[1], {.dtype = d.dtype()});
    const Tensor heights = bump(expand_dims(k, -1), expand_dims(end, -1) * nodes);
    return end * sum(heights * weights, -1) / (2 * pi * i0e(k));
  };
  // From -pi, which may be on either side of the interval around loc.
  const auto whole_turns = [&](const Tensor& angle) {
    const Tensor turns = floor((angle + pi) / (2 * pi));
    return turns + from_loc(angle - 2 * pi * turns);
  };
  return whole_turns(z) - whole_turns(-pi - d.at(0));
}
// Best and Fisher (1979): proposals from a wrapped Cauchy distribution, each with its own random numbers, until all are
// accepted.
Tensor von_mises_sample(D d, const Shape& s, const SampleOptions& o) {
  const random::Key key = o.key ? *o.key : random::Key(random::bits({2}, {.dtype = u64}));
  const Tensor k = broadcast_to(stop_gradient(d.at(1)).astype(f64), s);
  const Tensor tau = 1 + sqrt(1 + 4 * square(k)), rho = (tau - sqrt(2 * tau)) / (2 * k);
  const Tensor r = rill::where(k < 1e-5, 1 / k + k, (1 + square(rho)) / (2 * rho));
  Shape three = {3};
  for (Dim n : s) three.push_back(n);
  const auto [steps, angle, done] =
      while_loop([](const Tensor&, const Tensor&, const Tensor& done) { return logical_not(all(done)); },
                 [&](const Tensor& i, const Tensor& before, const Tensor& done) {
                   const Tensor u = random::uniform(three, {.dtype = f64, .key = key.fold_in(i)});
                   const Tensor z = cos(pi * u(0)), f = (1 + r * z) / (r + z), c = k * (r - f);
                   const Tensor taken = logical_or(c * (2 - c) > u(1), log(c / u(1)) + 1 - c >= 0);
                   const Tensor drawn_now = rill::where(u(2) < 0.5, -1., 1.) * acos(clip(f, -1, 1));
                   return std::tuple(i + 1, rill::where(logical_and(taken, logical_not(done)), drawn_now, before),
                                     logical_or(done, taken));
                 },
                 zeros({}, {.dtype = i64}), zeros(s, {.dtype = f64}), zeros(s, {.dtype = boolean}));
  return turned(stop_gradient(angle + d.at(0))).astype(d.dtype());
}
Tensor resultant(D d) { return i1e(d.at(1)) / i0e(d.at(1)); }  // I1(k) / I0(k)
Tensor log_i0(D d) { return log(i0e(d.at(1))) + d.at(1); }
Tensor von_mises_kl(D p, D q) {
  return log_i0(q) - log_i0(p) + resultant(p) * (p.at(1) - q.at(1) * cos(p.at(0) - q.at(0)));
}

}  // namespace

const Family dirichlet = {
    .name = "Dirichlet",
    .parameters = {{"concentration", Constraint::positive, 1}},
    .support = Support::vectors,
    .event_rank = 1,
    .cancels = true,
    .log_prob = dirichlet_log_prob,
    .sample = [](D d, const Shape& s, const SampleOptions& o) { return random::dirichlet(d.at(0), s, drawn(d, o)); },
    .entropy = dirichlet_entropy,
    .mean = [](D d) { return d.at(0) / class_total(d); },
    .variance = dirichlet_variance,
    .mode = dirichlet_mode,
    .kl = dirichlet_kl,
};
const Family multivariate_normal = {
    .name = "MultivariateNormal",
    .parameters = {{"loc", Constraint::real, 1}, {"scale_tril", Constraint::triangular, 2}},
    .support = Support::vectors,
    .event_rank = 1,
    .log_prob = normals_log_prob,
    .sample = normals_sample,
    .entropy = [](D d) { return 0.5 * (1 + log_2_pi) * dimension(d) + log_size(d); },
    .mean = [](D d) { return d.at(0); },
    .variance = [](D d) { return sum(square(factor(d)), -1); },
    .mode = [](D d) { return d.at(0); },
    .kl = normals_kl,
};
const Family von_mises = {
    .name = "VonMises",
    .parameters = {{"loc"}, {"concentration", Constraint::positive}},
    .reparameterised = false,
    .log_prob = von_mises_log_prob,
    .sample = von_mises_sample,
    .cdf = von_mises_cdf,
    .quantile = [](D d, const Tensor& p) { return search(d, p, Scale::linear, -pi, pi); },
    .entropy = [](D d) { return log_2_pi + log_i0(d) - d.at(1) * resultant(d); },
    .mean = [](D d) { return d.at(0); },
    .variance = [](D d) { return 1 - resultant(d); },
    .mode = [](D d) { return d.at(0); },
    .kl = von_mises_kl,
};

}  // namespace impl

Dirichlet::Dirichlet(const Tensor& concentration, Where where)
    : Distribution(impl::dirichlet, {concentration}, false, where) {}
MultivariateNormal::MultivariateNormal(const Tensor& loc, const Tensor& scale_tril, Where where)
    : Distribution(impl::multivariate_normal, {loc, scale_tril}, false, where) {}
VonMises::VonMises(const Tensor& loc, const Tensor& concentration, Where where)
    : Distribution(impl::von_mises, {loc, concentration}, false, where) {}

}  // namespace rill::distributions
