// Derivatives that take and give structures: containers, the user's structs, several arguments, auxiliary results.
#include <rill/rill.h>

#include <map>
#include <unordered_map>

#include "catch.h"
#include "messages.h"

using namespace rill;

namespace {

struct Params {  // an aggregate, taken as it is
  Tensor w, b;
};
class Model {  // no aggregate: its fields are named
 public:
  Model() = default;
  Model(Tensor w, Tensor b) : w(std::move(w)), b(std::move(b)) {}
  Tensor w, b;
  int factor = 3;
  std::vector<Tensor> more;
};
RILL_FIELDS(Model, w, b, factor, more)
struct Nested {
  Params p;
  std::array<Tensor, 2> q;
  std::optional<Tensor> maybe;
  int64_t n = 0;
};
struct Walks {
  Tensor a;
  template <class W>
  void walk(W&& w) {
    w(a);
  }
};

const Tensor w = tensor({1.f, 2.f}), b = tensor(3.f), x = tensor({0.5f, 0.25f});
Tensor loss(const Params& p) { return sum(p.w * p.w) * p.b; }

bool same(const Tensor& a, const Tensor& b) { return array_equal(a, b); }

}  // namespace

TEST_CASE("the gradient of a struct is the same struct") {
  const Params g = grad(loss)(Params{w, b});
  CHECK(same(g.w, 2 * w * b));
  CHECK(same(g.b, sum(w * w)));

  const auto [value, m] = value_and_grad(
      [](const Model& m, const Tensor& x) { return sum(m.w * x) * m.factor + sum(m.b) + sum(m.more[1]); })(
      [] {
        Model m(w, b);
        m.more = {x, x * 2};
        return m;
      }(),
      x);
  CHECK(same(value, sum(w * x) * 3 + b + sum(x * 2)));
  CHECK(same(m.w, x * 3));
  CHECK(same(m.b, ones({})));
  CHECK(m.factor == 3);
  CHECK(same(m.more[0], zeros({2})));  // the loss does not depend on it
  CHECK(same(m.more[1], ones({2})));

  const Walks walks = grad([](const Walks& s) { return sum(s.a * s.a); })(Walks{w});
  CHECK(same(walks.a, 2 * w));

  Nested nested{{w, b}, {x, x}, std::nullopt, 4};
  const Nested g2 = grad([](const Nested& n) { return loss(n.p) + sum(n.q[1]) * double(n.n); })(nested);
  CHECK(same(g2.p.w, 2 * w * b));
  CHECK(same(g2.q[1], full({2}, 4)));
  CHECK(!g2.maybe);
}

TEST_CASE("gradients by containers") {
  const std::map<std::string, Tensor> m{{"a", tensor(2.f)}, {"b", tensor(3.f)}};
  const auto g = grad([](const std::map<std::string, Tensor>& m) { return m.at("a") * m.at("b"); })(m);
  CHECK(g.at("a").item<float>() == 3);
  CHECK(g.at("b").item<float>() == 2);

  const auto v = grad([](const std::vector<std::pair<Tensor, int>>& v) { return v[0].first * v[1].second; })(
      std::vector<std::pair<Tensor, int>>{{tensor(2.f), 5}, {tensor(3.f), 7}});
  CHECK(v[0].first.item<float>() == 7);
  CHECK(v[1].first.item<float>() == 0);
  CHECK(v[1].second == 7);

  const auto t = grad([](const std::tuple<Tensor, std::array<Tensor, 2>>& t) {
    return std::get<0>(t) * std::get<1>(t)[1];
  })(std::tuple(tensor(2.f), std::array{tensor(3.f), tensor(4.f)}));
  CHECK(std::get<0>(t).item<float>() == 4);
  CHECK(std::get<1>(t)[1].item<float>() == 2);

  const auto o = grad([](const std::optional<Tensor>& o) { return *o * *o; })(std::optional(tensor(3.f)));
  CHECK(o->item<float>() == 6);
}

