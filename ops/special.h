// Special functions beyond those of elementwise.h (erf, lgamma, digamma, ...), under the names of scipy, torch and JAX.
// Included by rill.h.
//
// All are elementwise: operands broadcast and are promoted, integers and bools become f32. f64 is good to 1e-12 of the
// result or better, f32 to a few units in the last place, f16 and bf16 are rounded from f32; the Bessel functions J and
// Y near their zeros, and betainc where a or b is beyond 1e8, to that of what their terms add up from. Complex operands
// are refused. Definitions: DLMF (dlmf.nist.gov). The formulas of the ops are in docs/ops.md.
#pragma once
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Around Gamma ----------------------------------------------------------------------------------------------------

// The n-th derivative of digamma (n a whole number, 0 or more; NaN for others): (-1)^(n + 1) n! zeta(n + 1, x). The
// gradient is that by x.
Tensor polygamma(const Tensor& n, const Tensor& x, Where where = Where::current());
// The Hurwitz zeta function, the sum over k >= 0 of (q + k)^-s; Riemann's is that of q = 1. Infinite for s = 1 and
// where q is 0, -1, -2, ...; NaN for s < 1, and for other q < 0 unless s is whole. Gradients by s and q; those by s are
// the first ones only.
Tensor zeta(const Tensor& s, const Tensor& q = Tensor(1), Where where = Where::current());
// The regularised lower and upper incomplete Gamma functions, P(a, x) = 1/Gamma(a) times the integral of t^(a - 1) e^-t
// from 0 to x, and Q = 1 - P without cancellation (scipy's gammainc and gammaincc). NaN where a or x is negative.
// Gradients by a and x; by a twice is refused.
Tensor igamma(const Tensor& a, const Tensor& x, Where where = Where::current());
Tensor igammac(const Tensor& a, const Tensor& x, Where where = Where::current());
// The regularised incomplete Beta function I_x(a, b): 1/B(a, b) times the integral of t^(a - 1) (1 - t)^(b - 1) from 0
// to x. NaN where a or b is negative or x is not in [0, 1]. Gradients by all three; by a or b twice is refused.
Tensor betainc(const Tensor& a, const Tensor& b, const Tensor& x, Where where = Where::current());
// log |B(a, b)|, B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b), without cancellation where a or b is large.
Tensor betaln(const Tensor& a, const Tensor& b, Where where = Where::current());
// The Gamma function, under C's name: infinite at 0, NaN at -1, -2, ... (gamma_functions.cpp).
Tensor tgamma(const Tensor& x, Where where = Where::current());
// n! = Gamma(n + 1) of any number; 0 below 0.
Tensor factorial(const Tensor& n, Where where = Where::current());
// B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b).
Tensor beta(const Tensor& a, const Tensor& b, Where where = Where::current());
// n over k, the binomial coefficient Gamma(n + 1) / (Gamma(k + 1) Gamma(n - k + 1)), of any numbers; exact where n and
// k are whole and the result has no more digits than its dtype. NaN where n is -1, -2, ...
Tensor binom(const Tensor& n, const Tensor& k, Where where = Where::current());
// log of the multivariate Gamma function of dimension p (torch's mvlgamma): log(pi) p (p - 1) / 4 + the sum over j < p
// of lgamma(a - j / 2). Throws unless p is from 1 to 10000.
Tensor multigammaln(const Tensor& a, int64_t p, Where where = Where::current());

// --- Around erf and log ----------------------------------------------------------------------------------------------

