// Sizes in everyday C++: what a program does with x.dim(0), x.size() and x.shape()[0] as it would with an int64_t
// compiles and gives what it would for the integer, eagerly and inside a function that leaves sizes open.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/tensor/fmt.h"

using namespace rill;

namespace {

// That both compute the same double: of a size, eagerly and in a trace that leaves it open, and of the int64_t.
template <class F>
void same(const char* what, F f) {
  INFO(what);
  auto traced =
      function("sizes", [&](const Tensor& x) { return x.astype(f64)(0, 0) * 0 + double(f(x.dim(0), x.size())); },
               {.signature = {spec(f32, {any, 4})}});
  for (int64_t n : {5, 3, 8, 5}) {
    const Tensor x = ones({n, 4});
    const double want = double(f(n, 4 * n));
    CHECK(double(f(x.dim(0), x.size())) == want);
    CHECK(double(f(x.shape()[0], x.shape().numel())) == want);
    const Tensor got = traced(x);
    CHECK(got.item<double>() == want);
  }
}
// As generic code calls the C++ library: of an integer the library's, of a size ours, which its argument's type names.
#define SAME(...)                                                                                                      \
  same(#__VA_ARGS__, [&]([[maybe_unused]] auto n, [[maybe_unused]] auto m) {                                           \
    using std::sqrt, std::cbrt, std::exp, std::exp2, std::log, std::log2, std::log10, std::log1p, std::sin, std::cos,  \
        std::tan, std::tanh, std::floor, std::ceil, std::round, std::pow, std::fmod, std::hypot, std::atan2, std::abs, \
        std::min, std::max, std::clamp;                                                                                \
    return __VA_ARGS__;                                                                                                \
  })

}  // namespace

TEST_CASE("the C++ library's functions of numbers take sizes") {
  SAME(sqrt(n));
  SAME(sqrt(n) + 0);
  SAME(cbrt(m) + exp(-n) + exp2(n) + log(m) + log2(n) + log10(n) + log1p(n));
  SAME(sin(n) + cos(n) + tan(n) + tanh(n) + floor(n) + ceil(n) + round(n));
  SAME(pow(n, 2) + pow(2, n) + pow(0.9, n) + pow(n, m) + pow(0.5f, n) + pow(n, -0.5));
  SAME(fmod(m, n) + hypot(n, 3.0) + atan2(n, m));
  SAME(1 / sqrt(n / 2) + 1 / sqrt(double(n)) + 1.f / n + 100 / n);
  SAME(abs(n - 9) + abs(n));
  const int64_t four = 4;
  SAME(min(n, four) + max(n, four) + min(four, m) + clamp(n, four, four + 2));
  SAME(std::min<int64_t>(n, 4) + std::max<int64_t>(m, 4) + std::clamp<int64_t>(n, 1, 4));
  SAME(min(n, m) + max({n, m, n + m}) + max(n, n));
}

TEST_CASE("the conditional operator of a size and an integer is an integer") {
  const int64_t some = 7;
  const int zero = 0;
  const size_t unsigned_some = 9;
  for (bool c : {true, false}) {
    SAME(c ? n : some);
    SAME(c ? some : n);
    SAME(c ? n / 2 : some);
    SAME(c ? 0 : n / some);
    SAME(c ? zero : m - 1);
    SAME(c ? n : unsigned_some);
    SAME(c ? -n : some);
    SAME(c ? 0.5 : n);
    SAME(c ? n : m);
  }
  const Tensor x = ones({5, 4});
  static_assert(std::is_same_v<decltype(true ? x.dim(0) : some), int64_t>);
  static_assert(std::is_same_v<decltype(true ? x.shape()[0] : some), int64_t>);
  static_assert(std::is_same_v<decltype(true ? x.shape().back() : some), int64_t>);
  static_assert(std::is_same_v<decltype(true ? x.dim(0) / 2 : Dim(3)), Dim>);
  auto n = x.dim(0);
  n = 7, n += 2, ++n;
  CHECK(n == 10);
}

TEST_CASE("sizes decide, count, index and are added to numbers") {
  SAME([&] {
    switch (n % 3) {
      case 0: return 10;
      case 2: return 20;
      default: return 30;
    }
  }());
  SAME([&] {
    switch (n) {
      case 5: return 1;
      default: return 2;
    }
  }());
  SAME([&] {
    int64_t total = 1;
    total *= n, total += m;
    double d = 1;
    d /= n, d += m;
    int i = 1;
    i += n;
    size_t u = 2;
    u *= m;
    float f = n;
    f *= n;
    return double(total) + d + i + double(u) + f;
  }());
  SAME([&] {
    std::vector<float> v(m, 1.f);
    const auto array = std::make_unique<int[]>(n);
    float* p = v.data() + n;
    p[n] = 4;
    v[n] = 3;
    array[n - 1] = 2;
    return std::accumulate(v.begin(), v.end(), 0.) + array[n - 1];
  }());
  SAME((n << 1) + (n & 1) + (1 << n) + (m | 1) + (n ^ 3) + (m >> 1));
  SAME((n < 4.5) + 2 * (n == 5u) + 4 * (n >= 4) + 8 * (!n) + 16 * (n && m) + 32 * (n != m));
  SAME(std::vector<int64_t>{n, m}[1] + std::array<int64_t, 2>{n, m}[0] + std::optional<int64_t>(n).value());
  std::atomic<int64_t> shared = 4;
  SAME((shared < n) + (n - shared));
}

TEST_CASE("sizes print as numbers") {
  SAME([&] {
    std::ostringstream out;
    out << n << " " << m / 2;
    char text[64], more[64];
    snprintf(text, sizeof text, "%ld %s %ld", n, "and", m + 1);
    snprintf(more, sizeof more, "%ld", n);
    const std::string all = out.str() + text + more + std::to_string(n) + fmt::format("{} {:>4}", n, m * 2);
    return std::accumulate(all.begin(), all.end(), 0.);
  }());
}

TEST_CASE("what no i64 holds is beyond any size, and never -1") {
  const uint64_t huge = std::numeric_limits<uint64_t>::max(), half = uint64_t(1) << 63;
  const Tensor x = arange(5);
  for (uint64_t end : {huge, half, huge - 5}) {
    INFO(end);
    CHECK(array_equal(x(slice(1, end)), x(slice(1, none))));
    CHECK(array_equal(x(slice(end)), x));
    CHECK(x(slice(end, none)).size() == 0);
    CHECK(array_equal(x(slice(end, none, -1)), flip(x)));
    CHECK(x(slice(3, end, -1)).size() == 0);
    CHECK(
        array_equal(x.at(slice(3, end)).set(9), tensor({int64_t(0), int64_t(1), int64_t(2), int64_t(9), int64_t(9)})));
    CHECK(array_equal(strided_slice(x, {2}, {end}), x(slice(2, none))));
    CHECK(x.dim(0) < end);
    CHECK(end > x.dim(0));
    CHECK(x.dim(0) != end);
    CHECK(has(message_of([&] { x.reshape({end}); }), "cannot reshape"));
    CHECK(!message_of([&] { zeros({end}); }).empty());
    CHECK(has(message_of([&] { sum(x, end); }), "out of bounds"));
    CHECK(has(message_of([&] { softmax(x, end); }), "out of bounds"));
  }
  CHECK(array_equal(x(slice(size_t(1), size_t(3))), x(slice(1, 3))));
  auto traced = function("end", [&](const Tensor& t) { return t(slice(1, huge)) * 2; });
  CHECK(array_equal(traced(x), x(slice(1, none)) * 2));
}