TEST_CASE("what has no derivative is zeros in a structure's gradient, which so goes through functions and vmap") {
  struct Counted {
    Tensor w, steps, nothing;
  };
  const Counted g = grad([](const Counted& c) { return sum(c.w * c.steps); })(Counted{w, tensor({3, 4}), Tensor()});
  CHECK(same(g.w, tensor({3.f, 4.f})));
  CHECK(same(g.steps, tensor({0, 0})));
  CHECK(!g.nothing.defined());
  struct Mix {
    Tensor w, labels;
  };
  const auto f = [](const Mix& m) { return sum(m.w * astype(m.labels, f32)); };
  const Mix m{w, tensor({3, 4})}, rows{stack({w, w}), stack({m.labels, m.labels})};
  CHECK(same(function("traced", grad(f))(m).w, tensor({3.f, 4.f})));
  CHECK(same(vmap(grad(f))(rows).labels, zeros({2, 2}, i32)));
  CHECK(same(cond(sum(w) > 0, [&] { return grad(f)(m); }, [&] { return m; }).w, tensor({3.f, 4.f})));
  const auto [again, pull] = vjp(grad(f), m);
  CHECK(same(pull(again).w, zeros({2})));
  // An argument of its own must have one.
  CHECK_THROWS_AS(grad([](const Tensor& t) { return sum(t); })(tensor({3, 4})), Error);
}

TEST_CASE("strings in structures, null ones too") {
  struct Named {
    Tensor w;
    std::string name;
    const char* unit = nullptr;
  };
  const auto f = function("named", grad([](const Named& n) { return sum(n.w) * float(n.name.size()); }));
  CHECK(same(f(Named{w, "abc"}).w, full({2}, 3.f)));
  CHECK(same(f(Named{w, "ab", "m"}).w, full({2}, 2.f)));
  CHECK(f.trace_count() == 2);
}

TEST_CASE("gradients by Variables in structures are Tensors in their places") {
  const Variable v(w, "v"), u(b, "u");
  const std::vector<Tensor> g =
      grad([](const std::vector<Variable>& all) { return sum(all[0] * all[1]); })(std::vector<Variable>{v, u});
  CHECK(same(g[0], broadcast_to(b, {2})));
  CHECK(same(g[1], sum(w)));

  GradientTape tape({.persistent = true});
  const Tensor y = sum(v * v) * u;
  const std::map<std::string, Tensor> of_map = tape.gradient(y, std::map<std::string, Variable>{{"k", v}, {"l", u}});
  CHECK(same(of_map.at("k"), 2 * w * b));
  const auto [dv, du] = tape.gradient(y, std::tuple(v, std::vector{u}));
  CHECK(same(dv, 2 * w * b));
  CHECK(same(du[0], sum(w * w)));
}

TEST_CASE("a tape's gradient by a structure") {
  GradientTape tape({.persistent = true});
  const Params p{w + 0, b + 0}, other{w + 0, b + 0};
  tape.watch(p.w), tape.watch(p.b), tape.watch(other.w), tape.watch(other.b);
  const Tensor y = loss(p);
  const Params g = tape.gradient(y, p);
  CHECK(same(g.w, 2 * w * b));
  CHECK(same(g.b, sum(w * w)));
  const Params none = tape.gradient(y, other, {.unconnected = Unconnected::none});
  CHECK(!none.w.defined());
  CHECK(has(message_of([&] { tape.gradient(y, other); }), "does not depend on source 0"));
}

TEST_CASE("gradients by several arguments, and what else the function gives") {
  const auto f = [](const Tensor& x, double factor, const Params& p) { return sum(x * p.w) * factor + p.b; };
  const auto [gx, gp] = grad<0, 2>(f)(x, 2.0, Params{w, b});
  CHECK(same(gx, 2 * w));
  CHECK(same(gp.w, 2 * x));
  CHECK(same(gp.b, ones({})));
  const Params third = grad<2>(f)(x, 2.0, Params{w, b});
  CHECK(same(third.w, 2 * x));

  const auto with_more = [](const Tensor& x) { return std::pair(sum(x * x), std::tuple(x + 1, 7)); };
  const auto [g, more] = grad(with_more)(x);
  CHECK(same(g, 2 * x));
  CHECK(same(std::get<0>(more), x + 1));
  CHECK(std::get<1>(more) == 7);
  const auto [value, g2] = value_and_grad(with_more)(x);
  CHECK(same(value.first, sum(x * x)));
  CHECK(same(g2, 2 * x));
}

