// The records of elementwise ops with one operand. Each op is one RILL_SCALAR line (its arithmetic, see
// devices/cpu/scalar_loops-inl.h) and one record below it in the second half.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/ops/unary.cpp"
#include <hwy/foreach_target.h>
#include "rill/devices/cpu/scalar_loops-inl.h"
#include "rill/devices/kernel/targets.h"

HWY_BEFORE_NAMESPACE();
namespace rill::HWY_NAMESPACE {

RILL_SCALAR(exp, floats, exp(x))
RILL_SCALAR(exp2, floats, exp2(x))
RILL_SCALAR(expm1, floats, expm1(x))
RILL_SCALAR(log, floats, log(x))
RILL_SCALAR(log2, floats, log2(x))
RILL_SCALAR(log10, floats, log10(x))
RILL_SCALAR(log1p, floats, log1p(x))
RILL_SCALAR(sqrt, floats, sqrt(x))
RILL_SCALAR(rsqrt, floats, V(1) / sqrt(x))
RILL_SCALAR(cbrt, floats, cbrt(x))
RILL_SCALAR(reciprocal, floats, V(1) / x)
RILL_SCALAR(sin, floats, sin(x))
RILL_SCALAR(cos, floats, cos(x))
RILL_SCALAR(tan, floats, tan(x))
RILL_SCALAR(asin, floats, asin(x))
RILL_SCALAR(acos, floats, acos(x))
RILL_SCALAR(atan, floats, atan(x))
RILL_SCALAR(sinh, floats, sinh(x))
RILL_SCALAR(cosh, floats, cosh(x))
RILL_SCALAR(tanh, floats, tanh(x))
RILL_SCALAR(asinh, floats, asinh(x))
RILL_SCALAR(acosh, floats, acosh(x))
RILL_SCALAR(atanh, floats, atanh(x))
RILL_SCALAR(sigmoid, floats, sigmoid(x))
RILL_SCALAR(softplus, floats, softplus(x))
RILL_SCALAR(erf, floats, erf(x))
RILL_SCALAR(erfc, floats, erfc(x))
RILL_SCALAR(erfinv, floats, erfinv(x))
RILL_SCALAR(lgamma, floats, lgamma(x))
RILL_SCALAR(digamma, floats, digamma(x))

RILL_SCALAR(negative, numbers, V(-x))
RILL_SCALAR(square, numbers, V(x* x))
RILL_SCALAR(abs, numbers, abs(x))
RILL_SCALAR(sign, numbers, select(x > V(0), V(1), select(x < V(0), V(-1), x)))
RILL_SCALAR(relu, numbers, select(x <= V(0), V(0), x))
RILL_SCALAR(floor, floats, floor(x))
RILL_SCALAR(ceil, floats, ceil(x))
RILL_SCALAR(trunc, floats, trunc(x))
RILL_SCALAR(round, floats, round_even(x))
RILL_SCALAR(bitwise_not, ints | bools, V(x ^ V(-1)))
RILL_SCALAR(logical_not, any_kind, x == V(0))
RILL_SCALAR(isnan, floats, isnan(x))
RILL_SCALAR(isinf, floats, abs(x) == V(std::numeric_limits<scalar_t<V>>::infinity()))
RILL_SCALAR(isfinite, floats, abs(x) < V(std::numeric_limits<scalar_t<V>>::infinity()))
RILL_SCALAR(signbit, floats, copysign(V(1), x) < V(0))

}  // namespace rill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "rill/devices/ref/elementwise.h"
#include "rill/ops/elementwise_records.h"
#include "rill/ops/ops.h"

