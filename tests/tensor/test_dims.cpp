// Sizes that know what they are: whatever a function with open sizes does with a size that it reads, every call gives
// eager's bits; where it looks at the number there is a trace for each that needs one, and else one for all.
#include <cmath>
#include <functional>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"

using namespace rill;

namespace {

Tensor data(const Shape& shape, uint64_t seed = 1) { return random::normal(shape, {.key = random::Key(seed)}); }

using Body = std::function<Tensor(const Tensor&)>;

Tensor gradient_of(const Body& body, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  Tensor y = body(x);
  return tape.gradient(sum(y * y), x, {.unconnected = Unconnected::zero});
}

Shape with_sizes(Shape s, int64_t n) {
  for (Dim& d : s)
    if (d == open_size) d = n++;
  return s;
}

// Values and gradients, inside and around, of every size; `traces` is how many the function may need, -1: any number.
void check(const std::string& name, const Shape& shape, const Body& body, const std::vector<int64_t>& sizes,
           int traces = -1) {
  INFO(name);
  const FunctionOptions options{.signature = {spec(f32, shape, "x")}};
  auto f = function(name, body, options);
  auto g = function(name + "_gradient", [&](const Tensor& x) { return gradient_of(body, x); }, options);
  for (int round = 0; round < 2; ++round)
    for (int64_t n : sizes) {
      INFO("size " << n);
      const Tensor x = data(with_sizes(shape, n)), want = body(x), got = f(x);
      REQUIRE(got.shape() == want.shape());
      REQUIRE(got.dtype() == want.dtype());
      CHECK(same_bits(got, want));
      if (!is_floating(want.dtype())) continue;
      const Tensor want_gradient = gradient_of(body, x);
      CHECK(same_bits(g(x), want_gradient));
      if (round == 0) CHECK(same_bits(gradient_of(f, x), want_gradient));
    }
  if (traces >= 0) CHECK(f.trace_count() == traces);
}

const std::vector<int64_t> some_sizes{4, 5, 1, 2, 100, 0, 1000, 7};
const std::vector<int64_t> positive_sizes{4, 5, 1, 2, 100, 1000, 7};

}  // namespace

TEST_CASE("numbers made from a size and computed with as doubles are right for every size") {
  const auto n = [](const Tensor& x) { return double(x.dim(0)); };
  check("half", {any}, [](const Tensor& x) { return x - (x.dim(0) - 1) / 2.0; }, some_sizes);
  check("n / 2.0", {any}, [](const Tensor& x) { return x - x.dim(0) / 2.0; }, some_sizes);
  check("100.0 / n", {any}, [](const Tensor& x) { return x * (100.0 / x.dim(0)); }, positive_sizes);
  check("log", {any}, [=](const Tensor& x) { return x * log(n(x)); }, positive_sizes);
  check("n / (n - 1.0)", {any}, [](const Tensor& x) { return x * (x.dim(0) / (x.dim(0) - 1.0)); }, {4, 5, 2, 100});
  check("1 / sqrt", {any, 3}, [=](const Tensor& x) { return x / sqrt(n(x)); }, positive_sizes);
  check("float", {any}, [](const Tensor& x) { return x * (1.f / float(x.dim(0))); }, positive_sizes);
  check("power", {any}, [=](const Tensor& x) { return x * std::pow(0.9, n(x)); }, some_sizes);
}

TEST_CASE("C++ may decide on a size") {
  check("if", {any}, [](const Tensor& x) { return x.dim(0) > 6 ? x * 2 : x + 1; }, some_sizes, 2);
  check(
      "if else if", {any},
      [](const Tensor& x) {
        if (x.dim(0) == 0) return x;
        return x.dim(0) % 2 == 0 ? x * 2 : -x;
      },
      some_sizes, 3);
  check(
      "loop", {any},
      [](const Tensor& x) {
        Tensor y = x;
        for (int64_t i = 0; i < x.dim(0) && i < 20; ++i) y = y * 0.5f + float(i);
        return y;
      },
      some_sizes);
  check("rows", {any, 2},
        [](const Tensor& x) {
          Tensor y = zeros({2});
          for (int i = 0; i < x.dim(0); ++i) y = y + x(i) * float(i);
          return y;
        },
        {4, 5, 1, 0, 3});
  check(
      "vector", {any},
      [](const Tensor& x) {
        std::vector<float> v(size_t(x.dim(0)));
        for (size_t i = 0; i < v.size(); ++i) v[i] = float(i * i);
        return x * tensor(v);
      },
      some_sizes);
  check("min", {any}, [](const Tensor& x) { return x(slice(0, std::min<int64_t>(x.dim(0), 3))) * 2; }, some_sizes);
  check("clamp", {any}, [](const Tensor& x) { return x(slice(0, smaller(x.dim(0), 3))) * 2; }, some_sizes, 1);
  check(
      "switch", {any},
      [](const Tensor& x) {
        switch (int64_t(x.dim(0)) % 3) {
          case 0: return x;
          case 1: return x * 2;
          default: return x * 3;
        }
      },
      some_sizes);
  check("empty", {any}, [](const Tensor& x) { return x.size() ? x / max(x) : x; }, some_sizes);
  check("equal sizes", {any, any}, [](const Tensor& x) { return x.dim(0) == x.dim(1) - 1 ? x * 2 : x; }, some_sizes);
}