TEST_CASE("vjp of structures and of several arguments") {
  const auto [y, back] = vjp([](const Params& p) { return std::pair(p.w * 2, p.b * 3); }, Params{w, b});
  CHECK(same(y.second, b * 3));
  for (int twice = 0; twice < 2; ++twice) {
    const Params g = back({tensor({1.f, 10.f}), tensor(100.f)});
    CHECK(same(g.w, tensor({2.f, 20.f})));
    CHECK(same(g.b, tensor(300.f)));
  }
  const auto [z, back2] = vjp([](const Tensor& a, const Tensor& b) { return a * b; }, std::tuple(w, x));
  const auto [da, db] = back2(ones({2}));
  CHECK(same(da, x));
  CHECK(same(db, w));
  const auto [n, back3] = vjp([](const Tensor& t) { return std::vector{t, t * t}; }, x);
  CHECK(has(message_of([&] { back3({x}); }), "1 cotangents for 2 tensors"));
  CHECK(has(message_of([&] { back3({x, ones({3})}); }), "[vjp] cotangent 1 is f32[3], and the function gave f32[2]"));
}

TEST_CASE("grad says what to do where the function does not use its argument") {
  const auto f = [](const Tensor&) { return sum(x); };
  CHECK(same(grad(f)(w), zeros({2})));
  CHECK(!grad(f, {.unconnected = Unconnected::none})(w).defined());
  CHECK_THROWS_AS(grad(f, {.unconnected = Unconnected::error})(w), Error);
}

TEST_CASE("recompute and custom_gradient of structures, eager and traced") {
  const auto layer = [](const Params& p, const Tensor& x) { return std::pair(tanh(p.w * x), p.b + sum(x)); };
  const auto total = [](const auto& f) {
    return [f](const Params& p, const Tensor& x) {
      const auto [a, b] = f(p, x);
      return sum(a) * b;
    };
  };
  const Params p{w, b};
  const auto [gp, gx] = grad<0, 1>(total(layer))(p, x);
  const auto [hp, hx] = grad<0, 1>(total(recompute(layer)))(p, x);
  CHECK(same(gp.w, hp.w));
  CHECK(same(gp.b, hp.b));
  CHECK(same(gx, hx));
  // A result that is an argument, and one without a derivative.
  const auto some = recompute([](const Tensor& t) { return std::tuple(t, t * 2, argmax(t)); });
  CHECK(same(grad([&](const Tensor& t) {
               const auto [a, b, i] = some(t);
               return sum(a * b);
             })(x),
             4 * x));

  const auto custom = custom_gradient([](const Params& p, const Tensor& x) {
    return std::pair(sum(p.w * x) + p.b,
                     [p, x](const Tensor& g) { return std::tuple(Params{g * x, 10 * g}, g * p.w); });
  });
  const auto check = [&](const auto& f) {
    const auto [cp, cx] = f(p, x);
    CHECK(same(cp.w, x));
    CHECK(cp.b.template item<float>() == 10);
    CHECK(same(cx, w));
  };
  const auto g = grad<0, 1>(custom);
  check(g);
  check(function("traced", [&](const Params& p, const Tensor& x) {
    auto [a, b] = g(p, x);
    return std::pair(a, b);
  }));
}

TEST_CASE("a single argument that is a tuple or a pair stays one") {
  const auto of_tuple = [](const std::tuple<Tensor, Tensor>& t) { return sum(std::get<0>(t) * std::get<1>(t)); };
  const auto of_pair = [](const std::pair<Tensor, Tensor>& t) { return sum(t.first * t.second); };
  const std::tuple t(w, x);
  const std::pair p(w, x);
  CHECK(same(recompute(of_tuple)(t), sum(w * x)));
  CHECK(same(recompute(of_pair)(p), sum(w * x)));
  CHECK(same(vmap(of_tuple)(t), w * x));
  CHECK(same(vmap(of_pair)(p), w * x));
  CHECK(same(std::get<0>(grad(recompute(of_tuple))(t)), x));
  CHECK(same(grad(of_pair)(p).second, w));
  const auto rule = custom_gradient([](const std::pair<Tensor, Tensor>& t) {
    return std::pair(sum(t.first), [t](const Tensor& g) { return std::pair(g * t.second, g * t.first); });
  });
  CHECK(same(grad(rule)(p).first, x));
  const auto [y, back] = vjp(of_pair, p);
  CHECK(same(back(ones({})).first, x));
}

TEST_CASE("traced functions take and give the user's structs") {
  const auto step =
      function("step", [](const Nested& n) { return Nested{{n.p.w + 1, n.p.b}, {n.q[1], n.q[0]}, n.maybe, n.n}; });
  const Nested r = step(Nested{{w, b}, {w, x}, x, 4});
  CHECK(same(r.p.w, w + 1));
  CHECK(same(r.q[0], x));
  CHECK(same(*r.maybe, x));
  CHECK(r.n == 4);
  step(Nested{{w, b}, {w, x}, x, 4});
  CHECK(step.trace_count() == 1);
  step(Nested{{w, b}, {w, x}, x, 5});  // a number is part of the key
  CHECK(step.trace_count() == 2);

  const auto traced = function("gradient", grad(loss));
  const Params p = traced(Params{w, b}), eager = grad(loss)(Params{w, b});
  CHECK(same(p.w, eager.w));
  CHECK(same(p.b, eager.b));
}

