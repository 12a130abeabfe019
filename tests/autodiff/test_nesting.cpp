// Who sees what where transforms stand in one another: Variables inside nested vmaps, recompute() whose second run is
// traced or batched, tapes that pause. All compositions of three are in test_compositions.cpp.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/autodiff/recompute.h"
#include "rill/rill.h"
#include "same.h"
#include "within.h"

using namespace rill;

namespace {

using Fn = std::function<Tensor(const Tensor&)>;

// {d sum(f(x)) / dx, d sum(f(x)) / dw}.
std::vector<Tensor> gradients(const Fn& f, const Tensor& x, const Variable& w) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(f(x));
  return tape.gradient(y, {x, w});
}

// The same, in a traced function.
std::vector<Tensor> traced_gradients(const Fn& f, const Tensor& x, const Variable& w) {
  return function("traced", [&](const Tensor& v) { return gradients(f, v, w); })(x);
}

bool near(const Tensor& got, const Tensor& expected) {
  return got.shape() == expected.shape() && within(got.to_vector<double>(), expected.to_vector<double>(), 1e-12, 1e-13);
}

}  // namespace

// --- Variables under several vmaps -----------------------------------------------------------------------------------

TEST_CASE("gradients by Variables reach through nested vmaps with a tape or an accumulator inside") {
  const Variable w(tensor({0.3, -0.7, 1.1}), "w");
  const Tensor x = tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.75}});
  const Fn u = [&](const Tensor& v) { return sum(sin(v * w)); };
  const Tensor ww = w.value(), s = sin(x * ww), c = cos(x * ww);
  const auto holds = [&](const Fn& f, const Tensor& by_x, const Tensor& by_w) {
    for (const auto& got : {gradients(f, x, w), traced_gradients(f, x, w)}) {
      CHECK(near(got[0], by_x));
      CHECK(near(got[1], by_w));
    }
    ForwardAccumulator along(w, ones({3}, {f64}));
    CHECK(near(along.jvp(sum(f(x)), Unconnected::zero), sum(by_w)));
  };
  // The trace of a Jacobian of a gradient is the Laplacian: the sum of -w^2 sin(w x).
  const Fn laplacian = vmap([&](const Tensor& v) { return sum(diagonal(jacfwd(grad(u))(v))); });
  holds(laplacian, -ww * ww * ww * c, sum(-2.0 * ww * s - ww * ww * x * c, 0));
  holds(vmap([&](const Tensor& v) { return sum(diagonal(jacrev(grad(u))(v))); }), -ww * ww * ww * c,
        sum(-2.0 * ww * s - ww * ww * x * c, 0));
  holds(vmap([&](const Tensor& v) { return jacfwd(u)(v); }), -ww * ww * s, sum(c - ww * x * s, 0));
  // Each number a row of its own.
  const Fn of_number = [&](const Tensor& v) { return sum(sin(v * w)); };
  const Fn twice = vmap(vmap(grad(of_number)));
  const Tensor wide = expand_dims(x, -1) * ww;
  holds(twice, sum(-ww * ww * sin(wide), -1), sum(cos(wide) - wide * sin(wide), Axes{0, 1}));
  // An accumulator, and a tape for the Variable itself, under two batches.
  holds(vmap(vmap([&](const Tensor& v) { return jvp(of_number, v, ones_like(v)).second; })),
        sum(-ww * ww * sin(wide), -1), sum(cos(wide) - wide * sin(wide), Axes{0, 1}));
  holds(vmap(vmap([&](const Tensor& v) {
          GradientTape tape;
          return tape.gradient(sum(sin(v * w)), w);
        })),
        sum(cos(wide) - wide * sin(wide), -1), sum(-expand_dims(x, -1) * expand_dims(x, -1) * sin(wide), Axes{0, 1}));
}

// --- recompute, whose second run is not eager ------------------------------------------------------------------------