// log(ndtr(x)), the log of the standard normal distribution's cumulative function, exact where that is near 0 or 1.
Tensor log_ndtr(const Tensor& x, Where where = Where::current());
// The x in [-infinity, infinity] for which erfc(x) = y, for y in [0, 2]; NaN for others.
Tensor erfcinv(const Tensor& y, Where where = Where::current());
// x log(1 + y), and 0 where x is 0.
Tensor xlog1py(const Tensor& x, const Tensor& y, Where where = Where::current());
// The terms of relative entropy, x log(x / y) (0 where x is 0 and y is not negative; infinite for others that are not
// positive); and scipy's kl_div, x log(x / y) - x + y.
Tensor rel_entr(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor kl_div(const Tensor& x, const Tensor& y, Where where = Where::current());
// Lambert's W: the real w >= -1 with w e^w = x; NaN below -1/e.
Tensor lambertw(const Tensor& x, Where where = Where::current());

// e^(x^2) erfc(x), without underflow for large x.
Tensor erfcx(const Tensor& x, Where where = Where::current());
// The entropy of a probability, -x log(x): 0 at 0, -infinity below.
Tensor entr(const Tensor& x, Where where = Where::current());

// --- Bessel functions of real x --------------------------------------------------------------------------------------

// Of the first kind, J0 and J1, and of the second kind, Y0 and Y1: -infinity at 0, NaN below.
Tensor j0(const Tensor& x, Where where = Where::current());
Tensor j1(const Tensor& x, Where where = Where::current());
Tensor y0(const Tensor& x, Where where = Where::current());
Tensor y1(const Tensor& x, Where where = Where::current());
// Modified, of the first kind, I0 and I1; times e^-|x|, which keeps them from overflow.
Tensor i0(const Tensor& x, Where where = Where::current());
Tensor i1(const Tensor& x, Where where = Where::current());
Tensor i0e(const Tensor& x, Where where = Where::current());
Tensor i1e(const Tensor& x, Where where = Where::current());
// Modified, of the second kind, K0 and K1: infinite at 0, NaN below.
Tensor k0(const Tensor& x, Where where = Where::current());
Tensor k1(const Tensor& x, Where where = Where::current());
// e^x times them.
Tensor k0e(const Tensor& x, Where where = Where::current());
Tensor k1e(const Tensor& x, Where where = Where::current());

// Of any order v, which is a constant to gradients: J, I and K. NaN where they are complex, and J for negative orders
// that are not whole; J takes time that grows with x where it is less than v^2. J is NaN there where v + x > 1e6.
Tensor jv(const Tensor& v, const Tensor& x, Where where = Where::current());
Tensor iv(const Tensor& v, const Tensor& x, Where where = Where::current());
Tensor kv(const Tensor& v, const Tensor& x, Where where = Where::current());
// The spherical Bessel function sqrt(pi / 2 x) J_(n + 1/2)(x) for a whole n >= 0, a constant to gradients; NaN for
// others.
Tensor spherical_jn(const Tensor& n, const Tensor& x, Where where = Where::current());
// Airy's functions, the solutions of y'' = x y, and their derivatives.
struct AiryFunctions {
  Tensor ai, ai_slope, bi, bi_slope;
};
AiryFunctions airy(const Tensor& x, Where where = Where::current());

// --- Integrals -------------------------------------------------------------------------------------------------------

// The exponential integrals E1, of e^-t / t from x to infinity (NaN below 0), and Ei, of e^t / t up to x (its principal
// value).
Tensor exp1(const Tensor& x, Where where = Where::current());
Tensor expi(const Tensor& x, Where where = Where::current());
struct SineCosine {
  Tensor sine, cosine;
};
// The integrals of sin(t) / t from 0 to x, Si, and gamma + log |x| + that of (cos(t) - 1) / t, Ci.
SineCosine sici(const Tensor& x, Where where = Where::current());
// Fresnel's integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.
SineCosine fresnel(const Tensor& x, Where where = Where::current());
// Dawson's integral, e^(-x^2) times that of e^(t^2) from 0 to x.
Tensor dawsn(const Tensor& x, Where where = Where::current());
// The complete elliptic integrals of the first and the second kind, of the parameter m <= 1 (not the modulus, whose
// square it is): the integrals of (1 - m sin(t)^2)^(-1/2), and ^(1/2), over t from 0 to pi / 2; NaN above 1.
Tensor ellipk(const Tensor& m, Where where = Where::current());
Tensor ellipe(const Tensor& m, Where where = Where::current());

// --- Polynomials -----------------------------------------------------------------------------------------------------

// Legendre's P_n, Chebyshev's T_n and Hermite's H_n (of physicists) of the degree n at x, by their recurrences. Throws
// unless n is from 0 to 10000.
Tensor eval_legendre(int64_t n, const Tensor& x, Where where = Where::current());
Tensor eval_chebyt(int64_t n, const Tensor& x, Where where = Where::current());
Tensor eval_hermite(int64_t n, const Tensor& x, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
