// A number with its derivative by one variable, for scalar functions whose derivative has no closed form: the same
// series or continued fraction, computed on duals, gives both. Templates over a real type accept either.
#pragma once
#include <cmath>

namespace rill::scalar_math {

template <class T>
struct Dual {
  T v, d = 0;
  Dual() = default;
  Dual(T value, T slope = 0) : v(value), d(slope) {}

  friend Dual operator+(Dual x, Dual y) { return {x.v + y.v, x.d + y.d}; }
  friend Dual operator-(Dual x, Dual y) { return {x.v - y.v, x.d - y.d}; }
  friend Dual operator*(Dual x, Dual y) { return {x.v * y.v, x.d * y.v + x.v * y.d}; }
  friend Dual operator/(Dual x, Dual y) {
    const T q = x.v / y.v;
    return {q, (x.d - q * y.d) / y.v};
  }
  friend Dual operator-(Dual x) { return {-x.v, -x.d}; }
};

template <class R>
struct RealOf {
  using type = R;
};
template <class T>
struct RealOf<Dual<T>> {
  using type = T;
};
template <class R>
using real_t = typename RealOf<R>::type;

template <class T>
T value(T x) {
  return x;
}
template <class T>
T value(Dual<T> x) {
  return x.v;
}
// The magnitude of the value and the derivative, by which series decide whether a term still matters.
template <class T>
T size(T x) {
  return std::fabs(x);
}
template <class T>
T size(Dual<T> x) {
  return std::fabs(x.v) + std::fabs(x.d);
}

using std::exp, std::expm1, std::log, std::log1p, std::sqrt;
template <class T>
Dual<T> exp(Dual<T> x) {
  const T y = std::exp(x.v);
  return {y, y * x.d};
}
template <class T>
Dual<T> expm1(Dual<T> x) {
  return {std::expm1(x.v), std::exp(x.v) * x.d};
}
template <class T>
Dual<T> log(Dual<T> x) {
  return {std::log(x.v), x.d / x.v};
}
template <class T>
Dual<T> log1p(Dual<T> x) {
  return {std::log1p(x.v), x.d / (1 + x.v)};
}
template <class T>
Dual<T> sqrt(Dual<T> x) {
  const T y = std::sqrt(x.v);
  return {y, x.d / (2 * y)};
}

}  // namespace rill::scalar_math
