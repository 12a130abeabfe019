// Functions around Gamma as plain code over a real type (double, long double, or a Dual of one for derivatives):
// logarithms of Gamma and Beta, the incomplete Gamma functions, the Hurwitz zeta function. incomplete_beta.h has the
// incomplete Beta function. References: DLMF (dlmf.nist.gov) chapters 5, 8 and 25.
#pragma once
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "rill/devices/kernel/math/dual.h"
#include "rill/devices/kernel/math/gamma_table.h"
#include "rill/devices/kernel/math/math_scalar.h"

namespace rill::scalar_math {

inline constexpr long double wide_pi = 3.14159265358979323846264338327950288L;
inline constexpr int most_terms = 100000;

// --- log Gamma -------------------------------------------------------------------------------------------------------

// log |Gamma(x)|.
inline double log_gamma(double x) { return Lgamma::call(x); }
inline long double log_gamma(long double x) {
#if defined(__GLIBC__)
  int sign;
  return ::lgammal_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}
template <class T>
T digamma_of(T x) {
  if (x > 0) return Digamma::positive<T, 16>(x);
  if (x == std::floor(x)) return std::numeric_limits<T>::quiet_NaN();
  return Digamma::positive<T, 16>(1 - x) - T(wide_pi) / std::tan(T(wide_pi) * (x - std::round(x)));
}
template <class T>
Dual<T> log_gamma(Dual<T> x) {
  return {log_gamma(x.v), digamma_of(x.v) * x.d};
}

// log Gamma(1 + a), also for tiny a: -log(1 + a) + (1 - euler) a + sum over k >= 2 of (-1)^k (zeta(k) - 1) a^k /
// k.
template <class T>
T log_gamma_1p(T a) {
  if (std::fabs(a) > T(0.5L)) return log_gamma(T(1) + a);
  constexpr long double c[] = {
      0.3224670334241132182362L,     -0.06735230105319809513325L,   0.020580808427784547879L,
      -0.007385551028673985266273L,  0.002890510330741523285753L,   -0.001192753911703260977114L,
      0.0005096695247430424223357L,  -2.231547584535793797614e-4L,  9.94575127818085337146e-5L,
      -4.492623673813314170021e-5L,  2.050721277567069155317e-5L,   -9.439488275268395903987e-6L,
      4.374866789907487804182e-6L,   -2.039215753801366236782e-6L,  9.551412130407419832857e-7L,
      -4.492469198764566043294e-7L,  2.120718480555466586923e-7L,   -1.004322482396809960872e-7L,
      4.76981016936398056576e-8L,    -2.271109460894316491032e-8L,  1.083865921489695409107e-8L,
      -5.183475041970046655121e-9L,  2.483674543802478317185e-9L,   -1.192140140586091207443e-9L,
      5.73136724167886201333e-10L,   -2.759522885124233145178e-10L, 1.33047643742444894815e-10L,
      -6.422964563838100022082e-11L, 3.104424774732227276239e-11L,  -1.502138408075414217093e-11L};
  T sum = 0;
  for (int k = int(std::size(c)); k-- > 0;) sum = sum * a + T(c[k]);
  return sum * a * a + T(0.4227843350984671393934879L) * a - std::log1p(a);
}
template <class T>
Dual<T> log_gamma_1p(Dual<T> a) {
  return {log_gamma_1p(a.v), digamma_of(1 + a.v) * a.d};
}

// The error of Stirling's formula: log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 10 (DLMF 5.11.1).
template <class R>
R stirling_rest(R x) {
  using T = real_t<R>;
  constexpr long double c[] = {1 / 12.0L,         -1 / 360.0L,         1 / 1260.0L,     -1 / 1680.0L,
                               1 / 1188.0L,       -691 / 360360.0L,    1 / 156.0L,      -3617 / 122400.0L,
                               43867 / 244188.0L, -174611 / 125400.0L, 77683 / 5796.0L, -236364091 / 1506960.0L};
  const R z = R(T(1)) / (x * x);
  R sum = T(0);
  for (int k = int(std::size(c)); k-- > 0;) sum = sum * z + R(T(c[k]));
  return sum / x;
}

// log(1 + u) - u without the cancellation near 0: with r = u / (2 + u), log(1 + u) = 2 artanh r and u = 2 r / (1 - r).
template <class R>
R log1p_less(R u) {
  using T = real_t<R>;
  if (value(u) > T(0.6L) || value(u) < T(-0.4L)) return log1p(u) - u;
  const R r = u / (R(T(2)) + u), z = r * r;
  R sum = T(0), power = z;
  for (int k = 3; k < 99; k += 2) {
    const R term = power / R(T(k));
    sum = sum + term;
    if (size(term) <= std::numeric_limits<T>::epsilon() / 4 * size(sum)) break;
    power = power * z;
  }
  return r * (R(T(2)) * sum - u);
}

// log |B(a, b)| = log |Gamma(a) Gamma(b) / Gamma(a + b)|, where the logarithms of large Gammas would cancel by
// Stirling's formula.
template <class R>
R log_beta(R a, R b) {
  using T = real_t<R>;
  if (value(a) > value(b)) std::swap(a, b);
  const R half = T(0.5L);
  if (!(value(b) >= 10)) return log_gamma(a) + log_gamma(b) - log_gamma(a + b);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (value(b) == infinity && value(a) != -infinity) return R(value(a) > 0 ? -infinity : infinity);
  if (value(a) >= 10) {
    const R rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(a + b);
    const R small = a / b;
    return (a - half) * log(small / (R(T(1)) + small)) - b * log1p(small) - half * log(b) +
           R(T(0.918938533204672741780329736406L)) + rest;
  }
  if (value(a) + value(b) < 10) return log_gamma(a) + log_gamma(b) - log_gamma(a + b);
  return log_gamma(a) - (a + b - half) * log1p(a / b) - a * log(b) + a + stirling_rest(b) - stirling_rest(a + b);
}

// --- The incomplete Gamma functions ----------------------------------------------------------------------------------

// P(a, x), or Q(a, x) = 1 - P(a, x) if `is_upper`, as exp(log_prefix) factor; `log_density` is the logarithm of
// x^a e^-x / Gamma(a + 1), which is x / a times the derivative by x.
template <class R>
struct IncompleteGamma {
  R log_density, log_prefix, factor;
  bool is_upper;
};

// e^(z^2) erfc(z).
template <class T>
T scaled_erfc(T z) {
  if (z < 6) return std::exp(z * z) * std::erfc(z);
  T f = 0;  // continued fraction, DLMF 7.9.1
  for (int k = 60; k >= 1; --k) f = k / (2 * (z + f));
  return T(0.564189583547756286948079451561L) / (z + f);
}
template <class T>
Dual<T> scaled_erfc(Dual<T> z) {
  const T y = scaled_erfc(z.v);
  return {y, (2 * z.v * y - T(1.12837916709551257389615890312L)) * z.d};
}

// eta with eta^2 / 2 = u - log(1 + u), with u's sign (DLMF 8.12.1); its derivative is u / ((1 + u) eta).
template <class T>
T gamma_eta(T u) {
  return std::copysign(std::sqrt(-2 * log1p_less(u)), u);
}
template <class T>
Dual<T> gamma_eta(Dual<T> u) {
  const T eta = gamma_eta(u.v);
  return {eta, u.d * (eta == 0 ? T(1) : u.v / eta) / (1 + u.v)};
}

// The sum over k of c_k(eta) a^-k, for a >= 50 and |eta| <= 0.36 (DLMF 8.12.7; the Taylor series of c_k follow from
// 8.12.10 and 8.12.11).
template <class R>
R uniform_series(R a, R eta) {
  using T = real_t<R>;
  const R z = R(T(1)) / a;
  R sum = T(0);
  for (int k = temme_rows; k-- > 0;) {
    R row = T(0);
    for (int n = temme_columns; n-- > 0;) row = row * eta + R(T(temme_coefficients[k][n]));
    sum = sum * z + row;
  }
  return sum;
}

// For a > 0 and 0 < x < infinity; `log_x` is log x, which is more accurate than x if x has underflowed.
template <class R>
IncompleteGamma<R> incomplete_gamma(R a, real_t<R> x, real_t<R> log_x) {
  using T = real_t<R>;
  constexpr T epsilon = std::numeric_limits<T>::epsilon() / 2;
  IncompleteGamma<R> y;
  const R one = T(1), half = T(0.5L);
  if (value(a) >= 10) {
    const R u = (R(x) - a) / a;
    const R exponent = value(u) < T(-0.9L) ? R(log_x) - log(a) - u : log1p_less(u);
    const R root = half * log(R(T(2 * wide_pi)) * a);
    y.log_density = a * exponent - root - stirling_rest(a);
    if (value(a) >= 50 && std::fabs(value(u)) < T(0.3L)) {
      const R eta = gamma_eta(u), z = eta * sqrt(half * a);
      y.is_upper = value(u) > 0;
      y.log_prefix = a * exponent - root;
      const R series = uniform_series(a, eta), tail = scaled_erfc(y.is_upper ? z : -z) * sqrt(R(T(wide_pi / 2)) * a);
      y.factor = y.is_upper ? tail + series : tail - series;
      return y;
    }
  } else {
    y.log_density = a * R(log_x) - R(x) - log_gamma_1p(a);
  }
  y.log_prefix = y.log_density;
  y.is_upper = x > 1.1L && x >= value(a);
  if (!y.is_upper) {  // DLMF 8.7.1
    R term = one, sum = one;
    for (int k = 1; k < most_terms; ++k) {
      term = term * (R(x) / (a + R(T(k))));
      sum = sum + term;
      if (size(term) <= epsilon * size(sum)) break;
    }
    y.factor = sum;
    return y;
  }
  // DLMF 8.9.2 in even form, by Lentz's method.
  R b = R(x) + one - a, c = T(1e300L), d = one / b, h = d;
  for (int k = 1; k < most_terms; ++k) {
    const R numerator = R(T(k)) * (a - R(T(k)));
    b = b + R(T(2));
    d = one / (numerator * d + b);
    c = b + numerator / c;
    const R change = c * d;
    h = h * change;
    if (size(change - one) <= epsilon) break;
  }
  y.factor = a * h;
  return y;
}

// Q for x <= 1.1 if P is near 1: 1 - x^a / Gamma(a + 1) - x^a / Gamma(a) times the sum over k >= 1 of
// (-x)^k / (k! (a + k)) (DLMF 8.7.3).
template <class R>
R upper_gamma_of_small(R a, real_t<R> x) {
  using T = real_t<R>;
  R sum = T(0);
  T power = 1;
  for (int k = 1; k < 200; ++k) {
    power *= -x / T(k);
    const R term = R(power) / (a + R(T(k)));
    sum = sum + term;
    if (size(term) <= std::numeric_limits<T>::epsilon() / 4 * size(sum)) break;
  }
  const R log_prefix = a * R(std::log(x)) - log_gamma_1p(a);
  return -expm1(log_prefix) - exp(log_prefix) * a * sum;
}

// log(x^a e^-x / Gamma(a + 1)), for a > 0 and 0 < x < infinity.
template <class T>
T log_gamma_density(T a, T x, T log_x) {
  if (a < 10) return a * log_x - x - log_gamma_1p(a);
  const T u = (x - a) / a;
  return a * (u < T(-0.9L) ? log_x - std::log(a) - u : log1p_less(u)) - std::log(T(2 * wide_pi) * a) / 2 -
         stirling_rest(a);
}

// P(a, x), or Q(a, x) with `upper`. NaN if a or x is negative.
template <class R>
R regularized_gamma(R a, real_t<R> x, bool upper) {
  using T = real_t<R>;
  const T v = value(a);
  const R zero = upper ? T(1) : T(0), one = upper ? T(0) : T(1);  // the results where P is 0 and 1
  if (!(v >= 0) || !(x >= 0) || (v == 0 && x == 0) || (std::isinf(v) && std::isinf(x)))
    return std::numeric_limits<T>::quiet_NaN();
  if (x == 0 || std::isinf(v)) return zero;
  if (v == 0 || std::isinf(x)) return one;
  if (upper && x <= T(1.1L) && v < x * T(1.1L)) return upper_gamma_of_small(a, x);
  if (upper && x <= T(0.5L) && v < T(-0.4L) / std::log(x)) return upper_gamma_of_small(a, x);
  const IncompleteGamma<R> y = incomplete_gamma(a, x, std::log(x));
  const R part = exp(y.log_prefix) * y.factor;
  return y.is_upper == upper ? part : R(T(1)) - part;
}

// The derivative by a of log x where x is drawn from the Gamma distribution of shape a by inverting P(a, x) = u, for a
// fixed u: -(dP/da) / (x dP/dx) (Figurnov, Mohamed and Mnih 2018, "Implicit reparameterization gradients").
template <class T>
T log_gamma_sample_slope(T a, T x, T log_x) {
  if (!(a > 0) || std::isnan(x) || std::isinf(x)) return std::numeric_limits<T>::quiet_NaN();
  const auto y = incomplete_gamma(Dual<T>(a, 1), x, log_x);
  const T slope = (y.log_prefix.d * y.factor.v + y.factor.d) * std::exp(y.log_prefix.v - y.log_density.v) / a;
  return y.is_upper ? slope : -slope;
}

// --- The Hurwitz zeta function ---------------------------------------------------------------------------------------

// x^-s.
template <class T>
T inverse_power(T x, T s) {
  return std::pow(x, -s);
}
template <class T>
Dual<T> inverse_power(T x, Dual<T> s) {
  return exp(-s * Dual<T>(std::log(x)));
}

// The sum over k >= 0 of (q + k)^-s for s > 1 and q > 0: some terms, and the rest by Euler-Maclaurin
// (DLMF 25.11.5).
template <class R>
R positive_zeta(R s, real_t<R> q) {
  using T = real_t<R>;
  constexpr T epsilon = std::numeric_limits<T>::epsilon() / 4;
  constexpr long double bernoulli[] = {// B_2k / (2k)!
                                       1 / 12.0L,
                                       -1 / 720.0L,
                                       1 / 30240.0L,
                                       -1 / 1209600.0L,
                                       1 / 47900160.0L,
                                       -691 / 1307674368000.0L,
                                       1 / 74724249600.0L,
                                       -3617 / 10670622842880000.0L,
                                       43867 / 5109094217170944000.0L,
                                       -174611 / 802857662698291200000.0L,
                                       77683 / 14101100039391805440000.0L,
                                       -236364091 / 1693824136731743669452800000.0L};
  const R one = T(1);
  R sum = T(0);
  const T start = std::max(T(15), value(s) + 12);
  T at = q;
  for (; at < start; at += 1) {
    const R term = inverse_power(at, s);
    sum = sum + term;
    // The rest is less than this term's integral.
    if (value(s) > 3 && size(term) * (1 + at / (value(s) - 1)) <= epsilon * value(sum)) return sum;
  }
  const R power = inverse_power(at, s);
  const bool vanishes = size(power) < std::numeric_limits<T>::min();  // as at^(1 - s) might not
  sum = sum + (vanishes ? inverse_power(at, s - one) : power * R(at)) / (s - one) + power * R(T(0.5L));
  R factor = power * s / R(at);
  for (int k = 0; k < int(std::size(bernoulli)); ++k) {
    const R term = factor * R(T(bernoulli[k]));
    sum = sum + term;
    if (size(term) <= epsilon * size(sum)) break;
    factor = factor * (s + R(T(2 * k + 1))) * (s + R(T(2 * k + 2))) / R(at * at);
  }
  return sum;
}

// zeta(s, q). Infinite if s is 1 or q is 0, -1, -2, ...; NaN if s < 1, and if q < 0 unless s is an integer.
template <class R>
R hurwitz_zeta(R s, real_t<R> q) {
  using T = real_t<R>;
  const T v = value(s), infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  if (std::isnan(v) || std::isnan(q) || v < 1) return nan;
  if (v == 1) return infinity;
  if (std::isinf(q)) return q > 0 ? T(0) : nan;
  if (q > 0) return std::isinf(v) ? (q < 1 ? infinity : q > 1 ? T(0) : T(1)) : positive_zeta(s, q);
  if (q == std::floor(q)) return infinity;
  if (std::isinf(v) || v != std::floor(v)) return nan;
  // The terms with positive bases, and those with negative ones: if the latter are negative, the largest of both cancel
  // first.
  const T part = q - std::floor(q), before = std::ceil(q) - q;  // 1 - part would lose digits
  const R above = positive_zeta(s, part), below = positive_zeta(s, before), rest = positive_zeta(s, 1 - q);
  return std::fmod(v, T(2)) == 0 ? above + (below - rest) : (above - below) + rest;
}

// The n-th derivative of digamma, n = 0, 1, 2, ...: (-1)^(n + 1) n! zeta(n + 1, x). NaN for other n.
template <class T>
T polygamma_of(T n, T x) {
  if (!(n >= 0) || n != std::floor(n)) return std::numeric_limits<T>::quiet_NaN();
  if (n == 0) return x == 0 ? std::copysign(std::numeric_limits<T>::infinity(), -x) : T(digamma_of((long double)x));
  if (std::isinf(n)) return std::numeric_limits<T>::quiet_NaN();
  const T zeta = hurwitz_zeta(n + 1, x);
  // n! may overflow even if the product does not.
  const T size = n < 150 || zeta == 0 ? std::tgamma(n + 1) * zeta
                                      : std::copysign(std::exp(log_gamma(n + 1) + std::log(std::fabs(zeta))), zeta);
  return std::fmod(n, T(2)) == 0 ? -size : size;
}

}  // namespace rill::scalar_math
