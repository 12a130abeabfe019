// Fusion: which nodes become one kernel, and that the kernel's bits are those of the ops one by one.
#include "catch.h"
#include "messages.h"
#include "pass_helpers.h"
#include "rill/rill.h"
#include "rill/trace/fusion/fusion.h"

using namespace rill;

namespace {

// Without compiling: the kernels are interpreted.
template <class F>
size_t fused_kernels(F f, const std::vector<Tensor>& in) {
  return kernels_after([](const Graph& g) { return eliminate_dead_code(fuse(g, nullptr)); }, f, in);
}

Tensor normal(const Shape& s, DType d = f32) {
  return random::normal(s, {.dtype = d, .key = random::Key(uint64_t(s.numel()))});
}

}  // namespace

TEST_CASE("elementwise chains are one kernel") {
  auto chain = [](const std::vector<Tensor>& v) { return tanh(v[0] * v[1] + v[2]) * 0.5f + v[0]; };
  for (DType d : {f32, f64, f16, bf16})
    CHECK(fused_kernels(chain, {normal({37}, d), normal({37}, d), normal({37}, d)}) == 1);
  CHECK(fused_kernels(chain, {normal({4, 5, 6}), normal({6}), normal({5, 1})}) == 1);
  CHECK(fused_kernels(chain, {normal({}), normal({}), normal({})}) == 1);
  CHECK(fused_kernels(chain, {normal({0, 3}), normal({3}), normal({})}) == 1);
  // Strided operands, and two results of one chain.
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return exp(transpose(v[0])) * v[1] + 1; },
                      {normal({3, 7}), normal({7, 3})}) == 1);
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor a = v[0] * v[1];
              return std::vector<Tensor>{a, exp(a), a > 0};
            },
            {normal({50}), normal({50})}) == 1);
}

TEST_CASE("casts, choices and views fuse") {
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor i = (v[0] * 100.0f).astype(i32);
              return where(i > 3, v[0], -v[0]).astype(f64) + broadcast_to(v[1], {4, 5});
            },
            {normal({4, 5}), normal({5})}) == 1);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return exp(reshape(v[0] * 2.0f, {3, 1, 4})) - 1; },
                      {normal({3, 4})}) == 1);
}

TEST_CASE("row kernels take in what surrounds them") {
  for (int64_t n : {2, 33, 1000, 1500}) {
    INFO("rows of " << n);
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return softmax(v[0] * 0.125f + v[1], -1); },
                        {normal({5, n}), normal({5, n})}) == 1);
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return gelu(layer_norm(v[0], v[1], v[2])); },
                        {normal({5, n}), normal({n}), normal({n})}) == 1);
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return -sum(log_softmax(v[0]) * v[1], 1); },
                        {normal({5, n}), normal({5, n})}) == 1);
    CHECK(fused_kernels(
              [](const std::vector<Tensor>& v) {
                Tensor d = v[0] - mean(v[0], 1, true);
                return d / sqrt(mean(square(d), 1, true) + 1e-5f);
              },
              {normal({9, n})}) == 1);
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return max(abs(v[0]), {1, 2}) + v[1] * 2; },
                        {normal({9, 3, n}), normal({9})}) == 1);
  }
}

TEST_CASE("integer division, powers and shifts fuse") {
  auto f = [](const std::vector<Tensor>& v) {
    return floor_divide(v[0], v[1]) + (v[0] % v[1]) * power(v[1], v[0]) - (v[0] << v[1]) + (v[0] >> v[1]);
  };
  for (DType d : {i8, u8, i16, u16, i32, u32, i64, u64}) {
    Tensor x = random::bits({300}, {.key = random::Key(7)}).astype(d),
           y = arange(-150, 150).astype(d);  // zeros, -1 and shifts out of range among them
    CHECK(fused_kernels(f, {x, y}) == 1);
  }
}

