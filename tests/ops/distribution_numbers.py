#!/usr/bin/env python3
"""Prints distribution_numbers.h: what scipy and torch say of the distributions of rill/distributions.h, in float64.

    python3 tests/ops/distribution_numbers.py >tests/ops/distribution_numbers.h      needs scipy and torch

Densities, cumulative functions, quantiles and moments are scipy's, gradients torch's. Divergences are integrals, or sums,
of scipy's densities; of vectors they are torch's.
"""
import warnings

import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats as st
import torch
import torch.distributions as td

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.float64)
P = [0.001, 0.1, 0.5, 0.75, 0.999]

# name: (parameters of three distributions, the same of three others, scipy's, torch's, values)
LINE = [-3.0, -0.4, 0.0, 0.9, 2.5]
HALF = [0.01, 0.4, 1.1, 2.0, 7.5]
LOC = ([0.0, -1.0, 0.5], [1.0, 0.3, 2.5])
OTHER = ([0.4, -0.5, 0.5], [0.8, 0.6, 2.0])
BOTH = ([0.5, 2.0, 7.0], [1.0, 0.5, 3.0])
THEIRS = ([0.9, 1.5, 4.0], [1.2, 0.5, 2.0])
CONTINUOUS = {
    "Normal": (LOC, OTHER, lambda a, b: st.norm(a, b), td.Normal, LINE),
    "LogNormal": (LOC, OTHER, lambda a, b: st.lognorm(b, scale=np.exp(a)), td.LogNormal, HALF),
    "Uniform": (([0.0, -1.0, 0.5], [1.0, 0.3, 2.5]), ([-0.5, -1.0, 0.0], [1.0, 0.5, 3.0]),
                lambda a, b: st.uniform(a, b - a), td.Uniform, [0.6, -0.2, 0.29, 2.0, -4.0]),
    "Laplace": (LOC, OTHER, lambda a, b: st.laplace(a, b), td.Laplace, LINE),
    "Cauchy": (LOC, OTHER, lambda a, b: st.cauchy(a, b), td.Cauchy, LINE),
    "StudentT": (([0.7, 3.0, 30.0], *LOC), None, lambda n, a, b: st.t(n, a, b), td.StudentT, LINE),
    "Logistic": (LOC, None, lambda a, b: st.logistic(a, b), None, LINE),
    "Gumbel": (LOC, OTHER, lambda a, b: st.gumbel_r(a, b), td.Gumbel, LINE),
    "HalfNormal": ((LOC[1],), (OTHER[1],), lambda b: st.halfnorm(scale=b), td.HalfNormal, HALF),
    "HalfCauchy": ((LOC[1],), (OTHER[1],), lambda b: st.halfcauchy(scale=b), td.HalfCauchy, HALF),
    "Exponential": ((LOC[1],), (OTHER[1],), lambda b: st.expon(scale=1 / b), td.Exponential, HALF),
    "Gamma": (BOTH, THEIRS, lambda a, b: st.gamma(a, scale=1 / b), td.Gamma, HALF),
    "InverseGamma": (BOTH, THEIRS, lambda a, b: st.invgamma(a, scale=b), td.InverseGamma, HALF),
    "Chi2": ((BOTH[0],), (THEIRS[0],), lambda n: st.chi2(n), td.Chi2, HALF),
    "Weibull": (BOTH[::-1], THEIRS[::-1], lambda s, k: st.weibull_min(k, scale=s), td.Weibull, HALF),
    "Pareto": (([0.3, 1.0, 2.0], [0.8, 1.5, 3.5]), ([0.2, 1.0, 1.5], [1.0, 2.5, 2.0]),
               lambda s, a: st.pareto(a, scale=s), td.Pareto, [2.1, 2.5, 3.0, 8.0, 90.0]),
    "Beta": (BOTH, THEIRS, lambda a, b: st.beta(a, b), td.Beta, [0.001, 0.2, 0.5, 0.8, 0.97]),
    "VonMises": (([0.0, -1.0, 2.5], [0.5, 3.0, 80.0]), ([0.4, -0.5, 2.5], [1.0, 2.0, 60.0]),
                 lambda a, k: st.vonmises(k, a), td.VonMises, [-3.0, -1.1, 0.0, 2.2, 2.6]),
}
# The last parameter is a probability; binary ones are given to torch as such.
COUNTS = {
    "Bernoulli": (([0.1, 0.5, 0.7],), ([0.2, 0.4, 0.9],), lambda p: st.bernoulli(p), td.Bernoulli, [0, 1]),
    "Binomial": (([1.0, 10.0, 60.0], [0.1, 0.5, 0.7]), ([1.0, 10.0, 60.0], [0.2, 0.4, 0.9]),
                 lambda n, p: st.binom(n, p), lambda n, p: td.Binomial(n.detach(), p), [0, 1]),
    "Geometric": (([0.1, 0.5, 0.7],), ([0.2, 0.4, 0.9],), lambda p: st.geom(p, loc=-1), td.Geometric, [0, 1, 3, 10]),
    "NegativeBinomial": (([1.0, 2.5, 60.0], [0.1, 0.5, 0.7]), ([1.0, 2.5, 60.0], [0.2, 0.4, 0.6]),
                         lambda r, p: st.nbinom(r, 1 - p), td.NegativeBinomial, [0, 1, 3, 10]),
    "Poisson": (([0.1, 2.5, 400.0],), ([0.3, 1.5, 390.0],), lambda r: st.poisson(r), td.Poisson, [0, 1, 3, 10, 390]),
}


