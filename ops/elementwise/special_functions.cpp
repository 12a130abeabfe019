// Sigmoid, the error function, the gamma function and related ones. The layout of the file is that of unary.cpp.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/elementwise/special_functions.cpp"
#include <hwy/foreach_target.h>
#include "rill/ops/elementwise/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR(sigmoid, floats, sigmoid(x))
RILL_SCALAR(gelu, floats, gelu(x))
RILL_SCALAR(softplus, floats, softplus(x))
RILL_SCALAR(erf, floats, erf(x))
RILL_SCALAR(erfc, floats, erfc(x))
RILL_SCALAR(erfinv, floats, erfinv(x))
RILL_SCALAR(lgamma, floats, lgamma(x))
RILL_SCALAR(digamma, floats, digamma(x))
RILL_SCALAR(sinc, floats, sinc(x))
RILL_SCALAR(gauss, floats, gauss(x))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/ops/elementwise/unary_records.h"

namespace rill {

using namespace elementwise;

extern const Op sigmoid_derivative_op, gelu_grad_op;  // arithmetic.cpp

namespace {
constexpr double two_over_sqrt_pi = 1.12837916709551257390, pi = 3.14159265358979323846;
}

RILL_FLOAT_UNARY(sigmoid, "1 / (1 + e^-x)", float_set, ref::floats,
                 x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)),
                 apply1(sigmoid_derivative_op, {&x, &a.cotangent[0]}, {}, Where::current()), IN, SAMPLES(-300, 300), 2,
                 "Sigmoid", "Sigmoid")
RILL_FLOAT_UNARY(softplus, "log(1 + e^x), without overflow", float_set, ref::floats,
                 (x > 0 ? x : 0) + std::log1p(std::exp(-abs(x))), chain(a, sigmoid(x)), IN, SAMPLES(-300, 300), 2,
                 "Softplus", "Softplus")

namespace {
long double gelu_reference(long double x) {
  return x < -100 ? -0.0L : x / (1 + std::exp(-1.59576912160573071176L * (x + 0.044715L * x * x * x)));
}
}  // namespace
RILL_FLOAT_UNARY(gelu, "x / (1 + e^-v), v = 2 sqrt(2/pi) (x + 0.044715 x^3): the tanh form of x Phi(x)", float_set,
                 ref::floats, gelu_reference(x), apply1(gelu_grad_op, {&x, &a.cotangent[0]}, {}, Where::current()), IN,
                 SAMPLES(-300, 300), 2, "", "")
extern const Op gauss_op;
namespace {
Tensor gauss_of(const Tensor& x) { return apply1(gauss_op, {&x}, {}, Where::current()); }
}  // namespace
const Op gauss_op(spec_of({.name = "gauss",
                           .doc = "e^(-x^2)",
                           .dtypes = float_set,
                           .cpu = cpu::scalar_kernel<"gauss">,
                           .ref = ref::scalar_kernel<[](auto x) { return std::exp(-(long double)x * x); }, ref::floats>,
                           .vjp = [](const VjpArgs& a) { return Tensors{chain(a, -2 * a.in[0] * gauss_of(a.in[0]))}; },
                           IN,
                           .samples = SAMPLES(-200, 200),
                           .max_ulp = 3}));
RILL_FLOAT_UNARY(erf, "error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x", float_set, ref::floats,
                 std::erf(x), chain(a, two_over_sqrt_pi* gauss_of(x)), IN, SAMPLES(-200, 200), 2, "Erf", "Erf")
RILL_FLOAT_UNARY(erfc, "1 - erf(x), accurate for large x", float_set, ref::floats, std::erfc(x),
                 chain(a, -two_over_sqrt_pi* gauss_of(x)), IN, SAMPLES(-200, 200), 2, "", "Erfc")
RILL_FLOAT_UNARY(lgamma, "logarithm of |Gamma(x)|", float_set, ref::floats, std::lgamma(x), chain(a, digamma(x)), IN,
                 SAMPLES(260, 800), 4, "", "Lgamma")

