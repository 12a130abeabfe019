// Graph::run and GraphRun: any part of a graph, with values fed and looked at; freeze(), optimize().
#include <string>

#include "catch.h"
#include "messages.h"
#include "rill/ops/names.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

size_t count(const Graph& g, std::string_view op) {
  size_t n = 0;
  for (const Node& node : g.nodes()) n += node.op_name() == op;
  return n;
}
// The number of the first node of that op, as text: "%3".
std::string first(const Graph& g, std::string_view op) {
  for (size_t i = 0; i < g.nodes().size(); ++i)
    if (g.nodes()[i].op_name() == op) return "%" + std::to_string(i);
  return "none";
}
Tensor rows() { return tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}); }

}  // namespace

TEST_CASE("a graph gives what its function gives") {
  Variable w(random::normal({3, 4}), "dense/w");
  auto f = function("f", [&](const Tensor& x, const Tensor& y) { return softmax(matmul(x, w) + y, -1); });
  const Graph g = f.graph(spec(f32, {2, 3}, "x"), spec(f32, {4}, "y"));
  const Tensor x = rows(), y = ones({4});
  CHECK(same_bits(g.run({{"x", x}, {"y", y}})[0], f(x, y)));
  w.assign(w * 2);
  CHECK(same_bits(g.run({{"x", x}, {"y", y}})[0], f(x, y)));  // Variables have their present values
}

TEST_CASE("fetches are found by number, by name and by a viewer's name, and only what they need runs") {
  auto f = function("f", [](const Tensor& x, const Tensor& y) {
    NameScope scope("layer");
    const Tensor a = exp(x), b = log(y);
    print("b is {}", b);
    return a + b;
  });
  const Graph g = f.graph(spec(f32, {2}, "x"), spec(f32, {2}, "y"));
  const Tensor x = tensor({0.f, 1.f});
  const std::string printed = stderr_of([&] {
    CHECK(same_bits(g.run({{"x", x}}, {first(g, "exp")})[0], exp(x)));  // y is not needed
    g.run({{"x", x}, {"y", x}}, {g.outputs.at(0)});
  });
  CHECK(printed.empty());
  CHECK(has(stderr_of([&] { g.run({{"x", x}, {"y", x}}); }), "b is ["));
  CHECK(same_bits(g.run({{"x", x}}, {"layer/exp"})[0], exp(x)));
  CHECK(same_bits(g.run({{"x", x}}, {"layer/exp:0", "x"})[1], x));
  CHECK(has(message_of([&] { g.run({{"x", x}}); }), "'f' needs 'y', which nothing feeds"));
  CHECK(has(message_of([&] { g.run({{"x", x}}, {"layer/sin"}); }), "has no value 'layer/sin'"));
  CHECK(has(message_of([&] { g.run({{"x", x}}, {"exp"}); }), "such as layer/exp"));
  CHECK(has(message_of([&] { g.run({{"x", x}}, {ValueId{99, 0}}); }), "no value %99.0"));
  CHECK(has(message_of([&] { g.run({{"x", x}}, {"%99"}); }), "no value '%99'"));
  CHECK(has(message_of([&] { g.run({{"x", x}}, {"layer/exp:1"}); }), "no value"));
}

TEST_CASE("an inner value that is fed is not computed") {
  auto f = function("f", [](const Tensor& x) { return sum(exp(x) * 2); });
  const Graph g = f.graph(spec(f32, {3}, "x"));
  const Tensor inner = tensor({1.f, 2.f, 3.f});
  CHECK(g.run({{first(g, "exp"), inner}})[0].item<float>() == 12);  // without x
  CHECK(has(message_of([&] { g.run({{first(g, "exp"), ones({2})}}); }), "is f32[3], and is fed f32[2]"));
  CHECK(has(message_of([&] { g.run({{"x", inner.astype(f64)}}); }), "'x' of 'f' is f32[3], and is fed f64[3]"));
  CHECK(has(message_of([&] { g.run({{"x", inner}, {"x", inner}}); }), "'x' of 'f' is fed twice"));
  CHECK(has(message_of([&] { g.run({{"x", Tensor()}}); }), "'x' of 'f'"));
}