namespace {

// The loss and its gradients; the last operand is none that is differentiated.
template <class F>
std::vector<Tensor> with_gradients(F loss_of, const std::vector<Tensor>& v) {
  GradientTape tape;
  std::vector<Source> sources;
  for (size_t i = 0; i + 1 < v.size(); ++i) tape.watch(v[i]), sources.emplace_back(v[i]);
  std::vector<Tensor> results{loss_of(v)};
  for (const Tensor& g : tape.gradient({results[0]}, sources)) results.push_back(g);
  return results;
}

Tensor classes(int64_t rows, int64_t n) { return random::randint(0, n, {rows}, {.key = random::Key(9)}); }

}  // namespace

TEST_CASE("cross entropy is a row kernel, forward and backward in one, the gradient of a bias included") {
  auto sparse = [](const std::vector<Tensor>& v) { return mean(sparse_softmax_cross_entropy(v[0] + v[1], v[2])); };
  auto dense = [](const std::vector<Tensor>& v) { return mean(softmax_cross_entropy(v[0] + v[1], v[2])); };
  for (DType d : {f32, f64, bf16})
    for (int64_t rows : {3, 70})
      for (int64_t n : {2, 5, 33, 1500}) {
        INFO(rows << " rows of " << n << " " << name(d));
        const Tensor x = normal({rows, n}, d), b = normal({n}, d), labels = classes(rows, n);
        // The mean over the batch is the second.
        CHECK(fused_kernels(sparse, {x, b, labels}) == 2);
        CHECK(fused_kernels(dense, {x, b, softmax(normal({rows, n}, d))}) == 2);
        CHECK(fused_kernels([&](auto& v) { return with_gradients(sparse, v); }, {x, b, labels}) == 2);
        CHECK(fused_kernels([&](auto& v) { return with_gradients(dense, v); }, {x, b, softmax(x)}) == 2);
      }
  // Sequences; labels of any integer dtype and layout.
  const Tensor labels = random::randint(0, 30, {7, 4}, {.dtype = u8, .key = random::Key(9)});
  CHECK(
      fused_kernels(
          [](const std::vector<Tensor>& v) { return mean(sparse_softmax_cross_entropy(v[0] * 2.0f, transpose(v[1]))); },
          {normal({4, 7, 30}), labels}) == 2);
}

TEST_CASE("cross entropy of numbers that are none, and of infinite ones") {
  const float inf = INFINITY, nan = NAN;
  const Tensor x =
      tensor<float>({{1, nan, 2}, {inf, 0, 1}, {-inf, -inf, -inf}, {-inf, 3, 4}, {inf, inf, 1}, {-0.f, 0, -0.f}});
  for (int64_t label : {0, 1, 2}) {
    const Tensor labels = full({6}, label, i64);
    for (bool sparse : {true, false})
      fused_kernels(
          [&](const std::vector<Tensor>& v) {
            return with_gradients(
                [&](const std::vector<Tensor>& w) {
                  return sparse ? sparse_softmax_cross_entropy(w[0] * 1.5f, w[1])
                                : softmax_cross_entropy(w[0] * 1.5f, one_hot(w[1], 3));
                },
                v);
          },
          {x, labels});
  }
}

TEST_CASE("a label that is no class is the same error on every tier") {
  const Tensor x = normal({4, 3}), wrong = tensor<int64_t>({0, 2, 3, 1}), negative = tensor<int64_t>({0, 2, 2, -1});
  auto f = [](const Tensor& x, const Tensor& labels) { return sparse_softmax_cross_entropy(x * 2, labels) * 3; };
  auto gradient = [&](const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x, labels), x);
  };
  auto check = [&](auto body) {
    for (jit::Mode mode : {jit::Mode::off, jit::Mode::wait}) {
      jit::set_mode(mode);
      auto traced = function("traced", body);
      CHECK(same(traced(x, classes(4, 3)), body(x, classes(4, 3))));
      for (const Tensor& labels : {wrong, negative}) {
        const std::string eager = message_of([&] { body(x, labels); });
        CHECK(has(eager, "test_fusion.cpp:"));
        CHECK(has(eager, "is out of range for 3 classes"));
        CHECK(message_of([&] { traced(x, labels); }) == eager);
      }
    }
    jit::set_mode(jit::Mode::tiered);
  };
  check(f);
  check(gradient);
}

