// Traced functions: what is traced when, what a replay costs, what it gives, and the mistakes that JITs invite.
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/rill.h"
#include "rill/trace/passes.h"
#include "rill/trace/run/executable.h"

using namespace rill;

namespace {

size_t count(const Graph& g, std::string_view op) {
  size_t n = 0;
  for (const Node& node : g.nodes()) n += node.op_name() == op;
  return n;
}
}  // namespace

TEST_CASE("passes: dead code, constants, common subexpressions") {
  auto f = function("f", [](const Tensor& x) {
    Tensor unused = exp(x);
    Tensor constant = sqrt(full({3}, 4.f)) + 1;  // known while tracing
    return sin(x) + sin(x) * constant;
  });
  Graph g = f.graph(spec(f32, {3}));
  CHECK(count(g, "exp") == 0);  // graph() drops what nothing needs
  CHECK(count(g, "sin") == 2);
  Graph o = optimize(g);
  verify(o);
  CHECK(count(o, "sin") == 1);
  CHECK(count(o, "sqrt") == 0);
  CHECK(Executable(o).kernel_count() == 3);  // sin, multiply, add
}

TEST_CASE("what depends on open sizes is no constant to optimize()") {
  const std::vector<std::function<Tensor(const Tensor&)>> all = {
      [](const Tensor& x) { return x + sum(full({x.dim(0), x.dim(1)}, 2.f)); },
      [](const Tensor& x) { return x + sum(arange(x.dim(0)).astype(f32)); },
      [](const Tensor& x) { return matmul(eye(x.dim(0)) * 2, x); },
      [](const Tensor& x) { return x + zeros_like(x) + ones({x.dim(0), 1}); }};
  const auto graph_of = [](const auto& body) {
    return function("f", body, {.signature = {spec(f32, {any, any})}}).graph(spec(f32, {any, any}));
  };
  for (const auto& body : all) {
    const Graph g = graph_of(body), o = optimize(g);
    for (const char* op : {"full", "iota", "sum"}) CHECK(count(o, op) == count(g, op));
  }
  const auto gradient = grad([](const Tensor& t) { return sum(t * t); });
  CHECK_NOTHROW(optimize(graph_of([&](const Tensor& x) { return gradient(x); })));
}

TEST_CASE("a chain runs in one buffer of the arena") {
  auto f = function("chain", [](const Tensor& x) { return sum(tanh(exp(sin(x * 2) + 1) * 3)); });
  Executable e(optimize(f.graph(spec(f32, {1000}))));
  CHECK(e.plan().arena_bytes == 4032);  // 1000 floats, rounded up to 64 bytes
  CHECK(e.plan().in_place == 5);
}

