// Forward mode of functions: structures, control flow, traced calls, tapes around and inside, functions with rules of
// their own, and gradcheck, which judges them. The records' own tangents: test_forward.cpp.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/rill.h"

using namespace rill;

namespace {
using namespace op_check;
using namespace record_samples;
}  // namespace

namespace {
struct Layer {
  Tensor w, b;
  int64_t times = 2;
};
}  // namespace

TEST_CASE("jvp, linearize, hvp and vhp of structures") {
  const Layer p{tensor({1.0, 2.0}), tensor(3.0)}, u{tensor({1.0, -1.0}), tensor(0.5)};
  auto f = [](const Layer& l) { return std::pair(l.w * l.w * double(l.times), l.b * sum(l.w)); };
  const auto [y, dy] = jvp(f, p, u);
  CHECK(allclose(y.second, tensor(9.0)));
  CHECK(allclose(dy.first, 4 * p.w * u.w));
  CHECK(allclose(dy.second, tensor(0.5 * 3)));
  const auto [value, map] = linearize(f, p);
  CHECK(array_equal(value.first, y.first));
  CHECK(allclose(map(u).first, dy.first));
  CHECK(allclose(map(u).second, dy.second));
  auto loss = [](const Layer& l) { return sum(l.w * l.w * l.b) + l.b * l.b; };
  for (const Layer& h : {hvp(loss, p, u), vhp(loss, p, u)}) {
    CHECK(allclose(h.w, 2 * p.b * u.w + 2 * p.w * u.b));
    CHECK(allclose(h.b, sum(2 * p.w * u.w) + 2 * u.b));
  }
  // Several arguments as a tuple, of which one stays where it is; Variables in a vector; integers go through.
  const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };
  const Tensor none;
  CHECK(allclose(jvp(product, std::tuple(p.w, p.b), std::tuple(u.w, none)).second, u.w * p.b));
  const auto of_both = linearize(product, std::tuple(p.w, p.b)).second;
  CHECK(allclose(of_both(std::tuple(none, u.b)), p.w * u.b));
  const auto [ha, hb] =
      hvp([](const Tensor& a, const Tensor& b) { return sum(a * a * b); }, std::tuple(p.w, p.b), std::tuple(u.w, u.b));
  CHECK(allclose(ha, 2 * p.b * u.w + 2 * p.w * u.b));
  CHECK(allclose(hb, sum(2 * p.w * u.w)));
  const std::vector<Variable> vs{Variable(p.w, "a"), Variable(p.b, "b")};
  auto of_variables = [](const std::vector<Variable>& v) { return v[0] * v[1]; };
  CHECK(allclose(jvp(of_variables, vs, std::vector{u.w, u.b}).second, u.w * p.b + p.w * u.b));
  const auto with_count = [](const Tensor& a) { return std::pair(a * a, argmax(a)); };
  const auto [pair, tangent] = jvp(with_count, p.w, u.w);
  CHECK(allclose(tangent.first, 2 * p.w * u.w));
  CHECK(!tangent.second.defined());
  CHECK(has(message_of([&] { jvp(of_variables, vs, std::vector{u.w}); }), "tangents"));
}

TEST_CASE("rules of custom_gradient, recompute and traced functions in forward mode") {
  auto tenfold =
      custom_gradient([](const Tensor& x) { return std::pair(sin(x), [](const Tensor& g) { return 10 * g; }); });
  const Tensor x = tensor({1.0, 2.0}), u = tensor({1.0, -3.0});
  CHECK(allclose(jvp(tenfold, x, u).second, 10 * u));
  auto traced = function("rule", [&](const Tensor& t) { return tenfold(t) * t; });
  CHECK(allclose(jvp([&](const Tensor& t) { return traced(t); }, x, u).second, 10 * u * x + sin(x) * u));
  auto again = recompute([](const Tensor& t) { return exp(t) * t; });
  CHECK(allclose(jvp(again, x, u).second, exp(x) * (x + 1) * u));
}