TEST_CASE("layer_norm and its gradients are one kernel with what surrounds them") {
  auto forward = [](const std::vector<Tensor>& v) { return gelu(layer_norm(v[0], v[1], v[2])) * v[3]; };
  auto residual = [](const std::vector<Tensor>& v) { return layer_norm(v[0] + v[3], v[1] * 2, v[2]) + v[3]; };
  for (DType d : {f32, f64, f16})
    for (int64_t rows : {1, 5, 70})
      for (int64_t n : {2, 20, 33, 1500}) {
        INFO(rows << " rows of " << n << " " << name(d));
        const std::vector<Tensor> in{normal({rows, n}, d), normal({n}, d), normal({n}, d), normal({rows, n}, d)};
        const size_t first = fused_kernels(forward, in);
        const size_t both = fused_kernels([&](auto& v) { return with_gradients(forward, v); }, in);
        const size_t more = fused_kernels([&](auto& v) { return with_gradients(residual, v); }, in);
        if (rows == 1) continue;                // scale and offset are rows, too
        const size_t casts = d == f16 ? 2 : 0;  // of scale and offset
        CHECK(first == 1 + casts);
        CHECK(both == 1 + 2 * casts);
        CHECK(more == 3 + casts);  // scale * 2, and its gradient
      }
}

TEST_CASE("sums over rows lie beside what a row kernel gives, on any number of threads") {
  auto f = [](const std::vector<Tensor>& v) {
    Tensor y = softmax(v[0] * v[1]), z = y * v[0];
    return std::vector<Tensor>{y, sum(y, 0), sum(z, 0), sum(z, 1)};
  };
  const int threads = num_threads();
  for (int t : {1, 2, 3, 8}) {
    set_num_threads(t);
    for (Shape s : {Shape{2, 3}, Shape{33, 2}, Shape{70, 20}, Shape{300, 40}, Shape{2100, 6}, Shape{40, 1100}}) {
      INFO(to_string(s) << " on " << t << " threads");
      CHECK(fused_kernels(f, {normal(s), normal({s[1]})}) == 1);
    }
  }
  set_num_threads(threads);
  // A transposed operand, rows of two axes, and a sum that others read.
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(softmax(transpose(v[0]) * 2.0f), 0); },
                      {normal({30, 50})}) == 1);
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor y = v[0] / sqrt(sum(square(v[0]), {1, 2}, true));
              return std::vector<Tensor>{y, sum(y, 0)};
            },
            {normal({9, 3, 40})}) == 1);
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor y = softmax(v[0] * 2.0f), s = sum(y, 0);
              return y - s * 0.5f;
            },
            {normal({20, 20})}) == 3);
}

TEST_CASE("random words are made inside the kernel that uses them") {
  for (Shape s : {Shape{7}, Shape{33, 70}, Shape{5, 4, 3}, Shape{5000}}) {
    CHECK(fused_kernels(
              [](const std::vector<Tensor>& v) { return dropout(relu(v[0]), 0.4, {.key = random::Key(3)}) * 2.0f; },
              {normal(s)}) == 1);
    CHECK(fused_kernels(
              [&](const std::vector<Tensor>& v) {
                return v[0] + random::uniform(s, {.low = -1, .key = random::Key(4)}) +
                       random::normal(s, {.key = random::Key(5)});
              },
              {normal(s)}) == 1);
    CHECK(
        fused_kernels([](const std::vector<Tensor>& v) { return sum(dropout(v[0], 0.5, {.key = random::Key(6)}), 0); },
                      {normal(s)}) == 1);
  }
}

