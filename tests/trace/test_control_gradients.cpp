// Gradients of control flow: eager, of traced calls and inside traces, to second order, against each other and against
// finite differences.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "within.h"

using namespace rill;

namespace {

// Gradients of sum(f(x...)) by every argument: eagerly, through a traced call, and with the tape traced too; and the
// directional second derivative, likewise.
template <class F>
void check_gradients(F f, std::vector<Tensor> at) {
  auto first = [&](auto&& g) {
    return [g](const std::vector<Tensor>& x) {
      GradientTape tape({.watch_variables = false});
      std::vector<Tensor> v;
      for (const Tensor& t : x) tape.watch(v.emplace_back(identity(t)));
      return tape.gradient(g(v), v, {.unconnected = Unconnected::zero});
    };
  };
  auto second = [&](auto&& g) {
    return [g](const std::vector<Tensor>& x) {
      GradientTape tape({.watch_variables = false});
      std::vector<Tensor> v;
      for (const Tensor& t : x) tape.watch(v.emplace_back(identity(t)));
      Tensor total = tensor(0.0);
      for (const Tensor& d : g(v)) total = total + sum(sin(d + 1));
      return tape.gradient(total, v, {.unconnected = Unconnected::zero});
    };
  };
  auto traced = function("f", [f](std::vector<Tensor> x) { return f(x); });
  auto eager1 = first(f), inside1 = first(f);
  std::vector<Tensor> want = eager1(at), around = first(traced)(at);
  std::vector<Tensor> inside = function("g", [&](std::vector<Tensor> x) { return inside1(x); })(at);
  std::vector<Tensor> want2 = second(eager1)(at), around2 = second(first(traced))(at);
  std::vector<Tensor> inside2 = function("h", [&](std::vector<Tensor> x) { return second(inside1)(x); })(at);
  constexpr double h = 1e-6;
  for (size_t i = 0; i < at.size(); ++i) {
    INFO("argument " << i);
    CHECK(allclose(around[i], want[i], {.rtol = 1e-12, .atol = 1e-14}));
    CHECK(allclose(inside[i], want[i], {.rtol = 1e-12, .atol = 1e-14}));
    CHECK(allclose(around2[i], want2[i], {.rtol = 1e-11, .atol = 1e-13}));
    CHECK(allclose(inside2[i], want2[i], {.rtol = 1e-11, .atol = 1e-13}));
    Tensor d = samples::uniform(at[i].shape(), -1, 1, 3).astype(f64);
    auto moved = [&](double by) {
      std::vector<Tensor> x = at;
      x[i] = x[i] + by * d;
      return x;
    };
    double slope = sum(want[i] * d).template item<double>();
    double fd = (f(moved(h)) - f(moved(-h))).template item<double>() / (2 * h);
    CHECK(within(slope, fd, 1e-6, 1e-6));
  }
}

}  // namespace

TEST_CASE("gradients of cond and switch_case") {
  auto f = [](const std::vector<Tensor>& x) {
    Tensor y = cond(sum(x[0]) > 0, [&] { return x[0] * tanh(x[1]) * x[0]; }, [&] { return exp(x[1]); });
    auto [a, b] = cond(y(0) > 0, [&] { return std::pair(sin(y), x[1]); }, [&] { return std::pair(y, cos(x[0] * y)); });
    Tensor c = switch_case(argmax(x[1]), {[&] { return a * b; }, [&] { return a + x[0]; }, [&] { return x[1]; }});
    return sum(c * c * a);
  };
  for (int seed : {1, 2, 3, 4}) {
    random::seed(uint64_t(seed));
    check_gradients(f, {random::normal({3}, {.dtype = f64}), random::normal({3}, {.dtype = f64})});
  }
}

TEST_CASE("gradients of scan: carry, rows, constants") {
  for (bool reverse : {false, true}) {
    auto f = [&](const std::vector<Tensor>& x) {
      Tensor w = x[2];
      auto [end, ys] = scan(
          [&](const std::pair<Tensor, Tensor>& s, const Tensor& row) {
            Tensor h = tanh(matmul(w, s.first) + row * row + sum(w));
            return std::pair(std::pair(h, s.second + 1), std::pair(h * row, w(0)));
          },
          std::pair(x[0], tensor(0)), x[1], {.reverse = reverse});
      return sum(square(end.first)) + sum(ys.first * sin(ys.first)) + sum(ys.second * x[1]) +
             0.5 * astype(end.second, f64);
    };
    random::seed(7);
    for (int64_t n : {1, 4})
      check_gradients(f, {random::normal({2}, {.dtype = f64}), random::normal({n, 2}, {.dtype = f64}),
                          random::normal({2, 2}, {.dtype = f64})});
  }
}

