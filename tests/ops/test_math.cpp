// Vector math: error in ulp of every function against higher precision, the same bits on every instruction set, and
// that tails never touch memory past their end. The file compiles once per instruction set (Highway's foreach_target);
// each pass adds its kernels, over vectors and over plain numbers, to one list. Read the tests at the end first.
//
//   RILL_MATH_SAMPLES=N      numbers per function (default 2^17)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/test_math.cpp"
#include "rill/devices/kernel/targets.h"
// After targets.h:
#include <hwy/foreach_target.h>

#include "rill/devices/kernel/math/math.h"

#ifndef RILL_TESTS_TEST_MATH_ONCE
#define RILL_TESTS_TEST_MATH_ONCE
#include <string>
#include <vector>

#include "math_cases.h"

namespace rill {

// out[i] = op(x[i], y[i]); functions of one argument ignore y.
template <class T>
using Kernel = void (*)(const T* x, const T* y, T* out, size_t n);

// All kernels of one instruction set, over vectors or over plain numbers; in the order of the lists below.
struct Variant {
  std::string name;
  int64_t target;
  std::vector<Kernel<float>> f32;
  std::vector<Kernel<double>> f64;
};
inline std::vector<Variant>& all_variants() {
  static std::vector<Variant> list;
  return list;
}

template <class T>
const std::vector<Kernel<T>>& kernels(const Variant& v) {
  if constexpr (sizeof(T) == 4) {
    return v.f32;
  } else {
    return v.f64;
  }
}

}  // namespace rill

// The operations of lanes.h, each as an expression in x and y, first over V and then over T for the expected value.
#define RILL_LANE_OPS(F)                                                                                      \
  F(add, x + y, x + y)                                                                                        \
  F(subtract, x - y, x - y)                                                                                   \
  F(multiply, x* y, x* y)                                                                                     \
  F(divide, x / y, x / y)                                                                                     \
  F(negate, -x, -x)                                                                                           \
  F(not_contracted, x* y + x, plus(x * y, x))                                                                 \
  F(fused, fma(x, y, x), std::fma(x, y, x))                                                                   \
  F(smaller, min(x, y), x != x ? x : y != y ? y : x < y ? x : y)                                              \
  F(larger, max(x, y), x != x ? x : y != y ? y : x > y ? x : y)                                               \
  F(clamped, clamp(x, V(-1), V(2)), x < -1 ? T(-1) : x > 2 ? T(2) : x)                                        \
  F(absolute, abs(x), std::fabs(x))                                                                           \
  F(root, sqrt(x), std::sqrt(x))                                                                              \
  F(floored, floor(x), std::floor(x))                                                                         \
  F(ceiled, ceil(x), std::ceil(x))                                                                            \
  F(truncated, trunc(x), std::trunc(x))                                                                       \
  F(rounded, round_even(x), std::nearbyint(x))                                                                \
  F(sign_of, copysign(x, y), std::copysign(x, y))                                                             \
  F(less, select(x < y, V(1), V(2)), T(x < y ? 1 : 2))                                                        \
  F(not_greater, select(x <= y, V(1), V(2)), T(x <= y ? 1 : 2))                                               \
  F(greater, select(x > y, x, y), x > y ? x : y)                                                              \
  F(not_less, select(x >= y, x, y), x >= y ? x : y)                                                           \
  F(equal, select(x == y, V(1), V(2)), T(x == y ? 1 : 2))                                                     \
  F(unequal, select(x != y, V(1), V(2)), T(x != y ? 1 : 2))                                                   \
  F(masks, select(((x < y) & !(x < V(0))) | isnan(y), V(1), V(2)), T((x < y && !(x < 0)) || y != y ? 1 : 2))  \
  F(mask_xor, select((x < y) ^ (x < V(0)), V(1), V(2)), T((x < y) != (x < 0) ? 1 : 2))                        \
  F(integers, to_float(to_int(small(x)) + to_int(small(y))), integer_sum(x, y))                               \
  F(shifted, from_bits(shr<3>(bits(x)) ^ shl<2>(bits(y))), shifted_bits(x, y))                                \
  F(unsigned_shift, from_bits(as_signed(shr<7>(as_unsigned(~bits(x) | bits(y))))), unsigned_shift_bits(x, y)) \
  F(integer_mask, select(mask_cast<V>((bits(x) & int_t<V>(1)) == int_t<V>(0)), x, y), bit_zero(x) ? y : x)    \
  F(patched, patch(x > y, x, Doubled(), x), x > y ? Doubled::call(x) : x)

