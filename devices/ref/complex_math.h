// Complex arithmetic as numpy defines it, in the reference kernels' widest type. The C++ library follows C99's Annex G,
// which returns infinities for products and quotients where numpy, torch and XLA return NaN, and has no 0^0, exp2,
// log2, expm1 or log1p. Each function is also defined for real numbers, so that one definition of an op serves both.
#pragma once
#include <cmath>
#include <complex>

#include "rill/devices/ref/elementwise.h"

namespace rill::ref::math {

// The operands fit in f64, and the product is rounded once: a product of long doubles would be rounded again when
// stored.
inline Real multiply(Real x, Real y) { return double(x) * double(y); }
inline Real divide(Real x, Real y) { return double(x) / double(y); }
inline Real reciprocal(Real x) { return 1 / x; }
// The sign by the parity of an integer exponent: glibc's own for long double is wrong at x = -inf, y = -2^63.
inline Real power(Real x, Real y) {
  if (!std::signbit(x) || !std::isfinite(y) || y != std::trunc(y)) return std::pow(x, y);
  const Real size = std::pow(-x, y);
  return std::fmod(y, Real(2)) != 0 ? -size : size;
}
inline Real exp2(Real x) { return std::exp2(x); }
inline Real expm1(Real x) { return std::expm1(x); }
inline Real log2(Real x) { return std::log2(x); }
inline Real log10(Real x) { return std::log10(x); }
inline Real log1p(Real x) { return std::log1p(x); }

// A sum of numbers with its rounding error (compensated summation).
struct ExactSum {
  Real sum = 0, rest = 0;
  void add(Real x) {
    const Real s = sum + x, part = s - sum;
    rest += (sum - (s - part)) + (x - part);
    sum = s;
  }
  // For a number that fits in f64: in halves, whose products fit in a long double's 64 bits.
  void add_square(double x) {
    const Real high = float(x), low = x - high;
    add(high * high), add(2 * high * low), add(low * low);
  }
};

// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, whatever a, b, c and d are.
Complex multiply(Complex x, Complex y);
// Smith's algorithm ("Algorithm 116: Complex division", 1962): nothing overflows on the way.
Complex divide(Complex x, Complex y);
Complex reciprocal(Complex x);
// 1 if y is 0; for a zero x, 0 if the real part of y is positive, else NaN; small integer exponents by squaring.
Complex power(Complex x, Complex y);
Complex exp2(Complex x);
// Accurate near 0: the real part is expm1(a) cos(b) - 2 sin^2(b/2).
Complex expm1(Complex x);
Complex log2(Complex x);
Complex log10(Complex x);
// Accurate near 0, and wherever |1 + x| is near 1.
Complex log1p(Complex x);

}  // namespace rill::ref::math
