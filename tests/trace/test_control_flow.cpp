// Control flow on data and effects in order: traced must equal eager bit for bit, in values, Variables, prints, errors.
// Gradients are in test_control_gradients.cpp.
#include <unistd.h>

#include <cstdio>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"
#include "rill/trace/passes.h"

using namespace rill;

namespace {

struct State {
  Tensor h, c;
  template <class W>
  void walk(W&& w) {
    w(h, c);
  }
};

}  // namespace

TEST_CASE("print and assert_that, eager and traced, at every call") {
  Tensor x = tensor({1.f, 2.f});
  CHECK(stderr_of([&] { print("x {} {{}} {}", x, 3); }) == "x [1. 2.] {} 3\n");
  CHECK(stderr_of([&] { print(x), print(x, 3, x > 1.5f), print(2.5); }) == "[1. 2.]\n[1. 2.] 3 [False  True]\n2.5\n");
  CHECK(has(message_of([&] { print("{} {}", x); }), "2 {} for 1 tensors"));
  CHECK(has(message_of([&] { print("{", x); }), "single brace"));

  Variable n(tensor(0.f), "n");
  auto f = function("f", [&](const Tensor& v) {
    print("before {}", n);
    n.assign_add(sum(v));
    print("after {}", n);
    Tensor unused = exp(v);
    print("after {}", n);
    assert_that(n.value() < 8, "n stays small", n, v);
    return v * 2;
  });
  int line = __LINE__ - 3;
  auto text = stderr_of([&] { f(x), f(x); });
  CHECK(text == "before 0.0\nafter 3.0\nafter 3.0\nbefore 3.0\nafter 6.0\nafter 6.0\n");
  std::string m;
  stderr_of([&] { m = message_of([&] { f(x); }); });
  CHECK(has(m, "n stays small. values: 9.0, [1. 2.]"));
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(line)));
  CHECK(n.value().item<float>() == 6);
  CHECK(f.trace_count() == 1);
  m = message_of([&] { assert_that(sum(x) < 0, "eager", x); });
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(__LINE__ - 1)));
  CHECK(has(m, "eager. values: [1. 2.]"));
  CHECK(has(message_of([&] { assert_that(x < 0, "a vector"); }), "bool scalar"));
  CHECK(has(to_string(f.graph(spec(f32, {2}))), " after %"));
}

TEST_CASE("a traced print runs once a call under a tape, too") {
  Tensor x = tensor({1.f, 2.f});
  auto f = function("f", [&](const Tensor& v) {
    print("v {}", v);
    return sum(v * v);
  });
  std::string text = stderr_of([&] {
    GradientTape tape;
    tape.watch(x);
    CHECK(array_equal(tape.gradient(f(x), x), 2 * x));
  });
  CHECK(text == "v [1. 2.]\n");
}

// --- Values ----------------------------------------------------------------------------------------------------------

TEST_CASE("cond: captures, structures, Variables, nothing given, nested") {
  Tensor big = random::normal({3, 4});
  Variable n(tensor(0.f), "n");
  auto f = function("f", [&](const Tensor& x) {
    auto [a, b] = cond(
        sum(x) > 0,
        [&] {
          n.assign_add(1);
          return std::pair(x * big, std::vector<Tensor>{big, n});
        },
        [&] {
          n.assign_sub(2);
          return std::pair(tanh(x - big), std::vector<Tensor>{exp(x), n + 1});
        });
    cond(any(x > 1), [&] { n.assign(n * 10); }, [&] {});
    Tensor c = cond(
        x(0, 0) > 0, [&] { return cond(x(0, 1) > 0, [&] { return x; }, [&] { return -x; }); }, [&] { return x * 2; });
    return std::tuple(a, b, c, Tensor(n));
  });
  for (float scale : {1.f, -1.f, 3.f, -3.f}) {
    Tensor x = scale * random::uniform({3, 4});
    CHECK(f.verify(x));
    CHECK(f.verify(x.contiguous()));
  }
  CHECK(f.trace_count() == 1);
}

TEST_CASE("cond converts an integer beside a float, and a loop a whole float: both or an error") {
  auto halve = [](const Tensor& start) {
    return while_loop(
        [](const Tensor& n) { return n > 1; },
        [](const Tensor& n) { return cond(n % 2 == 0, [&] { return n / 2; }, [&] { return 3 * n + 1; }); }, start);
  };
  auto traced = function("halve", halve);
  CHECK(traced.verify(tensor(int64_t{27})));
  CHECK(traced(tensor(int64_t{27})).dtype() == i64);
  auto third = [](const Tensor& start) {
    return while_loop([](const Tensor& n) { return n > 1; }, [](const Tensor& n) { return n / 3; }, start);
  };
  CHECK(third(tensor(9)).item<int>() == 1);
  CHECK(has(message_of([&] { third(tensor(10)); }), "carried value 0 is whole"));
  std::string m = message_of([&] { function("third", third)(tensor(10)); });
  CHECK(has(m, "carried value 0 is whole"));
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(__LINE__ - 6)));
}