namespace {
// How often `part` stands in the text behind `after`.
int count_behind(const std::string& text, std::string_view after, std::string_view part) {
  int n = 0;
  for (size_t at = text.find(after); at != text.npos && (at = text.find(part, at + 1)) != text.npos;) ++n;
  return n;
}
}  // namespace

TEST_CASE("the way back through a scan repeats arithmetic, and no products") {
  const Tensor w = random::normal({24, 24}, {.key = random::Key(1)}) * 0.2f;
  const Tensor xs = random::normal({10, 24}, {.key = random::Key(2)}),
               start = random::normal({24}, {.key = random::Key(3)});
  const auto loss = [](const Tensor& w, const Tensor& xs, const Tensor& start) {
    const auto step = [&](const Tensor& h, const Tensor& x) {
      const Tensor next = tanh(matmul(w, h) + x) * 0.5f + softmax(matmul(x, w));
      return std::pair(next, next * sum(next));
    };
    const auto [end, ys] = scan(step, start, xs);
    return sum(end) + mean(square(ys));
  };
  const auto gradient = [&](const Tensor& w, const Tensor& xs, const Tensor& start) {
    GradientTape tape;
    tape.watch(w), tape.watch(xs), tape.watch(start);
    return tape.gradient(loss(w, xs, start), {w, xs, start});
  };
  auto traced = function("gradient", gradient);
  CHECK(traced.verify(w, xs, start));
  traced(w, xs, start);
  jit::wait();
  const std::string text = traced.explain();
  INFO(text);
  // Of two products two gradients each; forward, there are two in the body.
  CHECK(count_behind(text, "body_backward:", "matmul") == 4);
  CHECK(count_behind(text, "body:", "matmul") == 6);
  // A tape around the call, and a second one around that.
  auto f = function("loss", loss);
  GradientTape outer({.persistent = true});
  outer.watch(w), outer.watch(xs), outer.watch(start);
  std::vector<Tensor> first;
  {
    GradientTape tape;
    tape.watch(w), tape.watch(xs), tape.watch(start);
    first = tape.gradient(f(w, xs, start), {w, xs, start});
  }
  const std::vector<Tensor> plain = gradient(w, xs, start);
  for (size_t i = 0; i < 3; ++i) CHECK(same_bits(first[i], plain[i]));
  GradientTape eager({.persistent = true});
  eager.watch(w), eager.watch(xs), eager.watch(start);
  const std::vector<Tensor> again = gradient(w, xs, start);
  for (size_t i = 0; i < 3; ++i)
    CHECK(allclose(outer.gradient(first[i], w), eager.gradient(again[i], w), {.rtol = 1e-4, .atol = 1e-4}));
}

TEST_CASE("a scan of no rows passes cotangents through and adds nothing, signs of zeros included") {
  const Tensor w = tensor({1.0, -2.0}), h = tensor({0.5, 3.0});
  const auto gradients = [](const std::vector<Tensor>& x) {
    GradientTape tape({.watch_variables = false});
    std::vector<Tensor> v;
    for (const Tensor& t : x) tape.watch(v.emplace_back(identity(t)));
    const auto step = [&](const Tensor& c, const Tensor& row) { return std::pair(tanh(c * v[1]) + row, c * v[1]); };
    const auto [end, ys] = scan(step, v[0], v[2]);
    return tape.gradient(sum(square(end)) + sum(ys), v, {.unconnected = Unconnected::zero});
  };
  for (int64_t rows : {0, 2}) {
    const std::vector<Tensor> at = {h, w, ones({rows, 2}, f64)}, eager = gradients(at);
    auto traced = function("gradients", gradients);
    const std::vector<Tensor> got = traced(at);
    for (size_t i = 0; i < at.size(); ++i) CHECK(same_bits(got[i], eager[i]));
    if (rows == 0) CHECK(same_bits(got[1], zeros_like(w)));
  }
}

TEST_CASE("gradients of while_loop") {
  auto f = [](const std::vector<Tensor>& x) {
    auto [y, k] = while_loop([&](const Tensor& v, const Tensor&) { return sum(v * v) < 50; },
                             [&](const Tensor& v, const Tensor& i) {
                               return std::pair(v * (1.2 + 0.1 * square(x[1])) + 0.1 * sin(v * x[1]), i + 1);
                             },
                             x[0], 0, {.max_steps = 30});
    return sum(y * x[1]) + sum(cos(y)) + 0 * astype(k, f64);
  };
  random::seed(5);
  check_gradients(f, {random::normal({3}, {.dtype = f64}), random::normal({3}, {.dtype = f64})});
  check_gradients(f, {full({3}, 100.0, {.dtype = f64}), random::normal({3}, {.dtype = f64})});  // no step at all
}