TEST_CASE("mistakes in forward mode name the cure") {
  const Tensor x = ones({3}), i = arange(3), none;
  auto f = [](const Tensor& t) { return t * 2; };
  auto says = [](const std::string& message, std::initializer_list<const char*> parts) {
    INFO(message);
    for (const char* part : parts) CHECK(has(message, part));
  };
  says(message_of([&] { jvp(f, x, ones({2})); }), {"[jvp]", "shapes must be equal", "test_forward_functions.cpp"});
  says(message_of([&] { jvp(f, i, i); }), {"[jvp]", "astype"});
  says(message_of([&] { jvp(f, x, complex(x, x)); }), {"[jvp]", "real"});
  says(message_of([&] { jvp([](const Tensor& t) { return t > 0; }, x, x); }), {"bool", "test_forward_functions.cpp"});
  says(message_of([&] { ForwardAccumulator a(x, ones({2})); }), {"[ForwardAccumulator]", "shapes must be equal"});
  says(message_of([&] { ForwardAccumulator a(x, none); }), {"[ForwardAccumulator]", "undefined"});
}

namespace {

// Derivatives of `f` in every arrangement of an accumulator, tapes and `function`, which must have the bits of eager
// code where nothing says less.
template <class F>
void check_arrangements(F f, const Tensor& x, const Tensor& u, bool second_order_bits = true) {
  auto traced = function("f", f);
  const auto [y, tangent] = jvp(f, x, u);
  const auto same = [](const Tensor& a, const Tensor& b) { return same_bits(a, b); };
  // around a traced call, inside one, around one that holds another
  CHECK(same(jvp([&](const Tensor& t) { return traced(t); }, x, u).first, y));
  CHECK(same(jvp([&](const Tensor& t) { return traced(t); }, x, u).second, tangent));
  auto inside = function("inside", [&](const Tensor& t, const Tensor& d) { return jvp(f, t, d).second; });
  CHECK(same(inside(x, u), tangent));
  auto outer = function("outer", [&](const Tensor& t) { return traced(t) * 1; });
  CHECK(same(jvp([&](const Tensor& t) { return outer(t); }, x, u).second, tangent));

  auto scalar = [](auto g) { return [g](const Tensor& t) { return sum(g(t)); }; };
  const auto close = [&](const Tensor& a, const Tensor& b) {
    return second_order_bits ? same_bits(a, b) : allclose(a, b, {.rtol = 1e-5, .atol = 1e-6});
  };
  const Tensor hv = hvp(scalar(f), x, u);
  auto call = [&](const Tensor& t) { return traced(t); };
  CHECK(close(hvp(scalar(call), x, u), hv));
  auto hvp_inside = function("hvp", [&](const Tensor& t, const Tensor& d) { return hvp(scalar(f), t, d); });
  CHECK(close(hvp_inside(x, u), hv));
  auto slope = [&](auto g) { return grad([&, g](const Tensor& t) { return sum(jvp(g, t, u).second); })(x); };
  CHECK(allclose(slope(f), hv, {.rtol = 1e-4, .atol = 1e-5}));
  CHECK(close(slope(call), slope(f)));
  const auto twice = [&](auto g) { return jvp([&, g](const Tensor& t) { return jvp(g, t, u).second; }, x, u).second; };
  CHECK(close(twice(call), twice(f)));
  CHECK(allclose(sum(twice(f)), sum(u * hv), {.rtol = 1e-4, .atol = 1e-5}));
}

}  // namespace

TEST_CASE("accumulators, tapes and traced functions in every arrangement") {
  const Tensor x = samples::uniform({6}), u = samples::uniform({6}, -1, 1, 9), m = samples::uniform({6, 6}, -1, 1, 5);
  Variable w(samples::uniform({6}, 0.5, 1.5, 3), "w");
  check_arrangements([&](const Tensor& t) { return tanh(matmul(m, t)) * exp(t * 0.5f) + t / (1 + t * t); }, x, u);
  check_arrangements([&](const Tensor& t) { return softmax(t * w) * max(t) + logsumexp(t); }, x, u);
  check_arrangements([&](const Tensor& t) { return where(t > 0, t * t, sin(t)) * stop_gradient(t); }, x, u);
  check_arrangements([&](const Tensor& t) { return t; }, x, u);
  check_arrangements([&](const Tensor& t) { return concat({t, t * 2, ones({2})}); }, x, u);
}

