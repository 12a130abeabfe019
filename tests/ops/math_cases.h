// Every function of devices/kernel/math/math.h with a reference in higher precision, the range to sample densely, the
// error in ulp that docs/math.md promises, and the note printed there. test_accuracy.cpp judges the records by MPFR;
// test_math.cpp holds the functions to these references, which every machine has.
#pragma once

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace rill::math_cases {

// References take and give long double: for float32 results the double functions of the C library are precise enough.
using Reference = long double (*)(long double);
using Reference2 = long double (*)(long double, long double);

inline long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
inline long double softplus(long double x) {
  return std::isnan(x) ? x : std::fmax(x, 0.0L) + std::log1p(std::exp(-std::fabs(x)));
}
inline long double gelu(long double x) {
  if (std::fabs(x) > 100) return x < 0 ? -0.0L : x;  // long before anything overflows; NaN goes on
  return x / (1 + std::exp(-1.5957691216057307117597842397375L * (x + 0.044715L * x * x * x)));
}
inline long double sinc(long double x) {
  if (x == 0) return 1;
  const long double whole = std::nearbyint(x), d = x - whole;
  if (d == 0) return 0;
  return std::sin(3.14159265358979323846264338327950288L * d) * (std::fmod(whole, 2) == 0 ? 1 : -1) /
         (3.14159265358979323846264338327950288L * x);
}
inline long double rsqrt(long double x) { return 1 / std::sqrt(x); }
inline long double lgamma(long double x) {
  int sign;
  return ::lgammal_r(x, &sign);
}

// Newton's method on whichever of erf and erfc has the digits.
inline long double erfinv(long double x) {
  const long double a = std::fabs(x);
  if (!(a < 1)) return a == 1 ? std::copysign(std::numeric_limits<long double>::infinity(), x) : std::nanl("");
  if (a == 0) return x;
  long double y = a < 0.7L ? a * 0.9L : std::sqrt(-std::log(1 - a));
  for (int i = 0; i < 60; ++i) {
    const long double f = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const long double step = f / (1.12837916709551257390L * std::exp(-y * y));
    y -= step;
    if (std::fabs(step) < 1e-19L * y) break;
  }
  return std::copysign(y, x);
}

// Recurrence far up, then the asymptotic series; x > 0. Good to about 4e-19 absolute, so poor very near the root.
inline long double digamma(long double x) {
  if (std::isnan(x)) return x;
  if (x == 0) return std::copysign(std::numeric_limits<long double>::infinity(), -x);
  if (x < 0) return std::nanl("");
  if (std::isinf(x)) return x;
  long double sum = 0, lost = 0;  // compensated
  const auto add = [&](long double term) {
    const long double t = term - lost, next = sum + t;
    lost = (next - sum) - t;
    sum = next;
  };
  for (; x < 40; x += 1) add(-1 / x);
  const long double z = 1 / (x * x);
  add(std::log(x));
  add(-0.5L / x);
  add(-z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132)))));
  return sum;
}

struct Case {
  const char* name;
  Reference reference;       // long double, for float64
  double (*narrow)(double);  // double, for float32
  double low, high;          // sampled densely here, and thinly over all numbers
  double bound32, bound64;   // largest error allowed, in ulp
  const char* note;          // for docs/math.md
};

template <Reference f>
double through(double x) {
  return static_cast<double>(f(x));
}

// One line for every function of one argument. The name is that of math.h.
#define RILL_MATH_FUNCTIONS(F)                                                                                     \
  F(exp, std::exp, std::exp, -20, 20, 1.0, 1.0, "")                                                                \
  F(exp2, std::exp2, std::exp2, -20, 20, 1.0, 1.0, "exact at integers")                                            \
  F(expm1, std::expm1, std::expm1, -2, 2, 1.5, 2.0, "")                                                            \
  F(log, std::log, std::log, 0.25, 4, 1.0, 1.0, "")                                                                \
  F(log2, std::log2, std::log2, 0.25, 4, 1.0, 1.0, "exact at powers of two")                                       \
  F(log10, std::log10, std::log10, 0.25, 4, 1.0, 1.0, "")                                                          \
  F(log1p, std::log1p, std::log1p, -0.75, 3, 1.0, 1.5, "")                                                         \
  F(sin, std::sin, std::sin, -100, 100, 0.9, 0.9, "abs(x) > 1e5 (f32), 1e9 (f64): C library")                      \
  F(cos, std::cos, std::cos, -100, 100, 0.9, 0.9, "as sin")                                                        \
  F(tan, std::tan, std::tan, -100, 100, 1.9, 1.9, "as sin")                                                        \
  F(asin, std::asin, std::asin, -1, 1, 1.3, 1.3, "")                                                               \
  F(acos, std::acos, std::acos, -1, 1, 0.9, 0.9, "")                                                               \
  F(atan, std::atan, std::atan, -4, 4, 2.0, 2.0, "")                                                               \
  F(sinh, std::sinh, std::sinh, -4, 4, 1.3, 1.3, "")                                                               \
  F(cosh, std::cosh, std::cosh, -4, 4, 1.3, 1.3, "")                                                               \
  F(tanh, std::tanh, std::tanh, -10, 10, 1.1, 1.2, "")                                                             \
  F(asinh, std::asinh, std::asinh, -4, 4, 2.0, 2.0, "")                                                            \
  F(acosh, std::acosh, std::acosh, 1, 4, 2.1, 2.0, "")                                                             \
  F(atanh, std::atanh, std::atanh, -1, 1, 2.0, 2.0, "")                                                            \
  F(sigmoid, rill::math_cases::sigmoid, through<rill::math_cases::sigmoid>, -20, 20, 1.7, 1.7, "")                 \
  F(softplus, rill::math_cases::softplus, through<rill::math_cases::softplus>, -20, 20, 1.4, 1.4, "")              \
  F(erf, std::erf, std::erf, -4, 4, 1.2, 1.2, "")                                                                  \
  F(erfc, std::erfc, std::erfc, -4, 10, 2.0, 2.0, "")                                                              \
  F(gelu, rill::math_cases::gelu, through<rill::math_cases::gelu>, -12, 6, 2.0, 2.0, "the tanh form")              \
  F(sinc, rill::math_cases::sinc, through<rill::math_cases::sinc>, -12, 12, 2.0, 2.0, "")                          \
  F(erfinv, rill::math_cases::erfinv, through<rill::math_cases::erfinv>, -1, 1, 1.8, 4.0, "")                      \
  F(lgamma, rill::math_cases::lgamma, through<rill::math_cases::lgamma>, -10, 20, 0.6, 8.0, "C library")           \
  F(digamma, rill::math_cases::digamma, through<rill::math_cases::digamma>, 0, 20, 0.6, 0.8, "x > 0; scalar code") \
  F(rsqrt, rill::math_cases::rsqrt, through<rill::math_cases::rsqrt>, 0, 4, 1.5, 1.5, "")                          \
  F(cbrt, std::cbrt, std::cbrt, -8, 8, 0.8, 0.8, "")

inline constexpr double pow_bound = 1.2, atan2_bound = 2.0;  // in both formats

// The part of a function's row of docs/math.md that does not depend on how many numbers were measured.
inline std::string row_start(const std::string& name, double bound32, double bound64, const std::string& note) {
  char bounds[64];
  std::snprintf(bounds, sizeof bounds, " | %.1f | %.1f | ", bound32, bound64);
  return "| " + name + bounds + note + " |";
}

}  // namespace rill::math_cases