namespace rill {

namespace {

using namespace elementwise;
constexpr double two_over_sqrt_pi = 1.12837916709551257390, ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;

// The fields that most records share; the rest is set by name.
struct Unary {
  std::string_view name, doc;
  DTypeSet dtypes;
  Kernel cpu, ref;
  Vjp vjp;
  uint64_t saves_in = save_none, saves_out = save_none;
  std::vector<Sample> (*samples)();
  double max_ulp = 4;
  ExportNames exported = {};
  Infer infer = infer_same;
  std::string_view no_gradient = "";
  std::string_view no_finite_difference = "";
};

OpSpec spec_of(const Unary& u) {
  OpSpec s;
  s.name = u.name, s.doc = u.doc, s.kind = OpKind::elementwise, s.dtypes = u.dtypes, s.infer = u.infer;
  s.vjp = u.vjp, s.saves_in = u.saves_in, s.saves_out = u.saves_out, s.no_gradient = u.no_gradient;
  s.cpu = u.cpu, s.ref = u.ref, s.samples = u.samples, s.max_ulp = u.max_ulp, s.exported = u.exported;
  s.cpu_dtypes = plain_set & ~complex_set;  // complex numbers take the reference loops
  s.no_finite_difference = u.no_finite_difference;
  return s;
}

constexpr DTypeSet analytic_set = float_set | complex_set;
constexpr unsigned analytic = ref::floats | ref::complexes;

}  // namespace
extern const Op tanh_grad_op, sigmoid_grad_op, relu_grad_op;  // binary.cpp
namespace {

// The cotangent times the conjugate of the derivative (conj() is the identity on reals); 0 where no cotangent arrives,
// also where the derivative is infinite.
Tensor chain(const VjpArgs& a, const Tensor& derivative) { return multiply_no_nan(conj(derivative), a.cotangent[0]); }

}  // namespace

// RILL_FLOAT_UNARY(name, doc, dtypes, kinds, reference(x), cotangent of x = in from y = out, what it saves, samples,
// ulp, onnx, tf)
#define RILL_FLOAT_UNARY(fn, doc_text, set, kinds, reference, derivative, saves, sample_fn, ulp, onnx_name, tf_name) \
  extern const Op fn##_op;                                                                                           \
  const Op fn##_op(spec_of({.name = #fn,                                                                             \
                            .doc = doc_text,                                                                         \
                            .dtypes = set,                                                                           \
                            .cpu = cpu::scalar_kernel<#fn>,                                                          \
                            .ref = ref::scalar_kernel<[](auto x) {                                                   \
                              using std::abs;                                                                        \
                              return reference;                                                                      \
                            },                                                                                       \
                                                      kinds>,                                                        \
                            .vjp =                                                                                   \
                                [](const VjpArgs& a) {                                                               \
                                  [[maybe_unused]] const Tensor &x = a.in[0], &y = a.out[0];                         \
                                  return Tensors{derivative};                                                        \
                                },                                                                                   \
                            saves,                                                                                   \
                            .samples = sample_fn,                                                                    \
                            .max_ulp = ulp,                                                                          \
                            .exported = {onnx_name, tf_name}}));                                                     \
  Tensor fn(const Tensor& x, Where where) { return unary(fn##_op, x, true, where); }

#define IN .saves_in = save(0)
#define OUT .saves_out = save(0)
#define SAMPLES(lo, hi) (unary_samples<lo, hi>)

RILL_FLOAT_UNARY(exp, "e^x", analytic_set, analytic, std::exp(x), chain(a, y), OUT, SAMPLES(-300, 300), 2, "Exp", "Exp")
RILL_FLOAT_UNARY(exp2, "2^x", float_set, ref::floats, std::exp2(x), chain(a, y* ln2), OUT, SAMPLES(-300, 300), 2, "",
                 "")
RILL_FLOAT_UNARY(expm1, "e^x - 1, accurate near 0", float_set, ref::floats, std::expm1(x), chain(a, y + 1), OUT,
                 SAMPLES(-200, 200), 3, "", "Expm1")
RILL_FLOAT_UNARY(log, "natural logarithm", analytic_set, analytic, std::log(x), chain(a, 1 / x), IN, SAMPLES(10, 500),
                 2, "Log", "Log")
RILL_FLOAT_UNARY(log2, "base-2 logarithm", float_set, ref::floats, std::log2(x), chain(a, 1 / (x * ln2)), IN,
                 SAMPLES(10, 500), 3, "", "")
RILL_FLOAT_UNARY(log10, "base-10 logarithm", float_set, ref::floats, std::log10(x), chain(a, 1 / (x * ln10)), IN,
                 SAMPLES(10, 500), 3, "", "")
RILL_FLOAT_UNARY(log1p, "log(1 + x), accurate near 0", float_set, ref::floats, std::log1p(x), chain(a, 1 / (1 + x)), IN,
                 SAMPLES(-50, 300), 3, "", "Log1p")
RILL_FLOAT_UNARY(sqrt, "square root", analytic_set, analytic, std::sqrt(x), chain(a, 0.5 / y), OUT, SAMPLES(10, 500), 1,
                 "Sqrt", "Sqrt")
RILL_FLOAT_UNARY(rsqrt, "1 / sqrt(x)", analytic_set, analytic, decltype(x)(1) / std::sqrt(x),
                 chain(a, -0.5 * y * y * y), OUT, SAMPLES(10, 500), 2, "", "Rsqrt")
RILL_FLOAT_UNARY(cbrt, "cube root", float_set, ref::floats, std::cbrt(x), chain(a, 1 / (3 * y * y)), OUT,
                 SAMPLES(10, 500), 3, "", "")
RILL_FLOAT_UNARY(reciprocal, "1 / x", analytic_set, analytic, decltype(x)(1) / x, chain(a, -(y* y)), OUT,
                 SAMPLES(10, 500), 1, "Reciprocal", "Reciprocal")
RILL_FLOAT_UNARY(sin, "sine of radians", analytic_set, analytic, std::sin(x), chain(a, cos(x)), IN, SAMPLES(-300, 300),
                 2, "Sin", "Sin")
RILL_FLOAT_UNARY(cos, "cosine of radians", analytic_set, analytic, std::cos(x), chain(a, -sin(x)), IN,
                 SAMPLES(-300, 300), 2, "Cos", "Cos")
RILL_FLOAT_UNARY(tan, "tangent of radians", analytic_set, analytic, std::tan(x), chain(a, 1 + y * y), OUT,
                 SAMPLES(-130, 130), 4, "Tan", "Tan")
RILL_FLOAT_UNARY(asin, "inverse sine", analytic_set, analytic, std::asin(x), chain(a, rsqrt(1 - x * x)), IN,
                 SAMPLES(-90, 90), 4, "Asin", "Asin")
RILL_FLOAT_UNARY(acos, "inverse cosine", analytic_set, analytic, std::acos(x), chain(a, -rsqrt(1 - x * x)), IN,
                 SAMPLES(-90, 90), 4, "Acos", "Acos")
RILL_FLOAT_UNARY(atan, "inverse tangent", analytic_set, analytic, std::atan(x), chain(a, 1 / (1 + x * x)), IN,
                 SAMPLES(-300, 300), 4, "Atan", "Atan")
RILL_FLOAT_UNARY(sinh, "hyperbolic sine", analytic_set, analytic, std::sinh(x), chain(a, cosh(x)), IN,
                 SAMPLES(-200, 200), 4, "Sinh", "Sinh")
RILL_FLOAT_UNARY(cosh, "hyperbolic cosine", analytic_set, analytic, std::cosh(x), chain(a, sinh(x)), IN,
                 SAMPLES(-200, 200), 4, "Cosh", "Cosh")
RILL_FLOAT_UNARY(tanh, "hyperbolic tangent", analytic_set, analytic, std::tanh(x),
                 is_complex(y.dtype()) ? chain(a, 1 - y * y)
                                       : apply1(tanh_grad_op, {&y, &a.cotangent[0]}, {}, Where::current()),
                 OUT, SAMPLES(-300, 300), 5, "Tanh", "Tanh")
RILL_FLOAT_UNARY(asinh, "inverse hyperbolic sine", analytic_set, analytic, std::asinh(x), chain(a, rsqrt(x* x + 1)), IN,
                 SAMPLES(-300, 300), 4, "Asinh", "Asinh")
RILL_FLOAT_UNARY(acosh, "inverse hyperbolic cosine", analytic_set, analytic, std::acosh(x),
                 chain(a, 1 / (sqrt(x - 1) * sqrt(x + 1))), IN, SAMPLES(120, 500), 4, "Acosh", "Acosh")
RILL_FLOAT_UNARY(atanh, "inverse hyperbolic tangent", analytic_set, analytic, std::atanh(x), chain(a, 1 / (1 - x * x)),
                 IN, SAMPLES(-90, 90), 4, "Atanh", "Atanh")
RILL_FLOAT_UNARY(sigmoid, "1 / (1 + e^-x)", float_set, ref::floats,
                 x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)),
                 apply1(sigmoid_grad_op, {&y, &a.cotangent[0]}, {}, Where::current()), OUT, SAMPLES(-300, 300), 4,
                 "Sigmoid", "Sigmoid")