TEST_CASE("a replay allocates its outputs and nothing else") {
  auto f = function("f", [](const Tensor& x) { return sum(tanh(x * 2) + exp(x), 0); });
  Tensor x = random::normal({64, 64});
  f(x);
  size_t before = memory_stats("cpu:0").allocations;
  Tensor y = f(x);
  CHECK(memory_stats("cpu:0").allocations == before + 1);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("structures of arguments and results") {
  auto f = function("f", [](std::map<std::string, Tensor> in, std::optional<Tensor> bias, std::string mode) {
    Tensor y = in.at("a") * in.at("b");
    if (bias) y = y + *bias;
    return std::map<std::string, Tensor>{{mode, y}, {"twice", y * 2}};
  });
  auto out = f({{"a", tensor(2.f)}, {"b", tensor(3.f)}}, tensor(1.f), "sum");
  CHECK(out.at("sum").item<float>() == 7);
  CHECK(out.at("twice").item<float>() == 14);
  CHECK(f({{"a", tensor(2.f)}, {"b", tensor(3.f)}}, std::nullopt, "sum").at("sum").item<float>() == 6);
  CHECK(f({{"a", tensor(5.f)}, {"b", tensor(3.f)}}, std::nullopt, "sum").at("sum").item<float>() == 15);
  CHECK(f.trace_count() == 2);
}

TEST_CASE("strided arguments replay as eager runs them") {
  auto f = function("f", [](const Tensor& x) { return std::pair(sum(x, 0), x.reshape({-1}) * 2); });
  Tensor x = random::normal({5, 7});
  f(x.T().contiguous());
  CHECK(f.verify(x.T()));
  CHECK(f.verify(broadcast_to(x(0), {7, 7})(slice(0, 7), all)));
}

TEST_CASE("inputs returned, returned twice, swapped variables, no outputs") {
  auto same = function("same", [](const Tensor& x) { return std::tuple(x, x, x + 1); });
  Tensor x = ones({2});
  auto [a, b, c] = same(x);
  CHECK(array_equal(a, x));
  CHECK(array_equal(b, x));
  CHECK(array_equal(c, x + 1));
  Variable p(tensor(1.f), "p"), q(tensor(2.f), "q");
  auto swap = function("swap", [&](const Tensor&) {
    Tensor old = p;
    p.assign(q);
    q.assign(old);
  });
  swap(x);
  CHECK(p.value().item<float>() == 2);
  CHECK(q.value().item<float>() == 1);
  swap(x);
  CHECK(p.value().item<float>() == 1);
}

TEST_CASE("a captured tensor that is an argument too; zero sizes; scalars") {
  Tensor x = random::normal({4});
  auto f = function("f", [&](const Tensor& y) { return x * y + x; });
  CHECK(f.verify(x));
  auto g = function("g", [](const Tensor& y) { return sum(y * 2) + 1; });
  CHECK(g(zeros({0, 3})).item<float>() == 1);
  CHECK(g(tensor(2.f)).item<float>() == 5);
}

TEST_CASE("random draws inside a function follow the global sequence") {
  auto f = function("draw", [](const Tensor& x) { return x + random::normal({4}); });
  random::seed(3);
  Tensor a = f(zeros({4})), b = f(zeros({4}));
  random::seed(3);
  CHECK(array_equal(a, zeros({4}) + random::normal({4})));
  CHECK(array_equal(b, zeros({4}) + random::normal({4})));
  CHECK(!array_equal(a, b));
}

TEST_CASE("a function under a tape: arguments, captured tensors, variables, second order") {
  Variable w(tensor({1.0, 2.0}), "w");
  Tensor captured = tensor({3.0, 5.0});
  auto f = function("f", [&](const Tensor& x) { return sum(tanh(x * w) * captured * x); });
  Tensor x = tensor({0.3, -0.4});
  auto eager = [&](const Tensor& v) { return sum(tanh(v * w) * captured * v); };
  auto gradients = [&](auto&& g) {
    GradientTape tape;
    tape.watch(x), tape.watch(captured);
    return tape.gradient(g(x), x, w, captured);
  };
  auto traced = gradients(f), plain = gradients(eager);
  for (int i = 0; i < 3; ++i) CHECK(array_equal(traced[size_t(i)], plain[size_t(i)]));
  CHECK(allclose(hessian(f)(x), hessian(eager)(x)));
  CHECK(allclose(grad([&](const Tensor& v) { return sum(grad(f)(v)); })(x),
                 grad([&](const Tensor& v) { return sum(grad(eager)(v)); })(x)));
  CHECK(f.trace_count() == 1);
}

TEST_CASE("nested functions inline; recursion is an error that names the cycle") {
  auto inner = function("inner", [](const Tensor& x) { return x * 2; });
  auto outer = function("outer", [&](const Tensor& x) { return inner(x) + inner(x + 1); });
  CHECK(outer(tensor(1.f)).item<float>() == 6);
  CHECK(has(to_string(outer.graph(spec(f32, {2}))), "inner"));
  std::function<Tensor(const Tensor&)> again;
  auto loop = function("loop", [&](const Tensor& x) { return again(x); });
  again = [&](const Tensor& x) { return loop(x); };
  std::string m = message_of([&] { loop(tensor(1.f)); });
  CHECK(has(m, "loop -> loop"));
}

TEST_CASE("a trace that throws leaves nothing behind") {
  bool bad = true;
  auto f = function("f", [&](const Tensor& x) {
    if (bad) matmul(x, x);
    return x + 1;
  });
  CHECK(!message_of([&] { f(ones({2, 3})); }).empty());
  CHECK(executing_eagerly());
  CHECK(f.trace_count() == 0);
  bad = false;
  CHECK(array_equal(f(ones({2, 3})), full({2, 3}, 2.f)));
}

TEST_CASE("a traced tensor kept outside is an error that says so") {
  Tensor leaked;
  auto f = function("f", [&](const Tensor& x) {
    leaked = x * 2;
    return leaked;
  });
  f(ones({2}));
  CHECK(has(message_of([&] { leaked + 1; }), "finished tracing"));
  CHECK(has(message_of([&] { leaked.item<float>(); }), "finished tracing"));
}

TEST_CASE("the cache is bounded and says why it traces") {
  auto f = function("f", [](const Tensor& x, int n) { return x * n; }, {.max_traces = 2});
  Tensor x = ones({2});
  f(x, 1), f(x, 2), f(x, 3);
  CHECK(f.trace_count() == 3);
  f(x, 3), f(x, 2);
  CHECK(f.trace_count() == 3);
  f(x, 1);
  CHECK(f.trace_count() == 4);
  CHECK(has(f.explain(), "C++ argument"));
}

TEST_CASE("a signature is checked") {
  auto f = function("rows", [](const Tensor& x) { return mean(x, 1); }, {.signature = {spec(f32, {any, 8}, "x")}});
  CHECK(f(ones({3, 8})).shape() == Shape{3});
  std::string m = message_of([&] { f(ones({3, 9})); });
  CHECK(has(m, "f32[?,8]"));
  CHECK(has(m, "f32[3,9]"));
  CHECK(has(m, "test_function.cpp"));
}

TEST_CASE("many threads call one function: one trace, right answers") {
  auto f = function("f", [](const Tensor& x) { return sum(tanh(x) * 2); });
  Tensor x = random::normal({1000});
  float expected = sum(tanh(x) * 2).item<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) wrong += f(x).item<float>() != expected;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("graphs read well and carry the user's lines") {
  auto f = function("mlp", [](const Tensor& x, const Tensor& w) {
    NameScope layer("layer1");
    return relu(matmul(x, w));
  });
  std::string text = to_string(f.graph(spec(f32, {32, 8}), spec(f32, {8, 4})));
  CHECK(has(text, "= relu("));
  CHECK(has(text, "f32[32,4]"));
  CHECK(has(text, "layer1"));
  CHECK(has(text, "test_function.cpp:"));
}

TEST_CASE("an error at a replay names the user's line") {
  auto f = function("pick", [](const Tensor& x, const Tensor& i) { return sum(take(x, i, 0) * x(0)); });
  Tensor x = ones({3}), good = tensor({0, 2}), bad = tensor({0, 7});
  f(x, good);
  int line = __LINE__ - 3;
  std::string m = message_of([&] { f(x, bad); });
  CHECK(has(m, "index 7 is out of bounds"));
  CHECK(has(m, "test_function.cpp:" + std::to_string(line)));
  GradientTape tape;  // the forward half that a tape asks for knows the line too
  tape.watch(x);
  CHECK(has(message_of([&] { f(x, bad); }), "test_function.cpp:" + std::to_string(line)));
}

TEST_CASE("names given to graph() and to a signature are the inputs' names") {
  auto f = function("f", [](const Tensor& x, std::vector<Tensor> more, const Tensor& y) { return x + more[0] + y; });
  Graph g = f.graph(spec(f32, {2}, "left"), {ones({2})}, spec(f32, {2}, "right"));
  CHECK(g.nodes()[0].name == "left");
  CHECK(g.nodes()[1].name == "arg1");
  CHECK(g.nodes()[2].name == "right");
}

TEST_CASE("transforms and public functions can be traced") {
  const Tensor x = tensor({-1.f, 2.f}), y = tensor({3.f, 4.f});
  auto loss = [](const Tensor& v) { return sum(v * v); };
  auto both = [](const Tensor& v, const Tensor& w) { return sum(v * w); };
  CHECK(same_bits(function("g", grad(loss))(x), 2 * x));
  CHECK(same_bits(function("g2", grad(both))(x, y), y));
  CHECK(function("v", value_and_grad(loss))(x).first.item<float>() == 5);
  CHECK(same_bits(function("h", hessian(loss))(x), 2 * eye(2)));
  CHECK(same_bits(function("m", vmap(both))(stack({x, y}), stack({y, x})), tensor({5.f, 5.f})));
  CHECK(same_bits(function("mg", vmap(grad(loss)))(stack({x, y})), 2 * stack({x, y})));
  CHECK(same_bits(function("r", recompute(loss))(x), tensor(5.f)));
  CHECK(same_bits(function("i", grad(function("inner", loss)))(x), 2 * x));
  CHECK(same_bits(function("any", grad([](const auto& v) { return sum(v); }))(x), ones({2})));
  auto traced_relu = function("relu", relu);
  CHECK(same_bits(traced_relu(x), relu(x)));
  traced_relu(y);
  CHECK(traced_relu.trace_count() == 1);
  CHECK(same_bits(function("max", maximum)(x, y), y));
}

TEST_CASE("a traced function has a type for members of classes") {
  struct Model {
    Function<Tensor(Tensor)> call;
    Function<Tensor(const Tensor&, int)> scaled;
  } model;
  const Tensor x = ones({2});
  CHECK(has(message_of([&] { model.call(x); }), "[function] the function holds no callable"));
  auto twice = function("twice", [](const Tensor& v) { return v * 2; });
  model.call = twice;
  CHECK(same_bits(model.call(x), 2 * x));
  CHECK(same_bits(twice(x), 2 * x));
  CHECK(model.call.trace_count() == 1);  // the traces are shared
  model.scaled = function("scaled", [](const Tensor& v, int n) { return v * n; });
  CHECK(same_bits(model.scaled(x, 3), 3 * x));
}

TEST_CASE("a Variable that each call makes is refused; one that is made once is not") {
  const Tensor x = ones({2});
  auto lost = function("lost", [](const Tensor& v) {
    Variable count(tensor(1.f), "count");
    count.assign_add(1.f);
    return v * count;
  });
  const std::string message = message_of([&] { lost(x); });
  CHECK(has(message, "variable 'count' is made in each call of the traced function 'lost'"));
  CHECK(has(message, "test_function.cpp"));
  std::optional<Variable> kept;
  auto once = function("once", [&](const Tensor& v) {
    if (!kept) kept.emplace(tensor(1.f), "kept");
    kept->assign_add(1.f);
    return v * *kept;
  });
  CHECK(same_bits(once(x), tensor({2.f, 2.f})));
  CHECK(same_bits(once(x), tensor({3.f, 3.f})));
}

TEST_CASE("callables of every kind can be traced") {
  const Tensor x = tensor({1.f, 2.f}), kept = tensor({3.f, 4.f});
  auto reference = function("reference", [&](const Tensor&) -> const Tensor& { return kept; });
  CHECK(same_bits(reference(x), kept));
  CHECK(same_bits(reference(x), kept));
  CHECK(same_bits(function("noexcept", [](const Tensor& v) noexcept { return sum(v); })(x), tensor(3.f)));
  struct Qualified {
    Tensor operator()(const Tensor& v) const& { return v + 1; }
  };
  CHECK(same_bits(function("qualified", Qualified())(x), x + 1));
  Function<Tensor(Tensor)> none;
  CHECK(has(message_of([&] { function("f", none); }), "the callable is empty"));
}
