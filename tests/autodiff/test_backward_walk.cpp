// What the backward walk costs: it frees what the tape holds as it goes, adds up the cotangents of a value in place
// however often that is used, and takes neither stack nor quadratic time, for entries of every kind.
#include <ctime>
#include <functional>

#include "catch.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

using Fn = std::function<Tensor(const Tensor&)>;

constexpr int64_t side = 128;
constexpr double unit = side * side * 4.;

// Calls that a tape records as entries of each kind, of a matrix and giving one.
std::vector<std::pair<std::string, Fn>> kinds() {
  const Fn body = [](const Tensor& v) { return sin(v) * 1.01f; };
  const auto steps = [](const Tensor& v) {
    return scan([](const Tensor& c, const Tensor& t) { return std::pair(sin(c) * t, t); }, v, tensor({1.f, 1.01f}))
        .first;
  };
  const auto choice = [](const Tensor& v) { return cond(sum(v) > 0, [&] { return sin(v); }, [&] { return cos(v); }); };
  const auto rule =
      custom_gradient([](const Tensor& v) { return std::pair(sin(v), [v](const Tensor& g) { return g * cos(v); }); });
  return {{"op", [](const Tensor& v) { return sin(v); }},
          {"slice", [](const Tensor& v) { return sin(v(slice(0, side))); }},
          {"custom_gradient", [rule](const Tensor& v) { return rule(v); }},
          {"recompute", recompute(body)},
          {"recompute, products", recompute(body, {.policy = save_products})},
          {"traced call", function("call", body)},
          {"scan", steps},
          {"traced scan", function("scan", steps)},
          {"cond", choice},
          {"traced cond", function("cond", choice)},
          {"traced recompute", function("again", [body](const Tensor& v) { return recompute(body)(v); })}};
}

// The walk's peak above what was in use when it began, and what it leaves in use, in matrices.
std::pair<double, double> walk(GradientTape& tape, const Tensor& y, const Tensor& x) {
  reset_peak_memory("cpu:0");
  const auto begin = double(memory_stats("cpu:0").in_use);
  const Tensor g = tape.gradient(y, x);
  return {(double(memory_stats("cpu:0").peak) - begin) / unit, (double(memory_stats("cpu:0").in_use) - begin) / unit};
}