#define RILL_MATH_FUNCTIONS_2(F) F(pow) F(atan2)

namespace rill {
struct Doubled {
  static float call(float x) { return 2 * x; }
  static double call(double x) { return 2 * x; }
};
}  // namespace rill
#endif  // once

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

template <class V, class Op>
void map(const scalar_t<V>* x, const scalar_t<V>* y, scalar_t<V>* out, size_t n) {
  size_t i = 0;
  for (; i + lanes<V>() <= n; i += lanes<V>()) store(Op()(load<V>(x + i), load<V>(y + i)), out + i);
  if (i < n) store_n(Op()(load_n<V>(x + i, n - i), load_n<V>(y + i, n - i)), out + i, n - i);
}

// Within what an integer of any width holds.
template <class V>
HWY_INLINE V small(V x) {
  return select(isnan(x), V(0), clamp(x, V(-1e6), V(1e6)));
}

#define RILL_OP_STRUCT(name, expression, expected)             \
  struct LaneOp_##name {                                       \
    template <class V>                                         \
    HWY_INLINE V operator()(V x, [[maybe_unused]] V y) const { \
      return expression;                                       \
    }                                                          \
  };
RILL_LANE_OPS(RILL_OP_STRUCT)
#define RILL_FUNCTION_STRUCT(name, ...)     \
  struct Function_##name {                  \
    template <class V>                      \
    HWY_INLINE V operator()(V x, V) const { \
      return name(x);                       \
    }                                       \
  };
RILL_MATH_FUNCTIONS(RILL_FUNCTION_STRUCT)
#define RILL_FUNCTION_2_STRUCT(name)          \
  struct Function_##name {                    \
    template <class V>                        \
    HWY_INLINE V operator()(V x, V y) const { \
      return name(x, y);                      \
    }                                         \
  };
RILL_MATH_FUNCTIONS_2(RILL_FUNCTION_2_STRUCT)

template <class V>
std::vector<Kernel<scalar_t<V>>> list_kernels() {
  return {
#define RILL_LIST_FUNCTION(name, ...) &map<V, Function_##name>,
#define RILL_LIST_OP(name, ...) &map<V, LaneOp_##name>,
      RILL_MATH_FUNCTIONS(RILL_LIST_FUNCTION) RILL_MATH_FUNCTIONS_2(RILL_LIST_FUNCTION) RILL_LANE_OPS(RILL_LIST_OP)};
}

const bool registered = [] {
  const std::string name = hwy::TargetName(HWY_TARGET);
  if (hwy::SupportedTargets() & HWY_TARGET) {
    all_variants().push_back({name, HWY_TARGET, list_kernels<Lane<float>>(), list_kernels<Lane<double>>()});
    all_variants().push_back({name + " plain", HWY_TARGET, list_kernels<float>(), list_kernels<double>()});
  }
  return true;
}();

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <random>
#include <sstream>

#include "catch.h"