namespace {

struct Counter {
  Variable count{tensor(0.0), {.name = "count", .trainable = false}};
  Variable w{tensor({2.0, 3.0}), "w"};
  double value() const { return count.value().item<double>(); }
  void reset() {
    count.assign(0.0);
    random::seed(5);
  }
};

// That the pullback of recompute(f) gives what that of f gives, eagerly, traced (twice) and for several rows at once,
// and changes nothing.
void pulls_back(const Fn& f, Counter& c, const Tensor& x, const RecomputePolicy& policy) {
  const Tensor seeds = tensor({{1.0, -0.5}, {0.25, 2.0}});
  const Fn light = recompute(f, {.policy = policy});
  c.reset();
  const auto plain = vjp(f, x).second;
  c.reset();
  const auto again = vjp(light, x).second;
  const double count = c.value();
  const Tensor state = random::state();
  const auto rows = [&](const Tensor& s) { return vmap([&](const Tensor& g) { return again(g); })(s); };
  auto traced = function("pull", [&](const Tensor& g) { return again(g); });
  auto traced_rows = function("rows", rows);
  for (int row = 0; row < 2; ++row) {
    const Tensor expected = plain(seeds(row));
    CHECK(near(again(seeds(row)), expected));
    CHECK(near(traced(seeds(row)), expected));
    CHECK(near(traced(seeds(row)), expected));
    CHECK(near(rows(seeds)(row), expected));
    CHECK(near(traced_rows(seeds)(row), expected));
  }
  CHECK(c.value() == count);
  CHECK(array_equal(random::state(), state));
  c.reset();
  const Tensor jacobian = jacrev(f)(x);
  c.reset();
  CHECK(near(jacrev(light)(x), jacobian));
  CHECK(c.value() == count);
  CHECK(array_equal(random::state(), state));
}
void pulls_back(const Fn& f, Counter& c, const Tensor& x) {
  for (const RecomputePolicy& policy : {RecomputePolicy(save_nothing), RecomputePolicy(save_products)})
    pulls_back(f, c, x, policy);
}

}  // namespace

TEST_CASE(
    "recompute's second run, traced or batched, has the Variables and draws of the first, and keeps what it assigns") {
  Counter c;
  const Tensor x = tensor({0.5, -1.5});
  const auto draw = [] { return random::uniform({2}, {.dtype = f64}); };
  pulls_back(
      [&](const Tensor& v) {
        c.count.assign_add(1.0);
        return sin(v * c.w) * draw() * c.count + v * draw();
      },
      c, x);
  // In a step of a loop.
  pulls_back(
      [&](const Tensor& v) {
        const Tensor first = v * draw();
        const auto [last, ys] = scan(
            [&](const Tensor& carried, const Tensor& row) {
              c.count.assign_add(1.0);
              const Tensor next = sin(carried) * draw() * c.count + row;
              return std::pair(next, next * draw());
            },
            first, tensor({{1.0, 2.0}, {0.5, 0.25}, {-1.0, 1.0}}));
        return last * draw() + sum(ys, 0) * c.count;
      },
      c, x);
  // Around Variables that are given a value again and again.
  pulls_back(
      [&](const Tensor& v) {
        c.count.assign(1.0);
        const Tensor y = while_loop([&](const Tensor&) { return c.count < 4.5; },
                                    [&](const Tensor& u) {
                                      const Tensor next = sin(u) * c.w * c.count * draw();
                                      c.count.assign_add(1.0);
                                      return next;
                                    },
                                    v, {.max_steps = 6});
        return y * c.count * draw();
      },
      c, x);
  // A Variable, and a draw, in the branch that is not taken.
  const Variable other(tensor({7.0, 11.0}), "other");
  pulls_back(
      [&](const Tensor& v) {
        const Tensor y = cond(sum(v) > 0, [&] { return v * other * draw(); }, [&] { return sin(v) * c.w * draw(); });
        return y * draw();
      },
      c, x);
  // In a function of its own, and in another region.
  auto inner = function("inner", [&](const Tensor& v) {
    c.count.assign_add(1.0);
    return sin(v * c.w) * draw() * c.count;
  });
  pulls_back([&](const Tensor& v) { return inner(v) * draw() + inner(v) * c.count; }, c, x);
  pulls_back(
      [&](const Tensor& v) { return Fn(recompute([&](const Tensor& u) { return inner(u) * draw(); }))(v) * draw(); }, c,
      x);
  // With a product that a policy keeps, and a value that is not dense.
  Variable matrix(zeros({2, 2}, {f64}), {.name = "matrix", .trainable = false});
  pulls_back(
      [&](const Tensor& v) {
        matrix.assign(outer(v, draw()).T());
        const Tensor y = tanh(matmul(matrix, v * draw()) * c.w);
        matrix.assign_add(1.0);
        return matmul(matrix, sin(y) * v);
      },
      c, x);
  // With rows that change.
  Variable table(zeros({4}, {f64}), {.name = "table", .trainable = false});
  pulls_back(
      [&](const Tensor& v) {
        table.assign(zeros({4}, {f64}));
        table.scatter_add(tensor({1, 2}), draw());
        return v * v * table(slice(1, 3)) * c.w;
      },
      c, x);
  // For rows that draw the same and others.
  for (const Randomness how : {Randomness::same, Randomness::different})
    pulls_back(
        [&](const Tensor& v) {
          return vmap([&](const Tensor& n) { return sin(n) * random::uniform({}, {.dtype = f64}); },
                      {.randomness = how})(v) *
                 draw();
        },
        c, x);
}