TEST_CASE("whole numbers made from sizes leave one trace") {
  check("n", {any}, [](const Tensor& x) { return x * x.dim(0); }, some_sizes, 1);
  check("n / 2", {any}, [](const Tensor& x) { return x - (x.dim(0) - 1) / 2; }, some_sizes, 1);
  check("n % 3", {any}, [](const Tensor& x) { return x + x.dim(0) % 3; }, some_sizes, 1);
  check("-n", {any}, [](const Tensor& x) { return x + -x.dim(0); }, some_sizes, 1);
  check("n left", {any}, [](const Tensor& x) { return x.dim(0) - x; }, some_sizes, 1);
  check("divide", {any}, [](const Tensor& x) { return x / x.dim(0); }, some_sizes, 1);
  check("in f64", {any}, [](const Tensor& x) { return (x.astype(f64) / x.size()).astype(f32); }, some_sizes, 1);
  check("in f16", {any}, [](const Tensor& x) { return (x.astype(f16) / x.dim(0)).astype(f32); }, some_sizes, 1);
  check("whole", {any}, [](const Tensor& x) { return sum(x > 0) * x.dim(0); }, some_sizes, 1);
  check("compare", {any}, [](const Tensor& x) { return where(x * 3 < x.dim(0), x, 0); }, some_sizes, 1);
  check("max", {any}, [](const Tensor& x) { return maximum(x, x.dim(0)); }, some_sizes, 1);
  check("where", {any}, [](const Tensor& x) { return where(x > 0, x.dim(0), x); }, some_sizes, 1);
  check("alone", {any}, [](const Tensor& x) { return Tensor(x.dim(0)) * 2.5f + sum(x); }, some_sizes, 1);
  check("two", {any, any}, [](const Tensor& x) { return x * (x.dim(0) * 2 - x.dim(1)); }, some_sizes, 1);
  check("size_of", {any, 2}, [](const Tensor& x) { return x / size_of(x, 0); }, some_sizes, 1);
  check("size_of, i64", {any, 2}, [](const Tensor& x) { return size_of(x, 0) * 3; }, some_sizes, 1);
  check("log of size_of", {any}, [](const Tensor& x) { return x * log(size_of(x, -1)); }, positive_sizes, 1);
  check(
      "user's numbers", {any}, [](const Tensor& x) { return x * 1186999 + 2 * 1187003 + x.dim(0) * 1187003; },
      some_sizes, 1);
  check("user's sizes", {any}, [](const Tensor& x) { return x + sum(zeros({1187003})) + 1187003; }, {3, 2}, 1);
}

TEST_CASE("a size beside a narrow integer is the C++ integer that it is") {
  auto narrow = [](const Tensor& x) { return (x * 3).astype(i8); };
  check("compared", {any}, [=](const Tensor& x) { return narrow(x) < x.dim(0); }, some_sizes);
  check("bound", {any}, [=](const Tensor& x) { return clip(narrow(x), 0, x.dim(0)); }, some_sizes);
  check("unsigned", {any}, [](const Tensor& x) { return abs(x).astype(u64) + x.dim(0); }, some_sizes, 1);
  auto body = [=](const Tensor& x) { return narrow(x) + x.dim(0); };
  auto f = function("narrow", body, {.signature = {spec(f32, {any})}});
  for (int64_t n : {4, 100, 127, 128, 1000, 5}) {
    const Tensor x = data({n});
    std::string eager = message_of([&] { body(x); }), traced = message_of([&] { f(x); });
    CHECK(eager.empty() == traced.empty());
    CHECK(eager == traced);
    if (eager.empty()) CHECK(same_bits(f(x), body(x)));
  }
}

