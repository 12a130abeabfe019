// custom_gradient and recompute wherever they may stand: eager, traced, under a tape inside or around, in control flow,
// in each other, at second and third order. Values in comments are what JAX's custom_vjp and checkpoint give.
#include <map>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

using Fn = Callback<Tensor(const Tensor&)>;

// sum of squares, whose gradient is said to be ten times the value.
Tensor tenfold(const Tensor& x) {
  return custom_gradient([](const Tensor& v) { return std::pair(v * v, [v](const Tensor& g) { return g * 10 * v; }); })(
      x);
}
// The pattern of the documentation, without the clip: the rule reads a value of the forward part.
Tensor own_exp(const Tensor& x) {
  return custom_gradient([](const Tensor& v) {
    Tensor y = exp(v);
    return std::pair(y, [y](const Tensor& g) { return g * y; });
  })(x);
}

Tensor around(const Fn& f, const Tensor& x) {
  auto traced = function("f", [f](const Tensor& v) { return f(v); });
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(traced(x), x);
}
Tensor inside(const Fn& f, const Tensor& x) {
  return function("f", [f](const Tensor& v) {
    GradientTape tape;
    tape.watch(v);
    return tape.gradient(f(v), v);
  })(x);
}
Tensor eager(const Fn& f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

void same_everywhere(const Fn& f, const Tensor& x) {
  const Tensor e = eager(f, x);
  CHECK(same(inside(f, x), e));
  CHECK(same(around(f, x), e));
}

}  // namespace

TEST_CASE("a rule of one's own holds with a tape around a traced function, and inside control flow") {
  const Tensor x = tensor({0.5f, -1.f, 3.f}), ten = 10 * x;
  CHECK(same(eager([](const Tensor& v) { return sum(tenfold(v)); }, x), ten));
  CHECK(same(around([](const Tensor& v) { return sum(tenfold(v)); }, x), ten));
  CHECK(same(inside([](const Tensor& v) { return sum(tenfold(v)); }, x), ten));
  const Fn chosen = [](const Tensor& v) {
    return sum(cond(sum(v) > 0, [&] { return tenfold(v); }, [&] { return v; }));
  };
  const Fn switched = [](const Tensor& v) {
    return sum(switch_case(tensor(int64_t(1)), {[&] { return v; }, [&] { return tenfold(v) * 1; }}));
  };
  const Fn scanned = [](const Tensor& v) {
    auto [last, ys] = scan([](const Tensor& t, const Tensor& row) { return std::pair(t + tenfold(row), tenfold(t)); },
                           tensor(1.f), v);
    return last + sum(ys);
  };
  const Fn looped_sum = [](const Tensor& v) {
    auto [t, n] = while_loop([](const Tensor&, const Tensor& n) { return n < 2; },
                             [](const Tensor& t, const Tensor& n) { return std::tuple(tenfold(t), n + 1); }, v,
                             tensor(int64_t(0)), {.max_steps = 4});
    return sum(t);
  };
  for (const Fn& f : {chosen, switched, looped_sum, scanned}) same_everywhere(f, x);
  CHECK(same(eager(chosen, x), ten));
  CHECK(allclose(eager(looped_sum, x), 10 * x * x * 10 * x));
  CHECK(allclose(eager(scanned, x), tensor({180.f, -235.f, 30.f})));
}

