// The known ways in which a JIT goes wrong, one case each. Most run on both tiers: the eager kernels, and compiled
// ones.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "catch.h"
#include "child.h"
#include "messages.h"
#include "needs.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {

// Makes functions that this scope traces run on eager kernels, or wait for compiled ones.
struct Tier {
  explicit Tier(jit::Mode m) : before(jit::mode()) { jit::set_mode(m); }
  ~Tier() { jit::set_mode(before); }
  jit::Mode before;
};
#define ON_BOTH_TIERS() Tier tier(GENERATE(jit::Mode::off, jit::Mode::wait))

Tensor normal(const Shape& s, uint64_t key = 1) { return random::normal(s, {.key = random::Key(key)}); }
Tensor chain(const Tensor& x, const Tensor& y) { return tanh(x * y + 1) * 0.5f - x; }

}  // namespace

// --- Aliases ---------------------------------------------------------------------------------------------------------

TEST_CASE("aliases: one tensor as two arguments") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x, const Tensor& y) { return std::pair(chain(x, y), x - y); });
  f(normal({70}), normal({70}, 2));
  Tensor x = normal({70}, 3), before = x + 0;
  auto [a, b] = f(x, x);
  CHECK(same_bits(a, chain(x, x)));
  CHECK(same_bits(b, zeros({70})));
  CHECK(same_bits(x, before));
  CHECK(f.trace_count() == 1);
}

TEST_CASE("aliases: two overlapping views as arguments") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x, const Tensor& y) { return chain(x, y); });
  Tensor x = normal({100});
  Tensor low = x(slice(0, 60)), high = x(slice(20, 80)), back = reverse(low);
  CHECK(same_bits(f(low, high), chain(low, high)));
  CHECK(same_bits(f(low, back), chain(low, back)));
  CHECK(same_bits(f(broadcast_to(x(3), {60}), low), chain(broadcast_to(x(3), {60}), low)));
}

TEST_CASE("aliases: an argument that is captured too") {
  ON_BOTH_TIERS();
  Tensor x = normal({40});
  auto f = function("f", [&](const Tensor& y) { return chain(x, y) + x; });
  CHECK(same_bits(f(x), chain(x, x) + x));
  CHECK(same_bits(f(x * 2), chain(x, x * 2) + x));
}

TEST_CASE("aliases: an argument that is a Variable's value, which the call updates") {
  ON_BOTH_TIERS();
  Variable w(normal({40}), "w");
  auto f = function("f", [&](const Tensor& x) {
    w.assign_add(x);
    return x * 2 + w;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor held = w, before = held + 0;
    Tensor y = f(held);
    CHECK(same_bits(held, before));
    CHECK(same_bits(w, before + before));
    CHECK(same_bits(y, before * 2 + (before + before)));
  }
}

TEST_CASE("aliases: an input returned, returned twice, and not written") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x) { return std::tuple(x, chain(x, x), x, transpose(x)); });
  Tensor x = normal({6, 7}), before = x + 0;
  auto [a, b, c, d] = f(x);
  f(normal({6, 7}, 9));
  CHECK(same_bits(a, before));
  CHECK(same_bits(b, chain(before, before)));
  CHECK(same_bits(c, before));
  CHECK(same_bits(d, before.T()));
  CHECK(same_bits(x, before));
}

TEST_CASE("aliases: one value returned twice, and two views of one value") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x) {
    Tensor y = chain(x, x);
    return std::tuple(y, y, y(slice(0, 3)), transpose(y), exp(y));
  });
  Tensor x = normal({6, 7}), want = chain(x, x);
  auto [a, b, c, d, e] = f(x);
  f(x * 3);
  CHECK(same_bits(a, want));
  CHECK(same_bits(b, want));
  CHECK(same_bits(c, want(slice(0, 3))));
  CHECK(same_bits(d, want.T()));
  CHECK(same_bits(e, exp(want)));
  // They are values: an update of one in the caller's hands shows in no other.
  Tensor changed = std::move(a).at(0, 0).set(99);
  CHECK(same_bits(b, want));
}

