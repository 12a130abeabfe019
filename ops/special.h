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
// log of the multivariate Gamma function of dimension p (torch's mvlgamma): log(pi) p (p - 1) / 4 + the sum over j < p
// of lgamma(a - j / 2). Throws unless p is from 1 to 10000.
Tensor multigammaln(const Tensor& a, int64_t p, Where where = Where::current());

// --- Around erf and log ----------------------------------------------------------------------------------------------

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

}  // namespace rill

#pragma GCC visibility pop