namespace rill {
namespace {

using math_cases::Case;
using math_cases::through;

const std::vector<Case> kCases = {
#define RILL_CASE(name, reference, narrow, low, high, bound32, bound64, note) \
  {#name, reference, narrow, low, high, bound32, bound64, note},
    RILL_MATH_FUNCTIONS(RILL_CASE)};
const size_t kPow = kCases.size(), kAtan2 = kPow + 1, kLaneOps = kPow + 2;

size_t sample_count() {
  const char* text = std::getenv("RILL_MATH_SAMPLES");
  return text ? std::strtoull(text, nullptr, 10) : size_t(1) << 17;
}

// Highway lists the best target last in all_variants(): passes run from the plainest up, the static target at the end.
const Variant& best_variant() {
  const auto& all = all_variants();
  return *std::min_element(all.begin(), all.end(), [](auto& a, auto& b) {
    return std::pair(a.target, a.name.size()) < std::pair(b.target, b.name.size());
  });
}

template <class T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {T(0),
                      L::denorm_min(),
                      L::min() / 4,
                      L::min(),
                      L::epsilon() / 2,
                      T(0.25),
                      T(0.5),
                      T(0.9),
                      T(1) - L::epsilon() / 2,
                      T(1),
                      T(1) + L::epsilon(),
                      T(1.5),
                      T(2),
                      T(3),
                      T(4),
                      T(5),
                      T(10),
                      T(88.7),
                      T(104),
                      T(709.7),
                      T(745.2),
                      T(1e5),
                      T(1e9),
                      T(1e22),
                      1 / L::epsilon(),
                      2 / L::epsilon(),
                      L::max() / 2,
                      L::max(),
                      L::infinity(),
                      L::quiet_NaN()};
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  return v;
}

// The specials, then half of the rest uniform in [low, high] and half with uniform bit patterns, so of any exponent.
template <class T>
std::vector<T> samples(size_t n, double low, double high, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> v = specials<T>();
  while (v.size() < n) {
    v.push_back(static_cast<T>(uniform(random)));
    T x;
    const uint64_t bits = random();
    std::memcpy(&x, &bits, sizeof x);
    v.push_back(x);
  }
  return v;
}

// Distance of y from the exact value in units of T's spacing there; infinite where the kind or the sign of zero is
// wrong.
template <class T>
double ulp_error(T y, long double exact) {
  using L = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact)) return std::isnan(y) ? 0 : wrong;
  if (std::isnan(y)) return wrong;
  if (y == 0 && std::signbit(y) != std::signbit(exact)) return wrong;
  const T nearest = static_cast<T>(exact);
  if (std::isinf(exact) || (std::isinf(nearest) && std::isinf(y))) return y == nearest ? 0 : wrong;
  int e;
  std::frexp(exact, &e);
  const long double unit = std::ldexp(1.0L, std::max(e, L::min_exponent) - L::digits);
  const long double value = std::isinf(y) ? std::copysign(std::ldexp(1.0L, L::max_exponent), y) : y;
  return static_cast<double>(std::fabs(value - exact) / unit);
}

struct Worst {
  double error = 0, x = 0, y = 0;
};

template <class T>
Worst measure(size_t index) {
  const Case& c = kCases[index];
  const auto x = samples<T>(sample_count(), c.low, c.high, 1);
  std::vector<T> out(x.size());
  kernels<T>(best_variant())[index](x.data(), x.data(), out.data(), x.size());
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    // The reference of digamma holds for x > 0 and away from the root.
    if (std::string(c.name) == "digamma" && (x[i] < 0 || std::fabs(x[i] - T(1.4616321)) < T(0.005))) continue;
    const long double exact = sizeof(T) == 4 ? static_cast<long double>(c.narrow(x[i])) : c.reference(x[i]);
    const double error = ulp_error(out[i], exact);
    if (error > worst.error) worst = {error, static_cast<double>(x[i]), 0};
  }
  return worst;
}