double cpu_seconds(const std::function<void()>& f) {
  const std::clock_t begin = std::clock();
  f();
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("a walk over a deep tape frees as it goes, whatever the entries are") {
  const Tensor x = random::normal({side, side}, {.key = random::Key(1)});
  for (const auto& [name, f] : kinds()) {
    INFO(name);
    for (int warm = 2; warm-- > 0;) {  // a call's arenas stay
      constexpr int depth = 60;
      GradientTape tape;
      tape.watch(x);
      Tensor y = x;
      for (int i = 0; i < depth; ++i) y = f(y);
      y = sum(y);
      const auto [peak, left] = walk(tape, y, x);
      if (warm) continue;
      CHECK(peak < 8);
      CHECK(left < -depth / 2);  // what the tape held is free
    }
  }
}

TEST_CASE("the cotangents of a value that is used often are added up in place, whatever uses it") {
  const Tensor x = random::normal({side, side}, {.key = random::Key(1)});
  for (const auto& [name, f] : kinds()) {
    INFO(name);
    Tensor gradients[2];
    for (int uses : {3, 60}) {
      GradientTape tape({.persistent = true});
      tape.watch(x);
      Tensor y = tensor(0.f);
      for (int i = 0; i < uses; ++i) y = y + sum(f(x));
      const Tensor first = tape.gradient(y, x);
      const auto [peak, left] = walk(tape, y, x);
      CHECK(peak < 9);
      CHECK(left < 3);
      gradients[uses > 3] = first;
    }
    CHECK(allclose(gradients[1], gradients[0] * 20, {.rtol = 1e-3}));
  }
}

TEST_CASE("a value used 100,000 times, as a whole and in parts, takes linear time") {
  const Tensor small = tensor({1.f, 2.f, 3.f}), rows = random::normal({20000, 16}, {.key = random::Key(1)});
  const auto spent = [&](int uses, const Tensor& x, const std::function<Tensor(const Tensor&, int)>& use) {
    return cpu_seconds([&] {
      GradientTape tape;
      tape.watch(x);
      Tensor y = tensor(0.f);
      for (int i = 0; i < uses; ++i) y = y + use(x, i);
      CHECK(tape.gradient(y, x).shape() == x.shape());
    });
  };
  const auto check = [&](const char* what, const Tensor& x, int uses, const auto& use) {
    INFO(what);
    const double few = spent(uses / 5, x, use), many = spent(uses, x, use);
    CHECK(many < 12 * few + 0.05);  // five times the uses; quadratic would be 25
  };
  check("whole", small, 100000, [](const Tensor& t, int) { return sum(t); });
  check("rows", rows, 20000, [](const Tensor& t, int i) { return sum(t(i % 20000)); });
  const auto again = recompute([](const Tensor& t) { return sum(sin(t)); });
  check("recomputed rows", rows, 10000, [&](const Tensor& t, int i) { return again(t(i)); });
}

// The gradient by x of 1,000 uses of it is 1,000 everywhere; added up in bf16, ones would stay at 256.
TEST_CASE("cotangents of 8 and 16 bits are added up in f32, and rounded once") {
  constexpr int uses = 1000;
  using Use = std::function<Tensor(const Tensor&)>;
  const Use loop = [](const Tensor& x) {
    Tensor y = zeros(x.shape(), {.dtype = f32});
    for (int i = 0; i < uses; ++i) y = y + x * 1;
    return sum(y);
  };
  const Use scanned = [](const Tensor& x) {
    const auto step = [&](const Tensor& t) { return std::pair(t + sum(x * 1).astype(f32), t); };
    return scan(step, tensor(0.f), {.length = uses}).first;
  };
  const Use bounded = [](const Tensor& x) {
    const auto [total, n] =
        while_loop([](const Tensor&, const Tensor& n) { return n < uses; },
                   [&](const Tensor& t, const Tensor& n) { return std::pair(t + sum(x * 1).astype(f32), n + 1); },
                   tensor(0.f), tensor(int64_t(0)), {.max_steps = uses});
    return total;
  };
  const Use calls = [](const Tensor& x) {
    const auto f = function("used", [](const Tensor& x) { return sum(x * 1 + x * 1).astype(f32); });
    Tensor y = tensor(0.f);
    for (int i = 0; i < uses / 2; ++i) y = y + f(x);
    return y;
  };
  const Use branches = [](const Tensor& x) {
    Tensor y = tensor(0.f);
    for (int i = 0; i < uses; ++i)
      y = y +
          cond(sum(x) > float(i % 2), [&] { return sum(x * 1).astype(f32); }, [&] { return sum(x + 0).astype(f32); });
    return y;
  };
  const Use again = [](const Tensor& x) {
    const auto f = recompute([](const Tensor& x) { return sum(x * 1).astype(f32); });
    Tensor y = tensor(0.f);
    for (int i = 0; i < uses; ++i) y = y + f(x);
    return y;
  };
  const Use parts = [](const Tensor& x) {  // of a tensor so large that parts are added in place
    const Tensor rows = broadcast_to(x, {1000, 8}) * 1;
    Tensor y = sum(rows * 0).astype(f32);
    for (int i = 0; i < uses; ++i) y = y + sum(rows(3)).astype(f32);
    return y;
  };
  const std::pair<const char*, Use> kinds[] = {
      {"a loop", loop},   {"scan", scanned},    {"while_loop", bounded},     {"traced calls", calls},
      {"cond", branches}, {"recompute", again}, {"parts of a tensor", parts}};
  for (DType d : {bf16, f16})
    for (const auto& [name, f] : kinds) {
      INFO(name << ", " << d);
      const Tensor x = ones({8}, {.dtype = d}), right = full({8}, double(uses), {.dtype = d});
      const auto gradient = [f = f](const Tensor& x) {
        GradientTape tape;
        tape.watch(x);
        return tape.gradient(f(x), x);
      };
      CHECK(same(gradient(x), right));
      CHECK(same(function("gradient", gradient)(x), right));
      CHECK(same(vmap(gradient)(stack({x, x})), stack({right, right})));
    }
}

TEST_CASE("a tape of half a million ops takes no stack, and few bytes an op") {
  CHECK(sizeof(TapeEntry) <= 240);
  const Tensor x = ones({4, 4}), step = full({4, 4}, 1e-6f);
  constexpr int ops = 500000;
  for (bool ask : {true, false}) {  // a tape that is never asked is dropped whole
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < ops; ++i) y = y + step;
    CHECK(tape.size() == ops);
    CHECK(tape.bytes_held() == 0);
    if (ask) CHECK(same(tape.gradient(y, x), ones({4, 4})));
  }
}

TEST_CASE("a recompute that reads thousands of watched values finds each at once") {
  constexpr int count = 4000;
  std::vector<Variable> all;
  for (int i = 0; i < count; ++i) all.emplace_back(tensor(float(i)));
  const auto f = recompute([&](const Tensor& v) {
    Tensor y = v;
    for (const Variable& w : all) y = y + w * v;
    return y;
  });
  GradientTape tape;
  const Tensor x = tensor(2.f);
  tape.watch(x);
  const std::vector<Tensor> g = tape.gradient(f(x), all);
  for (const Tensor& t : g) REQUIRE(t.item<float>() == 2);
}