TEST_CASE("statistics over open axes") {
  const Shape three{any, any, any, 2}, four{any, any, any, any};
  const std::vector<int64_t> sizes{2, 3, 1, 5};
  check("mean", three, [](const Tensor& x) { return mean(x); }, sizes, 1);
  check("mean of three", three, [](const Tensor& x) { return mean(x, {.axis = {0, 1, 2}}); }, sizes, 1);
  check("size of four", four, [](const Tensor& x) { return x / x.size(); }, sizes, 1);
  check("var", {any, 3}, [](const Tensor& x) { return var(x, {.axis = 0}); }, positive_sizes, 1);
  check(
      "var, corrected", {any, 3}, [](const Tensor& x) { return var(x, {.axis = 0, .correction = 1}); }, {4, 5, 2, 100},
      1);
  check("var of all", three, [](const Tensor& x) { return var(x, {.correction = 1}); }, sizes, 1);
  check("var, half", {any, 3}, [](const Tensor& x) { return var(x, {.axis = 0, .correction = 1.5}); }, {4, 5, 2, 100});
  check("std", {any, 3}, [](const Tensor& x) { return stddev(x, {.axis = 0, .correction = 1}); }, {4, 5, 100}, 1);
  check("cov", {2, any}, [](const Tensor& x) { return cov(x); }, {4, 5, 2, 100}, 1);
  check("cov, uncorrected", {2, any}, [](const Tensor& x) { return cov(x, 0); }, {4, 5, 2, 100}, 1);
  check("median", {any}, [](const Tensor& x) { return median(x); }, {4, 5, 1, 2, 100});
  check("norm", {any, any}, [](const Tensor& x) { return norm(x); }, positive_sizes, 1);
  check("logsumexp", {any, 3}, [](const Tensor& x) { return logsumexp(x, {.axis = 0}); }, positive_sizes, 1);
}

TEST_CASE("sizes that broadcast, or do not") {
  auto sum_of = [](const Tensor& a, const Tensor& b) { return a * 2 + b; };
  auto loss = [&](const Tensor& a, const Tensor& b) {
    GradientTape tape;
    tape.watch(b);
    return tape.gradient(sum(square(sum_of(a, b))), b);
  };
  const FunctionOptions options{.signature = {spec(f32, {any}, "a"), spec(f32, {any}, "b")}};
  auto f = function("sum", sum_of, options);
  auto g = function("gradient", loss, options);
  for (auto [m, n] : {std::pair(1, 1), {3, 3}, {1, 4}, {4, 1}, {0, 0}, {1, 0}, {7, 7}, {1, 1}}) {
    INFO(m << " and " << n);
    const Tensor a = data({m}), b = data({n}, 2);
    CHECK(same_bits(f(a, b), sum_of(a, b)));
    CHECK(same_bits(g(a, b), loss(a, b)));
  }
  CHECK(has(message_of([&] { f(ones({3}), ones({2})); }), "broadcast"));
  CHECK(same_bits(f(ones({5}), ones({5})), full({5}, 3.f)));
}

TEST_CASE("open sizes and control flow") {
  check(
      "cond", {any},
      [](const Tensor& x) { return cond(sum(x) > 0, [&] { return x / x.dim(0); }, [&] { return x - x.dim(0) / 2; }); },
      {4, 5, 1, 2, 100}, 1);
  check("cond on the number", {any},
        [](const Tensor& x) {
          return cond(
              sum(x) > 0, [&] { return x * std::log(double(x.dim(0))); }, [&] { return x.dim(0) > 4 ? x : x * 2; });
        },
        {4, 5, 1, 2, 100});
  check("scan over rows", {any, 3},
        [](const Tensor& x) {
          auto [last, rows] =
              scan([&](const Tensor& c, const Tensor& row) { return std::pair(c + row, c * row); }, zeros({3}), x);
          return rows + last / x.dim(0);
        },
        {4, 5, 1, 2, 30});
  check("scan with a carry of n", {2, any},
        [](const Tensor& x) {
          auto [last, rows] = scan([&](const Tensor& c, const Tensor& row) { return std::pair(c * row + 1, mean(c)); },
                                   ones({x.dim(1)}), x);
          return last * sum(rows) / x.dim(1);
        },
        {4, 5, 1, 2, 30});
  check("length of n", {any},
        [](const Tensor& x) {
          auto [last, rows] =
              scan([](const Tensor& c) { return std::pair(c * 0.5f, c); }, Tensor(1.f), {.length = x.dim(0)});
          return x * last + rows;
        },
        {4, 5, 1, 2, 30});
  check("while", {any},
        [](const Tensor& x) {
          return while_loop([](const Tensor& y) { return sum(y) < 100; },
                            [&](const Tensor& y) { return y + abs(x) / x.dim(0) + 1; }, zeros_like(x),
                            {.max_steps = 50});
        },
        {4, 5, 1, 2, 30});
  check("steps of n", {any},
        [](const Tensor& x) {
          return while_loop([](const Tensor& y) { return sum(y) < 100; }, [&](const Tensor& y) { return y * 2 + 1; },
                            zeros_like(x), {.max_steps = x.dim(0)}) +
                 x;
        },
        {4, 5, 1, 2});
}

