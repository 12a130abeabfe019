// Elementwise ops on complex numbers: their loops, for every machine, as plain code that is compiled once (except
// products: complex_vectors.h). Arithmetic is computed one format wider (c64 in f64, c128 in long double), where
// neither a square nor a product of two components overflows or underflows; functions of c64 and c128 are computed in
// f64, and in long double where digits would be lost. Rare operands (infinities, NaN, the ends of the range) go to the
// reference's functions (devices/ref/complex_math.h): the loops of this file only have to be fast for finite numbers.
// Start at the tables at the end.
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "rill/devices/cpu/elementwise/complex_vectors.h"
#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/cpu/elementwise/map_run.h"
#include "rill/devices/ref/complex_math.h"

namespace rill::cpu {
namespace {

template <class T>
using Complex = std::complex<T>;
using C = Complex<double>;
using Long = long double;

// --- Arithmetic ------------------------------------------------------------------------------------------------------

// The type in which components are multiplied.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, Long>;
// Whether a sum of two squares of T neither overflows nor underflows there. (If long double is f64, it may.)
template <class T>
inline constexpr bool holds_squares =
    std::numeric_limits<Wide<T>>::max_exponent > 2 * std::numeric_limits<T>::max_exponent;

template <class T>
ref::Complex widest(Complex<T> x) {
  return {x.real(), x.imag()};
}
template <class T>
Complex<T> narrow(ref::Complex x) {
  return {T(x.real()), T(x.imag())};
}
template <class T>
Wide<T> squared_size(Complex<T> x) {
  const Wide<T> a = x.real(), b = x.imag();
  return a * a + b * b;
}
template <class T>
Complex<T> product(Complex<T> x, Complex<T> y) {
  if constexpr (std::is_same_v<T, double>) return product_of_c128(x, y);
  const Wide<T> a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  return {T(a * c - b * d), T(a * d + b * c)};
}

struct Add {
  template <class T>
  Complex<T> operator()(Complex<T> x, Complex<T> y) const {
    return {x.real() + y.real(), x.imag() + y.imag()};
  }
};
struct Subtract {
  template <class T>
  Complex<T> operator()(Complex<T> x, Complex<T> y) const {
    return {x.real() - y.real(), x.imag() - y.imag()};
  }
};
// The product as C defines it, which gives infinities where multiply() gives NaN.
template <class T>
Complex<T> product_of_c(Complex<T> x, Complex<T> y) {
  const Complex<T> z = product(x, y);
  if (std::isnan(z.real()) && std::isnan(z.imag())) return narrow<T>(widest(x) * widest(y));
  return z;
}
struct MultiplyNoNan {
  template <class T>
  Complex<T> operator()(Complex<T> x, Complex<T> y) const {
    return y == T(0) ? Complex<T>() : product_of_c(x, y);
  }
};
struct MultiplyNonzero {
  template <class T>
  Complex<T> operator()(Complex<T> x, Complex<T> y) const {
    return x == T(0) || y == T(0) ? Complex<T>() : product_of_c(x, y);
  }
};
struct Divide {
  template <class T>
  Complex<T> operator()(Complex<T> x, Complex<T> y) const {
    if constexpr (holds_squares<T>) {
      const Wide<T> a = x.real(), b = x.imag(), c = y.real(), d = y.imag(), scale = 1 / (c * c + d * d);
      const Wide<T> re = (a * c + b * d) * scale, im = (b * c - a * d) * scale;
      if (std::isfinite(re) && std::isfinite(im)) return {T(re), T(im)};
    }
    return narrow<T>(ref::math::divide(widest(x), widest(y)));
  }
};
struct Reciprocal {
  template <class T>
  Complex<T> operator()(Complex<T> x) const {
    if constexpr (holds_squares<T>) {
      const Wide<T> size = squared_size(x), scale = 1 / size;
      if (std::isfinite(size) && std::isfinite(scale)) return {T(x.real() * scale), T(-x.imag() * scale)};
    }
    return narrow<T>(ref::math::reciprocal(widest(x)));
  }
};
struct Negative {
  template <class T>
  Complex<T> operator()(Complex<T> x) const {
    return {-x.real(), -x.imag()};
  }
};
struct Abs {
  template <class T>
  T operator()(Complex<T> x) const {
    if constexpr (holds_squares<T>) {
      const Wide<T> size = std::sqrt(squared_size(x));
      if (size == size) return T(size);
    }
    return std::hypot(x.real(), x.imag());  // infinite also if the other part is NaN
  }
};

// --- Parts and tests -------------------------------------------------------------------------------------------------

struct Conj {
  template <class T>
  Complex<T> operator()(Complex<T> x) const {
    return {x.real(), -x.imag()};
  }
};
struct RealPart {
  template <class T>
  T operator()(Complex<T> x) const {
    return x.real();
  }
};
struct ImagPart {
  template <class T>
  T operator()(Complex<T> x) const {
    return x.imag();
  }
};
struct OfParts {
  template <class T>
  Complex<T> operator()(T x, T y) const {
    return {x, y};
  }
};
struct Equal {
  template <class T>
  bool operator()(Complex<T> x, Complex<T> y) const {
    return x.real() == y.real() && x.imag() == y.imag();
  }
};
struct NotEqual {
  template <class T>
  bool operator()(Complex<T> x, Complex<T> y) const {
    return x.real() != y.real() || x.imag() != y.imag();
  }
};
struct LogicalNot {
  template <class T>
  bool operator()(Complex<T> x) const {
    return x.real() == 0 && x.imag() == 0;
  }
};
struct IsNan {
  template <class T>
  bool operator()(Complex<T> x) const {
    return x.real() != x.real() || x.imag() != x.imag();
  }
};
struct IsInf {
  template <class T>
  bool operator()(Complex<T> x) const {
    constexpr T inf = std::numeric_limits<T>::infinity();
    return std::fabs(x.real()) == inf || std::fabs(x.imag()) == inf;
  }
};
struct IsFinite {
  template <class T>
  bool operator()(Complex<T> x) const {
    constexpr T inf = std::numeric_limits<T>::infinity();
    return std::fabs(x.real()) < inf && std::fabs(x.imag()) < inf;
  }
};

// --- Functions -------------------------------------------------------------------------------------------------------

constexpr Long ln2 = 0.693147180559945309417232121458176568L, log2e = 1.44269504088896340735992468100189214L,
               log10e = 0.434294481903251827651128918916605082L, pi = 3.14159265358979323846264338327950288L;

bool is_finite(C x) { return IsFinite()(x); }
double nearest(Long x) { return double(x); }

// Whether e^a neither overflows nor loses digits, and the angle b is small enough that its sine is cheap.
template <class T>
bool is_usual(T a, T b) {
  return std::fabs(a) < 700 && std::fabs(b) < T(0x1p30);
}
// e^(a + bi), for exponents and angles with more digits than an f64 has: only in the usual range, else `other`.
template <class Other>
C exp_of(Long a, Long b, Other&& other) {
  if (!is_usual(a, b)) return other();
  const double angle = nearest(b);
  const Long size = std::exp(nearest(a)) * (1 + (a - nearest(a))), rest = b - angle;
  const double sine = std::sin(angle), cosine = std::cos(angle);
  return {double(size * (cosine - rest * sine)), double(size * (sine + rest * cosine))};
}

// The logarithm of |a + bi|; a and b are finite and not both 0. Near 1 it is computed from |a + bi|^2 - 1, which is
// summed exactly, as its terms cancel: `above_one` adds a^2 - 1 or an equivalent.
template <class T, class AboveOne>
T log_of_magnitude(Long squared, AboveOne&& above_one) {
  if (squared > 0.5L && squared < 2) {
    ref::math::ExactSum sum;
    above_one(sum);
    return std::log1p(T(sum.sum + sum.rest)) / 2;
  }
  if (squared > DBL_MIN && squared < DBL_MAX) return std::log(T(squared)) / 2;
  return T(std::log(squared) / 2);
}
template <class T>
T log_of_magnitude(C x) {
  const double large = std::max(std::fabs(x.real()), std::fabs(x.imag())),
               small = std::min(std::fabs(x.real()), std::fabs(x.imag()));
  if constexpr (!holds_squares<double>) return std::log(std::hypot(large, small));
  return log_of_magnitude<T>(squared_size(x), [&](ref::math::ExactSum& sum) {
    sum.add(-1);
    sum.add_square(large);
    sum.add_square(small);
  });
}

// The logarithm to a base; `scale` is 1 / ln(base).
C log_to(C x, Long scale) {
  if (!is_finite(x) || x == 0.0) {
    const C y = std::log(x);
    return {double(y.real() * scale), double(y.imag() * scale)};
  }
  return {double(log_of_magnitude<double>(x) * scale), double(std::atan2(x.imag(), x.real()) * scale)};
}

struct Log {
  C operator()(C x) const { return log_to(x, 1); }
};
struct Log2 {
  C operator()(C x) const { return log_to(x, log2e); }
};
struct Log10 {
  C operator()(C x) const { return log_to(x, log10e); }
};
struct Log1p {
  C operator()(C x) const {
    const double a = x.real(), b = x.imag();
    if (!holds_squares<double> || !is_finite(x) || x == -1.0) return narrow<double>(ref::math::log1p(widest(x)));
    const Long moved = 1 + Long(a), squared = moved * moved + Long(b) * b;
    const double size = log_of_magnitude<double>(squared, [&](ref::math::ExactSum& sum) {
      sum.add(2 * a);
      sum.add_square(a);
      sum.add_square(b);
    });
    return {size, std::atan2(b, nearest(moved))};
  }
};
struct Exp {
  C operator()(C x) const {
    if (!is_usual(x.real(), x.imag())) return std::exp(x);
    const double size = std::exp(x.real());
    return {size * std::cos(x.imag()), size * std::sin(x.imag())};
  }
};
// The larger part from |x| + |re x|, which does not cancel, and the other from im x, which is twice their product.
struct Sqrt {
  C operator()(C x) const {
    const double a = std::fabs(x.real()), b = std::fabs(x.imag()), largest = std::max(a, b);
    if (!(largest > 1e-140 && largest < 1e140 && a + b == a + b)) return std::sqrt(x);
    const double larger = std::sqrt((std::sqrt(a * a + b * b) + a) / 2), smaller = b / (2 * larger);
    if (x.real() >= 0) return {larger, std::copysign(smaller, x.imag())};
    return {smaller, std::copysign(larger, x.imag())};
  }
};
struct Exp2 {
  C operator()(C x) const {
    return exp_of(x.real() * ln2, x.imag() * ln2, [&] { return narrow<double>(ref::math::exp2(widest(x))); });
  }
};
struct Expm1 {
  C operator()(C x) const {
    const double a = x.real(), b = x.imag(), half = std::sin(b / 2);
    const Long grown = Long(std::expm1(a)) * std::cos(b), one_minus_cos = 2 * Long(half) * half,
               re = grown - one_minus_cos;
    // Terms that cancel need more digits; the ends of the range and NaN need special cases.
    if (!(std::fabs(re) >= one_minus_cos / 8 && std::fabs(a) < 700)) return narrow<double>(ref::math::expm1(widest(x)));
    return {double(re), std::exp(a) * std::sin(b)};
  }
};
struct Rsqrt {
  C operator()(C x) const { return Reciprocal()(Sqrt()(x)); }
};
// sin(pi x) / (pi x). The sine is computed from the distance to the nearest integer, whose multiple of pi needs more
// digits than an f64 has.
struct Sinc {
  C operator()(C x) const {
    if (x == 0.0) return 1;
    const double nearest = std::nearbyint(x.real());
    const ref::Complex angle(pi * (x.real() - nearest), pi * x.imag()), divisor(pi * x.real(), pi * x.imag());
    const auto over = [&](ref::Complex sine) {
      return narrow<double>(ref::math::divide(std::fmod(nearest, 2) != 0 ? -sine : sine, divisor));
    };
    if (!(std::fabs(angle.imag()) < 700)) return over(std::sin(angle));
    const C near = narrow<double>(angle);
    return over(widest(std::sin(near)) + ref::math::multiply(angle - widest(near), widest(std::cos(near))));
  }
};
// x^y as e^(y log x), whose exponent needs more digits than an f64 has: its absolute error is the result's relative
// one.
struct Power {
  C operator()(C x, C y) const {
    const auto by_reference = [&] { return narrow<double>(ref::math::power(widest(x), widest(y))); };
    const bool is_integer = y.imag() == 0 && std::fabs(y.real()) < 100 && std::trunc(y.real()) == y.real();
    if (is_integer || x == 0.0 || !is_finite(x) || !is_finite(y)) return by_reference();
    const Long size = log_of_magnitude<Long>(x), angle = std::atan2(Long(x.imag()), Long(x.real())), c = y.real(),
               d = y.imag();
    return exp_of(c * size - d * angle, c * angle + d * size, by_reference);
  }
};
#define RILL_OF_STD(Name, name)                      \
  struct Name {                                      \
    C operator()(C x) const { return std::name(x); } \
  };
RILL_OF_STD(Sin, sin)
RILL_OF_STD(Cos, cos)
RILL_OF_STD(Tan, tan)
RILL_OF_STD(Asin, asin)
RILL_OF_STD(Acos, acos)
RILL_OF_STD(Atan, atan)
RILL_OF_STD(Sinh, sinh)
RILL_OF_STD(Cosh, cosh)
RILL_OF_STD(Tanh, tanh)
RILL_OF_STD(Asinh, asinh)
RILL_OF_STD(Acosh, acosh)
RILL_OF_STD(Atanh, atanh)
#undef RILL_OF_STD

// --- Loops -----------------------------------------------------------------------------------------------------------

template <class F, class X, int Inputs>
void arithmetic_loop(const Run& run) {
  const X *x = static_cast<const X*>(run.in[0]), *y = static_cast<const X*>(run.in[Inputs - 1]);
  const size_t x_step = run.uniform & 1 ? 0 : 1, y_step = run.uniform & 2 ? 0 : 1;
  const auto at = [&](size_t i) {
    if constexpr (Inputs == 1) return F()(x[i * x_step]);
    else return F()(x[i * x_step], y[i * y_step]);
  };
  auto* out = static_cast<decltype(at(0))*>(run.out);
  for (size_t i = 0; i < run.n; ++i) out[i] = at(i);
}

// Treats a run as one of twice as many real numbers; false if the parts of a uniform operand differ.
template <class T, int Inputs>
bool as_parts(const Run& run, Run& parts) {
  parts = run;
  parts.n = 2 * run.n;
  if (run.n == 1) parts.uniform = 0;
  for (int k = 0; k < Inputs; ++k)
    if (const auto* x = static_cast<const T*>(run.in[k]);
        parts.uniform >> k & 1 && std::memcmp(x, x + 1, sizeof(T)) != 0)
      return false;
  return true;
}
// Ops on each part by itself: by the op's loop on real numbers, in vectors.
template <Name name, class F, class T, int Inputs>
void parts_loop(const Run& run) {
  if (Run parts; as_parts<T, Inputs>(run, parts)) scalar_loops<name>[dtype_of<T>()](parts);
  else arithmetic_loop<F, Complex<T>, Inputs>(run);
}
// Tests that are true if that of either part is (`any`), or of both.
template <Name name, class F, class T, int Inputs, bool any>
void test_loop(const Run& run) {
  Run parts;
  if (!as_parts<T, Inputs>(run, parts)) return arithmetic_loop<F, Complex<T>, Inputs>(run);
  constexpr size_t block = 512;
  uint16_t pairs[block];
  const Loop loop = scalar_loops<name>[dtype_of<T>()];
  parts.out = pairs;
  for (size_t at = 0, n; at < run.n; at += n) {
    n = std::min(block, run.n - at);
    parts.n = 2 * n;
    for (int k = 0; k < Inputs; ++k)
      if (!(parts.uniform >> k & 1)) parts.in[k] = static_cast<const Complex<T>*>(run.in[k]) + at;
    loop(parts);
    map_run(pairs, static_cast<uint8_t*>(run.out) + at, n,
            [](uint16_t pair) { return uint8_t((any ? pair | pair >> 8 : pair & pair >> 8) & 1); });
  }
}

// Functions, which cost more than a call: computed in f64, and rounded for c64.
template <class T>
void map_function(const Run& run, C (*f)(C, C), bool two) {
  const auto *x = static_cast<const Complex<T>*>(run.in[0]), *y = static_cast<const Complex<T>*>(run.in[two]);
  const size_t x_step = run.uniform & 1 ? 0 : 1, y_step = run.uniform >> int(two) & 1 ? 0 : 1;
  auto* out = static_cast<Complex<T>*>(run.out);
  for (size_t i = 0; i < run.n; ++i) out[i] = Complex<T>(f(C(x[i * x_step]), C(y[i * y_step])));
}
template <class F, class T, int Inputs>
void function_loop(const Run& run) {
  map_function<T>(
      run,
      [](C x, [[maybe_unused]] C y) {
        if constexpr (Inputs == 1) return F()(x);
        else return F()(x, y);
      },
      Inputs == 2);
}

// Registers the loops of F as `scalar_kernel<name>`.
template <Name name, class F, int Inputs = 1>
struct Arithmetic {
  Arithmetic() {
    scalar_loops<name>.offer_complex(arithmetic_loop<F, Complex<float>, Inputs>,
                                     arithmetic_loop<F, Complex<double>, Inputs>);
  }
};
template <Name name, class F, int Inputs = 1>
struct Parts {
  Parts() { scalar_loops<name>.offer_complex(parts_loop<name, F, float, Inputs>, parts_loop<name, F, double, Inputs>); }
};
enum class Holds { of_any, of_both };
template <Name name, class F, Holds holds, int Inputs = 1>
struct Tests {
  Tests() {
    constexpr bool any = holds == Holds::of_any;
    scalar_loops<name>.offer_complex(test_loop<name, F, float, Inputs, any>, test_loop<name, F, double, Inputs, any>);
  }
};
template <Name name, Loop ComplexProducts::* c64, Loop ComplexProducts::* c128>
struct Products {
  Products() {
    scalar_loops<name>.offer_complex([](const Run& run) { (complex_products().*c64)(run); },
                                     [](const Run& run) { (complex_products().*c128)(run); });
  }
};
template <Name name, class F, int Inputs = 1>
struct Function {
  Function() { scalar_loops<name>.offer_complex(function_loop<F, float, Inputs>, function_loop<F, double, Inputs>); }
};
struct AbsLoops {
  AbsLoops() {
    scalar_loops<"abs">.offer_complex([](const Run& run) { complex_products().abs_c64(run); },
                                      arithmetic_loop<Abs, Complex<double>, 1>);
  }
};
// For c64, flips the sign bit of the second part, which is the highest bit on little-endian machines.
struct ConjLoops {
  ConjLoops() {
    const auto flip = [](const Run& run) {
      map_run(static_cast<const uint64_t*>(run.in[0]), static_cast<uint64_t*>(run.out), run.n,
              [](uint64_t x) { return x ^ uint64_t(1) << 63; });
    };
    constexpr bool low_first = std::endian::native == std::endian::little;
    scalar_loops<"conj">.offer_complex(low_first ? Loop(flip) : arithmetic_loop<Conj, Complex<float>, 1>,
                                       arithmetic_loop<Conj, Complex<double>, 1>);
  }
};
// complex(), whose operands are real.
struct OfPartsLoops {
  OfPartsLoops() {
    static constexpr LoopTable table = [] {
      LoopTable t;
      t.loop[int(DType::f32)] = arithmetic_loop<OfParts, float, 2>;
      t.loop[int(DType::f64)] = arithmetic_loop<OfParts, double, 2>;
      return t;
    }();
    scalar_loops<"complex">.offer(HWY_STATIC_TARGET, &table, nullptr);
  }
};

const std::tuple<Parts<"add", Add, 2>, Parts<"subtract", Subtract, 2>,
                 Products<"multiply", &ComplexProducts::multiply_c64, &ComplexProducts::multiply_c128>,
                 Arithmetic<"multiply_no_nan", MultiplyNoNan, 2>, Arithmetic<"multiply_nonzero", MultiplyNonzero, 2>,
                 Arithmetic<"divide", Divide, 2>, Arithmetic<"reciprocal", Reciprocal>,
                 Products<"square", &ComplexProducts::square_c64, &ComplexProducts::square_c128>,
                 Parts<"negative", Negative>, AbsLoops, ConjLoops, Arithmetic<"real", RealPart>,
                 Arithmetic<"imag", ImagPart>, OfPartsLoops, Tests<"equal", Equal, Holds::of_both, 2>,
                 Tests<"not_equal", NotEqual, Holds::of_any, 2>, Tests<"logical_not", LogicalNot, Holds::of_both>,
                 Tests<"isnan", IsNan, Holds::of_any>, Tests<"isinf", IsInf, Holds::of_any>,
                 Tests<"isfinite", IsFinite, Holds::of_both>>
    arithmetic;
const std::tuple<Function<"exp", Exp>, Function<"exp2", Exp2>, Function<"expm1", Expm1>, Function<"log", Log>,
                 Function<"log2", Log2>, Function<"log10", Log10>, Function<"log1p", Log1p>, Function<"sqrt", Sqrt>,
                 Function<"rsqrt", Rsqrt>, Function<"power", Power, 2>, Function<"sinc", Sinc>, Function<"sin", Sin>,
                 Function<"cos", Cos>, Function<"tan", Tan>, Function<"asin", Asin>, Function<"acos", Acos>,
                 Function<"atan", Atan>, Function<"sinh", Sinh>, Function<"cosh", Cosh>, Function<"tanh", Tanh>,
                 Function<"asinh", Asinh>, Function<"acosh", Acosh>, Function<"atanh", Atanh>>
    functions;

}  // namespace
}  // namespace rill::cpu
