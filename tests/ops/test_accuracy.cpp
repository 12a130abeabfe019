// The error of elementwise records in ulp, judged by MPFR: f16 and bf16 of every number, f32 and f64 of samples. The
// bounds are those of math_cases.h and of the table below; docs/math.md has them all. Start reading at Case.
//
//   test_accuracy "[table]"       prints the table of docs/math.md
//   RILL_ACCURACY_STRIDE=N        every N-th float instead of some 300,000; 1 takes a few minutes for each function
//   RILL_ACCURACY_DOUBLES=N       how many doubles (default 8192)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "catch.h"
#include "math_cases.h"
#include "mpfr_real.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"

namespace rill {
namespace {

using judge::Real;
using math_cases::through;

// --- What is judged --------------------------------------------------------------------------------------------------

using Formula = Real (*)(const Real& x, const Real& y);  // of one operand: x
using Near = double (*)(double x, double y);             // the same in double, for f32: finds what to judge

struct Case {
  std::string op;
  Formula formula;
  Near near;  // may be null
  int operands = 1;
  double low = 0, high = 0;  // sampled densely here
  double bound32 = 0, bound64 = 0;
  std::string note = "";
  bool (*where)(double x, double y) = nullptr;  // null: everywhere
};

Real newton_erfinv(const Real& x) {
  using namespace judge;
  const Real a = abs(x), one(1.0);
  if (!(a < one)) return one < a || isnan(a) ? Real(std::nan("")) : x / Real(0.0);
  if (iszero(a)) return x;
  const bool tail = Real(0.5) < a;
  Real y = tail ? sqrt(-log(one - a)) : a, two_over_root_pi = Real(2.0) / sqrt(acos(Real(-1.0)));
  for (int i = 0; i < 100; ++i) {
    // Towards 1 the step is that of log erfc, which is nearly straight.
    const Real slope = two_over_root_pi * exp(-(y * y));
    const Real c = tail ? erfc(y) : Real();
    const Real step = tail ? c * log(c / (one - a)) / slope : (a - erf(y)) / slope;
    y = y + step;
    if (abs(step) < y * Real(0x1p-120)) break;
  }
  return x < Real(0.0) ? -y : y;
}
Real gelu_of(const Real& x) {
  if (isinf(x)) return x < Real(0.0) ? Real(-0.0) : x;
  const Real pi = acos(Real(-1.0));
  const Real v = Real(2.0) * sqrt(Real(2.0) / pi) * (x + Real(44715.0) / Real(1e6) * x * x * x);
  return x / (Real(1.0) + exp(-v));
}
Real sinc_of(const Real& x) {
  const double number_of = number(x), whole = std::nearbyint(number_of), rest = number_of - whole;  // exact
  if (isnan(x) || isinf(x)) return Real(std::nan(""));
  if (iszero(x)) return Real(1.0);
  if (rest == 0) return Real(0.0);
  const Real pi = acos(Real(-1.0)), y = sin(pi * Real(rest)) / (pi * x);
  return std::fmod(whole, 2) == 0 ? y : -y;
}
Real larger(const Real& x, const Real& y) { return x < y ? y : x; }

// The functions of math.h have range, bounds and notes in math_cases.h; here are MPFR's formulas.
const std::map<std::string, Formula>& formulas() {
#define ONE(name, ...) {#name, [](const Real& x, const Real&) -> Real { return __VA_ARGS__; }},
  static const std::map<std::string, Formula> all = {
      ONE(exp, exp(x)) ONE(exp2, exp2(x)) ONE(expm1, expm1(x)) ONE(log, log(x)) ONE(log2, log2(x)) ONE(log10, log10(x))
          ONE(log1p, log1p(x)) ONE(sin, sin(x)) ONE(cos, cos(x)) ONE(tan, tan(x)) ONE(asin, asin(x)) ONE(acos, acos(x))
              ONE(atan, atan(x)) ONE(sinh, sinh(x)) ONE(cosh, cosh(x)) ONE(tanh, tanh(x)) ONE(asinh, asinh(x))
                  ONE(acosh, acosh(x)) ONE(atanh, atanh(x)) ONE(sigmoid, Real(1.0) / (Real(1.0) + exp(-x)))
                      ONE(softplus, isnan(x) ? x : larger(x, Real(0.0)) + log1p(exp(-abs(x)))) ONE(erf, erf(x))
                          ONE(erfc, erfc(x)) ONE(erfinv, newton_erfinv(x)) ONE(lgamma, lgamma(x))
                              ONE(digamma, digamma(x)) ONE(gelu, gelu_of(x)) ONE(sinc, sinc_of(x))
                                  ONE(rsqrt, Real(1.0) / sqrt(x)) ONE(cbrt, cbrt(x))};
#undef ONE
  return all;
}

std::vector<Case> make_cases() {
  std::vector<Case> cases;
#define RILL_CASE(name, reference, narrow, low, high, bound32, bound64, note)                                       \
  cases.push_back({#name, formulas().at(#name), [](double x, double) -> double { return narrow(x); }, 1, low, high, \
                   bound32, bound64, note});
  RILL_MATH_FUNCTIONS(RILL_CASE)
#undef RILL_CASE
  for (Case& c : cases)  // its poles and reflection: test_math.cpp
    if (c.op == "digamma") c.where = [](double x, double) { return x > 0; };
  cases.push_back({"power", [](const Real& x, const Real& y) { return pow(x, y); },
                   [](double x, double y) { return std::pow(x, y); }, 2, 0, 4, math_cases::pow_bound,
                   math_cases::pow_bound, "special cases of C99"});
  cases.push_back({"atan2", [](const Real& x, const Real& y) { return atan2(x, y); },
                   [](double x, double y) { return std::atan2(x, y); }, 2, -4, 4, math_cases::atan2_bound,
                   math_cases::atan2_bound, "special cases of C99"});
  // Records that are not functions of math.h.
  const auto add = [&](Case c) { cases.push_back(std::move(c)); };
  add({"sqrt", [](const Real& x, const Real&) { return sqrt(x); }, [](double x, double) { return std::sqrt(x); }, 1, 0,
       4, 0.5, 0.5, "rounded correctly"});
  add({"reciprocal", [](const Real& x, const Real&) { return Real(1.0) / x; }, [](double x, double) { return 1 / x; },
       1, -4, 4, 0.5, 0.5, "rounded correctly"});
  add({"divide", [](const Real& x, const Real& y) { return x / y; }, [](double x, double y) { return x / y; }, 2, -4, 4,
       0.5, 0.5, "rounded correctly"});
  add({"logaddexp", [](const Real& x, const Real& y) { return larger(x, y) + log1p(exp(-abs(x - y))); }, nullptr, 2,
       -20, 20, 2, 2, "positive operands",
       [](double x, double y) { return x > 0 && y > 0 && std::isfinite(x) && std::isfinite(y); }});
  return cases;
}
const std::vector<Case>& cases() {
  static const std::vector<Case> all = make_cases();
  return all;
}

// Elementwise records of floats that are judged elsewhere, and where.
const std::map<std::string, std::set<std::string>> elsewhere = {
    {"exact, held to the reference bit by bit by test_ops.cpp",
     {"abs",        "bitcast",      "cast",      "ceil",      "complex",  "copy",      "copysign",  "equal",
      "floor",      "floor_divide", "fmod",      "hard_tanh", "isfinite", "isinf",     "isnan",     "less",
      "less_equal", "logical_not",  "maximum",   "minimum",   "negative", "nextafter", "not_equal", "relu",
      "relu6",      "relu_grad",    "remainder", "round",     "sign",     "signbit",   "trunc",     "where"}},
    {"one rounding, held to the reference by test_ops.cpp",
     {"add", "leaky_relu", "multiply", "multiply_no_nan", "multiply_nonzero", "square", "subtract", "soft_shrink"}},
    {"long functions, held to scipy and mpmath by tests/oracle and test_special.cpp",
     {"airy_ai",
      "airy_ai_slope",
      "airy_bi",
      "airy_bi_slope",
      "beta",
      "beta_density",
      "betainc",
      "betainc_by_a",
      "betainc_by_b",
      "betaln",
      "binom",
      "cosine_integral",
      "dawsn",
      "dawsn_derivative",
      "erfcx",
      "erfcx_derivative",
      "erfcx_slope",
      "exp1",
      "expi",
      "fresnel_cosine",
      "fresnel_cosine_slope",
      "fresnel_sine",
      "fresnel_sine_slope",
      "gamma_density",
      "gauss",
      "i0",
      "i0e",
      "i0e_derivative",
      "i0e_slope",
      "i1",
      "i1_slope",
      "i1e",
      "i1e_derivative",
      "i1e_slope",
      "igamma",
      "igamma_by_a",
      "igammac",
      "igammac_by_a",
      "iv",
      "j0",
      "j1",
      "j1_slope",
      "jv",
      "k0",
      "k0e",
      "k0e_derivative",
      "k1",
      "k1e",
      "k1e_derivative",
      "kv",
      "lambertw",
      "log_gamma_sample_slope",
      "polygamma",
      "polygamma_drop",
      "sine_integral",
      "spherical_jn",
      "tgamma",
      "y0",
      "y1",
      "zeta",
      "zeta_by_s"}},
    {"made of those above, held to the reference by test_ops.cpp",
     {"celu", "elu", "erf_gelu", "gelu_grad", "hard_sigmoid", "hard_swish", "hypot", "logaddexp2", "selu",
      "sigmoid_derivative", "sigmoid_grad", "silu", "softsign", "tanh_derivative", "tanh_grad", "tanh_shrink",
      "xlogy"}}};

// --- Errors ----------------------------------------------------------------------------------------------------------

struct Format {
  DType dtype;
  int digits, min_exponent, max_exponent;  // as std::numeric_limits has them
};
constexpr Format f16_format{DType::f16, 11, -13, 16}, bf16_format{DType::bf16, 8, -125, 128},
    f32_format{DType::f32, 24, -125, 128}, f64_format{DType::f64, 53, -1021, 1024};

constexpr double wrong = std::numeric_limits<double>::infinity();

// The distance of y from the exact value in units of the format's spacing there; infinite where the kind or the sign of
// zero is wrong. An infinity stands for the first number beyond the largest.
double ulp_error(double y, const Real& exact, const Format& f) {
  if (isnan(exact) || std::isnan(y)) return isnan(exact) && std::isnan(y) ? 0 : wrong;
  if (isinf(exact)) return y == number(exact) ? 0 : wrong;
  if (y == 0 && std::signbit(y) != bool(mpfr_signbit(exact.v))) return wrong;
  if (iszero(exact)) return y == 0 ? 0 : wrong;
  const double beyond = f.max_exponent == 1024 ? 0 : std::ldexp(1.0, f.max_exponent);
  Real value(std::isinf(y) ? std::copysign(beyond ? beyond : 0x1p1023, y) : y);
  if (std::isinf(y) && !beyond) value = value + value;
  const Real limit = abs(std::isinf(y) ? value : Real(0.0));
  if (std::isinf(y) && !(abs(exact) < limit)) return 0;
  const long exponent = std::max<long>(mpfr_get_exp(exact.v), f.min_exponent) - f.digits;
  Real distance = abs(value - exact);
  mpfr_mul_2si(distance.v, distance.v, -exponent, MPFR_RNDN);
  return number(distance);
}
// The same from a value in double, which is near enough for formats of half its digits.
double near_error(double y, double exact, const Format& f) {
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0 : wrong;
  if (y == exact) return y == 0 && std::signbit(y) != std::signbit(exact) ? wrong : 0;
  if (std::isinf(exact) || std::isinf(y) || exact == 0 || (y == 0 && std::signbit(y) != std::signbit(exact)))
    return wrong;
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(std::fabs(y - exact), f.digits - std::max(exponent, f.min_exponent));
}

struct Worst {
  double error = 0, x = 0, y = 0;
};

// The record's results for x (and y), of the format's dtype, against the formula.
void judge_block(const Case& c, const Format& f, const Tensor& x, const Tensor& y, Worst& worst) {
  const Op* op = find_op(c.op);
  REQUIRE(op);
  const bool two = c.operands == 2;
  const Tensor out = two ? apply1(*op, {&x, &y}, {}, Where::current()) : apply1(*op, {&x}, {}, Where::current());
  const auto doubles = [](const Tensor& t) { return t.astype(f64).to_vector<double>(); };
  const std::vector<double> got = doubles(out), in = doubles(x), in2 = two ? doubles(y) : in;
  for (size_t i = 0; i < got.size(); ++i) {
    if (c.where && !c.where(in[i], in2[i])) continue;
    if (c.near && f.digits < 53 && near_error(got[i], c.near(in[i], in2[i]), f) <= worst.error - 1e-3) continue;
    const double error = ulp_error(got[i], c.formula(in[i], in2[i]), f);
    if (error > worst.error) worst = {error, in[i], in2[i]};
  }
}

// --- Samples ---------------------------------------------------------------------------------------------------------

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Half of the numbers uniform in [low, high], half with uniform bits, so of any exponent.
Tensor random_doubles(size_t n, double low, double high, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = random();
    if (i % 2) x[i] = uniform(random);
    else std::memcpy(&x[i], &bits, sizeof bits);
  }
  return tensor(x);
}
Tensor random_floats(size_t n, double low, double high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = uint32_t(random());
    if (i % 2) x[i] = float(uniform(random));
    else std::memcpy(&x[i], &bits, sizeof bits);
  }
  return tensor(x);
}