TEST_CASE("one output of several is fed, the others are computed") {
  auto f = function("f", [](const Tensor& x) {
    const auto top = topk(x, 2);
    return std::pair(top.values * 2, top.indices + 1);
  });
  const Graph g = f.graph(spec(f32, {4}, "x"));
  int32_t node = 0;
  while (g.nodes()[size_t(node)].outputs.size() != 2) ++node;
  const Tensor x = tensor({3.f, 1.f, 4.f, 1.f}), fed = tensor({10.f, 20.f});
  const std::vector<Tensor> out = g.run({{"x", x}, {ValueId{node, 0}, fed}});
  CHECK(same_bits(out[0], fed * 2));
  CHECK(same_bits(out[1], f(x).second));
}

TEST_CASE("a part of a graph is differentiated, and taken into a trace") {
  Variable w(ones({3}), "w");
  auto f = function("f", [&](const Tensor& x) { return sum(square(x) * w); });
  const Graph g = f.graph(spec(f32, {3}, "x"));
  const Tensor x = tensor({1.f, 2.f, 3.f});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = g.run({{"x", x}})[0];
  CHECK(same_bits(tape.gradient(y, x), 2 * x));
  CHECK(same_bits(tape.gradient(y, w), square(x)));
  auto outer = function("outer", [&](const Tensor& x) { return g.run({{"x", x}})[0] + 1; });
  CHECK(same_bits(outer(x), f(x) + 1));
  CHECK(outer.trace_count() == 1);
}

TEST_CASE("control flow runs, and no Variable is assigned") {
  Variable n(tensor({0.f}), "n");
  auto f = function("f", [&](const Tensor& x) {
    const Tensor y = while_loop([](const Tensor& v) { return sum(v) < 100; }, [](const Tensor& v) { return v * 2; }, x);
    n.assign(y);
    return cond(sum(y) > 0, [&] { return y + 1; }, [&] { return y - 1; });
  });
  const Graph g = f.graph(spec(f32, {1}, "x"));
  const Tensor x = tensor({3.f});
  const Tensor y = g.run({{"x", x}})[0];
  CHECK(y.item<float>() == 193);
  CHECK(n.value().item<float>() == 0);
  CHECK(g.run({{"x", x}}, {g.assigns.at(0).value})[0].item<float>() == 192);
}

TEST_CASE("a graph of open sizes says that it needs those of a call") {
  auto f = function("f", [](const Tensor& x) { return reshape(x, {x.dim(0) * 3}); });
  const Graph g = f.graph(spec(f32, {any, 3}, "x"));
  CHECK(has(message_of([&] { g.run({{"x", rows()}}); }), "for the sizes of a call"));
  CHECK(f.graph(spec(f32, {2, 3}, "x")).run({{"x", rows()}})[0].dim(0) == 6);
}

TEST_CASE("step by step") {
  auto f = function("f", [](const Tensor& x) { return sum(exp(x) * 2); });
  const Tensor x = tensor({0.f, 1.f});
  GraphRun run(f.graph(spec(f32, {2}, "x")), {{"x", x}});
  CHECK(run.node() == -1);
  CHECK(has(message_of([&] { run.value(); }), "no node has run yet"));
  const std::string e = first(run.graph(), "exp");
  CHECK_FALSE(run.has(e));
  CHECK(has(message_of([&] { run.value(e); }), "its node has not run yet"));
  REQUIRE(run.step());
  CHECK(run.graph().nodes()[size_t(run.node())].op_name() == "exp");
  CHECK(same_bits(run.value(), exp(x)));
  size_t steps = 1;
  while (run.step()) ++steps;
  CHECK(steps == run.steps());
  CHECK(same_bits(run.value(), f(x)));
  CHECK(same_bits(run.value(e), exp(x)));  // values stay
  CHECK(same_bits(run.results()[0], f(x)));

  GraphRun part(run.graph(), {{"x", x}}, {e});
  CHECK(part.steps() == 1);
  part.results();
  CHECK(has(message_of([&] { part.value(run.graph().outputs[0]); }), "no fetch needs it"));
}