TEST_CASE("Variables that a function makes are its own in the second run; those of the first call stay") {
  const Tensor x = tensor({0.5, -1.5});
  const Fn own = recompute([](const Tensor& v) {
    Variable sum_of(v * 0.0 + 2.0, "sum_of");
    sum_of.assign_add(v);
    return sum_of * v;
  });
  CHECK(near(grad([&](const Tensor& v) { return sum(own(v)); })(x), 2.0 + x));  // a reading is no v
  std::optional<Variable> scale;
  const Fn lazy = recompute([&](const Tensor& v) {
    if (!scale) scale.emplace(tensor({3.0, 4.0}), "scale");
    return v * v * *scale;
  });
  CHECK(near(grad([&](const Tensor& v) { return sum(lazy(v)); })(x), 2.0 * x * tensor({3.0, 4.0})));
}

TEST_CASE("the second run prints and asserts nothing, traced or batched") {
  const Tensor x = tensor({0.5, 1.5});
  Variable limit(tensor(10.0), {.name = "limit", .trainable = false});
  const Fn f = recompute([&](const Tensor& v) {
    print("seen {}", sum(v));
    assert_that(sum(v) < limit, "small");
    return scan(
               [&](const Tensor& carried) {
                 print("step {}", sum(carried));
                 return std::pair(sin(carried) * v, 0);
               },
               v, {.length = 2})
        .first;
  });
  const auto pull = vjp(f, x).second;
  limit.assign(0.0);
  const std::string text = stderr_of([&] {
    auto traced = function("pull", [&](const Tensor& g) { return pull(g); });
    traced(x), traced(x);
    vmap([&](const Tensor& g) { return pull(g); })(stack({x, x}));
  });
  CHECK(text == "");
}

TEST_CASE("a draw of another thread between those of recompute's first run") {
  const Tensor x = tensor({0.5, -1.5});
  bool meddle = true;
  const Fn f = [&](const Tensor& v) {
    const Tensor first = random::uniform({2}, {.dtype = f64});
    if (meddle) std::thread([] { random::uniform({2}); }).join();
    return v * v * first * random::uniform({2}, {.dtype = f64});
  };
  random::seed(3);
  const Tensor expected = vjp(f, x).second(x);
  random::seed(3);
  const auto pull = vjp(Fn(recompute(f)), x).second;
  meddle = false;
  CHECK(near(pull(x), expected));
  says([&] { function("pull", [&](const Tensor& g) { return pull(g); })(x); },
       {"[recompute]", "another thread assigned variable 'random/state'"});
}