TEST_CASE("aliases: results kept across calls never change") {
  ON_BOTH_TIERS();
  Variable w(normal({50}), "w");
  auto f = function("f", [&](const Tensor& x) {
    w.assign(w * 0.5f + x);
    return std::pair(w.value(), sum(w * w));
  });
  std::vector<Tensor> kept, copies;
  for (int i = 0; i < 20; ++i) {
    auto [value, total] = f(normal({50}, uint64_t(i)));
    kept.push_back(value), copies.push_back(value + 0);
    kept.push_back(total), copies.push_back(total + 0);
  }
  for (size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], copies[i]));
}

// --- Variables -------------------------------------------------------------------------------------------------------

TEST_CASE("variables: swapped, and assigned from each other in turn") {
  ON_BOTH_TIERS();
  Variable a(full({3}, 1.f), "a"), b(full({3}, 2.f), "b"), c(full({3}, 3.f), "c");
  auto turn = function("turn", [&](const Tensor&) {
    Tensor old = a;
    a.assign(b), b.assign(c), c.assign(old);
  });
  for (int i = 0; i < 4; ++i) turn(ones({1}));
  CHECK(same_bits(a, full({3}, 2.f)));
  CHECK(same_bits(b, full({3}, 3.f)));
  CHECK(same_bits(c, full({3}, 1.f)));
}

TEST_CASE("variables: two that share a value after an assignment go apart again") {
  ON_BOTH_TIERS();
  Variable a(full({3}, 1.f), "a"), b(full({3}, 2.f), "b");
  auto share = function("share", [&](const Tensor& x) {
    Tensor y = x * 2;
    a.assign(y), b.assign(y);
  });
  share(full({3}, 5.f));
  a.assign_add(full({3}, 1.f));
  CHECK(same_bits(a, full({3}, 11.f)));
  CHECK(same_bits(b, full({3}, 10.f)));
}

TEST_CASE("variables: assigned twice, and read between") {
  ON_BOTH_TIERS();
  Variable v(full({9}, 1.f), "v");
  auto f = function("f", [&](const Tensor& x) {
    Tensor first = v * x;
    v.assign(first);
    Tensor second = v + 1;
    v.assign_add(second);
    return std::tuple(first, second, v.value());
  });
  Tensor value = full({9}, 1.f);
  for (int i = 0; i < 3; ++i) {
    Tensor x = normal({9}, uint64_t(i)), one = value * x, two = one + 1;
    auto [a, b, c] = f(x);
    value = one + two;
    CHECK(same_bits(a, one));
    CHECK(same_bits(b, two));
    CHECK(same_bits(c, value));
    CHECK(same_bits(v, value));
  }
}

TEST_CASE("variables: assigned an argument, a view of one, a view of itself, a broadcast") {
  ON_BOTH_TIERS();
  Variable v(normal({5, 5}), "v"), u(normal({5, 5}), "u");
  auto assign = function("assign", [&](const Tensor& x) { v.assign(x), u.assign(transpose(x)); });
  Tensor x = normal({5, 5}, 2), before = x + 0;
  assign(x);
  v.assign_add(ones({5, 5}));  // in place where v alone holds its value
  u.assign_add(ones({5, 5}));
  CHECK(same_bits(x, before));
  CHECK(same_bits(v, before + 1));
  CHECK(same_bits(u, before.T() + 1));

  auto turn = function("turn", [&](const Tensor&) {
    v.assign(reverse(v));
    u.assign(transpose(u));
  });
  turn(x), turn(x), turn(x);
  CHECK(same_bits(v, reverse(before + 1)));
  CHECK(same_bits(u, before + 1));

  auto fill = function("fill", [&](const Tensor& row) { v.assign(row); });
  fill(normal({5}, 4));
  v.assign_add(ones({5, 5}));
  CHECK(same_bits(v, broadcast_to(normal({5}, 4), {5, 5}) + 1));
}

TEST_CASE("variables: a value read before a call is not the one that the call makes") {
  ON_BOTH_TIERS();
  Variable v(full({64}, 1.f), "v");
  auto step = function("step", [&](const Tensor& x) { v.assign_sub(x * 0.5f); });
  std::vector<Tensor> seen;
  for (int i = 0; i < 5; ++i) {
    seen.push_back(v);
    step(ones({64}));
  }
  for (int i = 0; i < 5; ++i) CHECK(same_bits(seen[size_t(i)], full({64}, 1 - 0.5f * float(i))));
}