TEST_CASE("second and third derivatives differentiate the rule and the values that it reads") {
  const Tensor x = tensor(0.5);
  const double e = std::exp(0.5);
  auto f = [](const Tensor& v) { return own_exp(v); };
  CHECK(grad(grad(f))(x).item<double>() == Approx(e));
  CHECK(grad(grad(grad(f)))(x).item<double>() == Approx(e));
  // d/dx (10 x) is 10; a third derivative of the pattern is 0.
  auto t = [](const Tensor& v) { return tenfold(v); };
  CHECK(grad(grad(t))(x).item<double>() == 10);
  CHECK(grad(grad(grad(t)))(x).item<double>() == 0);
  // Through a traced function: around, inside, and one of each.
  auto traced = function("f", [](const Tensor& v) { return own_exp(v) * v; });
  auto plain = [](const Tensor& v) { return own_exp(v) * v; };
  const double second = grad(grad(plain))(x).item<double>();
  CHECK(second == Approx((0.5 + 2) * e));
  CHECK(same(grad(grad([&](const Tensor& v) { return traced(v); }))(x), grad(grad(plain))(x)));
  CHECK(same(grad(grad(grad([&](const Tensor& v) { return traced(v); })))(x), grad(grad(grad(plain)))(x)));
  auto slope = function("slope", [&](const Tensor& v) { return grad(plain)(v); });
  CHECK(same(grad([&](const Tensor& v) { return slope(v); })(x), grad(grad(plain))(x)));
  auto both = function("both", [&](const Tensor& v) { return grad(grad(plain))(v); });
  CHECK(same(both(x), grad(grad(plain))(x)));
  // Inside control flow.
  auto branch = [](const Tensor& v) { return cond(v > 0, [&] { return own_exp(v) * v; }, [&] { return v; }); };
  auto traced_branch = function("branch", [&](const Tensor& v) { return branch(v); });
  CHECK(same(grad(grad([&](const Tensor& v) { return traced_branch(v); }))(x), grad(grad(plain))(x)));
}

TEST_CASE("a rule may read other tensors, Variables, and be given several arguments") {
  Variable w(tensor({2.f, 3.f}), "w");
  const Tensor c = tensor({5.f, 7.f}), x = tensor({1.f, 2.f});
  auto f = [&](const Tensor& a, const Tensor& b) {
    return custom_gradient([&](const Tensor& a, const Tensor& b) {
      return std::pair(a * b, [&, a](const Tensor& g) { return Tensors{g * w.value() * a, g * c}; });
    })(a, b);
  };
  auto traced = function("f", [&](const Tensor& a, const Tensor& b) { return sum(f(a, b)); });
  GradientTape tape;
  const Tensor y = x + 1;
  tape.watch(x), tape.watch(y);
  auto [dx, dy] = tape.gradient(traced(x, y), x, y);
  CHECK(array_equal(dx, w * x));
  CHECK(array_equal(dy, c));
  // The second derivative by the Variable that the rule reads.
  auto by_w = [&](auto call) {
    GradientTape outer;
    Tensor g;
    {
      GradientTape inner;
      inner.watch(x);
      g = inner.gradient(call(x, y), x);
    }
    return outer.gradient(g, w);
  };
  CHECK(array_equal(by_w([&](const Tensor& a, const Tensor& b) { return sum(f(a, b)); }), x));
  CHECK(array_equal(by_w(traced), x));
  // The same argument twice.
  const Fn twice = [&](const Tensor& v) { return sum(f(v, v)); };
  same_everywhere(twice, x);
}