TEST_CASE("a traced call gives tangents of what it reads, assigns and passes through") {
  Variable w(tensor({2.f, 3.f}), "w"), state(tensor({0.f, 0.f}), "state");
  auto f = function("f", [&](const Tensor& x) {
    state.assign(w * x);
    return std::vector<Tensor>{x, stop_gradient(x), state * x, ones({2})};
  });
  const Tensor x = tensor({5.f, 7.f});
  ForwardAccumulator along({{w, tensor({1.f, 0.f})}, {x, tensor({0.f, 1.f})}});
  const auto y = f(x);
  CHECK(along.jvp(y[0]).to_vector<float>() == std::vector{0.f, 1.f});
  CHECK(!along.jvp(y[1], Unconnected::none).defined());
  CHECK(along.jvp(y[2]).to_vector<float>() == std::vector{0.f, 21.f});  // the reading of `state` is a constant
  CHECK(!along.jvp(y[3], Unconnected::none).defined());
  CHECK(!along.jvp(state * 1, Unconnected::none).defined());
}

TEST_CASE("control flow carries tangents, eager and traced") {
  const Tensor x = samples::uniform({4}, 0.2, 0.8), u = samples::uniform({4}, -1, 1, 9),
               k = samples::uniform({4}, 1, 2, 3);
  check_arrangements(
      [&](const Tensor& t) { return cond(sum(t) > 0, [&] { return sin(t) * k; }, [&] { return k * 1; }); }, x, u,
      false);
  check_arrangements(
      [&](const Tensor& t) { return cond(sum(t) > 9, [&] { return sin(t) * k; }, [&] { return k * 1; }); }, x, u,
      false);
  check_arrangements(
      [&](const Tensor& t) {
        return switch_case(tensor(1), {[&] { return t; }, [&] { return t * t * k; }, [&] { return exp(t); }});
      },
      x, u, false);
  check_arrangements(
      [&](const Tensor& t) {
        // the carried `b` has no tangent before the first step, `c` never
        auto [a, b, c, n] =
            while_loop([](const Tensor&, const Tensor&, const Tensor&, const Tensor& n) { return n < 3; },
                       [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& n) {
                         return std::tuple(sin(a) * k + b, a * a, c + 1, n + 1);
                       },
                       t, ones({4}), zeros({4}), tensor(0), {.max_steps = 5});
        return a * b + c;
      },
      x, u, false);
  check_arrangements(
      [&](const Tensor& t) {
        auto [last, ys] =
            scan([&](const Tensor& c, const Tensor& row) { return std::pair(tanh(c * row + k), c * c * t); }, ones({4}),
                 stack({t, t * 2, k}));
        return sum(ys, 0) + last;
      },
      x, u, false);
  // without a bound, which a walk back would need
  auto free_loop = function("free", [&](const Tensor& t) {
    auto [a, n] = while_loop([](const Tensor&, const Tensor& n) { return n < 3; },
                             [](const Tensor& a, const Tensor& n) { return std::tuple(sin(a), n + 1); }, t, tensor(0));
    return a;
  });
  CHECK(same_bits(jvp([&](const Tensor& t) { return free_loop(t); }, x, u).second,
                  jvp([](const Tensor& t) { return sin(sin(sin(t))); }, x, u).second));
}