TEST_CASE("counting fuses") {
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {  // a causal mask over scores, 1 MiB and more so that it is not folded
              Tensor i = expand_dims(arange(600), {1}), j = expand_dims(arange(600), {0});
              return softmax(where(broadcast_to(i, {600, 600}) >= broadcast_to(j, {600, 600}), v[0], -1e9f));
            },
            {normal({600, 600})}) <= 4);
  for (DType d : {f32, f64, f16, i32, u8, i64})
    CHECK(fused_kernels([&](const std::vector<Tensor>& v) { return v[0].astype(d) + arange(300000).astype(d); },
                        {normal({300000})}) == 1);
  CHECK(fused_kernels([&](const std::vector<Tensor>& v) { return v[0] * linspace(-1, 1, 400000); },
                      {normal({400000})}) <= 2);
}

TEST_CASE("random numbers of any shape fuse, one alone as well") {
  for (Shape s : {Shape{}, Shape{1}, Shape{1, 1}, Shape{7}, Shape{1, 9, 1}, Shape{3, 40}, Shape{0, 4}})
    fused_kernels(
        [&](const std::vector<Tensor>& v) {
          Tensor x = random::normal(s, {.key = random::Key(7)});
          return std::vector<Tensor>{tanh(x * 2) + v[0], x, sum(x)};
        },
        {normal({1})});
}

TEST_CASE("what a kernel cannot hold stays outside") {
  // The matrix product needs exp(x), and tanh its result: two kernels around it.
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor e = exp(v[0]) + 1;
              return tanh(matmul(e, v[1])) * e;
            },
            {normal({6, 6}), normal({6, 6})}) == 3);
  // A row's sum used as a column is another space.
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              Tensor s = sum(v[0] * 2, 1);
              return v[0] + s;
            },
            {normal({6, 6})}) == 2);
}

TEST_CASE("reductions over other axes take in what makes their operand") {
  for (DType d : {f32, f64, f16}) {
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(v[0] * v[0], 0); }, {normal({70, 100}, d)}) == 1);
    CHECK(fused_kernels([](const std::vector<Tensor>& v) { return max(v[0] + v[1], {0, 2}); },
                        {normal({5, 33, 7}, d), normal({7}, d)}) == 1);
  }
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return mean(square(v[0])); }, {normal({300, 400})}) == 2);
  for (Shape s : {Shape{3, 5}, Shape{2100, 3}, Shape{40, 700}, Shape{1300, 64}})
    CHECK(fused_kernels(
              [](const std::vector<Tensor>& v) {
                Tensor g = where(v[0] > 0, v[1], 0.0f);  // a relu's gradient, for the weights and for the bias
                return std::vector<Tensor>{g, sum(g, 0)};
              },
              {normal(s), normal(s)}) == 1);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(v[0] * v[1] + v[2], {0, 1}); },
                      {normal({6, 50, 40}), normal({40}), normal({50, 1})}) == 1);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(exp(transpose(v[0])), 0); }, {normal({60, 50})}) ==
        1);
  // An operand without the first axis, so that a row of memory holds several runs of what is folded.
  for (Shape s : {Shape{20, 64, 16}, Shape{7, 33, 5}, Shape{3, 1100, 3}, Shape{90, 2, 70}})
    for (int64_t axis : {0, 1, 2})
      CHECK(fused_kernels(
                [axis](const std::vector<Tensor>& v) {
                  const Tensor g = v[0] * v[1];
                  return std::vector<Tensor>{sum(g, axis), g};
                },
                {normal(s), normal({s[1], s[2]})}) == 1);
}