// Every `stride`-th float.
Worst all_floats(const Case& c, uint64_t stride, Worst worst) {
  constexpr uint64_t block = 1 << 16, end = uint64_t(1) << 32;
  for (uint64_t i = 0; i < end;) {
    std::vector<float> x;
    for (; x.size() < block && i < end; i += stride) {
      const uint32_t bits = uint32_t(i);
      x.emplace_back();
      std::memcpy(&x.back(), &bits, sizeof bits);
    }
    const Tensor t = tensor(x);
    judge_block(c, f32_format, t, t, worst);
  }
  return worst;
}

Worst measure(const Case& c, const Format& f) {
  Worst worst;
  const bool slow = !c.near;  // MPFR judges each number
  if (f.digits < 24 && c.operands == 1) {
    const Tensor all = bitcast(arange(-32768, 32768).astype(i16), f.dtype);
    judge_block(c, f, all, all, worst);
  } else if (f.digits < 24) {
    judge_block(c, f, random_floats(1 << 15, c.low, c.high, 1).astype(f.dtype),
                random_floats(1 << 15, -20, 20, 2).astype(f.dtype), worst);
  } else if (f.dtype == DType::f32) {
    const size_t n = slow ? 1 << 12 : 1 << 17;
    const Tensor x = random_floats(n, c.low, c.high, 1), y = random_floats(n, -20, 20, 2);
    judge_block(c, f, x, y, worst);
    if (c.operands == 1) worst = all_floats(c, setting("RILL_ACCURACY_STRIDE", 16411) * (slow ? 64 : 1), worst);
  } else {
    const size_t n = setting("RILL_ACCURACY_DOUBLES", 8192);
    judge_block(c, f, random_doubles(n, c.low, c.high, 3), random_doubles(n, -20, 20, 4), worst);
  }
  return worst;
}

