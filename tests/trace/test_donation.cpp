// Arguments that are given up: f(std::move(x)) may write a result over x, and must not where anyone can still see x.
#include "catch.h"
#include "messages.h"
#include "rill/devices/registry.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {

constexpr int64_t n = 5000;

const void* memory_of(const Tensor& t) { return t.rep()->data; }
Tensor fresh(uint64_t seed = 1) { return random::normal({n}, {.key = random::Key(seed)}); }
size_t allocations() { return memory_stats("cpu:0").allocations; }

auto step() {
  return function("step", [](const Tensor& x) { return tanh(x * 2 + 1) * x; });
}

// Calls f on `x` given up, in each tier; whether the result lies where x lay.
template <class F>
bool takes_memory(const F& f, Tensor x) {
  const void* there = memory_of(x);
  return memory_of(f(std::move(x))) == there;
}

}  // namespace

TEST_CASE("a result takes the memory of an argument that is given up") {
  auto f = step();
  const Tensor expected = f(fresh());
  for (bool compiled : {false, true}) {
    if (compiled) jit::wait();
    Tensor x = fresh();
    CHECK(takes_memory(f, std::move(x)));
    CHECK_FALSE(x.defined());
    CHECK(same_bits(f(fresh()), expected));
    // A chain of calls stays where it is, and allocates nothing.
    Tensor y = fresh();
    const void* there = memory_of(y);
    y = f(std::move(y));
    const size_t before = allocations();
    for (int i = 0; i < 10; ++i) y = f(std::move(y));
    CHECK(allocations() == before);
    CHECK(memory_of(y) == there);
  }
}

TEST_CASE("a temporary is given up; an argument by value and a structure as well") {
  auto f = step();
  f(fresh());
  Tensor a = fresh(1), b = fresh(2);
  const Tensor expected = f(Tensor(a + b));
  size_t before = allocations();
  const Tensor y = f(a + b);
  CHECK(allocations() == before + 1);  // the sum
  CHECK(same_bits(y, expected));

  auto by_value = function("by_value", [](Tensor x, float k) { return x * k; });
  by_value(fresh(), 2);
  CHECK(takes_memory([&](Tensor x) { return by_value(std::move(x), 2); }, fresh()));

  auto many = function("many", [](const std::vector<Tensor>& v) { return std::vector<Tensor>{v[0] + v[1], v[1] * 3}; });
  std::vector<Tensor> v{fresh(1), fresh(2)};
  const auto answer = many(v);
  const void *first = memory_of(v[0]), *second = memory_of(v[1]);
  const auto results = many(std::move(v));
  CHECK(same_bits(results[0], answer[0]));
  CHECK(same_bits(results[1], answer[1]));
  for (const Tensor& t : results) CHECK((memory_of(t) == first || memory_of(t) == second));
}

TEST_CASE("nothing is written over what someone else can see") {
  auto f = step();
  f(fresh());
  const Tensor expected = f(fresh()), original = fresh();
  auto unchanged = [&](const Tensor& held, Tensor given) {
    const std::vector<float> before = held.to_vector<float>();
    const Tensor y = f(std::move(given));
    CHECK(memory_of(y) != memory_of(held));
    CHECK(held.to_vector<float>() == before);
    return y;
  };
  Tensor x = fresh();
  CHECK(same_bits(unchanged(x, x), expected));              // a copy of the handle
  CHECK(same_bits(unchanged(x, make_alias(x)), expected));  // another tensor on the same memory
  Tensor view = x(slice(10, 20));
  CHECK(same_bits(unchanged(view, std::move(x)), expected));  // a view of what is given up
  Tensor rows = random::normal({2, n}, {.key = random::Key(3)});
  unchanged(rows, rows(1));  // what is given up is itself a view

  Variable w(fresh(), "w");
  unchanged(w.value(), w.value());

  const Tensor kept = fresh();
  auto captures = function("captures", [kept](const Tensor& v) { return v * 2 + kept; });
  captures(fresh());
  Tensor same = kept;
  const Tensor sum = captures(std::move(same));
  CHECK(same_bits(kept, original));
  CHECK(same_bits(sum, captures(fresh())));

  auto twice = function("twice", [](const Tensor& a, const Tensor& b) { return a * 2 + exp(b); });
  Tensor both = fresh();
  const Tensor answer = twice(both, both);
  Tensor other = both;
  CHECK(same_bits(twice(std::move(other), std::move(both)), answer));

  // A small part of a large block is not worth keeping the block for.
  Tensor large = zeros({100 * n});
  Tensor part = large(slice(0, n));
  large = Tensor();
  CHECK_FALSE(takes_memory(f, std::move(part)));
}