RILL_FLOAT_UNARY(softplus, "log(1 + e^x), without overflow", float_set, ref::floats,
                 (x > 0 ? x : 0) + std::log1p(std::exp(-abs(x))), chain(a, sigmoid(x)), IN, SAMPLES(-300, 300), 4,
                 "Softplus", "Softplus")
RILL_FLOAT_UNARY(erf, "error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x", float_set, ref::floats,
                 std::erf(x), chain(a, two_over_sqrt_pi* exp(-(x* x))), IN, SAMPLES(-200, 200), 4, "Erf", "Erf")
RILL_FLOAT_UNARY(erfc, "1 - erf(x), accurate for large x", float_set, ref::floats, std::erfc(x),
                 chain(a, -two_over_sqrt_pi* exp(-(x* x))), IN, SAMPLES(-200, 200), 4, "", "Erfc")
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
// Recurrence up to x >= 20, then the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18); reflection below 0
// (6.3.7).
long double digamma_reference(long double x) {
  constexpr long double pi = 3.14159265358979323846264338327950288L;
  if (x == 0) return std::copysign((long double)INFINITY, -x);
  if (std::isinf(x)) return x > 0 ? x : NAN;
  if (x < 0) return std::floor(x) == x ? NAN : digamma_reference(1 - x) - pi / std::tan(pi * (x - std::floor(x)));
  long double shift = 0;
  for (; x < 20; x += 1) shift -= 1 / x;
  long double i = 1 / (x * x);
  return shift + std::log(x) - 0.5L / x -
         i * (1 / 12.0L -
              i * (1 / 120.0L -
                   i * (1 / 252.0L - i * (1 / 240.0L - i * (1 / 132.0L - i * (691 / 32760.0L - i / 12.0L))))));
}
// The derivative of digamma by the same scheme on public functions (A&S 6.4.6, 6.4.12), for x > 0; reflected below.
Tensor trigamma(const Tensor& x) {
  Tensor positive = x > 0, z = where(positive, x, 1 - x), sum = zeros_like(z);
  for (int i = 0; i < 8; ++i) sum = sum + 1 / square(z), z = z + 1;
  Tensor i = 1 / square(z);
  Tensor series =
      1 / z + i * 0.5 + i / z * (1 / 6.0 - i * (1 / 30.0 - i * (1 / 42.0 - i * (1 / 30.0 - i * (5 / 66.0)))));
  Tensor value = sum + series;
  constexpr double pi = 3.14159265358979323846;
  return where(positive, value, square(pi / sin(pi * x)) - value);
}
}  // namespace