TEST_CASE("a value that is a structure has a cotangent that is one") {
  const auto both = custom_gradient([](const Tensor& x) {
    const Tensor s = sin(x), c = cos(x);
    return std::pair(std::pair(s, sum(c)), [s, c](const std::pair<Tensor, Tensor>& g) {
      return 2 * (g.first * c - g.second * s);  // twice the right one
    });
  });
  const Tensor x = tensor({0.5f, -1.f});
  same_everywhere([&](const Tensor& v) { return sum(both(v).first * v) + both(v).second; }, x);
  const auto of_both = [&](const Tensor& v) {
    const auto [s, c] = both(v);
    return sum(s) * c;
  };
  CHECK(allclose(grad(of_both)(x), 2 * (sum(cos(x)) * cos(x) - sum(sin(x)) * sin(x))));
  // What nothing depends on has zeros for a cotangent, whatever the dtypes and the containers.
  const auto mixed = custom_gradient([](const std::vector<Tensor>& v) {
    const std::map<std::string, Tensor> value{{"a", v[0] * 3}, {"b", v[1].astype(f16)}};
    return std::pair(value, [](const std::map<std::string, Tensor>& g) {
      CHECK(g.at("b").dtype() == f16);
      return std::vector<Tensor>{g.at("a") * 5, g.at("b").astype(f64)};
    });
  });
  const std::vector<Tensor> in{ones({2, 3}), ones({4}, f64)};
  CHECK(mixed(in).at("b").dtype() == f16);
  const std::vector<Tensor> g = grad([&](const std::vector<Tensor>& v) { return sum(mixed(v).at("a")); })(in);
  CHECK(array_equal(g[0], full({2, 3}, 5.f)));
  CHECK(array_equal(g[1], zeros({4}, f64)));
  CHECK(allclose(vmap(grad(of_both))(stack({x, 2 * x}))(1), grad(of_both)(2 * x)));
  const auto whole = custom_gradient([](const Tensor& v) {
    return std::pair(std::pair(v, argmax(v)), [](const std::pair<Tensor, Tensor>& g) { return g.first; });
  });
  CHECK(has(message_of([&] { whole(x); }), "i64[], which has no derivative"));
}

TEST_CASE("nested rules: a rule within a function with a rule, and a rule that has one") {
  // op_with_fused_backprop of TensorFlow's documentation: the second derivative is said to be 7.
  auto f = [](const Tensor& x) {
    return custom_gradient([](const Tensor& v) {
      auto slope = [v](const Tensor& g) {
        auto second =
            custom_gradient([](const Tensor& u) { return std::pair(u * u, [](const Tensor& gg) { return gg * 7; }); });
        return g * second(v);
      };
      return std::pair(v * v * v, slope);
    })(x);
  };
  const Tensor x = tensor(3.0);
  auto traced = function("f", [&](const Tensor& v) { return f(v); });
  CHECK(grad(f)(x).item<double>() == 9);
  CHECK(grad(grad(f))(x).item<double>() == 7);
  CHECK(grad([&](const Tensor& v) { return traced(v); })(x).item<double>() == 9);
  CHECK(grad(grad([&](const Tensor& v) { return traced(v); }))(x).item<double>() == 7);
  auto outer = [](const Tensor& x) {
    return custom_gradient(
        [](const Tensor& v) { return std::pair(tenfold(v), [v](const Tensor& g) { return g * tenfold(v); }); })(x);
  };
  auto traced_outer = function("outer", [&](const Tensor& v) { return outer(v); });
  CHECK(grad(outer)(x).item<double>() == 9);
  CHECK(grad(grad(outer))(x).item<double>() == 30);
  CHECK(grad(grad([&](const Tensor& v) { return traced_outer(v); }))(x).item<double>() == 30);
}

TEST_CASE("rules in vmap, jvp, Jacobians and recompute") {
  const Tensor x = tensor({0.5f, -1.f, 3.f});
  CHECK(array_equal(vmap(grad([](const Tensor& v) { return tenfold(v); }))(x), 10 * x));
  CHECK(array_equal(jacrev([](const Tensor& v) { return tenfold(v); })(x), diag(10 * x)));
  CHECK(array_equal(jvp([](const Tensor& v) { return tenfold(v); }, x, ones({3})).second, 10 * x));
  same_everywhere(recompute([](const Tensor& v) { return sum(tenfold(sin(v))); }), x);
  auto traced = function("f", [](const Tensor& v) { return tenfold(v); });
  CHECK(array_equal(jacrev([&](const Tensor& v) { return traced(v); })(x), diag(10 * x)));
  CHECK(array_equal(jvp([&](const Tensor& v) { return traced(v); }, x, ones({3})).second, 10 * x));
}