TEST_CASE("gradients through nested control flow") {
  auto f = [](const std::vector<Tensor>& x) {
    auto [end, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          Tensor grown = while_loop([&](const Tensor& v) { return sum(v * v) < 3; },
                                    [&](const Tensor& v) { return v * 1.5 + x[1]; }, c + row, {.max_steps = 10});
          Tensor y = cond(sum(grown) > 2, [&] { return sin(grown) * x[1]; }, [&] { return grown * row; });
          return std::pair(0.3 * y, y);
        },
        zeros({2}, {.dtype = f64}), x[0]);
    return sum(end * end) + sum(ys);
  };
  random::seed(9);
  check_gradients(f, {random::normal({4, 2}, {.dtype = f64}), 0.5 + random::uniform({2}, {.dtype = f64})});
}

TEST_CASE("Variables under tapes: read and assigned in bodies, tapes in bodies") {
  Variable w(tensor({0.5, -1.0}), "w");
  auto loss = [&](const Tensor& xs) {
    auto [end, ys] = scan([&](const Tensor& c, const Tensor& x) { return std::pair(tanh(c * w + x), c * x); },
                          zeros({2}, {.dtype = f64}), xs);
    return sum(ys) + sum(cond(sum(xs) > 0, [&] { return end * w; }, [&] { return end; }));
  };
  Tensor xs = random::normal({5, 2}, {.dtype = f64});
  auto traced = function("loss", loss);
  auto gradient = [&](auto&& f) {
    GradientTape tape;
    return tape.gradient(f(xs), w);
  };
  CHECK(allclose(gradient(traced), gradient(loss), {.rtol = 1e-12}));
  // A whole training loop as one node.
  auto train = [&](const Tensor& steps) {
    while_loop([&](const Tensor& k) { return k < steps; },
               [&](const Tensor& k) {
                 GradientTape tape;
                 Tensor l = sum(square(w - xs(0)));
                 w.assign_sub(0.1 * tape.gradient(l, w));
                 return k + 1;
               },
               0);
    return Tensor(w);
  };
  auto f = function("train", train);
  CHECK(f.verify(tensor(10)));
  CHECK(allclose(f(tensor(100)), xs(0)));
}

TEST_CASE("a traced gradient of an unbounded loop is an error that says so; an eager one is not") {
  auto f = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return v < 10; }, [](const Tensor& v) { return v * v; }, x);
  };
  Tensor x = tensor(2.0);
  CHECK(grad(f)(x).item<double>() == 4 * 8);
  std::string m = message_of([&] { function("g", [&](const Tensor& v) { return grad(f)(v); })(x); });
  CHECK(has(m, "max_steps"));
  CHECK(has(m, "test_control_gradients.cpp:" + std::to_string(__LINE__ - 6)));
  CHECK(has(message_of([&] { grad(function("f", f))(x); }), "max_steps"));
}

TEST_CASE("an unbounded loop that no gradient flows through needs no bound") {
  auto grow = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return v < 10; }, [](const Tensor& v) { return v * v; }, x);
  };
  Tensor x = tensor(2.0), w = tensor(3.0);
  // The loop's result is one of two, and the other one is differentiated.
  auto two = function("two", [&](const Tensor& v) { return std::pair(grow(v), v * v * v); });
  {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    auto [grown, cube] = two(x);
    CHECK(grown.item<double>() == 16);
    CHECK(tape.gradient(cube, x).item<double>() == 12);
    CHECK(has(message_of([&, g = grown] { tape.gradient(g, x); }), "max_steps"));
  }
  // The tape does not watch what goes through the loop.
  auto scaled = function("scaled", [&](const Tensor& v, const Tensor& k) { return grow(v) * k; });
  {
    GradientTape tape;
    tape.watch(w);
    CHECK(tape.gradient(scaled(x, w), w).item<double>() == 16);
  }
  {
    GradientTape tape;
    tape.watch(x);
    CHECK(has(message_of([&] { tape.gradient(scaled(x, w), x); }), "max_steps"));
  }
  // In the body of another loop.
  auto rows = function("rows", [&](const Tensor& v) {
    return scan([&](const Tensor& c, const Tensor& row) { return std::pair(c * row, grow(row)); }, tensor(1.0), v);
  });
  Tensor xs = tensor({2.0, 3.0});
  GradientTape tape({.persistent = true});
  tape.watch(xs);
  auto [product, grown] = rows(xs);
  CHECK(tape.gradient(product, xs).to_vector<double>() == std::vector<double>{3, 2});
  CHECK(has(message_of([&, g = grown] { tape.gradient(g, xs); }), "max_steps"));
}