RILL_FLOAT_UNARY(erfinv, "inverse of erf, for x in [-1, 1]", float_set, ref::floats, erfinv_reference(x),
                 chain(a, exp(y* y) / two_over_sqrt_pi), OUT, SAMPLES(-90, 90), 4, "", "Erfinv")
RILL_FLOAT_UNARY(digamma, "derivative of lgamma", float_set, ref::floats, digamma_reference(x), chain(a, trigamma(x)),
                 IN, SAMPLES(200, 800), 4, "", "Digamma")

#undef RILL_FLOAT_UNARY

// --- Ops that keep the dtype -----------------------------------------------------------------------------------------

#define RILL_KEEP(fn, doc_text, set, kinds, reference, saves, gradient, why_no_gradient, sample_fn, onnx_name, \
                  tf_name)                                                                                     \
  extern const Op fn##_op;                                                                                     \
  const Op fn##_op(spec_of({.name = #fn,                                                                       \
                            .doc = doc_text,                                                                   \
                            .dtypes = set,                                                                     \
                            .cpu = cpu::scalar_kernel<#fn>,                                                    \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, kinds>,                \
                            .vjp = gradient,                                                                   \
                            saves,                                                                             \
                            .samples = sample_fn,                                                              \
                            .max_ulp = 0.5,                                                                    \
                            .exported = {onnx_name, tf_name},                                                  \
                            .no_gradient = why_no_gradient}));                                                 \
  Tensor fn(const Tensor& x, Where where) { return unary(fn##_op, x, false, where); }
#define VJP(expr)                                                                   \
  [](const VjpArgs& a) {                                                            \
    [[maybe_unused]] const Tensor &x = a.in[0], &y = a.out[0], &g = a.cotangent[0]; \
    return Tensors{expr};                                                           \
  }
#define NONE .saves_in = save_none

RILL_KEEP(negative, "-x", number_set, ref::numbers, -x, NONE, VJP(-g), "", SAMPLES(-300, 300), "Neg", "Neg")
RILL_KEEP(square, "x * x", number_set, ref::numbers, x* x, IN, VJP(g* conj(2 * x)), "", SAMPLES(-300, 300), "",
          "Square")
RILL_KEEP(sign, "-1, 0 or 1; NaN stays", real_set, ref::reals,
          (x > 0   ? decltype(x)(1)
           : x < 0 ? decltype(x)(-1)
                   : x),
          NONE, VJP(zeros_like(g)), "", SAMPLES(-300, 300), "Sign", "Sign")
RILL_KEEP(relu, "max(x, 0); NaN stays", real_set, ref::reals, (x <= 0 ? decltype(x)(0) : x), OUT,
          VJP(is_floating(y.dtype()) ? apply1(relu_grad_op, {&y, &g}, {}, Where::current()) : where(y > 0, g, 0)), "",
          SAMPLES(-300, 300), "Relu", "Relu")
RILL_KEEP(bitwise_not, "~x", int_set | bool_set, (ref::ints | ref::bools), decltype(x)(x ^ decltype(x)(-1)), NONE,
          nullptr, "integers", integer_unary_samples, "BitwiseNot", "Invert")

// Rounding leaves integers as they are.
#define RILL_ROUNDING(fn, doc_text, reference, onnx_name, tf_name)                                             \
  extern const Op fn##_op;                                                                                     \
  const Op fn##_op(spec_of({.name = #fn,                                                                       \
                            .doc = doc_text,                                                                   \
                            .dtypes = float_set,                                                               \
                            .cpu = cpu::scalar_kernel<#fn>,                                                    \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, ref::floats>,          \
                            .vjp = VJP(zeros_like(g)),                                                         \
                            .saves_in = save_none,                                                             \
                            .saves_out = save_none,                                                            \
                            .samples = SAMPLES(-300, 300),                                                     \
                            .max_ulp = 0,                                                                      \
                            .exported = {onnx_name, tf_name}}));                                               \
  Tensor fn(const Tensor& x, Where where) {                                                                    \
    return x.defined() && (is_integer(x.dtype()) || is_bool(x.dtype())) ? x : unary(fn##_op, x, false, where); \
  }
RILL_ROUNDING(floor, "the largest integer not above x", std::floor(x), "Floor", "Floor")
RILL_ROUNDING(ceil, "the smallest integer not below x", std::ceil(x), "Ceil", "Ceil")
RILL_ROUNDING(trunc, "x without its fraction", std::trunc(x), "", "")
RILL_ROUNDING(round, "the nearest integer, halves to even", std::nearbyint(x), "Round", "Rint")
#undef RILL_ROUNDING

// --- Bool results ----------------------------------------------------------------------------------------------------

#define RILL_TEST(fn, doc_text, set, kinds, reference, onnx_name, tf_name)                      \
  extern const Op fn##_op;                                                                      \
  const Op fn##_op(spec_of({.name = #fn,                                                        \
                            .doc = doc_text,                                                    \
                            .dtypes = set,                                                      \
                            .cpu = cpu::scalar_kernel<#fn>,                                     \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, kinds>, \
                            .vjp = nullptr,                                                     \
                            .saves_in = save_none,                                              \
                            .saves_out = save_none,                                             \
                            .samples = SAMPLES(-300, 300),                                      \
                            .max_ulp = 0,                                                       \
                            .exported = {onnx_name, tf_name},                                   \
                            .infer = infer_bool,                                                \
                            .no_gradient = "the result is bool"}));