TEST_CASE("a rule that cannot be had says so when a gradient is asked for, and not before") {
  auto wrong =
      custom_gradient([](const Tensor& a) { return std::pair(a * 2, [](const Tensor&) { return Tensors(); }); });
  auto traced = function("f", [&](const Tensor& v) { return std::pair(sum(wrong(v)), sum(v)); });
  const Tensor x = ones({2});
  CHECK(traced(x).first.item<float>() == 4);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  auto [bad, good] = traced(x);
  CHECK(array_equal(tape.gradient(good, x), x));
  CHECK(has(message_of([&] { tape.gradient(bad, x); }), "cotangents for 1 arguments"));
  auto misshapen =
      custom_gradient([](const Tensor& a) { return std::pair(a * 2, [](const Tensor& g) { return concat({g, g}); }); });
  CHECK(has(message_of([&] { grad([&](const Tensor& v) { return sum(misshapen(v)); })(x); }), "f32[4]"));
}

TEST_CASE("a rule may draw random numbers, the same ones traced") {
  auto noisy = [](const Tensor& x) {
    return custom_gradient([](const Tensor& v) {
      return std::pair(v * 2, [](const Tensor& g) { return g * random::uniform(g.shape()); });
    })(x);
  };
  const Tensor x = ones({4});
  const Fn f = [&](const Tensor& v) { return sum(noisy(v)); };
  random::seed(3);
  const Tensor e = eager(f, x), next = eager(f, x);
  CHECK(!array_equal(e, next));
  random::seed(3);
  CHECK(same(inside(f, x), e));
  random::seed(3);
  auto traced = function("f", [&](const Tensor& v) { return f(v); });
  auto again = [&] {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(traced(x), x);
  };
  CHECK(same(again(), e));
  CHECK(same(again(), next));
}

// --- recompute -------------------------------------------------------------------------------------------------------

namespace {

// The value and the gradient of what `call` gives, from a known state of the generator, and the next draw after it.
std::vector<Tensor> run(const Fn& call, const Tensor& x) {
  random::seed(11);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = call(x);
  const Tensor g = tape.gradient(y, x);
  return {y, g, random::uniform({2})};
}
void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) CHECK(same(a[i], b[i]));
}

}  // namespace

TEST_CASE("recompute draws the same numbers again, wherever it stands") {
  const Tensor x = random::normal({200}, {.key = random::Key(1)});
  const Fn f = [](const Tensor& v) { return sum(dropout(sin(v), 0.5) * dropout(v, 0.3)); };
  const std::vector<Tensor> plain = run(f, x);
  check_same(run(recompute(f), x), plain);
  check_same(run(recompute(recompute(f)), x), plain);
  const Fn inner = [](const Tensor& v) {
    return sum(recompute([](const Tensor& u) { return dropout(sin(u), 0.5); })(v) * dropout(v, 0.3));
  };
  check_same(run(recompute(inner), x), plain);
  auto traced = function("f", [&](const Tensor& v) { return f(v); });
  check_same(run(recompute([&](const Tensor& v) { return traced(v); }), x), plain);
  auto around = function("around", [&](const Tensor& v) { return recompute(f)(v); });
  check_same(run([&](const Tensor& v) { return around(v); }, x), plain);
}

TEST_CASE("recompute assigns, prints and asserts once") {
  Variable count(tensor(0.f), {.name = "count", .trainable = false}), scale(tensor(2.f), "scale");
  auto f = [&](const Tensor& v) {
    count.assign_add(1);
    scale.assign(scale * 3);
    assert_that(count < 1.5, "it ran once", count);
    return sum(v * v * scale * count);
  };
  auto traced = function("traced", [&](const Tensor& v) { return f(v); });
  const Tensor x = tensor({1.f, 2.f});
  const std::vector<Fn> ways = {f, recompute(f), recompute([&](const Tensor& v) { return traced(v); }),
                                [&](const Tensor& v) { return traced(v); },
                                recompute(recompute([&](const Tensor& v) { return f(v); }))};
  for (const Fn& call : ways) {
    count.assign(0), scale.assign(2);
    GradientTape tape;
    tape.watch(x);
    auto [dx, dscale] = tape.gradient(call(x), x, scale);
    CHECK(array_equal(dx, 12 * x));
    CHECK(dscale.item<float>() == 5);
    CHECK(count.value().item<float>() == 1);
    CHECK(scale.value().item<float>() == 6);
  }
}