TEST_CASE("switch_case") {
  auto f = function("f", [](const Tensor& i, const Tensor& x) {
    Tensor a = switch_case(i, {[&] { return x; }, [&] { return x * x; }, [&] { return -x; }});
    Tensor b = switch_case(i, {[&] { return x + 1; }}, [&] { return x - 1; });
    auto c =
        switch_case<std::pair<Tensor, Tensor>>(i, {[&] { return std::pair(x, a); }, [&] { return std::pair(b, x); }});
    return std::tuple(a, b, c);
  });
  Tensor x = tensor({2.f, 3.f});
  for (int i : {-1, 0, 1, 2, 3}) CHECK(f.verify(tensor(i), x));
  auto at = [&](int i) { return std::get<0>(f(tensor(i), x)); };
  CHECK(array_equal(at(0), x));
  CHECK(array_equal(at(1), x * x));
  CHECK(array_equal(at(7), -x));
  CHECK(array_equal(std::get<1>(f(tensor(5), x)), x - 1));
  CHECK(has(message_of([&] { switch_case(tensor(0.f), {[&] { return x; }}); }), "integer scalar"));
}

TEST_CASE("while_loop: steps, structures, bounds") {
  auto power = [](const Tensor& x, const Tensor& times) {
    return while_loop([](const Tensor&, const Tensor& k) { return k > 0; },
                      [&](const Tensor& y, const Tensor& k) { return std::pair(tanh(y * x), k - 1); }, ones_like(x),
                      times);
  };
  auto f = function("power", power);
  Tensor x = random::normal({5});
  for (int64_t k : {0, 1, 2, 9}) {
    CHECK(f.verify(x, tensor(k)));
    CHECK(std::get<1>(f(x, tensor(k))).item<int64_t>() == 0);
  }
  CHECK(array_equal(std::get<0>(f(x, tensor(int64_t{0}))), ones({5})));
  CHECK(f.trace_count() == 1);

  auto bounded = function("bounded", [](const Tensor& limit) {
    return while_loop([&](const Tensor& k) { return k < limit; }, [](const Tensor& k) { return k + 1; }, 0,
                      {.max_steps = 4});
  });
  CHECK(bounded(tensor(3)).item<int>() == 3);
  CHECK(bounded(tensor(9)).item<int>() == 4);
  CHECK(bounded.verify(tensor(9)));

  using List = std::vector<Tensor>;
  auto swap = function("swap", [](const Tensor& a, const Tensor& b) {
    return while_loop([](const List& s) { return sum(s[2]) < 5; },
                      [](const List& s) { return List{s[1], s[0], s[2] + 1}; }, List{a, b, tensor(0)});
  });
  CHECK(swap.verify(x, x * 2));
  CHECK(array_equal(swap(x, x * 2)[0], x * 2));
}

TEST_CASE("what a loop carries is moved from step to step, not copied") {
  auto f = function("f", [](const Tensor& x) {
    return while_loop([](const Tensor&, const Tensor& k) { return k < 100; },
                      [](const Tensor& y, const Tensor& k) { return std::pair(y, k + 1); }, x, 0);
  });
  Tensor x = random::normal({1000});
  CHECK(std::get<0>(f(x)).rep()->data == x.rep()->data);
}