// The number of its steps is nowhere known before it runs, so that only forward mode has derivatives of it once it is
// traced or mapped. linearize() once gave zeros there, or an error.
TEST_CASE("linearize of a loop without a bound: eager, traced, mapped, around a traced call, and derived again") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), k = tensor({0.7, 0.6, 0.5}), u = tensor({1.0, -1.0, 0.5}), v = cos(u);
  const Tensor rows = stack({x, tensor({0.5, 0.1, 4.0})});
  auto f = [](const Tensor& x, const Tensor& k) {
    const auto [y, n] =
        while_loop([](const Tensor& y, const Tensor&) { return sum(abs(y)) > 0.5; },
                   [&](const Tensor& y, const Tensor& n) { return std::tuple(sin(y) * k + 0.01 * sum(y) * k, n + 1); },
                   x * k, tensor(0));
    return y * x;
  };
  const auto traced = function("loop", f);
  const auto along = [&](const auto& g, const Tensor& x) { return jvp(g, std::tuple(x, k), std::tuple(u, v)).second; };
  const auto mapped = [&](const auto& g, const Tensor& x) {
    return linearize(g, std::tuple(x, k)).second(std::tuple(u, v));
  };
  const Tensor want = along(f, x);
  const CloseOptions close{.rtol = 1e-12};
  CHECK(allclose(want, (f(x + 1e-6 * u, k + 1e-6 * v) - f(x - 1e-6 * u, k - 1e-6 * v)) / 2e-6, {.rtol = 1e-6}));
  CHECK(allclose(mapped(f, x), want, close));
  CHECK(allclose(mapped(traced, x), want, close));
  CHECK(allclose(function("in", [&](const Tensor& x) { return mapped(f, x); })(x), want, close));
  CHECK(allclose(function("in", [&](const Tensor& x) { return mapped(traced, x); })(x), want, close));
  const Tensor each = stack({want, along(f, rows(1))});
  CHECK(allclose(vmap([&](const Tensor& x) { return mapped(f, x); })(rows), each, close));
  CHECK(allclose(vmap([&](const Tensor& x) { return mapped(traced, x); })(rows), each, close));
  const Tensor second = jvp([&](const Tensor& x) { return along(f, x); }, x, u).second;
  CHECK(allclose(jvp([&](const Tensor& x) { return mapped(f, x); }, x, u).second, second, close));
  CHECK(allclose(jvp([&](const Tensor& x) { return mapped(traced, x); }, x, u).second, second, close));
  auto [y, push] = linearize(traced, std::tuple(x, k));
  const Tensor columns = vmap([&, push = push](const Tensor& t) { return push(std::tuple(t, zeros_like(t))); })(
      eye(3, -1, 0, {.dtype = f64}));
  CHECK(allclose(transpose(columns), jacfwd([&](const Tensor& x) { return f(x, k); })(x), close));
  // A gradient has no rule there, and says so; that of zeros is zeros.
  CHECK(has(message_of([&] { grad([&](const Tensor& x) { return sum(traced(x, k)); })(x); }), "max_steps"));
  CHECK(has(message_of([&] { vmap(grad([&](const Tensor& x) { return sum(f(x, k)); }))(rows); }), "max_steps"));
}

TEST_CASE("jacfwd agrees with jacrev; forward mode in vmap and vmap in forward mode") {
  const Tensor x = samples::uniform({3}).astype(f64), m = samples::uniform({5, 3}, -1, 1, 2).astype(f64);
  const auto wide = [&](const Tensor& t) { return softmax(tanh(matmul(m, t)) * sum(t), -1); };
  const auto close = [](const Tensor& a, const Tensor& b) { return allclose(a, b, {.rtol = 1e-12, .atol = 1e-13}); };
  CHECK(close(jacfwd(wide)(x), jacrev(wide)(x)));
  CHECK(jacfwd(wide)(x).shape() == Shape{5, 3});
  const auto matrix = [&](const Tensor& t) { return outer(wide(t), t); };
  CHECK(jacfwd(matrix)(x).shape() == Shape{5, 3, 3});
  CHECK(close(jacfwd(matrix)(x), jacrev(matrix)(x)));
  CHECK(close(jacfwd(jacfwd(matrix))(x), jacrev(jacrev(matrix))(x)));
  const auto loss = [&](const Tensor& t) { return sum(wide(t) * cumsum(wide(t))); };
  CHECK(close(jacfwd(grad(loss))(x), hessian(loss)(x)));
  CHECK(close(jacrev([&](const Tensor& t) { return jvp(loss, t, ones_like(t)).second.reshape({1}); })(x).reshape({3}),
              hvp(loss, x, ones_like(x))));
  CHECK(jacfwd([](const Tensor& t) { return concat({t, ones({2}, f64)}); })(zeros({0}, f64)).shape() == Shape{2, 0});
  auto traced = function("wide", wide);
  CHECK(close(jacfwd([&](const Tensor& t) { return traced(t); })(x), jacrev(wide)(x)));
  auto inside = function("jacfwd", [&](const Tensor& t) { return jacfwd(wide)(t); });
  CHECK(same_bits(inside(x), jacfwd(wide)(x)));
  CHECK(jacfwd([](const Tensor& t) { return t.reshape({1, 3}) * 2; })(x).shape() == Shape{1, 3, 3});

  // A function that draws numbers is one function: all columns see the same ones.
  const Tensor drawn = jacfwd([](const Tensor& t) { return sum(t) * random::uniform({2}); })(ones({3}));
  CHECK(array_equal(drawn, broadcast_to(drawn(all, slice(0, 1)), {2, 3})));

  const Tensor rows = samples::uniform({4, 3}, -1, 1, 8).astype(f64),
               along = samples::uniform({4, 3}, -1, 1, 9).astype(f64);
  const auto push = [&](const Tensor& t, const Tensor& u) { return jvp(wide, t, u).second; };
  const Tensor batched = vmap(push)(rows, along);
  for (int64_t i = 0; i < 4; ++i) CHECK(close(batched(i), push(rows(i), along(i))));
  CHECK(close(jvp(vmap(wide), rows, along).second, batched));
  const Tensor products = vmap([&](const Tensor& t, const Tensor& u) { return hvp(loss, t, u); })(rows, along);
  for (int64_t i = 0; i < 4; ++i) CHECK(close(products(i), hvp(loss, rows(i), along(i))));
}

