// Distributions with parameters that are tensors, beside those of random.h. Included by rill.h.
//
// Parameters broadcast to `shape`, and throw where they are out of their range. Continuous draws have the dtype asked
// for, else that of their parameters, f32 where those are whole or C++ numbers; they have gradients by the parameters:
// of the formula that makes them, and for gamma, beta, dirichlet, chisquare and student_t by implicit
// reparameterisation (Figurnov, Mohamed and Mnih 2018). Counts are i64 by default and have none; floating dtypes round
// them. As with all draws, the bits depend on the key alone, on any number of threads, eager or traced.
#pragma once
#include "rill/ops/random.h"

#pragma GCC visibility push(default)

namespace rill::random {

// --- Continuous ------------------------------------------------------------------------------------------------------

// Density 1 / (pi (1 + x^2)).
Tensor cauchy(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(cauchy, RandomOptions, (const Shape& shape), shape)
// Density e^-x / (1 + e^-x)^2.
Tensor logistic(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(logistic, RandomOptions, (const Shape& shape), shape)
// Density x e^(-x^2 / 2), x > 0.
Tensor rayleigh(const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(rayleigh, RandomOptions, (const Shape& shape), shape)
// Density a x^(a - 1) e^(-x^a), x > 0, for a > 0.
Tensor weibull(const Tensor& a, const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
// Density a / x^(a + 1), x >= 1, for a > 0. (numpy's pareto is one less.)
Tensor pareto(const Tensor& a, const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
// Density x^(a - 1) e^-x / Gamma(a), x > 0, for a > 0.
Tensor gamma(const Tensor& a, const Shape& shape, const RandomOptions& options = {}, Where where = Where::current());
// The logarithm of such a draw, which does not underflow where a is small.
Tensor log_gamma(const Tensor& a, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
// Density x^(a - 1) (1 - x)^(b - 1) / B(a, b) on (0, 1), for a, b > 0.
Tensor beta(const Tensor& a, const Tensor& b, const Shape& shape, const RandomOptions& options = {},
            Where where = Where::current());
// Gamma draws of the shapes alpha [..., k] > 0 divided by their sum: [shape..., k], which adds up to 1 along the last
// axis. alpha's leading axes broadcast to `shape`.
Tensor dirichlet(const Tensor& alpha, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
// The sum of the squares of df normal draws, for df > 0: 2 gamma(df / 2).
Tensor chisquare(const Tensor& df, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
// A normal draw divided by sqrt(chisquare(df) / df), for df > 0.
Tensor student_t(const Tensor& df, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
// mean + L z, cov = L L^T by Cholesky, z normal: [shape..., k] for mean [..., k] and cov [..., k, k], of which the
// lower triangle is read and whose leading axes broadcast to `shape`. Throws where cov is not positive definite.
Tensor multivariate_normal(const Tensor& mean, const Tensor& cov, const Shape& shape, const RandomOptions& options = {},
                           Where where = Where::current());

// --- Counts ----------------------------------------------------------------------------------------------------------

// P(k) = rate^k e^-rate / k!, for rates from 0 to 1e18. Throws where a rate is more than the dtype's largest number;
// counts beyond that are that number.
Tensor poisson(const Tensor& rate, const Shape& shape, const RandomOptions& options = {},
               Where where = Where::current());
// How many of n trials succeed, each with probability p in [0, 1]: n whole, from 0 to 1e15. Throws where n is more than
// the dtype's largest number.
Tensor binomial(const Tensor& n, const Tensor& p, const Shape& shape, const RandomOptions& options = {},
                Where where = Where::current());
// The trial that succeeds first, 1, 2, ...: P(k) = p (1 - p)^(k - 1), for p in (0, 1]. Throws where their mean, 1 / p,
// is more than the dtype's largest number; counts beyond that are that number, or 2^62 if that is less.
Tensor geometric(const Tensor& p, const Shape& shape, const RandomOptions& options = {},
                 Where where = Where::current());
// How often each of k classes is drawn in n trials, [shape..., k], with probabilities p [..., k], not negative, divided
// by their sum. n, and p's leading axes, broadcast to `shape`. Throws where the probabilities are all 0, or n is more
// than the dtype's largest number.
Tensor multinomial(const Tensor& n, const Tensor& p, const Shape& shape, const RandomOptions& options = {},
                   Where where = Where::current());

}  // namespace rill::random

#pragma GCC visibility pop