def each(f, parameters):
    return [f(*(p[i] for p in parameters)) for i in range(len(parameters[0]))]


def torch_gradients(make, parameters, x):
    """Of the sum of log_prob over x, [values, distributions]."""
    if make is None:
        return []
    p = [torch.tensor(v, requires_grad=True) for v in parameters]
    d = make(*p)
    d._validate_args = False
    y = d.log_prob(torch.tensor(x, dtype=torch.float64)[:, None])
    y = torch.where(torch.isfinite(y), y, 0)
    g = torch.autograd.grad(y.sum(), p, allow_unused=True)
    return [[] if v is None else v.numpy() for v in g]


def mode_of(make, parameters):
    if make is None:
        return []
    return make(*map(torch.tensor, parameters)).mode.numpy()


def kl_integral(name, p, q):
    """Over y, where x is exp(y) or 1 / (1 + exp(-y)) of bounded x: there both tails end like exponentials."""
    low, high = (-np.pi, np.pi) if name == "VonMises" else p.support()
    if not np.isfinite(q.logpdf(p.ppf(0.3))):
        return np.inf
    value, slope, place = lambda y: y, lambda y: 1.0, lambda x: x
    if name == "Beta":
        value, place = scipy.special.expit, scipy.special.logit
        slope = lambda y: value(y) * value(-y)
    elif low == 0 and high == np.inf:
        value, slope, place = np.exp, np.exp, np.log

    def term(y):
        x = value(y)
        a = p.logpdf(x)
        return np.exp(a) * (a - q.logpdf(x)) * slope(y) if np.isfinite(a) else 0.0

    tails = [1e-16, 1e-12, 1e-9, 1e-6, 1e-4, 0.02, 0.2, 0.5]
    cuts = [place(p.ppf(t)) for t in tails] + [place(p.isf(t)) for t in tails[-2::-1]]
    if name == "VonMises":
        cuts = list(np.linspace(low, high, 41))
    if name in ("Uniform", "Pareto"):
        cuts[0] = low
    if name == "Uniform":
        cuts[-1] = high
    return sum(scipy.integrate.quad(term, a, b, limit=400, epsabs=1e-14, epsrel=1e-13)[0] for a, b in zip(cuts, cuts[1:]) if b > a)


def kl_sum(p, q, most):
    k = np.arange(most)
    a = p.logpmf(k)
    with np.errstate(invalid="ignore"):
        t = np.exp(a) * (a - q.logpmf(k))
    return t[np.isfinite(a)].sum()


def case(name, parameters, others, x, **results):
    fields = dict(parameters=parameters, others=others or [], x=x, p=P, log_prob=[], cdf=[], quantile=[], entropy=[], mean=[],
                  variance=[], mode=[], gradients=[], kl=[])
    fields.update(results)
    return name, fields