namespace {
// Newton steps on erf from a double-precision start (Giles, Approximating the erfinv function, 2010, for the start's
// idea).
long double erfinv_reference(long double x) {
  if (!(x > -1 && x < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
  if (x == 0) return x;
  long double w = -std::log((1 - x) * (1 + x)), y = w < 5 ? x * 0.9L : std::copysign(std::sqrt(w), x);
  for (int i = 0; i < 60; ++i) {
    long double e = std::fabs(x) < 0.5L ? x - std::erf(y) : x < 0 ? -(std::erfc(-y) - (1 + x)) : std::erfc(y) - (1 - x);
    y += e * 0.886226925452758013649L * std::exp(y * y);
  }
  return y;
}
// digamma near its positive root, root + d: the recurrence and the series of both (A&S 6.3.5, 6.3.18) are subtracted
// term by term, so that no digits cancel. The truncation error of the series is below 1e-17 d.
long double digamma_beside_root(long double root, long double d) {
  constexpr int far = 1500;
  long double sum = 0;
  for (int k = 0; k < far; ++k) sum += 1 / ((root + d + k) * (root + k));
  const long double a = root + far, b = a + d, ab = a * b;
  return d * (sum + 0.5L / ab + (a + b) / (12 * ab * ab)) + std::log1p(d / a);
}
// Recurrence up to x >= 20, then the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18); reflection below 0
// (6.3.7).
long double digamma_reference(long double x) {
  constexpr long double wide_pi = 3.14159265358979323846264338327950288L;
  if (x == 0) return std::copysign((long double)INFINITY, -x);
  if (std::isinf(x)) return x > 0 ? x : NAN;
  if (x < 0)
    return std::floor(x) == x ? NAN : digamma_reference(1 - x) - wide_pi / std::tan(wide_pi * (x - std::round(x)));
  constexpr long double root = 0x1.762d86356be3fp+0L, rest = 9.549995429965697715184199e-17L;  // their sum is the root
  if (std::fabs(x - root) < 0.02L) return digamma_beside_root(root, x - root - rest);
  long double shift = 0;
  for (; x < 20; x += 1) shift -= 1 / x;
  long double i = 1 / (x * x);
  return shift + std::log(x) - 0.5L / x -
         i * (1 / 12.0L -
              i * (1 / 120.0L -
                   i * (1 / 252.0L - i * (1 / 240.0L - i * (1 / 132.0L - i * (691 / 32760.0L - i / 12.0L))))));
}
// The derivative of digamma by the same scheme on public functions (A&S 6.4.6, 6.4.12), for x > 0; by reflection for
// x < 0, where the sine has period 2 and its square period 1.
Tensor trigamma(const Tensor& x) {
  Tensor positive = x > 0, z = where(positive, x, 1 - x), sum = zeros_like(z);
  for (int i = 0; i < 8; ++i) sum = sum + square(1 / z), z = z + 1;
  Tensor i = square(1 / z);
  Tensor tail = 1 / 30.0 - i * (5 / 66.0 - i * (691 / 2730.0 - i * (7 / 6.0)));
  Tensor series = 1 / z + i * 0.5 + i / z * (1 / 6.0 - i * (1 / 30.0 - i * (1 / 42.0 - i * tail)));
  Tensor value = sum + series;
  return where(positive, value, square(pi / sin(pi * (x - stop_gradient(round(x))))) - value);
}

template <class X>
X sinc_reference(X x) {
  constexpr long double wide_pi = 3.14159265358979323846264338327950288L;
  if (x == X(0)) return 1;
  if constexpr (requires { x.imag(); }) {
    const auto whole = std::nearbyint(x.real());  // so that the sine keeps its digits
    return (std::fmod(whole, 2) != 0 ? -1.0L : 1.0L) * std::sin(wide_pi * (x - whole)) / (wide_pi * x);
  } else {
    return std::nearbyint(x) == x && !std::isinf(x) ? 0 : std::sin(wide_pi * std::remainder(x, 2)) / (wide_pi * x);
  }
}
// (cos(pi x) - sinc x) / x, near 0 as a series, the sum over k >= 1 of (-1)^k 2k z^(2k - 1) / (2k + 1)! in z = pi x: so
// derivatives of every order are accurate there too.
Tensor slope_of_sinc(const Tensor& x, const Tensor& y) {
  const Tensor near = abs(x) < 0.25, z = pi * where(near, x, 0), q = square(z);
  constexpr int terms = 11;
  double factorial[2 * terms + 2] = {1};
  for (int k = 1; k < 2 * terms + 2; ++k) factorial[k] = factorial[k - 1] * k;
  const auto coefficient = [&](int k) { return (k % 2 ? -2.0 : 2.0) * k / factorial[2 * k + 1]; };
  const int last = real_of(x.dtype()) == f64 ? terms : 6;
  Tensor series = q * coefficient(last) + coefficient(last - 1);
  for (int k = last - 2; k >= 1; --k) series = q * series + coefficient(k);
  // cos(pi x) by the distance to its zeros, reduced by full periods, because pi is rounded and x may be large.
  const Tensor cosine =
      is_complex(x.dtype()) ? cos(pi * x) : sin(pi * (0.5 - abs(x - stop_gradient(2 * round(0.5 * x)))));
  return where(near, pi * z * series, (cosine - y) / where(near, 1, x));
}
}  // namespace

RILL_FLOAT_UNARY(erfinv, "inverse of erf, for x in [-1, 1]", float_set, ref::floats, erfinv_reference(x),
                 chain(a, 1 / (two_over_sqrt_pi * gauss_of(y))), OUT, SAMPLES(-90, 90), 4, "", "Erfinv")
RILL_FLOAT_UNARY(digamma, "derivative of lgamma", float_set, ref::floats, digamma_reference(x), chain(a, trigamma(x)),
                 IN, SAMPLES(200, 800), 2, "", "Digamma")
#define IN_OUT .saves_in = save(0), .saves_out = save(0)
RILL_FLOAT_UNARY(sinc, "sin(pi x) / (pi x), 1 at 0", analytic_set, analytic, sinc_reference(x),
                 chain(a, slope_of_sinc(x, y)), IN_OUT, SAMPLES(-300, 300), 5, "", "")
#undef IN_OUT

}  // namespace rill
#endif  // HWY_ONCE