TEST_CASE("recompute gives gradients to all that is captured") {
  Variable w(tensor({2.f, 3.f}), "w"), frozen(tensor({4.f, 5.f}), {.name = "frozen", .trainable = false});
  const Tensor x = tensor({1.f, 2.f}), c = tensor({7.f, 8.f});
  auto plain = [&](const Tensor& v) { return sum(tanh(v * c) * w * frozen) + sum(c); };
  auto traced = function("traced", [&](const Tensor& v) { return plain(v); });
  auto all = [&](const Fn& call) {
    GradientTape tape;
    tape.watch(x), tape.watch(c), tape.watch(frozen);
    auto [a, b, d, e] = tape.gradient(call(x), x, c, w, frozen);
    return std::vector<Tensor>{a, b, d, e};
  };
  const std::vector<Tensor> expected = all(plain);
  check_same(all(recompute(plain)), expected);
  check_same(all(recompute([&](const Tensor& v) { return traced(v); })), expected);
  check_same(all([&](const Tensor& v) { return traced(v); }), expected);
  check_same(all(recompute([&](const Tensor& v) { return recompute(plain)(v); })), expected);
  // What it gives back unchanged is still itself.
  GradientTape tape({.persistent = true});
  tape.watch(x), tape.watch(c);
  CHECK(array_equal(tape.gradient(recompute([&](const Tensor&) { return c; })(x) * 2, c), full({2}, 2.f)));
  CHECK(array_equal(tape.gradient(recompute([](const Tensor& v) { return v; })(x) * 2, x), full({2}, 2.f)));
}

TEST_CASE("derivatives of any order through recompute") {
  const Tensor x = tensor(0.7);
  const Fn f = [](const Tensor& v) { return sin(v * v) * v; };
  CHECK(same(grad(grad(recompute(f)))(x), grad(grad(f))(x)));
  CHECK(same(grad(grad(grad(recompute(f))))(x), grad(grad(grad(f)))(x)));
  CHECK(same(jvp(recompute(f), x, tensor(1.0)).second, jvp(f, x, tensor(1.0)).second));
  CHECK(same(hessian(recompute(f))(x), hessian(f)(x)));
}

TEST_CASE("undefined operands are errors everywhere") {
  const Tensor x = ones({2}), none;
  auto two = [](const Tensor& a, const Tensor&) { return sum(a); };
  auto one = [](const Tensor& a) { return sum(a * 1); };
  auto custom = custom_gradient([](const Tensor& a, const Tensor&) {
    return std::pair(a * 2, [](const Tensor& g) { return Tensors{g, Tensor()}; });
  });
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = sum(x * x);
  for (const std::string& text :
       {message_of([&] { recompute(two)(x, none); }), message_of([&] { custom(x, none); }),
        message_of([&] { tape.watch(none); }), message_of([&] { tape.gradient(none, x); }),
        message_of([&] { tape.gradient(y, none); }), message_of([&] { tape.jacobian(none, x); }),
        message_of([&] { grad(one)(none); }), message_of([&] { vjp(one, none); }),
        message_of([&] { vjp(one, x).second(none); }), message_of([&] { jvp(one, x, none); }),
        message_of([&] { jvp(one, none, x); }), message_of([&] { hessian(one)(none); }),
        message_of([&] { vmap(one)(none); }), message_of([&] { jacfwd(one)(none); }),
        message_of([&] { recompute([](const Tensor&) { return Tensor(); })(x); }), message_of([&] {
          custom_gradient([](const Tensor&) { return std::pair(Tensor(), [](const Tensor& g) { return g; }); })(x);
        })}) {
    CHECK(has(text, "undefined"));
  }
}