TEST_CASE("clipping gradients in structures") {
  const Params g{tensor({3.f, -4.f}), tensor(12.f)};
  CHECK(global_norm(g).item<float>() == 13);
  const auto [clipped, norm] = clip_by_global_norm(g, 6.5);
  CHECK(norm.item<float>() == 13);
  CHECK(same(clipped.w, tensor({1.5f, -2.f})));
  CHECK(same(clipped.b, tensor(6.f)));
  const Params each = clip_by_norm(g, 2.5);
  CHECK(same(each.w, tensor({1.5f, -2.f})));
  CHECK(same(each.b, tensor(2.5f)));
  const Params bounded = clip_by_value(g, -1, 5);
  CHECK(same(bounded.w, tensor({3.f, -1.f})));
  CHECK(same(bounded.b, tensor(5.f)));
  CHECK(same(clip_by_value(g.w, -1, 1), tensor({1.f, -1.f})));
  CHECK(same(clip_by_norm(std::vector{g.w, g.b}, 2.5)[0], each.w));
  CHECK_THROWS_AS(clip_by_value(g.w, 1, -1), Error);
}

TEST_CASE("a tape's summary lists its ops and what they hold") {
  GradientTape tape;
  const Tensor v = random::normal({64, 64});
  tape.watch(v);
  const Tensor y = tanh(matmul(v, v)) + v;
  const std::string text = tape.summary();
  CHECK(has(text, "matmul                          1          16384"));
  CHECK(has(text, "tanh                            1          16384"));
  CHECK(has(text, "add                             1              0"));
  CHECK(has(text, "total                           3          32768"));
  CHECK(has(text, "test_structures.cpp:"));
  CHECK(tape.gradient(y, v).defined());
}

TEST_CASE("the gradient by a sparse tensor has elements where that has them") {
  const SparseTensor s(tensor({{0, 1}, {1, 0}}), tensor({2.f, 3.f}), {2, 2});
  const auto f = [](const SparseTensor& s) { return sum(square(s.to_dense())); };
  const Tensor wanted = tensor({{0.f, 4.f}, {6.f, 0.f}});
  const auto check = [&](const SparseTensor& g) {
    CHECK(array_equal(g.indices(), s.indices()));
    CHECK(array_equal(g.to_dense(), wanted));
  };
  check(grad(f)(s));
  check(grad(function("f", f))(s));
  check(function("g", [&](const SparseTensor& s) { return grad(f)(s); })(s));
  check(grad([&](const std::vector<SparseTensor>& all) { return f(all[0]); })(std::vector{s})[0]);
  check(vjp(f, s).second(tensor(1.f)));
  check(hvp(f, s, s));
  GradientTape tape;
  tape.watch(s.values());
  CHECK(array_equal(tape.gradient(f(s), s).to_dense(), wanted));
  // An integer tensor of a struct of the user's own is no place.
  const auto [values, count] =
      grad([](const std::pair<Tensor, Tensor>& p) { return sum(square(p.first)); })(std::pair(ones({2}), arange(3)));
  CHECK(array_equal(count, zeros({3}, i64)));
}

TEST_CASE("the gradient of a padded Ragged is that of its values") {
  const Tensor splits = tensor({int64_t(0), int64_t(2), int64_t(2), int64_t(5)});
  const Tensor x = arange(5).astype(f32), wanted = 2 * x;
  const auto f = [&](const Tensor& v) { return sum(square(Ragged{v, {splits}}.padded(tensor(7.f)))); };
  CHECK(array_equal(grad(f)(x), wanted));
  CHECK(array_equal(function("f", [&](const Tensor& v) { return grad(f)(v); })(x), wanted));
  const Ragged g = grad([](const Ragged& r) { return sum(square(r.padded())); })(Ragged{x, {splits}});
  CHECK(array_equal(g.values, wanted));
  CHECK(array_equal(g.row_splits[0], splits));
  CHECK(array_equal(g.padded(), tensor({{0.f, 2.f, 0.f}, {0.f, 0.f, 0.f}, {4.f, 6.f, 8.f}})));
}