RILL_TEST(logical_not, "true where x is 0", plain_set, ref::any_kind, x == decltype(x)(0), "Not", "LogicalNot")
RILL_TEST(isnan, "true where x is NaN", float_set | complex_set, analytic, x != x, "IsNaN", "IsNan")
RILL_TEST(isinf, "true where x is infinite", float_set | complex_set, analytic,
          (std::isinf(std::real(x)) || std::isinf(std::imag(x))), "IsInf", "IsInf")
RILL_TEST(isfinite, "true where x is neither NaN nor infinite", float_set | complex_set, analytic,
          (std::isfinite(std::real(x)) && std::isfinite(std::imag(x))), "", "IsFinite")
RILL_TEST(signbit, "true where the sign bit is set, -0.0 and negative NaN included", float_set, ref::floats,
          std::signbit(x), "", "")
#undef RILL_TEST

Tensor logical_not(const Tensor& x, Where where) { return unary(logical_not_op, x, false, where); }
Tensor isnan(const Tensor& x, Where where) { return unary(isnan_op, x, true, where); }
Tensor isinf(const Tensor& x, Where where) { return unary(isinf_op, x, true, where); }
Tensor isfinite(const Tensor& x, Where where) { return unary(isfinite_op, x, true, where); }
Tensor signbit(const Tensor& x, Where where) { return unary(signbit_op, x, true, where); }