TEST_CASE("a tape that records a call keeps its arguments") {
  auto f = step();
  f(fresh());
  auto gradient = [&](bool give) {
    GradientTape tape({.persistent = true});
    Tensor x = fresh();
    tape.watch(x);
    Tensor h = x * 1.5f, held = give ? Tensor() : h;
    Tensor y = f(std::move(h));
    Tensor z = f(std::move(y));
    return std::pair(tape.gradient(z, x), z);
  };
  const auto plain = gradient(false), given = gradient(true);
  CHECK(same_bits(plain.first, given.first));
  CHECK(same_bits(plain.second, given.second));
  auto second = grad([&](const Tensor& x) { return sum(grad([&](const Tensor& v) { return sum(f(v * 1)); })(x)); });
  auto eager = grad([&](const Tensor& x) {
    return sum(grad([](const Tensor& u) {
      Tensor v = u * 1;
      return sum(tanh(v * 2 + 1) * v);
    })(x));
  });
  CHECK(allclose(second(fresh()), eager(fresh())));
  // A tape that does not watch the argument is no reason to keep it.
  GradientTape tape;
  CHECK(takes_memory(f, fresh()));
}

TEST_CASE("where an argument's memory fits") {
  // Not element by element: only a later result of that size can have it.
  Tensor w = random::normal({64, 64}, {.key = random::Key(4)});
  auto product = function("product", [w](const Tensor& x) { return matmul(x, w); });
  auto later = function("later", [w](const Tensor& x) { return matmul(matmul(x, w), w); });
  auto square = [] { return random::normal({64, 64}, {.key = random::Key(5)}); };
  const Tensor one = product(square()), two = later(square());
  CHECK_FALSE(takes_memory(product, square()));
  CHECK(takes_memory(later, square()));
  CHECK(same_bits(product(square()), one));
  CHECK(same_bits(later(square()), two));

  // Read again after the result is made, or a result itself: never.
  auto again = function("again", [](const Tensor& x) {
    Tensor y = exp(x);
    return std::pair(y, cumsum(x, 0));
  });
  Tensor x = fresh();
  const auto expected = again(x);
  const auto got = again(std::move(x));
  CHECK(same_bits(got.first, expected.first));
  CHECK(same_bits(got.second, expected.second));
  auto same = function("same", [](const Tensor& x) { return std::pair(x, x + 1); });
  Tensor in = fresh();
  const auto [out, more] = same(std::move(in));
  CHECK(memory_of(out) != memory_of(more));
  CHECK(same_bits(out, fresh()));

  // Other sizes, dtypes, broadcasts, reversed order.
  auto others = function("others", [](const Tensor& x) {
    return std::vector<Tensor>{x.astype(f64), (x * 100).astype(i32), flip(x, 0) + x, sum(x), x.reshape({2, n / 2}) * 2};
  });
  const auto want = others(Tensor(fresh()));
  jit::wait();
  const auto have = others(fresh());
  for (size_t k = 0; k < want.size(); ++k) CHECK(same_bits(have[k], want[k]));
  Tensor transposed = transpose(random::normal({64, 80}, {.key = random::Key(6)}));
  Tensor copy = transposed;
  CHECK(same_bits(step()(std::move(transposed)), step()(copy)));
}

TEST_CASE("loops write what they carry in place") {
  auto f = function("loop", [](const Tensor& x) {
    return while_loop([](const Tensor&, const Tensor& i) { return i < 50; },
                      [](const Tensor& v, const Tensor& i) { return std::tuple(v * 0.5f + 1, i + 1); }, x, 0);
  });
  Tensor x = fresh();
  auto eager = [&] {
    Tensor v = x;
    for (int i = 0; i < 50; ++i) v = v * 0.5f + 1;
    return v;
  };
  const Tensor expected = eager(), original = fresh();
  f(x);
  jit::wait();
  f(x);
  const size_t before = allocations();
  const auto [y, steps] = f(x);
  CHECK(same_bits(y, expected));
  CHECK(same_bits(x, original));
  // The first step leaves the operands alone; later ones allocate whether to go on, and nothing of what is carried.
  CHECK(allocations() - before <= 55);
  // Carried values that change places, and one that stays.
  auto swap = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return scan(
        [](std::tuple<Tensor, Tensor, Tensor> s, const Tensor& row) {
          auto [p, q, r] = s;
          return std::pair(std::tuple(q, p * row + r, r), p);
        },
        std::tuple(a, b, c), arange(0, 6, 1, {.dtype = f32}));
  };
  auto traced = function("swap", swap);
  CHECK(traced.verify(fresh(1), fresh(2), fresh(3)));
  jit::wait();
  CHECK(traced.verify(fresh(1), fresh(2), fresh(3)));
}

TEST_CASE("memory_plan says what is written over what") {
  Variable w(fresh(), "w");
  auto f = function("update", [&](const Tensor& x) {
    w.assign_sub(x * 0.1f);
    return tanh(x);
  });
  MemoryUse m = memory_plan(f, fresh());
  CHECK(m.over_variables == 4 * n);
  CHECK(m.over_arguments == 4 * n);
  CHECK(m.result_bytes == 8 * n);
  CHECK(has(to_string(m), "20000 over Variables' old values, 20000 over arguments that are given up"));
}