namespace {
// exp, whose slope is threefold, so that it shows which rule is followed.
const auto threefold = custom_jvp([](const Tensor& x) {
  const Tensor y = exp(x);
  return std::pair(y, [y](const Tensor& t) { return 3 * y * t; });
});
}  // namespace

TEST_CASE("custom_jvp: the rule gives tangents, and gradients by its transpose, of any order") {
  const Tensor x = tensor({0.5, 1.0, -1.0}), u = tensor({1.0, -2.0, 0.5}), e = exp(x);
  CHECK(array_equal(threefold(x), e));
  CHECK(allclose(jvp(threefold, x, u).second, 3 * e * u));
  CHECK(allclose(grad([](const Tensor& t) { return sum(threefold(t)); })(x), 3 * e));
  CHECK(allclose(jacrev(threefold)(x), diag(3 * e)));
  CHECK(allclose(jacfwd(threefold)(x), diag(3 * e)));
  // The rule's own derivative: d (3 y t) by the y that the function computed, as the op that it is.
  const auto along = [&](const Tensor& t) { return jvp(threefold, t, u).second; };
  CHECK(allclose(jvp(along, x, u).second, 3 * e * u * u));
  CHECK(allclose(grad([&](const Tensor& t) { return sum(along(t)); })(x), 3 * e * u));
  CHECK(allclose(hvp([](const Tensor& t) { return sum(threefold(t)); }, x, u), 3 * e * u));
}

TEST_CASE("custom_jvp in traced functions, control flow, and functions in functions") {
  const Tensor x = samples::uniform({4}), u = samples::uniform({4}, -1, 1, 3), k = samples::uniform({4}, 1, 2, 5);
  check_arrangements([&](const Tensor& t) { return threefold(t * k) * t; }, x, u);
  check_arrangements(
      [&](const Tensor& t) { return cond(sum(k) > 0, [&] { return threefold(t) * k; }, [&] { return t; }); }, x, u,
      false);
  check_arrangements(
      [&](const Tensor& t) {
        return scan([&](const Tensor& c, const Tensor& row) { return std::pair(threefold(c * 0.1f) * row, c); }, t,
                    stack({k, k}))
            .first;
      },
      x, u, false);
  const auto outer = custom_jvp(
      [](const Tensor& t) { return std::pair(threefold(t) + 1, [t](const Tensor& d) { return threefold(t) * d; }); });
  check_arrangements([&](const Tensor& t) { return outer(t) * k; }, x, u);
  const auto rule = custom_gradient(
      [](const Tensor& t) { return std::pair(sin(t), [t](const Tensor& g) { return g * 2 * cos(t); }); });
  check_arrangements([&](const Tensor& t) { return rule(t) * threefold(t); }, x, u, false);
  const Tensor rows = samples::uniform({3, 4}, -1, 1, 8), along = samples::uniform({3, 4}, -1, 1, 9);
  CHECK(allclose(vmap([](const Tensor& t, const Tensor& d) { return jvp(threefold, t, d).second; })(rows, along),
                 3 * exp(rows) * along));
  CHECK(allclose(jvp(vmap(threefold), rows, along).second, 3 * exp(rows) * along));
  CHECK(allclose(vmap(grad([](const Tensor& t) { return sum(threefold(t)); }))(rows), 3 * exp(rows)));
}