TEST_CASE("steps compute what is stacked where it is stacked, and what was carried does not hold on to that") {
  const auto run = [](const Tensor& x, bool reverse) {
    const auto step = [](const Tensor& s, const Tensor& row) {
      const Tensor next = tanh(s + row);
      return std::pair(next, std::vector<Tensor>{next, row * 2, exp(s), row});
    };
    return scan(step, zeros({x.dim(1)}), x, {.reverse = reverse});
  };
  for (int64_t width : {16, 5, 64})  // rows at cache lines and others
    for (bool reverse : {false, true}) {
      const Tensor x = random::normal({6, width});
      auto f = function("f", [&](const Tensor& x) { return run(x, reverse); });
      CHECK(f.verify(x));
      const auto [last, ys] = f(x);
      CHECK(array_equal(last, ys[0](reverse ? 0 : 5)));
      for (const Tensor& y : ys) CHECK(last.rep()->buffer.get() != y.rep()->buffer.get());
      const auto loss = [&](const Tensor& x) {
        const auto [last, ys] = run(x, reverse);
        return sum(last * last) + sum(ys[0] * ys[2]);
      };
      CHECK(function("g", [&](const Tensor& x) { return grad(loss)(x); }).verify(x));
      const auto steps = [](const Tensor& x) {
        const auto cond = [](const Tensor&, const Tensor& k) { return k < 4; };
        const auto body = [](const Tensor& y, const Tensor& k) { return std::pair(sin(y) * 2, k + 1); };
        return sum(std::get<0>(while_loop(cond, body, x, 0, {.max_steps = 9})));
      };
      CHECK(function("w", [&](const Tensor& x) { return grad(steps)(x); }).verify(x));
    }
}

TEST_CASE("Variables and random draws in loops and branches") {
  Variable total(tensor(0.f), "total"), count(tensor(0), "count");
  auto f = function("f", [&](const Tensor& xs, const Tensor& limit) {
    Tensor first = random::normal({2});
    while_loop(
        [&](const Tensor& k) {
          count.assign_add(1);
          return k < limit;
        },
        [&](const Tensor& k) {
          total.assign_add(sum(xs) * sum(random::uniform({3})));
          return k + 1;
        },
        0);
    auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          total.assign(total + x);
          return std::pair(c + random::normal({2}), Tensor(total));
        },
        zeros({2}), xs);
    cond(total.value() > 0, [&] { total.assign_add(sum(random::normal({1}))); }, [&] { count.assign(7); });
    return std::tuple(first, last, ys, random::normal({2}), Tensor(total), Tensor(count));
  });
  Tensor xs = tensor({1.f, -2.f, 3.f});
  for (int limit : {0, 1, 3}) CHECK(f.verify(xs, tensor(limit)));
  CHECK(f.verify(-xs, tensor(2)));
  CHECK(f.trace_count() == 1);
}

TEST_CASE("scan: reverse, structures, lengths") {
  Tensor w = random::normal({3, 3});
  auto cell = [&](const Tensor& xs, const Tensor& mask, bool reverse) {
    auto [end, ys] = scan(
        [&](const State& s, const std::pair<Tensor, Tensor>& x) {
          Tensor h = tanh(matmul(s.h, w) + x.first) * x.second;
          return std::pair(State{h, s.c + h}, std::vector<Tensor>{h, sum(s.c)});
        },
        State{zeros({3}), ones({3})}, std::pair(xs, mask), {.reverse = reverse});
    return std::tuple(end.h, end.c, ys);
  };
  auto f = function("f", cell);
  for (bool reverse : {false, true})
    for (int64_t n : {1, 2, 7}) CHECK(f.verify(random::normal({n, 3}), random::uniform({n}), reverse));
  CHECK(f.verify(random::normal({3, 4}).T(), ones({4}), false));
  // No rows: the ys have the shapes that they would have, and no element.
  CHECK(f.verify(zeros({0, 3}), zeros({0}), false));
  auto [h, c, ys] = f(zeros({0, 3}), zeros({0}), true);
  CHECK(array_equal(h, zeros({3})));
  CHECK(ys[0].shape() == Shape{0, 3});
  CHECK(ys[1].shape() == Shape{0});

  auto counted = function("counted", [](const Tensor& x) {
    return scan([](const Tensor& k) { return std::pair(k * 2, k); }, x, {.length = 4});
  });
  auto [end, powers] = counted(tensor(1));
  CHECK(end.item<int>() == 16);
  CHECK(array_equal(powers, tensor({1, 2, 4, 8})));
  CHECK(counted.verify(tensor(3)));

  auto backward = scan([](const Tensor& s, const Tensor& x) { return std::pair(s + x, s); }, 0.f,
                       tensor({1.f, 2.f, 4.f}), {.reverse = true});
  CHECK(array_equal(backward.second, tensor({6.f, 4.f, 0.f})));
}