template <class T>
Worst measure_2(size_t index, double (*narrow)(double, double), math_cases::Reference2 wide) {
  const auto special = specials<T>();
  auto x = samples<T>(sample_count(), index == kPow ? 0 : -4, 4, 2);
  auto y = samples<T>(sample_count(), -20, 20, 3);
  for (T a : special) {
    for (T b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::vector<T> out(x.size());
  kernels<T>(best_variant())[index](x.data(), y.data(), out.data(), x.size());
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = sizeof(T) == 4 ? static_cast<long double>(narrow(x[i], y[i])) : wide(x[i], y[i]);
    const double error = ulp_error(out[i], exact);
    if (error > worst.error) worst = {error, static_cast<double>(x[i]), static_cast<double>(y[i])};
  }
  return worst;
}

template <class T>
Worst measure_any(size_t index) {
  if (index == kPow) return measure_2<T>(index, std::pow, std::pow);
  if (index == kAtan2) return measure_2<T>(index, std::atan2, std::atan2);
  return measure<T>(index);
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// Expected values of the lane operations that take more than an expression.
template <class T>
T plus(T a, T b) {
  volatile T rounded = a;
  return rounded + b;
}
template <class T>
using IntOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class To, class From>
To as(From x) {
  To y;
  static_assert(sizeof y == sizeof x);
  std::memcpy(&y, &x, sizeof y);
  return y;
}
template <class T>
T integer_sum(T x, T y) {
  const auto part = [](T v) {
    return std::isnan(v) ? 0 : static_cast<IntOf<T>>(std::fmin(std::fmax(v, T(-1e6)), T(1e6)));
  };
  return static_cast<T>(part(x) + part(y));
}
template <class T>
T shifted_bits(T x, T y) {
  using U = std::make_unsigned_t<IntOf<T>>;
  return as<T>(static_cast<U>(as<IntOf<T>>(x) >> 3) ^ static_cast<U>(as<U>(y) << 2));
}
template <class T>
T unsigned_shift_bits(T x, T y) {
  using U = std::make_unsigned_t<IntOf<T>>;
  return as<T>(static_cast<U>(static_cast<U>(~as<U>(x) | as<U>(y)) >> 7));
}
template <class T>
bool bit_zero(T x) {
  return as<IntOf<T>>(x) & 1;
}

struct Expected {
  const char* name;
  float (*f32)(float, float);
  double (*f64)(double, double);
};
#define RILL_EXPECTED(name, expression, expected) \
  {#name,                                         \
   [](float x, [[maybe_unused]] float y) {        \
     using T = float;                             \
     [[maybe_unused]] T t{};                      \
     return static_cast<T>(expected);             \
   },                                             \
   [](double x, [[maybe_unused]] double y) {      \
     using T = double;                            \
     [[maybe_unused]] T t{};                      \
     return static_cast<T>(expected);             \
   }},
const Expected kExpected[] = {RILL_LANE_OPS(RILL_EXPECTED)};

template <class T>
void check_lane_ops() {
  const auto x = samples<T>(4096, -8, 8, 4);
  auto y = samples<T>(4096, -8, 8, 5);
  std::rotate(y.begin(), y.begin() + 7, y.begin() + 61);  // other pairs of specials
  std::vector<T> out(x.size());
  for (const Variant& v : all_variants()) {
    for (size_t k = 0; k < std::size(kExpected); ++k) {
      kernels<T>(v)[kLaneOps + k](x.data(), y.data(), out.data(), x.size());
      size_t bad = 0, first = 0;
      for (size_t i = x.size(); i-- > 0;) {
        T want;
        if constexpr (sizeof(T) == 4) {
          want = kExpected[k].f32(x[i], y[i]);
        } else {
          want = kExpected[k].f64(x[i], y[i]);
        }
        if (!same(out[i], want)) ++bad, first = i;
      }
      INFO(v.name << " " << kExpected[k].name << " of " << x[first] << ", " << y[first] << " gave " << out[first]);
      CHECK(bad == 0);
    }
  }
}

template <class T>
void check_same_bits() {
  const auto& all = all_variants();
  for (size_t k = 0; k < kLaneOps; ++k) {
    const auto x = k < kPow ? samples<T>(3001, kCases[k].low, kCases[k].high, 6) : samples<T>(3001, -4, 4, 6);
    const auto y = samples<T>(3001, -8, 8, 7);
    std::vector<T> first(x.size()), other(x.size());
    kernels<T>(all[0])[k](x.data(), y.data(), first.data(), x.size());
    for (size_t v = 1; v < all.size(); ++v) {
      kernels<T>(all[v])[k](x.data(), y.data(), other.data(), x.size());
      size_t bad = 0, at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!same(first[i], other[i])) ++bad, at = i;
      }
      INFO((k < kPow    ? kCases[k].name
            : k == kPow ? "pow"
                        : "atan2")
           << " of " << x[at] << ": " << first[at] << " on " << all[0].name << ", " << other[at] << " on "
           << all[v].name);
      CHECK(bad == 0);
    }
  }
}