def continuous(name):
    mine, theirs, scipys, torchs, x = CONTINUOUS[name]
    d = each(scipys, mine)
    turn = name == "VonMises"
    cdf = [[s.cdf(v) for s in d] for v in x]
    if turn:  # scipy's begins at loc - pi
        cdf = [[scipy.integrate.quad(s.pdf, -np.pi, v, points=[m], epsabs=1e-14, epsrel=1e-13)[0] for s, m in zip(d, mine[0])] for v in x]
    variance = [s.var() for s in d]
    if name in ("Cauchy", "HalfCauchy"):
        variance = [np.inf] * 3
    mean = [np.inf if name == "HalfCauchy" else s.mean() for s in d]
    if name == "StudentT":  # of one degree of freedom or fewer there is none; scipy says infinity
        mean = [np.nan, *mean[1:]]
    if turn:
        mean, variance = mine[0], [1 - scipy.special.i1e(k) / scipy.special.i0e(k) for k in mine[1]]
    modes = [] if name in ("Uniform", "Beta") else mine[0] if name == "Logistic" else mode_of(torchs, mine)
    if name == "Weibull":  # torch takes a power of a negative number
        modes = [0, *modes[1:]]
    if name == "Beta":
        modes = [np.nan, np.nan, 6 / 8]
    gradients = torch_gradients(torchs, mine, x)
    if turn:  # torch's has six digits
        gradients[1] = [sum(np.cos(v - m) for v in x) - len(x) * scipy.special.i1e(k) / scipy.special.i0e(k) for m, k in zip(*mine)]
    kl = []
    if theirs:
        pairs = zip(d, each(scipys, theirs))
        if name == "Beta":  # from the end where density is greatest, so that it is at 0, around which doubles are dense
            pairs = [(p, q) if p.args[0] < p.args[1] else (st.beta(*p.args[::-1]), st.beta(*q.args[::-1])) for p, q in pairs]
        kl = [kl_integral(name, p, q) for p, q in pairs]
    return case(name, mine, theirs, x, log_prob=[[s.logpdf(v) for s in d] for v in x], cdf=cdf,
                quantile=[] if turn else [[s.ppf(p) for s in d] for p in P], entropy=[s.entropy() for s in d], mean=mean,
                variance=variance, mode=modes, gradients=gradients, kl=kl)


def counts(name):
    mine, theirs, scipys, torchs, x = COUNTS[name]
    d = each(scipys, mine)
    entropy = [s.entropy() for s in d] if name in ("Bernoulli", "Geometric") else []
    kl = [kl_sum(p, q, 2000) for p, q in zip(d, each(scipys, theirs))]
    return case(name, mine, theirs, x, log_prob=[[s.logpmf(v) for s in d] for v in x],
                cdf=[[s.cdf(v) for s in d] for v in x], quantile=[[s.ppf(p) for s in d] for p in P], entropy=entropy,
                mean=[s.mean() for s in d], variance=[s.var() for s in d],
                mode=[0, 0, 1] if name == "Bernoulli" else mode_of(torchs, mine),
                gradients=torch_gradients(torchs, mine, x), kl=kl)


SHARES = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
SHARES_2 = np.array([[0.3, 0.3, 0.4], [0.25, 0.5, 0.25]])
ALPHA = np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 1.5]])
ALPHA_2 = np.array([[1.5, 1.0, 0.7], [2.0, 4.0, 2.5]])
MEANS, MEANS_2 = np.array([[0.5, -1.0], [0.0, 2.0]]), np.array([[0.0, -0.5], [1.0, 1.0]])
TRIL = np.array([[[1.0, 0.0], [0.5, 0.8]], [[2.0, 0.0], [-1.0, 0.3]]])
TRIL_2 = np.array([[[0.9, 0.0], [-0.2, 1.1]], [[1.0, 0.0], [0.4, 0.7]]])


def vectors(name, mine, theirs, make, x, **more):
    """Of two distributions; x: [values, 2, event...]."""
    p = [torch.tensor(v, requires_grad=True) for v in mine]
    d, e = make(*p), make(*map(torch.tensor, theirs))
    y = d.log_prob(torch.tensor(x))
    gradients = [v.numpy() for v in torch.autograd.grad(y.sum(), p)]
    value = lambda f: f().detach().numpy()
    fields = dict(log_prob=y.detach().numpy(), gradients=gradients, kl=value(lambda: td.kl_divergence(d, e)))
    if name != "Categorical":
        fields.update(mean=d.mean.detach().numpy(), variance=d.variance.detach().numpy())
    if name != "Multinomial":
        fields["entropy"] = value(d.entropy)
    fields.update(more)
    return case(name, mine, theirs, x, **fields)