TEST_CASE("variables: a result that is the Variable's value stays when the next call updates it") {
  ON_BOTH_TIERS();
  Variable v(full({64}, 1.f), "v");
  auto step = function("step", [&](const Tensor& x) {
    v.assign_add(x);
    return v.value();
  });
  Tensor first = step(ones({64})), second = step(ones({64}));
  v.assign_add(ones({64}));
  CHECK(same_bits(first, full({64}, 2.f)));
  CHECK(same_bits(second, full({64}, 3.f)));
  CHECK(same_bits(v, full({64}, 4.f)));
}

TEST_CASE("variables: adding to a bool one is `or`, subtracting an error, eager and traced") {
  ON_BOTH_TIERS();
  Variable v(tensor({true, false, false}), "v");
  auto add = function("add", [&](const Tensor& x) { v.assign_add(x); });
  auto subtract = function("subtract", [&](const Tensor& x) { v.assign_sub(x); });
  Tensor x = tensor({true, true, false});
  auto words = [](const std::string& m) { return m.substr(std::min(m.size(), m.find('['))); };
  v.assign_add(x);
  CHECK(same_bits(v, x));
  v.assign(tensor({false, false, false}));
  add(x);
  CHECK(same_bits(v, x));
  std::string eager = message_of([&] { v.assign_sub(x); });
  CHECK(has(eager, "bool"));
  CHECK(words(eager) == words(message_of([&] { subtract(x); })));
  CHECK(same_bits(v, x));
}

TEST_CASE("variables: assigned outside between calls") {
  ON_BOTH_TIERS();
  Variable v(full({8}, 1.f), "v");
  auto f = function("f", [&](const Tensor& x) { return chain(x, v); });
  Tensor x = normal({8});
  CHECK(same_bits(f(x), chain(x, v)));
  v.assign(normal({8}, 7));
  CHECK(same_bits(f(x), chain(x, normal({8}, 7))));
  CHECK(f.trace_count() == 1);
}

// --- Sizes, constants, captured tensors ------------------------------------------------------------------------------

TEST_CASE("zero sizes and scalars") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x) {
    return std::tuple(chain(x, x), sum(x * 2), mean(x * x), softmax(x * 2, -1), sum(x * 3, 0), max(x * 2, -1));
  });
  for (Shape s : {Shape{0, 3}, Shape{3, 1}, Shape{1, 1}, Shape{2, 0, 4}}) {
    Tensor x = normal(s);
    auto [a, b, c, d, e, g] = f(x);
    CHECK(same_bits(a, chain(x, x)));
    CHECK(same_bits(b, sum(x * 2)));
    CHECK((same_bits(c, mean(x * x)) || (x.size() == 0 && isnan(c).item<bool>())));
    CHECK(same_bits(d, softmax(x * 2, -1)));
    CHECK(same_bits(e, sum(x * 3, 0)));
    CHECK(same_bits(g, max(x * 2, -1)));
  }
  auto scalar = function("scalar", [](const Tensor& x) { return chain(x, x) + sum(x); });
  for (Tensor x : {tensor(0.3f), tensor(-2.f)}) CHECK(same_bits(scalar(x), chain(x, x) + sum(x)));
  auto weak = function("weak", [](const Tensor& x, const Tensor& y) { return x * y + 1; });
  CHECK(weak(2, tensor({1.0, 2.0})).dtype() == f64);  // a C++ scalar as an argument stays weak
  CHECK(weak(tensor(2.f), tensor({1.f, 2.f})).dtype() == f32);
}

TEST_CASE("constants that are folded keep dtype, sign of zero and NaN") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x) {
    Tensor zero = -zeros({3}), nan = zeros({3}) / zeros({3});
    Tensor table = sqrt(arange(3).astype(f64)) + 1;
    return std::tuple(x * zero, x + nan, x.astype(f64) * table, copysign(ones({3}), zero));
  });
  auto [a, b, c, d] = f(ones({3}));
  CHECK(same_bits(a, -zeros({3})));
  CHECK(all(isnan(b)).item<bool>());
  CHECK(same_bits(c, sqrt(arange(3).astype(f64)) + 1));
  CHECK(same_bits(d, -ones({3})));
}