TEST_CASE("custom_jvp of several arguments, integers and structures among them") {
  const auto f = custom_jvp([](const Tensor& a, const Tensor& i, const Layer& l) {
    return std::pair(a * i * l.w + l.b, [a, i, l](const Tensor& ta, const Tensor& ti, const Layer& tl) {
      CHECK(!ti.defined());
      return ta * i * l.w + a * i * tl.w + tl.b;
    });
  });
  const Tensor a = tensor({1.0, 2.0}), i = tensor({3, 4});
  const Layer l{tensor({5.0, 6.0}), tensor({0.5, 0.5})};
  CHECK(allclose(jvp([&](const Tensor& t) { return f(t, i, l); }, a, a).second, a * i * l.w));
  const auto g = grad<0, 2>([&](const Tensor& p, const Tensor& n, const Layer& q) { return sum(f(p, n, q)); })(a, i, l);
  CHECK(allclose(std::get<0>(g), i * l.w));
  CHECK(allclose(std::get<1>(g).w, a * i));
  CHECK(allclose(std::get<1>(g).b, ones_like(a)));
  const auto wrong = custom_jvp([](const Tensor& t) { return std::pair(t, [](const Tensor& d) { return sum(d); }); });
  CHECK(has(message_of([&] { jvp(wrong, a, a); }), "[custom_jvp]"));
}

TEST_CASE("gradcheck agrees with right derivatives of every kind") {
  const Tensor a = tensor({{0.5, 1.5}, {-0.7, 2.0}}), b = tensor({1.1, -0.4});
  auto f = [](const Tensor& p, const Tensor& q) { return tanh(matmul(p, q)) * exp(q); };
  const GradCheck check = gradcheck(f, {a, b}, {.order = 3});
  INFO(check.message);
  CHECK(check.ok);
  CHECK(check.wrong == 0);
  CHECK(gradcheck([](const Tensor& t) { return sum(sin(t)); }, a, {.order = 2}));
  CHECK(gradcheck([](const Tensor& t) { return sin(t); }, a.astype(f32)));
  CHECK(gradcheck([](const Layer& l) { return l.w * l.w * l.b; }, Layer{a, b}, {.order = 2}));
  CHECK(gradcheck(f, std::tuple(a, b)));
  const Tensor z = complex(a, a * 0.5 + 1);
  for (const auto& g :
       {+[](const Tensor& t) { return sin(t) * t; }, +[](const Tensor& t) { return abs(t); },
        +[](const Tensor& t) { return conj(t) * exp(t) / 3; }, +[](const Tensor& t) { return real(t * t); }})
    CHECK(gradcheck(g, z, {.order = 2}));
  CHECK(gradcheck([](const Tensor& t) { return complex(sin(t), t * t); }, a));
}

TEST_CASE("gradcheck says which element differs and by how much") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), y = tensor({1.0, 1.0, 1.0});
  auto wrong = custom_gradient([](const Tensor& a, const Tensor& b) {
    return std::pair(a * b, [a, b](const Tensor& g) { return Tensors{g * b, g * where(arange(3) == 1, a + 0.25, a)}; });
  });
  const GradCheck check = gradcheck(wrong, {x, y});
  INFO(check.message);
  CHECK(!check);
  CHECK(check.order == 1);
  CHECK(check.input == 1);
  CHECK(check.input_element == Shape{1});
  CHECK(check.output_element == Shape{1});
  CHECK(check.given == Approx(2.25));
  CHECK(check.expected == Approx(2));
  CHECK(check.difference == Approx(0.25));
  CHECK(check.wrong == 2);  // of the gradient and of the tangent
  CHECK(has(check.message, "output 0"));
  CHECK(has(check.message, "input 1"));
  // Right in the first order, wrong in the second: the rule hides what it read.
  auto hidden = custom_gradient([](const Tensor& a) {
    const Tensor slope = stop_gradient(2 * a);
    return std::pair(a * a, [slope](const Tensor& g) { return g * slope; });
  });
  CHECK(gradcheck(hidden, x));
  const GradCheck second = gradcheck(hidden, x, {.order = 2});
  CHECK(!second);
  CHECK(second.order == 2);
  CHECK(has(second.message, "order 2"));
  // wrong tangents alone; a wrong dtype of input; a random function
  auto bad_tangent =
      custom_jvp([](const Tensor& a) { return std::pair(a * a, [a](const Tensor& t) { return a * t; }); });
  CHECK(!gradcheck(bad_tangent, x));
  CHECK(has(message_of([&] { gradcheck([](const Tensor& t) { return t; }, arange(3)); }), "[gradcheck]"));
  CHECK(has(message_of([&] { gradcheck([](const Tensor& t) { return t * random::uniform({3}); }, x); }), "random"));
}