def classes():
    d = [st.rv_discrete(values=(range(3), row)) for row in SHARES]
    x = np.array([[0, 1], [2, 2], [1, 0]])
    return vectors("Categorical", [SHARES], [SHARES_2], td.Categorical, x,
                   cdf=[[s.cdf(v) for s, v in zip(d, row)] for row in x], quantile=[[s.ppf(p) for s in d] for p in P],
                   mean=[s.mean() for s in d], variance=[s.var() for s in d], mode=[1, 2])


def all_cases():
    yield from map(continuous, CONTINUOUS)
    yield from map(counts, COUNTS)
    yield classes()
    hot = np.eye(3)[np.array([[0, 1], [2, 2], [1, 0]])]
    yield vectors("OneHotCategorical", [SHARES], [SHARES_2], td.OneHotCategorical, hot, mode=np.eye(3)[[1, 2]])
    drawn = np.array([[[1.0, 2, 3], [0, 0, 6]], [[6, 0, 0], [2, 2, 2]]])
    d = [st.multinomial(6, row) for row in SHARES]
    share_kl = np.array([6 * np.sum(a * np.log(a / b)) for a, b in zip(SHARES, SHARES_2)])
    p = torch.tensor(SHARES, requires_grad=True)
    td.Multinomial(6, p).log_prob(torch.tensor(drawn)).sum().backward()
    yield case("Multinomial", [[6.0, 6.0], SHARES], [[6.0, 6.0], SHARES_2], drawn,
               log_prob=[[s.logpmf(v) for s, v in zip(d, row)] for row in drawn], mean=6 * SHARES,
               variance=6 * SHARES * (1 - SHARES), kl=share_kl, gradients=[[], p.grad.numpy()])
    points = np.array([[[0.2, 0.3, 0.5], [0.01, 0.09, 0.9]], [[0.6, 0.3, 0.1], [0.3, 0.3, 0.4]]])
    yield vectors("Dirichlet", [ALPHA], [ALPHA_2], td.Dirichlet, points, mode=[[np.nan] * 3, [2 / 5.5, 3 / 5.5, 0.5 / 5.5]])
    yield vectors("MultivariateNormal", [MEANS, TRIL], [MEANS_2, TRIL_2], lambda m, l: td.MultivariateNormal(m, scale_tril=l),
                  np.array([[[0.0, 0.0], [1.0, 2.0]], [[-1.0, 0.5], [3.0, 0.5]]]), mode=MEANS)


def numbers(values):
    def one(v):
        v = float(v)
        return "no_number" if np.isnan(v) else ("infinite" if v > 0 else "-infinite") if np.isinf(v) else repr(v)

    return "{" + ", ".join(one(v) for v in np.asarray(values, dtype=float).ravel()) + "}"


def lists(values):
    return "{" + ", ".join(numbers(v) for v in values) + "}"


print("""// Printed by distribution_numbers.py from scipy and torch: distributions in float64.
// clang-format off
#pragma once
#include <limits>
#include <map>
#include <string>
#include <vector>

struct DistributionNumbers {
  std::vector<std::vector<double>> parameters, others;  // of the distributions, and of those of a divergence
  std::vector<double> x, p;                             // values and probabilities, each for all distributions
  std::vector<double> log_prob, cdf, quantile;          // [values, distributions]
  std::vector<double> entropy, mean, variance, mode;    // empty where nobody says
  std::vector<std::vector<double>> gradients;           // of the sum of all finite log_prob, by each parameter
  std::vector<double> kl;
};
namespace distribution_numbers_detail {
inline constexpr double infinite = std::numeric_limits<double>::infinity(), no_number = std::numeric_limits<double>::quiet_NaN();
}
inline const std::map<std::string, DistributionNumbers>& distribution_numbers() {
  using namespace distribution_numbers_detail;
  static const std::map<std::string, DistributionNumbers> all = {""")
for name, f in all_cases():
    singles = ",\n     ".join(numbers(f[k]) for k in ("x", "p", "log_prob", "cdf", "quantile", "entropy", "mean", "variance", "mode"))
    print(f'    {{"{name}",\n     {{{lists(f["parameters"])}, {lists(f["others"])},\n     {singles},\n     {lists(f["gradients"])},\n     {numbers(f["kl"])}}}}},')
print("""  };
  return all;
}""")