TEST_CASE("no size is a negative number, and asking leaves no guard") {
  auto f = function(
      "f", [](const Tensor& x) { return vmap([](const Tensor& row) { return reshape(row, {2, row.dim(0) / 2}); })(x); },
      {.signature = {spec(f32, {any, any}, "x")}});
  CHECK(f(ones({3, 4})).shape() == Shape{3, 2, 2});
  CHECK(f(ones({5, 8})).shape() == Shape{5, 2, 4});
  CHECK(f.trace_count() == 1);
  CHECK_FALSE(has(f.explain(), "-1"));
}

TEST_CASE("open sizes, transforms and random numbers") {
  check("vmap", {any, 3}, [](const Tensor& x) { return vmap([](const Tensor& row) { return row * sum(row); })(x); },
        {4, 1, 2});
  check("jacobian", {any}, [](const Tensor& x) { return jacrev([](const Tensor& v) { return v * v; })(x); }, {4, 1, 2});
  check(
      "inner gradient", {any},
      [](const Tensor& x) {
        return grad([](const Tensor& v) { return sum(v * v * v) / v.dim(0) + mean(tanh(v)) * v.dim(0); })(x);
      },
      positive_sizes, 1);
  check(
      "random", {any, 2}, [](const Tensor& x) { return x * random::normal(x.shape(), {.key = random::Key(3)}); },
      some_sizes, 1);
  check(
      "recompute", {any},
      [](const Tensor& x) { return recompute([](const Tensor& v) { return tanh(v) / v.dim(0); })(x); }, positive_sizes);
  auto inner = function("inner", [](const Tensor& x, int64_t n) { return x * double(n); });
  check("inlined", {any}, [&](const Tensor& x) { return inner(x, x.dim(0)) + x.dim(0); }, some_sizes);
}

TEST_CASE("a size that is given back is right") {
  auto f = function("f", [](const Tensor& x) { return std::pair(x * 2, int64_t(x.dim(0))); },
                    {.signature = {spec(f32, {any})}});
  auto g = function("g", [](const Tensor& x) { return std::pair(x.shape(), x.dim(0) * 2); },
                    {.signature = {spec(f32, {any, 2})}});
  for (int64_t n : {4, 5, 0, 1, 4}) {
    CHECK(f(zeros({n})).second == n);
    auto [shape, twice] = g(zeros({n, 2}));
    CHECK(shape == Shape{n, 2});
    CHECK(twice == 2 * n);
  }
}

TEST_CASE("relax_shapes through many shapes") {
  auto body = [](const Tensor& x) { return mean(x) * (x.dim(0) - 1) / 2.0 + var(x, {.correction = 1}) / x.dim(1); };
  auto f = function("relaxed", body, {.relax_shapes = true});
  for (int64_t n : {2, 3, 5, 8, 4, 13, 2, 9}) {
    const Tensor x = data({n, n + 1});
    CHECK(same_bits(f(x), body(x)));
  }
}

TEST_CASE("a size outlives its trace as the number it was") {
  Dim kept;
  auto f = function("keeps",
                    [&](const Tensor& x) {
                      kept = x.dim(0) * 2;
                      return x + 1;
                    },
                    {.signature = {spec(f32, {any})}});
  f(zeros({4}));
  CHECK(kept == 8);
  CHECK(zeros({kept}).shape() == Shape{8});
  auto g = function("uses", [&](const Tensor& x) { return x + full({kept}, kept); }, {.signature = {spec(f32, {any})}});
  CHECK(same_bits(g(zeros({8})), full({8}, 8.f)));
  CHECK(same_bits(g(zeros({1})), full({8}, 8.f)));
}