TEST_CASE("effects in bodies run in order, at each step") {
  auto run = [](const Tensor& n) {
    print("start");
    Tensor end = while_loop(
        [](const Tensor& k) {
          print("{}?", k);
          return k < 3;
        },
        [&](const Tensor& k) {
          cond(k == 1, [&] { print("one of {}", n); }, [&] { print("not one"); });
          assert_that(k < n, "k stays below n", k, n);
          return k + 1;
        },
        0);
    scan([](const Tensor& c, const Tensor& x) { return print("x {}", x), std::pair(c, x); }, 0, tensor({5, 6}));
    print("end");
    return end;
  };
  auto f = function("f", run);
  std::string eager = stderr_of([&] { run(tensor(3)); });
  CHECK(eager == "start\n0?\nnot one\n1?\none of 3\n2?\nnot one\n3?\nx 5\nx 6\nend\n");
  CHECK(stderr_of([&] { f(tensor(3)); }) == eager);
  CHECK(stderr_of([&] { f(tensor(3)); }) == eager);
  std::string m;
  CHECK(stderr_of([&] { m = message_of([&] { f(tensor(2)); }); }) ==
        stderr_of([&] { message_of([&] { run(tensor(2)); }); }));
  CHECK(has(m, "k stays below n. values: 2, 2"));
}

// --- Errors ----------------------------------------------------------------------------------------------------------

TEST_CASE("errors name what differs and the caller's line") {
  Tensor x = ones({2});
  auto traced = [&](auto body) {
    return message_of([&] { function("f", [&](const Tensor& v) { return body(v); })(x); });
  };
  std::string m = traced([](const Tensor& v) { return cond(sum(v) > 0, [&] { return v; }, [&] { return sum(v); }); });
  CHECK(has(m, "then gives (f32[2]) and else gives (f32[])"));
  CHECK(has(m, "test_control_flow.cpp:" + std::to_string(__LINE__ - 2)));
  m = traced([](const Tensor& v) { return cond(sum(v) > 0, [&] { return v > 0; }, [&] { return v; }); });
  CHECK(has(m, "then gives (bool[2]) and else gives (f32[2])"));
  m = traced([](const Tensor& v) {
    return cond(sum(v) > 0, [&] { return std::vector<Tensor>{v}; }, [&] { return std::vector<Tensor>{v, v}; })[0];
  });
  CHECK(has(m, "then gives (f32[2]) and else gives (f32[2], f32[2])"));
  auto wrong = [](const Tensor& v) { return cond(v > 0, [&] { return v; }, [&] { return -v; }); };
  CHECK(has(traced(wrong), "the condition is bool[2] and must be a bool scalar"));
  CHECK(has(message_of([&] { wrong(x); }), "the condition is bool[2] and must be a bool scalar"));
  CHECK(has(message_of([&] { cond(sum(x), [] {}, [] {}); }), "the condition is f32[]"));

  auto grows = [](const Tensor& v) {
    return while_loop([](const Tensor& a) { return sum(a) < 9; }, [](const Tensor& a) { return concat({a, a}); }, v);
  };
  int line = __LINE__ - 2;
  for (const std::string& text : {traced(grows), message_of([&] { grows(x); })}) {
    CHECK(has(text, "[while_loop] carried value 0 is f32[2] before a step and f32[4] after it"));
    CHECK(has(text, "test_control_flow.cpp:" + std::to_string(line)));
  }
  auto widens = [](const Tensor& v) {
    return scan([](const Tensor& c, const Tensor& r) { return std::pair(c.astype(f64) + r, r); }, 0.f, v).first;
  };
  for (const std::string& text : {traced(widens), message_of([&] { widens(x); })})
    CHECK(has(text, "[scan] carried value 0 is f32[] before a step and f64[] after it"));
  CHECK(has(message_of([&] {
              scan([](const Tensor& c, const std::pair<Tensor, Tensor>& r) { return std::pair(c, r.first); }, 0.f,
                   std::pair(x, ones({3})));
            }),
            "tensor 1 of xs is f32[3], and tensor 0 has 2 rows"));
  CHECK(has(
      message_of([&] { scan([](const Tensor& c, const Tensor&) { return std::pair(c, c); }, 0.f, x, {.length = 5}); }),
      "the length asks for 5 rows"));
  CHECK(
      has(message_of([&] { scan([](const Tensor& c) { return std::pair(c, c); }, 0.f, ScanOptions{}); }), "no length"));
  CHECK(has(traced([](const Tensor& v) { return cond(v(0).item<float>() > 0, [&] { return v; }, [&] { return v; }); }),
            "item() reads"));
  Tensor leaked;
  m = traced([&](const Tensor& v) {
    cond(sum(v) > 0, [&] { leaked = v * 2; }, [] {});
    return leaked + v;
  });
  CHECK(has(m, "branch or loop body"));
  // After an error nothing is left behind.
  CHECK(executing_eagerly());
}

// --- The graph -------------------------------------------------------------------------------------------------------

