// Integrals of exponentials and waves: E1, Ei, the sine and cosine integrals, Dawson's and Fresnel's.
//
// Small arguments by their power series, large ones by the continued fraction of E1 (DLMF 6.9.1) at real or imaginary
// arguments, or an asymptotic series. Series that lose digits are taken no further than where T still has more than the
// result needs: f64 is computed in long double.
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "rill/ops/elementwise/long_records.h"
#include "rill/ops/special.h"

namespace rill {

using namespace elementwise;

namespace {

constexpr long double euler = 0.577215664901532860606512090082402431L, pi = std::numbers::pi_v<long double>;
template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();

// e^z E1(z) = 1/(z + 1 - 1/(z + 3 - 4/(z + 5 - ...))), by Lentz's method. Z: real or complex.
template <class T, class Z>
Z scaled_e1(Z z) {
  Z b = z + T(1), c = T(1) / std::numeric_limits<T>::min(), d = T(1) / b, h = d;
  for (int i = 1; i < 1000; ++i) {
    const T a = -T(i) * T(i);
    b += T(2);
    d = T(1) / (a * d + b);
    c = b + a / c;
    const Z step = c * d;
    h *= step;
    if (std::abs(step - T(1)) < std::numeric_limits<T>::epsilon()) break;
  }
  return h;
}

// The sum of x^k / (k k!) over k >= 1.
template <class T>
T exponential_series(T x) {
  T term = 1, sum = 0;
  for (int k = 1; k < 500; ++k) {
    term *= x / T(k);
    sum += term / T(k);
    if (std::abs(term) < std::abs(sum) * std::numeric_limits<T>::epsilon()) break;
  }
  return sum;
}

struct E1 {
  template <class T>
  static T call(T x) {
    if (!(x >= 0)) return nan<T>;
    if (x == 0) return infinity<T>;
    if (std::isinf(x)) return 0;
    return x <= 1 ? -T(euler) - std::log(x) - exponential_series(-x) : std::exp(-x) * scaled_e1<T>(x);
  }
};
struct Ei {
  template <class T>
  static T call(T x) {
    if (std::isnan(x)) return x;
    if (x == 0) return -infinity<T>;
    if (x < 0) return -E1::call(-x);
    if (std::isinf(x)) return x;
    if (x < 50) return T(euler) + std::log(x) + exponential_series(x);
    T term = 1, sum = 1;
    for (int k = 1; k < 100 && T(k) < x; ++k) {
      term *= T(k) / x;
      sum += term;
      if (term < std::numeric_limits<T>::epsilon()) break;
    }
    return std::exp(x) / x * sum;
  }
};

// The sums of (-1)^k x^n / (n n!) over odd and over positive even n: Si(x), and Ci(x) but for gamma + log(x).
template <class T>
T wave_series(T x, int first) {
  T term = first == 1 ? x : -x * x / 2, sum = 0;
  for (int n = first; n < 200; n += 2) {
    sum += term / T(n);
    term *= -x * x / (T(n + 1) * T(n + 2));
    if (std::abs(term) < std::abs(sum) * std::numeric_limits<T>::epsilon() / 16) break;
  }
  return sum;
}
struct SineIntegral {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isnan(x)) return x;
    if (a <= 4) return wave_series(x, 1);
    if (std::isinf(x)) return std::copysign(T(pi) / 2, x);
    const std::complex<T> z(0, a), e = std::exp(-z) * scaled_e1<T>(z);  // -Ci(a) + i (Si(a) - pi / 2)
    return std::copysign(T(pi) / 2 + e.imag(), x);
  }
};
struct CosineIntegral {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isnan(x)) return x;
    if (a == 0) return -infinity<T>;
    if (a <= 4) return T(euler) + std::log(a) + wave_series(a, 2);
    if (std::isinf(x)) return 0;
    const std::complex<T> z(0, a), e = std::exp(-z) * scaled_e1<T>(z);
    return -e.real();
  }
};

// Rybicki (1989): e^(-x^2) times the integral is the sum over odd n of e^(-(x - n h)^2) / n, over sqrt(pi), up to an
// error of e^(-(pi / 2 h)^2).
struct Dawson {
  template <class T>
  static T call(T x) {
    const T a = std::abs(x);
    if (std::isinf(x)) return std::copysign(T(0), x);
    if (a < T(0.2L)) {
      T term = x, sum = x;
      for (int k = 1; k < 30; ++k) sum += term *= -2 * x * x / T(2 * k + 1);
      return sum;
    }
    if (a > 1e4) return (1 + (1 + 3 / (2 * x * x)) / (2 * x * x)) / (2 * x);
    const T h = T(0.2L), middle = 2 * std::round(a / (2 * h)), beyond = a - middle * h;
    T sum = 0;
    for (int k = -39; k <= 39; k += 2) {
      const T d = beyond - T(k) * h;
      sum += std::exp(-d * d) / (middle + T(k));
    }
    return std::copysign(sum / std::sqrt(T(pi)), x);
  }
};