TEST_CASE("many rows are added up by the kernel that makes them") {
  const int threads = num_threads();
  for (int t : {1, 2, 8}) {
    set_num_threads(t);
    for (DType d : {f32, f64, f16})
      CHECK(fused_kernels(
                [](const std::vector<Tensor>& v) {
                  Tensor y = v[0] * v[1] + v[2];
                  return std::vector<Tensor>{y, sum(y, 0, true)};
                },
                {normal({1100, 130}, d), normal({130}, d), normal({1100, 1}, d)}) == 1);
  }
  set_num_threads(threads);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(v[0] * v[0], {0, 1}); }, {normal({9, 300, 128})}) ==
        1);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(exp(transpose(v[0])), 0); },
                      {normal({140, 2050})}) == 1);
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(dropout(v[0], 0.5, {.key = random::Key(6)}), 0); },
                      {normal({2050, 129})}) == 1);
  CHECK(fused_kernels(
            [](const std::vector<Tensor>& v) {
              return sum(v[0] * arange(128).astype(f32) + reshape(arange(2048), {2048, 1}).astype(f32), 0);
            },
            {normal({2048, 128})}) == 1);
  Tensor zeros_below = -zeros({2048, 128});  // the sum of negative zeros is +0
  CHECK(fused_kernels([](const std::vector<Tensor>& v) { return sum(v[0] * 1.0f, 0); }, {zeros_below}) == 1);
}

TEST_CASE("a variable's new value is written over the old one where nobody else holds that") {
  jit::set_mode(jit::Mode::wait);
  for (bool fused : {true, false}) {
    Variable w(ones({1000}), "w");
    auto step = function("step", [&](const Tensor& g) {
      if (fused) w.assign_sub(0.5f * g);
      else w.assign_sub(g);
      return sum(g);
    });
    step(ones({1000}));
    const void* before = Tensor(w).rep()->data;
    step(ones({1000}));
    CHECK(Tensor(w).rep()->data == before);
    CHECK(array_equal(w, full({1000}, fused ? 0.0f : -1.0f)));
    Tensor held = w;  // now somebody looks
    step(ones({1000}));
    CHECK(array_equal(held, full({1000}, fused ? 0.0f : -1.0f)));
    CHECK(array_equal(w, full({1000}, fused ? -0.5f : -2.0f)));
    CHECK(Tensor(w).rep()->data != held.rep()->data);
    // An error leaves the variable as it was.
    auto bad = function("bad", [&](const Tensor& g, const Tensor& index) {
      w.assign_sub(g * 2.0f);
      return take(g, index, 0);
    });
    Tensor value = Tensor(w) + 0.0f;
    CHECK_THROWS_AS(bad(ones({1000}), tensor({int64_t{5000}})), Error);
    CHECK(array_equal(w, value));
  }
  jit::set_mode(jit::Mode::tiered);
}

TEST_CASE("a backward kernel computes cheap values again and reads what is dear") {
  // gelu, step by step, between two products; its gradient needs the operand and the tanh, and not all that is between.
  jit::set_mode(jit::Mode::wait);
  auto f = [](const Tensor& x, const Tensor& w, const Tensor& v) {
    GradientTape tape;
    tape.watch(w);
    Tensor h = matmul(x, w);
    Tensor loss = sum(matmul(0.5f * h * (1 + tanh(0.79788456f * (h + 0.044715f * h * h * h))), v));
    return tape.gradient(loss, w);
  };
  auto traced = function("gelu_gradient", f);
  Tensor x = normal({8, 40}), w = normal({40, 64}), v = normal({64, 8});
  CHECK(same(traced(x, w, v), f(x, w, v)));
  jit::set_mode(jit::Mode::tiered);
  Graph g = fuse(optimize(traced.graph(spec(f32, {8, 40}), spec(f32, {40, 64}), spec(f32, {64, 8}))), nullptr);
  size_t most = 0;
  for (const Node& n : g.nodes())
    if (n.op == &fused_op) most = std::max(most, n.outputs.size());
  CHECK(most <= 2);
}
