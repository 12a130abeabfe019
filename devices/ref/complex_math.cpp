// Complex functions by their formulas, scaled where a square would overflow; see complex_math.h.
#include "rill/devices/ref/complex_math.h"

#include <limits>

namespace rill::ref::math {

namespace {
constexpr Real ln2 = 0.693147180559945309417232121458176568L, log2e = 1.44269504088896340735992468100189214L,
               log10e = 0.434294481903251827651128918916605082L;
const Complex not_a_number(std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::quiet_NaN());

Complex scaled(Complex x, Real by) { return {x.real() * by, x.imag() * by}; }

// x^n for 0 < n < 100. It starts from 1, whose product with an infinity is NaN, as in numpy; the first powers are
// products.
Complex whole_power(Complex x, int n) {
  Complex result(1, 0);
  for (Complex square = x; n > 0; n /= 2, square = multiply(square, square))
    if (n % 2) result = multiply(result, square);
  return result;
}
}  // namespace

Complex multiply(Complex x, Complex y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

Complex divide(Complex x, Complex y) {
  const Real a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (c == 0 && d == 0) return {a / std::fabs(c), b / std::fabs(c)};
  if (std::fabs(c) >= std::fabs(d)) {
    const Real ratio = d / c, scale = 1 / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const Real ratio = c / d, scale = 1 / (d + c * ratio);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}

Complex reciprocal(Complex x) {
  const Real a = x.real(), b = x.imag();
  if (std::fabs(b) <= std::fabs(a)) {
    const Real ratio = b / a, size = a + b * ratio;
    return {1 / size, -ratio / size};
  }
  const Real ratio = a / b, size = a * ratio + b;
  return {ratio / size, -1 / size};
}

Complex power(Complex x, Complex y) {
  if (y == Complex(0, 0)) return {1, 0};
  if (x == Complex(0, 0)) return y.real() > 0 ? Complex(0, 0) : not_a_number;
  if (y.imag() == 0 && std::fabs(y.real()) < 100 && std::trunc(y.real()) == y.real()) {
    const int n = int(y.real());
    if (n == 1) return x;
    if (n == 2) return multiply(x, x);
    if (n == 3) return multiply(x, multiply(x, x));
    return n > 0 ? whole_power(x, n) : divide({1, 0}, whole_power(x, -n));
  }
  return std::pow(x, y);
}

Complex exp2(Complex x) { return std::exp(scaled(x, ln2)); }

Complex expm1(Complex x) {
  const Real a = x.real(), b = x.imag(), half = std::sin(b / 2);
  return {std::expm1(a) * std::cos(b) - 2 * half * half, std::exp(a) * std::sin(b)};
}

Complex log2(Complex x) { return scaled(std::log(x), log2e); }
Complex log10(Complex x) { return scaled(std::log(x), log10e); }

Complex log1p(Complex x) {
  const Real a = x.real(), b = x.imag(), size = std::hypot(1 + a, b), angle = std::atan2(b, 1 + a);
  if (!(size > 0.5L && size < 2)) return {std::log(size), angle};
  // |1 + x|^2 - 1 = 2a + a^2 + b^2, whose terms may cancel.
  ExactSum above_one;
  above_one.add(2 * a);
  above_one.add_square(double(a));
  above_one.add_square(double(b));
  return {std::log1p(above_one.sum + above_one.rest) / 2, angle};
}

}  // namespace rill::ref::math