TEST_CASE("a captured tensor is the one of the trace, whatever its C++ holder holds later") {
  ON_BOTH_TIERS();
  Tensor holder = normal({20});
  const Tensor first = holder;
  auto f = function("f", [&](const Tensor& x) { return chain(x, holder); });
  Tensor x = normal({20}, 2);
  CHECK(same_bits(f(x), chain(x, first)));
  holder = normal({20}, 3);
  CHECK(same_bits(f(x), chain(x, first)));
  holder = holder.at(0).set(1);
  CHECK(same_bits(f(x), chain(x, first)));
  holder = Tensor();
  CHECK(same_bits(f(x), chain(x, first)));
}

// --- Exceptions ------------------------------------------------------------------------------------------------------

TEST_CASE("exceptions: in the middle of a trace nothing has happened") {
  ON_BOTH_TIERS();
  Variable v(full({2}, 1.f), "v");
  bool bad = true;
  auto f = function("f", [&](const Tensor& x) {
    v.assign(x);
    Tensor drawn = random::uniform({2});
    if (bad) throw std::runtime_error("mine");
    return drawn;
  });
  random::seed(4);
  CHECK(message_of([&] { f(zeros({2})); }) == "mine");
  CHECK(executing_eagerly());
  CHECK(same_bits(v, full({2}, 1.f)));
  bad = false;
  Tensor drawn = f(zeros({2}));
  random::seed(4);
  CHECK(same_bits(drawn, random::uniform({2})));
  CHECK(same_bits(v, zeros({2})));
  CHECK(f.trace_count() == 1);
}

TEST_CASE("exceptions: in the middle of a replay no Variable is written, also where nobody else holds its value") {
  ON_BOTH_TIERS();
  Variable v(full({2}, 1.f), "v");
  auto f = function("f", [&](const Tensor& x, const Tensor& labels) {
    v.assign_add(ones({2}));
    return sparse_softmax_cross_entropy(x * 2 + sum(v), labels);
  });
  Tensor x = normal({2, 3}), good = tensor<int64_t>({0, 2}), wrong = tensor<int64_t>({0, 3});
  f(x, good);
  for (int i = 0; i < 3; ++i) CHECK(has(message_of([&] { f(x, wrong); }), "3"));
  CHECK(same_bits(v, full({2}, 2.f)));
  f(x, good);
  CHECK(same_bits(v, full({2}, 3.f)));
}

TEST_CASE("exceptions: in the middle of a replay no Variable is written") {
  ON_BOTH_TIERS();
  Variable v(full({2}, 1.f), "v"), u(full({2}, 1.f), "u");
  auto f = function("f", [&](const Tensor& x, const Tensor& labels) {
    v.assign_add(ones({2}));
    Tensor loss = sparse_softmax_cross_entropy(x * 2, labels);  // throws on a label that is no class
    u.assign_add(ones({2}) * sum(loss) * 0.f + 1);
    return loss;
  });
  Tensor x = normal({2, 3}), good = tensor<int64_t>({0, 2}), wrong = tensor<int64_t>({0, 3});
  f(x, good);
  Tensor held = v;
  for (int i = 0; i < 3; ++i) CHECK(has(message_of([&] { f(x, wrong); }), "3"));
  CHECK(same_bits(v, full({2}, 2.f)));
  CHECK(same_bits(u, full({2}, 2.f)));
  Tensor loss = f(x, good);
  CHECK(same_bits(loss, sparse_softmax_cross_entropy(x * 2, good)));
  CHECK(same_bits(v, full({2}, 3.f)));
  CHECK(same_bits(held, full({2}, 2.f)));
}

// --- Functions in functions ------------------------------------------------------------------------------------------