TEST_CASE("a node that throws can be run again") {
  auto f = function("f", [](const Tensor& x) {
    assert_that(all(x > 0), "positive");
    return exp(x);
  });
  GraphRun run(f.graph(spec(f32, {2}, "x")), {{"x", tensor({1.f, -1.f})}});
  CHECK(has(message_of([&] { run.results(); }), "positive"));
  CHECK(has(message_of([&] { run.results(); }), "positive"));
}

TEST_CASE("values that nothing reads any more are freed") {
  auto f = function("f", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = tanh(y + 1);
    return y;
  });
  const Graph g = f.graph(spec(f32, {1 << 18}, "x"));
  const Tensor x = zeros({1 << 18});
  reset_peak_memory("cpu:0");
  const size_t before = memory_stats("cpu:0").in_use;
  g.run({{"x", x}});
  CHECK(memory_stats("cpu:0").peak - before <= 4 * 4 * size_t(x.size()));
}

TEST_CASE("frozen graphs read nothing but their arguments") {
  Variable w(random::normal({3, 4}), "dense/w");
  const Tensor captured = random::normal({4});
  auto f = function("f", [&](const Tensor& x) { return matmul(x, w) + captured; });
  const Graph g = f.graph(spec(f32, {2, 3}, "x")), frozen = freeze(g);
  CHECK(g.inputs.size() == 3);
  REQUIRE(frozen.inputs.size() == 1);
  CHECK(frozen.nodes().size() == g.nodes().size());
  const Tensor before = f(rows());
  w.assign(zeros({3, 4}));
  CHECK(same_bits(frozen.run({{"x", rows()}})[0], before));
  CHECK_FALSE(same_bits(g.run({{"x", rows()}})[0], before));

  auto assigns = function("assigns", [&](const Tensor& x) {
    w.assign(x);
    return x;
  });
  CHECK(has(message_of([&] { freeze(assigns.graph(spec(f32, {3, 4}))); }), "assigns the Variable 'dense/w'"));
}

TEST_CASE("optimized graphs compute the same with fewer nodes") {
  Variable w(ones({3}), "w");
  auto f = function("f", [&](const Tensor& x) {
    const Tensor c = sqrt(full({3}, 4.f)) + 1;
    return (sin(x) + sin(x) * c) * w;
  });
  const Graph g = f.graph(spec(f32, {3}, "x")), o = optimize(g), folded = optimize(freeze(g));
  CHECK(count(o, "sin") == 1);
  CHECK(count(o, "sqrt") == 0);
  CHECK(folded.nodes().size() <= o.nodes().size());
  const Tensor x = tensor({1.f, 2.f, 3.f});
  CHECK(same_bits(o.run({{"x", x}})[0], f(x)));
  CHECK(same_bits(folded.run({{"x", x}})[0], f(x)));
}

TEST_CASE("a value on another device is said to be so") {
  auto f = function("f", [](const Tensor& x) { return x + 1; });
  const Graph g = f.graph(spec(f32, {2}, "x"));
  const Tensor elsewhere = ones({2}, {.device = "ref:0"});
  CHECK(has(message_of([&] { g.run({{"x", elsewhere}}); }), "is f32[2], and is fed f32[2] on ref:0"));
  f(ones({2}));
  f(elsewhere);
  CHECK(has(f.explain(), "was f32[2] and is f32[2] on ref:0"));
}

TEST_CASE("a graph that may be changed is frozen as one, beside the freeze() of models") {
  Variable w(2.f, "w");
  Graph g = function("f", [&](const Tensor& x) { return x * w; }).graph(spec(f32, {}, "x"));
  const Graph frozen = freeze(g);
  w.assign(tensor(5.f));
  CHECK(frozen.run({{"x", tensor(3.f)}})[0].item<float>() == 6);
}