// n numbers that end where a page without access begins: reading or writing one more is a crash.
template <class T>
class Fenced {
 public:
  explicit Fenced(size_t n) {
    base_ = static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + kPage, kPage, PROT_NONE) == 0);
    data_ = reinterpret_cast<T*>(base_ + kPage) - n;
  }
  Fenced(const Fenced&) = delete;
  ~Fenced() { munmap(base_, 2 * kPage); }
  T* data() const { return data_; }

 private:
  static constexpr size_t kPage = 65536;
  char* base_;
  T* data_;
};

template <class T>
void check_tails() {
  for (const Variant& v : all_variants()) {
    for (size_t n = 0; n <= 35; ++n) {
      Fenced<T> x(n), out(n);
      for (size_t i = 0; i < n; ++i) x.data()[i] = static_cast<T>(i + 1);
      T* before = out.data() - 1;
      *before = T(-7);
      kernels<T>(v)[kLaneOps](x.data(), x.data(), out.data(), n);  // x + y
      INFO(v.name << " n = " << n);
      CHECK(*before == T(-7));
      bool right = true;
      for (size_t i = 0; i < n; ++i) right = right && out.data()[i] == static_cast<T>(2 * i + 2);
      CHECK(right);
    }
  }
}

TEST_CASE("lane operations do what lanes.h says on every target") {
  check_lane_ops<float>();
  check_lane_ops<double>();
}

TEST_CASE("vector math gives the same bits on every target and for plain numbers") {
  CHECK(all_variants().size() >= 2);
  check_same_bits<float>();
  check_same_bits<double>();
}

TEST_CASE("partial loads and stores stay within their numbers") {
  check_tails<float>();
  check_tails<double>();
}

TEST_CASE("vector math is as accurate as docs/math.md says") {
  for (size_t i = 0; i < kLaneOps; ++i) {
    const bool two = i >= kPow;
    const Worst f32 = measure_any<float>(i);
    INFO((two ? "pow or atan2" : kCases[i].name) << " f32 at " << std::setprecision(9) << f32.x << ", " << f32.y);
    CHECK(f32.error <= (i == kPow ? math_cases::pow_bound : i == kAtan2 ? math_cases::atan2_bound : kCases[i].bound32));
    const Worst f64 = measure_any<double>(i);
    INFO((two ? "pow or atan2" : kCases[i].name) << " f64 at " << std::setprecision(17) << f64.x << ", " << f64.y);
    CHECK(f64.error <= (i == kPow ? math_cases::pow_bound : i == kAtan2 ? math_cases::atan2_bound : kCases[i].bound64));
  }
}

TEST_CASE("digamma has its root, its poles and its reflection") {
  const double x[] = {1.4616321449683623, 1.5, 1.0, 0.5, -0.5, -1.5, -0.75, -2.0, 0.0};
  const double want[] = {-9.2412655217294275e-17, 0.03648997397857652, -0.5772156649015329, -1.9635100260214235,
                         0.03648997397857652,     0.7031566406452432,  -2.8941202000429321};
  double out[9];
  const size_t index =
      std::find_if(kCases.begin(), kCases.end(), [](auto& c) { return c.name == std::string("digamma"); }) -
      kCases.begin();
  best_variant().f64[index](x, x, out, 9);
  for (int i = 0; i < 7; ++i) CHECK(out[i] == Approx(want[i]).epsilon(1e-13).margin(0));
  CHECK(std::isnan(out[7]));
  CHECK(out[8] == -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace rill
#endif  // HWY_ONCE