TEST_CASE("graphs show what is inside and in which order effects run; passes keep both") {
  auto f = function("f", [](const Tensor& x) {
    NameScope scope("layer");
    cond(sum(x) > 0, [&] { print("a"); }, [] {});                 // has no value, and an effect
    cond(sum(x) > 0, [&] { return exp(x); }, [&] { return x; });  // has neither
    print("b");
    print("b");
    return cond(sum(x) > 0, [&] { return tanh(x); }, [&] { return x; });
  });
  Graph g = f.graph(spec(f32, {2}));
  Graph o = optimize(g);
  verify(o);
  size_t conds = 0, prints = 0, sums = 0;
  for (const Node& n : o.nodes())
    conds += n.op_name() == "cond", prints += n.op_name() == "print", sums += n.op_name() == "sum";
  CHECK(conds == 2);
  CHECK(prints == 2);
  CHECK(sums == 1);
  std::string text = to_string(g);
  CHECK(has(text, "    then:"));
  CHECK(has(text, "      %1 = tanh("));
  CHECK(has(text, "      %0 = print() {format=a}"));
  CHECK(has(text, "print() {format=b} after %"));
  std::vector<int32_t> after = control_dependencies(o);
  int32_t latest = -1, chained = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    if (!has_effect(o.nodes()[i])) continue;
    CHECK(after[i] == latest);
    latest = int32_t(i);
    ++chained;
  }
  CHECK(chained == 3);
}

TEST_CASE("fusion keeps the order of effects") {
  jit::Mode before = jit::mode();
  jit::set_mode(jit::Mode::wait);
  auto body = [](const Tensor& x, const Tensor& w) {
    Tensor a = tanh(x), s = a * 2;
    print("a {}", a);         // belongs to a kernel that waits for c,
    Tensor c = matmul(x, w);  // which is made later,
    print("x {}", x);         // and must still come before this
    Tensor y = s + c + sin(a);
    assert_that(all(y == y), "y has no NaN", y);
    print("y {}", y);
    return y * a;
  };
  auto f = function("f", body);
  Tensor x = tensor({0.f, 1.f}), w = eye(2);
  std::string eager = stderr_of([&] { body(x, w); });
  for (int i = 0; i < 3; ++i) CHECK(stderr_of([&] { f(x, w); }) == eager);
  CHECK(has(eager, "x [0. 1.]\ny"));
  jit::set_mode(before);
}

TEST_CASE("open sizes go through control flow") {
  int traces = 0;
  auto f = function("f",
                    [&](const Tensor& xs) {
                      ++traces;
                      auto [total, ys] = scan([](const Tensor& c, const Tensor& r) { return std::pair(c + r, c * r); },
                                              zeros({3}), xs);
                      Tensor y = cond(sum(xs) > 0, [&] { return tanh(xs) + ys; }, [&] { return xs * 2; });
                      Tensor z = while_loop([](const Tensor& v) { return sum(v * v) < 40; },
                                            [](const Tensor& v) { return v * 2; }, y, {.max_steps = 12});
                      return std::tuple(total, z);
                    },
                    {.signature = {spec(f32, {any, 3})}});
  for (int64_t n : {4, 1, 9}) {
    Tensor xs = random::normal({n, 3});
    CHECK(std::get<1>(f(xs)).shape() == Shape{n, 3});
    CHECK(f.verify(xs));
  }
  CHECK(f.trace_count() == 1);
}

TEST_CASE("ways to call: options by name, scalars and Variables carried, six values, branches that give nothing") {
  Variable v(tensor(2.f), "v");
  auto f = function("f", [&](const Tensor& n) {
    auto [a, b] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                             [](const Tensor& i, const Tensor& x) { return std::pair(i + 1, x * 2); }, 0, v,
                             WhileOptions{.max_steps = 3});
    auto six = while_loop([](const Tensor& i, const auto&...) { return i < 2; },
                          [](const Tensor& i, const Tensor& p, const Tensor& q, const Tensor& r, const Tensor& s,
                             const Tensor& t) { return std::tuple(i + 1, q, r, s, t, p); },
                          0, 1, 2, 3, 4, 5, {.max_steps = 9});
    switch_case<void>(n, {[&] { v.assign_add(1); }, [&] { v.assign_add(2); }}, [&] { v.assign(0.5f); });
    return std::tuple(a, b, std::get<1>(six), Tensor(v));
  });
  for (int n : {0, 1, 5}) CHECK(f.verify(tensor(n)));
  auto [a, b, third, now] = f(tensor(5));
  CHECK(a.item<int>() == 3);
  CHECK(third.item<int>() == 3);
  CHECK(now.item<float>() == 0.5f);
}
