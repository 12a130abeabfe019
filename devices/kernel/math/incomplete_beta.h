// The regularised incomplete Beta function as plain code over a real type; see gamma_scalar.h.
#pragma once
#include "rill/devices/kernel/math/gamma_scalar.h"

namespace rill::scalar_math {

// log(x^a y^b / (a B(a, b))), y = 1 - x. For large a and b from the difference of x b and y a, which does not cancel.
template <class R>
R log_beta_prefix(R a, R b, real_t<R> x, real_t<R> y) {
  using T = real_t<R>;
  if (!(value(a) >= 10 && value(b) >= 10)) {
    const R log_y = y < T(0.5L) ? std::log(y) : std::log1p(-x), log_x = x < T(0.5L) ? std::log(x) : std::log1p(-y);
    return a * log_x + b * log_y - log_beta(a, b) - log(a);
  }
  const R total = a + b, gap = R(x) * b - R(y) * a;  // x = a / total + gap / total
  const R rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(total);
  const auto term = [&](R n, R off, T at) {  // n (log(at total / n) - off)
    return n * (value(off) < T(-0.9L) ? R(std::log(at)) + log(total / n) - off : log1p_less(off));
  };
  return term(a, gap / a, x) + term(b, -gap / b, y) - rest + R(T(0.5L)) * log(b / (a * total * R(T(2 * wide_pi))));
}

// The continued fraction of I_x(a, b) a B(a, b) / (x^a y^b) (DLMF 8.17.22), by Lentz's method.
template <class R>
R beta_fraction(R a, R b, real_t<R> x) {
  using T = real_t<R>;
  constexpr T epsilon = std::numeric_limits<T>::epsilon() / 2;
  const R one = T(1), total = a + b;
  R c = one, d = one / (one - total * R(x) / (a + one)), h = d;
  for (int k = 1; k < most_terms; ++k) {
    const R m = T(k), twice = T(2 * k);
    const R even = m * (b - m) * R(x) / ((a + twice - one) * (a + twice));
    d = one / (one + even * d), c = one + even / c;
    h = h * (d * c);
    const R odd = -(a + m) * (total + m) * R(x) / ((a + twice) * (a + twice + one));
    d = one / (one + odd * d), c = one + odd / c;
    const R change = d * c;
    h = h * change;
    if (size(change - one) <= epsilon) break;
  }
  return h;
}

// I_x(a, b) for x in [0, 1]. NaN if a or b is negative or both are 0.
template <class R>
R regularized_beta(R a, R b, real_t<R> x) {
  using T = real_t<R>;
  const T p = value(a), q = value(b), zero = 0, one = 1;
  if (!(p >= 0 && q >= 0 && x >= 0 && x <= 1) || (p == 0 && q == 0) || (std::isinf(p) && std::isinf(q)))
    return std::numeric_limits<T>::quiet_NaN();
  if (x == 0 || x == 1) return x;
  if (p == 0 || std::isinf(q)) return one;
  if (q == 0 || std::isinf(p)) return zero;
  // The lower tail, or 1 minus the upper one, whichever converges. A loop, so that each long function is called in one
  // place.
  const T y = 1 - x;
  for (bool above = x * (p + q + 2) > p + 1;; above = false) {
    const R n = above ? b : a, m = above ? a : b;
    const T at = above ? y : x;
    const R part = exp(log_beta_prefix(n, m, at, above ? x : y)) * beta_fraction(n, m, at);
    if (!above) return part;
    if (value(part) < T(0.9L) || x > T(0.999L)) return R(one) - part;
  }
}

}  // namespace rill::scalar_math