TEST_CASE("a tape around a call takes the gradients that somebody may ask for, and no others") {
  auto f = function("f", [](const Tensor& a, const Tensor& b) { return sum(tanh(matmul(a, b))); });
  Tensor a = random::normal({5, 4}, {.key = random::Key(1)}), b = random::normal({4, 3}, {.key = random::Key(2)});
  auto eager = [&](const Tensor& u, const Tensor& v) { return sum(tanh(matmul(u, v))); };
  auto both = [&](auto&& g, bool of_a, bool of_b) {
    GradientTape tape({.persistent = true});
    Tensor u = a * 1, v = b * 1;
    if (of_a) tape.watch(u);
    if (of_b) tape.watch(v);
    Tensor y = g(u, v);
    return std::pair(of_a ? tape.gradient(y, u) : y, of_b ? tape.gradient(y, v) : y);
  };
  for (int k : {1, 2, 3, 2, 1}) {
    const auto traced = both(f, k & 1, k & 2), plain = both(eager, k & 1, k & 2);
    CHECK(same_bits(traced.first, plain.first));
    CHECK(same_bits(traced.second, plain.second));
  }
}

TEST_CASE("what a call prints is printed once, also where a second order runs its forward part again") {
  auto f = function("f", [](const Tensor& v) {
    print("v {}", v);
    Tensor c = cond(v > 0, [&] { return print("positive"), exp(v); }, [&] { return v * 1; });
    assert_that(v > 0, "positive", v);
    return c * v * v;
  });
  const std::string text = stderr_of([&] {
    auto second = grad([&](const Tensor& x) { return grad([&](const Tensor& v) { return f(v); })(x); });
    CHECK(allclose(second(tensor(2.0)), exp(tensor(2.0)) * 14));  // e^x (x^2 + 4x + 2)
  });
  CHECK(text == "v 2.0\npositive\n");
}

TEST_CASE("a Variable that steps assign is the Variable itself at each reading, as it is unrolled") {
  Variable s(tensor(0.f), "s");
  const Tensor xs = tensor({{1.f}, {2.f}, {3.f}});
  const auto stepwise = [&](const Tensor& xs) {
    auto [c, y] = scan(
        [&](const Tensor& c, const Tensor& x) {
          s.assign_add(sum(x));
          return std::pair(c + x, s * c);
        },
        zeros({1}), xs);
    return sum(c) + sum(y) + sum(s * s);
  };
  const auto looped = [&](const Tensor& xs) {
    auto [k, c] = while_loop([](const Tensor& k, const Tensor&) { return k < 3; },
                             [&](const Tensor& k, const Tensor& c) {
                               const Tensor y = c + s * sum(xs(k));
                               s.assign(s * 2 + sum(xs(k)));
                               return std::pair(k + 1, y);
                             },
                             tensor(int64_t{0}), zeros({1}), {.max_steps = 5});
    return sum(c) * sum(c);
  };
  const auto by_both = [&](const Callback<Tensor(const Tensor&)>& f) {
    return [&s, f](const Tensor& xs) {
      s.assign(tensor(0.5f));
      GradientTape tape;
      tape.watch(xs);
      const Tensor y = f(xs);
      return tape.gradient(y, {xs, s}, {.unconnected = Unconnected::zero});
    };
  };
  const auto unrolled = [&](const Tensor& xs) {
    Tensor c = zeros({1}), total;
    for (int64_t k = 0; k < 3; ++k) {
      s.assign_add(sum(xs(k)));
      const Tensor y = s * c;
      total = total.defined() ? total + sum(y) : sum(y);
      c = c + xs(k);
    }
    return sum(c) + total + sum(s * s);
  };
  const auto right = by_both(unrolled)(xs);
  for (const auto& f : {Callback<Tensor(const Tensor&)>(stepwise), Callback<Tensor(const Tensor&)>(looped)}) {
    const auto eager = by_both(f)(xs), traced = function("f", by_both(f))(xs);
    const auto around =
        by_both([&](const Tensor& x) { return function("g", [&](const Tensor& x) { return f(x); })(x); })(xs);
    for (size_t k = 0; k < 2; ++k) {
      CHECK(allclose(traced[k], eager[k]));
      CHECK(allclose(around[k], eager[k]));
    }
  }
  const auto of_scan = by_both(stepwise)(xs);
  for (size_t k = 0; k < 2; ++k) CHECK(allclose(of_scan[k], right[k]));
}

TEST_CASE("rows that no step filled are zeros, and making them is no call of an op") {
  auto f = function("f", [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return sum(v) < 10; }, [](const Tensor& v) { return v * v; }, x,
                      {.max_steps = 6});
  });
  const Tensor x = tensor({2.0, 2.0});
  f(x);
  std::string log;
  log_placement([&](std::string_view line) { log += line; });
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  log_placement(nullptr);
  CHECK_FALSE(has(log, "full("));
  CHECK(tape.gradient(y, x).to_vector<double>() == std::vector<double>{32, 32});
}