// --- Tests -----------------------------------------------------------------------------------------------------------

void check(const Case& c, const Format& f, double bound) {
  const Worst w = measure(c, f);
  INFO(fmt::format("{} of {} at {:.17g}, {:.17g}: {} ulp", c.op, name(f.dtype), w.x, w.y, w.error));
  CHECK(w.error <= bound);
}

TEST_CASE("f32 is as accurate as docs/math.md says") {
  for (const Case& c : cases()) check(c, f32_format, c.bound32);
}

TEST_CASE("f64 is as accurate as docs/math.md says") {
  for (const Case& c : cases()) check(c, f64_format, c.bound64);
}

// They are computed in f32 and rounded, of which the second rounding is felt alone.
TEST_CASE("f16 and bf16 are rounded nearly correctly, every number") {
  for (const Case& c : cases())
    for (const Format& f : {f16_format, bf16_format}) check(c, f, 0.5 + std::ldexp(c.bound32, f.digits - 24) + 1e-3);
}

TEST_CASE("every elementwise record of floats is judged here or named with where it is") {
  std::set<std::string> known;
  for (const Case& c : cases()) known.insert(c.op);
  for (const auto& [where, names] : elsewhere)
    for (const std::string& name : names) {
      INFO(name);
      CHECK(find_op(name));
      CHECK(known.insert(name).second);
    }
  for (const Op* op : all_ops())
    if (op->kind == OpKind::elementwise && contains(op->dtypes, DType::f32)) {
      INFO(op->name);
      CHECK(known.count(std::string(op->name)));
    }
}