TEST_CASE("nested functions are inlined, and may be called alone as well") {
  ON_BOTH_TIERS();
  auto inner = function("inner", [](const Tensor& x) { return chain(x, x); });
  auto outer = function("outer", [&](const Tensor& x) { return inner(x) * inner(x + 1); });
  Tensor x = normal({30});
  CHECK(same_bits(outer(x), chain(x, x) * chain(x + 1, x + 1)));
  CHECK(inner.trace_count() == 0);
  CHECK(same_bits(inner(x), chain(x, x)));
  CHECK(inner.trace_count() == 1);
}

TEST_CASE("recursion is an error that names the cycle, and leaves all usable") {
  ON_BOTH_TIERS();
  std::function<Tensor(const Tensor&)> back;
  bool go = true;
  auto ping = function("ping", [&](const Tensor& x) { return go ? back(x) : x + 1; });
  auto pong = function("pong", [&](const Tensor& x) { return ping(x) * 2; });
  back = [&](const Tensor& x) { return pong(x); };
  CHECK(has(message_of([&] { ping(ones({2})); }), "ping -> pong -> ping"));
  CHECK(executing_eagerly());
  go = false;
  CHECK(same_bits(pong(ones({2})), full({2}, 4.f)));
}

TEST_CASE("re-entrance: another function runs, and traces, in the middle of a trace") {
  ON_BOTH_TIERS();
  auto table = function("table", [](const Tensor& x) { return chain(x, x) + 1; });
  auto f = function("f", [&](const Tensor&) {
    EagerScope now;  // what is made here is a constant of the trace
    Tensor t = table(normal({30}));
    return t;
  });
  CHECK(same_bits(f(ones({30})), chain(normal({30}), normal({30})) + 1));
  CHECK(table.trace_count() == 1);
}

TEST_CASE("gradients of a call round as eager ones, where the trace shares a subexpression") {
  ON_BOTH_TIERS();
  // Two casts of one value are one after sharing; their cotangents are added in f16, each rounded, all the same.
  auto body = [](const Tensor& x) {
    Tensor h = x.astype(f16);
    return (h * x) * (h * exp(x));
  };
  auto f = function("f", [&](const Tensor& x) { return body(x); });
  Tensor x = random::normal({500}, {.dtype = f64, .key = random::Key(3)});
  auto gradient_of = [&](auto&& g) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(g(x), x);
  };
  CHECK(same_bits(gradient_of(f), gradient_of(body)));
}

TEST_CASE("re-entrance: the backward of a call compiles while its own trace is open; half-precision constants") {
  Tier tier(jit::Mode::wait);
  auto body = [](const Tensor& x) { return tanh(x * 0.3) + 1.5; };
  auto f = function("f", [&](const Tensor& x) { return body(x); });
  Tensor x = normal({7}).astype(bf16);
  auto gradient_of = [&](auto&& g) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(g(x), x);
  };
  CHECK(same_bits(gradient_of(f), gradient_of(body)));
}

TEST_CASE("re-entrance: a function in the backward of a call of itself") {
  ON_BOTH_TIERS();
  auto f = function("f", [](const Tensor& x) { return chain(x, x); });
  Tensor x = normal({30});
  auto twice = [&](auto&& g) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    Tensor y = g(x);
    Tensor dx = inner.gradient(y, x);
    return outer.gradient(sum(dx * g(dx)), x);
  };
  // To the outer tape each call is one entry, so that sums of cotangents associate in another way.
  CHECK(allclose(twice(f), twice([](const Tensor& v) { return chain(v, v); })));
}

// --- Threads and time ------------------------------------------------------------------------------------------------

TEST_CASE("every call has the same bits while the compiler works and after") {
  Tier tier(jit::Mode::tiered);
  Variable w(normal({33, 40}), "w"), eager_w(normal({33, 40}), "w");
  auto body = [](const Tensor& x, Variable& w) {
    Tensor y = softmax(gelu(x * w) + 1, -1);
    w.assign(w * 0.99f + mean(y, 0, true) * x);
    return std::pair(y, sum(square(w), 0));
  };
  auto f = function("f", [&](const Tensor& x) { return body(x, w); });
  int wrong = 0;
  for (int i = 0; i < 400; ++i) {
    Tensor x = normal({33, 40}, uint64_t(i));
    auto [a, b] = f(x);
    auto [c, d] = body(x, eager_w);
    wrong += !same_bits(a, c) || !same_bits(b, d) || !same_bits(w, eager_w);
    if (i == 300) jit::wait();
  }
  CHECK(wrong == 0);
  if (has_compiler()) CHECK(has(f.explain(), "compiled"));
}