TEST_CASE("strides and text of an open size are the numbers they are") {
  check("strides", {any, any}, [](const Tensor& x) { return x * float(x.strides()[0]); }, {4, 5, 2});
  check("text", {any}, [](const Tensor& x) { return x * float(to_string(x.shape()).size()); }, some_sizes);
}

TEST_CASE("Dim computes as int64_t does") {
  for (int64_t a : {-7, -1, 0, 3, 8})
    for (int64_t b : {-3, -1, 1, 2, 5}) {
      const Dim x = a, y = b;
      CHECK(x + y == a + b);
      CHECK(x - b == a - b);
      CHECK(a * y == a * b);
      CHECK(x / y == a / b);
      CHECK(x % y == a % b);
      CHECK((x < y) == (a < b));
      CHECK((x >= b) == (a >= b));
      CHECK(smaller(x, y) == std::min(a, b));
      CHECK(larger(x, b) == std::max(a, b));
      CHECK(-x == -a);
    }
  const int64_t least = std::numeric_limits<int64_t>::min();
  CHECK(Dim(least) == least);
  CHECK(Dim(std::numeric_limits<int64_t>::max()) == std::numeric_limits<int64_t>::max());
  CHECK(Dim(-(int64_t(1) << 62) - 5) < -1);  // never taken for an expression
}

namespace {
// An arithmetic expression over n and m, drawn from a seed: the same one whatever they are.
class Drawn {
 public:
  Drawn(uint64_t seed, Dim n, Dim m) : state_(seed * 2 + 1), n_(n), m_(m) {}
  int below(int k) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return int(state_ >> 33) % k;
  }
  Dim number(int depth = 3) {
    if (depth == 0 || below(5) == 0) return below(3) == 0 ? Dim(below(9) - 4) : below(2) ? n_ : m_;
    const Dim a = number(depth - 1), b = number(depth - 1);
    switch (below(7)) {
      case 0: return a + b;
      case 1: return a - b;
      case 2: return a * (b % 100);
      case 3: return a / (b % 7 + 7);
      case 4: return a % (b % 7 + 7);
      case 5: return smaller(a, b);
      default: return larger(a, -b);
    }
  }

 private:
  uint64_t state_;
  Dim n_, m_;
};
}  // namespace

TEST_CASE("drawn programs over sizes") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    auto body = [seed](const Tensor& x) {
      Drawn d(seed, x.dim(0), x.dim(1));
      Tensor y = x * d.number() + d.number();
      y = y(slice(larger(d.number() % 3, 0), none), slice(none, larger(d.number() % 5, 0) + 1));
      if (d.below(2) && d.number() < d.number()) y = y / 2;
      if (d.below(3) == 0 && d.number() % 2 == 0) y = y + 1;
      if (d.below(4) == 0) y = y * double(d.number());
      return concat(
          {reshape(y, {-1}), arange(larger(d.number() % 20, 0)).astype(f32), full({x.dim(0)}, d.number(), f32)});
    };
    auto f = function("drawn", body, {.signature = {spec(f32, {any, any})}});
    for (auto [n, m] : {std::pair(4, 5), {5, 4}, {3, 3}, {1, 2}, {2, 1}, {0, 3}, {12, 7}, {4, 5}}) {
      INFO("sizes " << n << " and " << m);
      const Tensor x = data({n, m});
      REQUIRE(same_bits(f(x), body(x)));
    }
  }
}

TEST_CASE("explain names the sizes that were looked at") {
  auto f = function("looks", [](const Tensor& x) { return x.dim(0) > 6 ? x * 2 : x; },
                    {.signature = {spec(f32, {any}, "x")}});
  f(zeros({7}));
  f(zeros({3}));
  CHECK(has(f.explain(), "only where 6 < x.dim(0)"));
  CHECK(has(f.explain(), "only where 6 >= x.dim(0)"));
}

TEST_CASE("a size that is computed in very many steps") {
  const auto f = function("f",
                          [](const Tensor& x) {
                            Dim d = x.dim(0);
                            for (int i = 0; i < 30'000; ++i) d = larger(d / 2, x.dim(1)) + i % 3;
                            return sum(x) + sum(ones({d}));
                          },
                          {.signature = {spec(f32, {any, any}, "x")}});
  for (const int n : {2, 5, 9}) {
    int64_t d = n;
    for (int i = 0; i < 30'000; ++i) d = std::max<int64_t>(d / 2, n + 1) + i % 3;
    CHECK(f(ones({n, n + 1})).item<float>() == float(n * (n + 1) + d));
  }
  CHECK(f.trace_count() == 1);
}