// The integrals of sin and cos of pi t^2 / 2: power series, and beyond the error function of a complex argument by its
// continued fraction, C + i S = (1 + i)/2 erf(z), z = sqrt(pi)/2 (1 - i) x.
template <class T>
std::complex<T> fresnel_integrals(T x) {
  const T a = std::abs(x);
  if (std::isinf(x)) return {std::copysign(T(0.5L), x), std::copysign(T(0.5L), x)};
  if (a <= T(1.5L)) {
    const T t = T(pi) / 2 * x * x;
    T term = x, sums[2] = {0, 0};
    for (int k = 0; k < 80; ++k) {
      sums[k % 2] += (k % 4 < 2 ? term : -term) / T(2 * k + 1);
      term *= t / T(k + 1);
    }
    return {sums[0], sums[1]};
  }
  const T t = T(pi) * a * a;
  std::complex<T> b(1, -t), c(1 / std::numeric_limits<T>::min()), d = T(1) / b, h = d;
  for (int k = 1; k < 2000; ++k) {
    const T n = T(-(2 * k - 1)) * T(2 * k);
    b += T(4);
    d = T(1) / (n * d + b);
    c = b + n / c;
    const std::complex<T> step = c * d;
    h *= step;
    if (std::abs(step - T(1)) < std::numeric_limits<T>::epsilon()) break;
  }
  const T angle = T(pi) / 2 * std::fmod(a * a, T(4));
  const std::complex<T> wave(std::cos(angle), std::sin(angle));
  const std::complex<T> y = std::complex<T>(T(0.5L), T(0.5L)) * (T(1) - wave * std::complex<T>(a, -a) * h);
  return {std::copysign(y.real(), x), std::copysign(y.imag(), x)};
}
struct FresnelSine {
  template <class T>
  static T call(T x) {
    return std::isnan(x) ? x : fresnel_integrals(x).imag();
  }
};
struct FresnelCosine {
  template <class T>
  static T call(T x) {
    return std::isnan(x) ? x : fresnel_integrals(x).real();
  }
};

// pi x^2 / 2, as an angle that keeps its digits.
Tensor quarter_turns(const Tensor& x) { return std::numbers::pi / 2 * fmod(square(x), 4); }

}  // namespace

#define RILL_INTEGRAL(fn, F, text, derivative, sample_fn)                                                  \
  extern const Op fn##_op;                                                                                 \
  const Op fn##_op(long_spec<#fn, F, 1>({.name = #fn,                                                      \
                                         .doc = text,                                                      \
                                         .vjp =                                                            \
                                             [](const VjpArgs& a) {                                        \
                                               const Tensor& x = a.in[0];                                  \
                                               return Tensors{share_of(a, 0, [&] { return derivative; })}; \
                                             },                                                            \
                                         .saves_in = save(0),                                              \
                                         .samples = sample_fn,                                             \
                                         .max_ulp = 8,                                                     \
                                         .norm_tolerance = 2}));

RILL_INTEGRAL(exp1, E1, "the exponential integral E1: that of e^-t / t from x to infinity", -exp(-x) / x,
              (unary_samples<10, 2000>))
RILL_INTEGRAL(expi, Ei, "the exponential integral Ei: the principal value of that of e^t / t up to x", exp(x) / x,
              (unary_samples<50, 2000>))
RILL_INTEGRAL(sine_integral, SineIntegral, "the integral of sin(t) / t from 0 to x", sinc(x / std::numbers::pi),
              (unary_samples<-2000, 2000>))
RILL_INTEGRAL(cosine_integral, CosineIntegral, "gamma + log |x| + the integral of (cos(t) - 1) / t from 0 to x",
              cos(x) / x, (unary_samples<20, 2000>))
RILL_INTEGRAL(dawsn, Dawson, "Dawson's integral: e^(-x^2) times the integral of e^(t^2) from 0 to x",
              1 - 2 * x * dawsn(x), (unary_samples<-800, 800>))
RILL_INTEGRAL(fresnel_sine, FresnelSine, "Fresnel's integral of sin(pi t^2 / 2) from 0 to x", sin(quarter_turns(x)),
              (unary_samples<-500, 500>))
RILL_INTEGRAL(fresnel_cosine, FresnelCosine, "Fresnel's integral of cos(pi t^2 / 2) from 0 to x", cos(quarter_turns(x)),
              (unary_samples<-500, 500>))
#undef RILL_INTEGRAL

Tensor exp1(const Tensor& x, Where where) { return long_call(exp1_op, {&x}, where); }
Tensor expi(const Tensor& x, Where where) { return long_call(expi_op, {&x}, where); }
Tensor dawsn(const Tensor& x, Where where) { return long_call(dawsn_op, {&x}, where); }
SineCosine sici(const Tensor& x, Where where) {
  return {long_call(sine_integral_op, {&x}, where), long_call(cosine_integral_op, {&x}, where)};
}
SineCosine fresnel(const Tensor& x, Where where) {
  return {long_call(fresnel_sine_op, {&x}, where), long_call(fresnel_cosine_op, {&x}, where)};
}

}  // namespace rill
