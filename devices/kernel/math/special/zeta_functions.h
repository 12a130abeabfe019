// zeta and polygamma. The series are in ../gamma_scalar.h.
#pragma once
#include "rill/devices/kernel/math/gamma_scalar.h"
#include "rill/devices/kernel/math/special/special_numbers.h"

namespace rill::special {

struct Zeta {
  template <class T>
  static T call(T s, T q) {
    return scalar_math::hurwitz_zeta(s, q);
  }
};
struct ZetaByS {
  template <class T>
  static T call(T s, T q) {
    const T slope = s == 1 ? -infinity<T> : scalar_math::hurwitz_zeta(scalar_math::Dual<T>(s, 1), q).d;
    return slope == 0 ? -T(0) : slope;
  }
};
struct Polygamma {
  template <class T>
  static T call(T n, T x) {
    return scalar_math::polygamma_of(n, x);
  }
};
// polygamma(n, x) - polygamma(n, x + h), which cancel for large x. Recurrence moves both to where their asymptotic
// series (DLMF 5.15.8, 5.11.2) are exact, and these are subtracted term by term: with X = 1/x and Y = 1/(x + h), X^m -
// Y^m = (X - Y) (X^(m - 1) + X^(m - 2) Y + ... + Y^(m - 1)), where X - Y = h X Y.
template <class T>
T polygamma_difference(int n, T x, T h) {
  if (!(x > 0 && x + h > 0)) return scalar_math::polygamma_of(T(n), x) - scalar_math::polygamma_of(T(n), x + h);
  T factorial = 1;  // n!
  for (int j = 2; j <= n; ++j) factorial *= T(j);
  T near = 0;
  for (; std::min(x, x + h) < 20; x += 1) {
    const T a = 1 / x, b = 1 / (x + h);
    T sum = 0, power = 1;
    for (int j = 0; j <= n; ++j) sum = sum * a + power, power *= b;
    near += (h < x ? h * a * b : a - b) * sum;
  }
  // B_2k / (2k)!
  constexpr long double bernoulli[] = {1 / 12.0L,          -1 / 720.0L,
                                       1 / 30240.0L,       -1 / 1209600.0L,
                                       1 / 47900160.0L,    -691 / 1307674368000.0L,
                                       1 / 74724249600.0L, -3617 / 10670622842880000.0L};
  const T a = 1 / x, b = 1 / (x + h), first = h < x ? h * a * b : a - b;
  T sum = 0, power = 1, far = 0, rising = factorial / T(n > 0 ? n : 1);  // (n - 1)!, and the later ones (m - 1)!
  for (int m = 1; m <= n + 16; ++m) {                                    // `sum` becomes (a^m - b^m) / (a - b)
    sum = sum * a + power, power *= b;
    if (m > n + 1) rising *= T(m - 1);
    if (m == n) far += factorial / T(n) * sum;
    else if (m == n + 1) far += factorial / 2 * sum, rising = factorial;
    else if (m > n && (m - n) % 2 == 0) far += T(bernoulli[(m - n) / 2 - 1]) * rising * sum;
  }
  const T all = factorial * near + first * far + (n == 0 ? std::log1p(h / x) : T(0));
  return n % 2 == 0 ? -all : all;
}
struct PolygammaDrop {
  template <class T>
  static T call(T n, T x, T h) {
    const int order = order_of(n);
    return order >= 0 ? polygamma_difference(order, x, h) : nan<T>;
  }
};

}  // namespace rill::special