TEST_CASE("second derivatives by a Variable through a pullback of recompute that is traced") {
  const Variable w(tensor({2.0, 3.0}), "w");
  const Tensor x = tensor({0.5, -1.5});
  const Fn f = recompute([&](const Tensor& v) { return sin(v * w); });
  const auto pull = vjp(f, x).second;
  auto traced = function("pull", [&](const Tensor& g) { return pull(g); });
  const auto by_w = [&](const Fn& p) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(p(ones_like(x)));
    return tape.gradient(y, w, {.unconnected = Unconnected::zero});
  };
  const Tensor expected = cos(x * w.value()) - x * w.value() * sin(x * w.value());
  CHECK(near(by_w(pull), expected));
  CHECK(near(by_w(traced), expected));
}

// --- Tapes that pause ------------------------------------------------------------------------------------------------

TEST_CASE("a tape that has paused stands where it stood: outside of accumulators that began later") {
  const Tensor x = tensor({0.5, -1.5}), t = tensor({2.0, 1.0});
  const auto check = [&](const std::function<void(GradientTape&, const Tensor&)>& pause) {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor before = sum(x * x);
    ForwardAccumulator along(x, t);
    pause(tape, before);
    const Tensor dy = along.jvp(x * x * x);
    CHECK(array_equal(tape.gradient(sum(dy), x, {.unconnected = Unconnected::zero}), 6.0 * x * t));
  };
  check([](GradientTape&, const Tensor&) {});
  check([&](GradientTape& tape, const Tensor& y) { tape.gradient(y, x); });
  check([&](GradientTape& tape, const Tensor& y) { tape.jacobian(y, x); });
  check([](GradientTape& tape, const Tensor&) { const StopRecording stop(tape); });
}

TEST_CASE("a tape within that pauses stays within, and one that is reset keeps its place") {
  const Tensor x = tensor({0.5, -1.5}), t = tensor({2.0, 1.0});
  GradientTape outer;
  outer.watch(x);
  {
    GradientTape inner({.persistent = true});
    inner.watch(x);
    const Tensor g = inner.gradient(sum(x * x * x), x);
    CHECK(array_equal(inner.gradient(sum(x * x), x), 2.0 * x));
    CHECK(array_equal(outer.gradient(sum(g), x), 6.0 * x));
  }
  GradientTape tape;
  ForwardAccumulator along(x, t);
  tape.reset();
  tape.watch(x);
  CHECK(array_equal(tape.gradient(sum(along.jvp(x * x * x)), x), 6.0 * x * t));
}

TEST_CASE("a tape that outlives the function where its list was put aside") {
  std::shared_ptr<GradientTape> kept;
  const Tensor x = tensor({0.5, -1.5});
  const auto f = custom_gradient([&](const Tensor& v) {
    kept = std::make_shared<GradientTape>(TapeOptions{.persistent = true});
    kept->watch(v);
    const Tensor y = v * v * v;
    return std::pair(y, [tape = kept, y, v](const Tensor& g) { return tape->gradient(y, v, {.output_gradient = g}); });
  });
  CHECK(array_equal(grad([&](const Tensor& v) { return sum(f(v)); })(x), 3.0 * x * x));
  CHECK(array_equal(grad([](const Tensor& v) { return sum(v * v); })(x), 2.0 * x));
  kept.reset();
  CHECK(array_equal(grad([](const Tensor& v) { return sum(v * v); })(x), 2.0 * x));
}

TEST_CASE("what is watched is not written into, and no tape's number comes again") {
  const Tensor x = tensor({0.5, -1.5});
  {
    ForwardAccumulator along(x, x);
    CHECK(x.rep()->tape == 0);
    CHECK(array_equal(along.jvp(x * x), 2.0 * x * x));
    ForwardAccumulator inner(x, ones_like(x));  // each knows it by itself
    CHECK(array_equal(along.jvp(inner.jvp(x * x * x)), 6.0 * x * x));
  }
  CHECK(sizeof x.rep()->tape == 8);
  // Threads that watch one tensor at a time, for the thread sanitizer.
  const auto watch = [&] {
    for (int i = 0; i < 100; ++i) {
      ForwardAccumulator along(x, x);
      if (!array_equal(along.jvp(x * x), 2.0 * x * x)) throw std::runtime_error("a tangent of another thread");
    }
  };
  std::thread other(watch);
  watch();
  other.join();
  SUCCEED();
}