// --- Complex numbers -------------------------------------------------------------------------------------------------

extern const Op abs_op;
const Op abs_op(spec_of({.name = "abs",
                         .doc = "|x|; of complex numbers the real magnitude",
                         .dtypes = number_set,
                         .cpu = cpu::scalar_kernel<"abs">,
                         .ref = ref::scalar_kernel<[](auto x) {
                           using X = decltype(x);
                           if constexpr (std::is_unsigned_v<X>) return x;
                           else if constexpr (std::is_integral_v<X>) return X(x < 0 ? -x : x);
                           else return std::abs(x);
                         },
                                                   ref::numbers>,
                         .vjp =
                             [](const VjpArgs& a) {
                               const Tensor &x = a.in[0], &y = a.out[0], &g = a.cotangent[0];
                               if (!is_complex(x.dtype())) return Tensors{g * sign(x)};
                               return Tensors{astype(where(y == 0, 0, g / where(y == 0, 1, y)), x.dtype()) * x};
                             },
                         .saves_in = save(0),
                         .saves_out = save(0),
                         .samples = SAMPLES(-300, 300),
                         .max_ulp = 0.5,
                         .exported = {"Abs", "Abs"},
                         .infer = infer_real}));
Tensor abs(const Tensor& x, Where where) {
  return x.defined() && is_bool(x.dtype()) ? x : unary(abs_op, x, false, where);
}