std::string row_of(const Case& c) { return math_cases::row_start(c.op, c.bound32, c.bound64, c.note); }

TEST_CASE("docs/math.md has a row for every judged record, with its bounds") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  std::ifstream file(std::string(root ? root : ".") + "/docs/math.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const Case& c : cases()) {
    INFO("test_accuracy \"[table]\" prints the table; missing: " << row_of(c));
    CHECK_THAT(text.str(), contains_text("\n" + row_of(c)));
  }
}

TEST_CASE("print the table of docs/math.md", "[.table]") {
  std::cout << "| function | f32 bound | f64 bound | note | f32 measured | f64 measured |\n|---|---|---|---|---|---|\n";
  const char* only = std::getenv("RILL_ACCURACY_ONLY");
  for (const Case& c : cases()) {
    if (only && c.op != only) continue;
    const Worst single = measure(c, f32_format), twice = measure(c, f64_format);
    std::cout << fmt::format("{} {:.2f} | {:.2f} |", row_of(c), single.error, twice.error) << std::endl;
    if (only)
      std::cout << fmt::format("f32 at {:.9g}, {:.9g}; f64 at {:.17g}, {:.17g}\n", single.x, single.y, twice.x,
                               twice.y);
  }
  SUCCEED();
}

}  // namespace
}  // namespace rill
