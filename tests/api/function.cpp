// Wrapping a hot loop as a traced function.
#include <rill/rill.h>
#include "expect.h"
using namespace rill;

int main() {
  {  // Traced once per dtype and shape; plain C++ side effects happen at tracing only.
    int traces = 0;
    auto f = function("scaled_sum", [&](const Tensor& x, const Tensor& y) {
      ++traces;
      EXPECT(!executing_eagerly());
      return sum(tanh(x * y) + 1);
    });
    EXPECT(executing_eagerly());
    Tensor x = random::normal({2, 3}), y = random::normal({2, 3});
    Tensor eager = sum(tanh(x * y) + 1);
    EXPECT(array_equal(f(x, y), eager) && array_equal(f(y, x), eager) && traces == 1);  // bit for bit
    f(ones({4}), ones({4}));
    EXPECT(traces == 2);
    f(x.astype(f64), y.astype(f64));
    EXPECT(traces == 3 && f.trace_count() == 3);
    std::string why = f.explain();  // which argument changed, from what to what
    EXPECT(has(why, "f32[2,3]") && has(why, "f32[4]") && has(why, "f64[2,3]"));
  }
  {  // A C++ value is part of the key; structures of tensors pass through.
    auto power = function("power", [](const Tensor& x, int n) {
      Tensor r = x;
      while (--n) r = r * x;
      return r;
    });
    EXPECT(power(tensor(2.f), 3).item<float>() == 8.f && power(tensor(2.f), 4).item<float>() == 16.f &&
           power.trace_count() == 2);
    auto many = function("many", [](std::vector<Tensor> v) { return std::pair(v[0] + v[1], v[0] * v[1]); });
    auto [s, p] = many({tensor(2.f), tensor(5.f)});
    EXPECT(s.item<float>() == 7.f && p.item<float>() == 10.f);
  }
  {  // Unknown sizes: one trace serves every batch.
    int traces = 0;
    auto f = function("rows",
                      [&](const Tensor& x) {
                        ++traces;
                        return mean(square(x), 1);
                      },
                      {.signature = {spec(f32, {any, 8})}});
    for (int n : {1, 7, 64}) EXPECT(f(ones({n, 8})).shape() == Shape{n});
    EXPECT(traces == 1 && has(message_of([&] { f(ones({3, 9})); }), "f32[?,8]"));
  }
  {  // Variables are read and written at every call, in program order; a tape works inside and around.
    Variable w(tensor({1.f, 2.f}), "w");
    auto step = function("step", [&](const Tensor& x) {
      GradientTape tape;
      Tensor loss = sum(square(w * x));
      w.assign_sub(0.1f * tape.gradient(loss, w));
      return loss;
    });
    EXPECT(step(ones({2})).item<float>() == 5.f);
    EXPECT(allclose(w, tensor({0.8f, 1.6f})) && allclose(step(ones({2})), tensor(3.2f)) && step.trace_count() == 1);

    auto model = function("model", [&](const Tensor& x) { return sum(w * w * x); });
    GradientTape tape;
    Tensor y = model(ones({2}));
    EXPECT(allclose(tape.gradient(y, w), 2 * Tensor(w)));
  }
  {  // Control flow that depends on data is written with functions, and runs eagerly too.
    auto collatz = [](const Tensor& start) {
      return while_loop([](const Tensor& n, const Tensor&) { return n != 1; },
                        [](const Tensor& n, const Tensor& steps) {
                          return std::tuple(
                              cond(n % 2 == 0, [&] { return n / 2; }, [&] { return 3 * n + 1; }), steps + 1);
                        },
                        start, tensor(int64_t{0}));
    };
    auto [one, eager] = collatz(tensor(int64_t{27}));
    auto [uno, traced] = function("collatz", collatz)(tensor(int64_t{27}));
    EXPECT(eager.item<int64_t>() == 111 && traced.item<int64_t>() == 111);
    auto cumulative = function("cumulative", [](const Tensor& xs) {
      return scan([](const Tensor& carry, const Tensor& x) { return std::pair(carry + x, carry * x); }, tensor(0.f),
                  xs);
    });
    auto [last, ys] = cumulative(tensor({1.f, 2.f, 3.f}));
    EXPECT(last.item<float>() == 6.f && array_equal(ys, tensor({0.f, 2.f, 9.f})));
  }
  {  // Reading a value while tracing is an error that says what to write instead.
    auto bad = function("bad", [](const Tensor& x) { return x.item<float>() > 0 ? x : -x; });
    std::string m = message_of([&] { bad(tensor(1.f)); });
    EXPECT(has(m, "bad") && has(m, "cond") && has(m, "function.cpp:"));
  }
  {  // What was traced can be read, checked against eager, and exported for a viewer without running.
    auto mlp = function("mlp", [](const Tensor& x, const Tensor& w) {
      NameScope scope("layer1");
      return relu(matmul(x, w));
    });
    Graph g = mlp.graph(spec(f32, {32, 8}), spec(f32, {8, 4}));
    EXPECT(g.nodes().size() >= 2 && has(to_string(g), "layer1") && has(to_string(g), "f32[32,4]"));
    export_graph(g, "mlp.json");                      // Model Explorer
    export_graph(g, "mlp.dot");                       // Graphviz
    export_graph(g, "logs/mlp");                      // TensorBoard
    EXPECT(mlp.verify(ones({32, 8}), ones({8, 4})));  // traced == eager, bit for bit
  }
}