TEST_CASE("a function may be destroyed while its kernels compile") {
  Tier tier(jit::Mode::tiered);
  for (int i = 0; i < 60; ++i) {
    Tensor x = normal({i + 2, 5});
    auto f = function("f", [i](const Tensor& v) { return chain(v * float(i + 0.125), v) + float(i); });
    CHECK(same_bits(f(x), chain(x * float(i + 0.125), x) + float(i)));
  }
  jit::wait();
}

TEST_CASE("many threads call while the compiler works") {
  Tier tier(jit::Mode::tiered);
  auto body = [](const Tensor& x) { return std::pair(log_softmax(tanh(x) * 3 + x, -1), sum(exp(x), 0)); };
  auto f = function("f", [&](const Tensor& x) { return body(x); });
  std::vector<Tensor> inputs;
  std::vector<std::pair<Tensor, Tensor>> wanted;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(normal({20 + i, 50}));
    wanted.push_back(body(inputs.back()));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 150; ++i) {
        const size_t k = size_t(i + t) % 3;
        auto [a, b] = f(inputs[k]);
        wrong += !same_bits(a, wanted[k].first) || !same_bits(b, wanted[k].second);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.trace_count() == 3);
  jit::wait();
}

TEST_CASE("many threads step one Variable: no update is torn") {
  ON_BOTH_TIERS();
  Variable v(zeros({500}), "v");
  auto step = function("step", [&](const Tensor& x) {
    v.assign(v * 0 + x);
    return sum(v * 1);
  });
  step(ones({500}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      Tensor mine = full({500}, float(t));
      for (int i = 0; i < 100; ++i) {
        wrong += step(mine).item<float>() != float(500 * t);
        Tensor seen = v;
        wrong += max(seen).item<float>() != min(seen).item<float>();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

// --- Other processes -------------------------------------------------------------------------------------------------

TEST_CASE("child: says what it ran on", "[.]") {
  auto f = function("f", [](const Tensor& x) { return chain(x, x); });
  Tensor x = normal({40});
  CHECK(same_bits(f(x), chain(x, x)));
  CHECK(same_bits(f(x), chain(x, x)));
  std::printf("%s", f.explain().c_str());
}

TEST_CASE("child: ends while kernels compile", "[.]") {
  std::vector<std::function<void()>> calls;
  for (int i = 0; i < 30; ++i) {
    auto f = function("f", [i](const Tensor& x) { return softmax(chain(x, x * float(i) * 0.37f), -1) + float(i); });
    calls.push_back([f] { f(normal({4, 5})); });
    calls.back()();
  }
  CHECK(calls.size() == 30);
  std::exit(7);  // with the compiler busy; the functions here are never destroyed
}

TEST_CASE("RILL_JIT=off is right, and explain() says so") {
  std::string out;
  CHECK(child("RILL_JIT=off", "child: says what it ran on", out) == 0);
  INFO(out);
  CHECK(has(out, "eager kernels: "));
  CHECK(has(out, "off"));
}

TEST_CASE("RILL_JIT=wait has compiled when the first call returns") {
  if (!has_compiler()) return;
  std::string out;
  CHECK(child("RILL_JIT=wait", "child: says what it ran on", out) == 0);
  INFO(out);
  CHECK(has(out, "compiled"));
  CHECK(has(out, "fused("));
}

TEST_CASE("a process may end while kernels compile") {
  std::string out;
  char folder[] = "/tmp/rill_test_XXXXXX";  // an empty cache, so that there is work to do
  REQUIRE(mkdtemp(folder));
  for (int i = 0; i < 5; ++i) {
    CHECK(child("RILL_CACHE_DIR=" + std::string(folder), "child: ends while kernels compile", out) == 7);
    INFO(out);
    CHECK(!has(out, "terminate"));
  }
  std::filesystem::remove_all(folder);
}