namespace {
std::vector<Sample> complex_samples() {
  auto s = make_unary_samples(-3, 3);
  for (Sample& sample : s) {
    Tensor re = sample.in[0];
    sample.in[0] = complex(re, re * 0.5 + 1);
  }
  return s;
}
}  // namespace

#define RILL_COMPLEX(fn, doc_text, infer_fn, reference, gradient, tf_name)                               \
  extern const Op fn##_op;                                                                               \
  const Op fn##_op(spec_of({.name = #fn,                                                                 \
                            .doc = doc_text,                                                             \
                            .dtypes = complex_set,                                                       \
                            .cpu = nullptr,                                                              \
                            .ref = ref::scalar_kernel<[](auto x) { return reference; }, ref::complexes>, \
                            .vjp = gradient,                                                             \
                            .saves_in = save_none,                                                       \
                            .saves_out = save_none,                                                      \
                            .samples = complex_samples,                                                  \
                            .max_ulp = 1,                                                                \
                            .exported = {"", tf_name},                                                   \
                            .infer = infer_fn,                                                           \
                            .no_finite_difference = "complex operands are tested against known results"}));
RILL_COMPLEX(conj, "complex conjugate", infer_same, std::conj(x), VJP(conj(g)), "Conj")
RILL_COMPLEX(real, "real part", infer_real, x.real(), VJP(astype(g, x.dtype())), "Real")
RILL_COMPLEX(imag, "imaginary part", infer_real, x.imag(), VJP(complex(zeros_like(g), g)), "Imag")
#undef RILL_COMPLEX

Tensor conj(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? x : unary(conj_op, x, false, where);
}
Tensor real(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? x : unary(real_op, x, false, where);
}
Tensor imag(const Tensor& x, Where where) {
  return x.defined() && !is_complex(x.dtype()) ? zeros_like(x) : unary(imag_op, x, false, where);
}
Tensor angle(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_complex(x.dtype())) return atan2(imag(x), real(x));
  return rill::where(x < 0, 3.14159265358979323846, 0.0 * astype(x, to_floating(x.dtype())));
}

// --- Composites ------------------------------------------------------------------------------------------------------

Tensor silu(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x * sigmoid(x);
}
Tensor log_sigmoid(const Tensor& x, Where where) {
  CallerScope caller(where);
  return -softplus(-x);
}
Tensor relu6(const Tensor& x, Where where) {
  CallerScope caller(where);
  return minimum(relu(x), 6);
}
Tensor softsign(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x / (1 + abs(x));
}
Tensor deg2rad(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x * 0.017453292519943295769;
}
Tensor rad2deg(const Tensor& x, Where where) {
  CallerScope caller(where);
  return x * 57.295779513082320877;
}
Tensor sinc(const Tensor& x, Where where) {
  CallerScope caller(where);
  Tensor z = x * 3.14159265358979323846, safe = rill::where(z == 0, 1, z);
  return rill::where(z == 0, 1, sin(safe) / safe);
}
Tensor gelu(const Tensor& x, bool approximate, Where where) {
  CallerScope caller(where);
  if (!approximate) return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
Tensor nan_to_num(const Tensor& x, double nan, Where where) {
  CallerScope caller(where);
  if (!is_floating(x.dtype())) return x;
  double largest = x.dtype() == f64    ? 1.7976931348623157e308
                   : x.dtype() == f16  ? 65504.0
                   : x.dtype() == bf16 ? 3.3895313892515355e38
                                       : 3.4028234663852886e38;
  return clip(rill::where(isnan(x), nan, x), -largest, largest);
}

}  // namespace rill
#endif  // HWY_ONCE
