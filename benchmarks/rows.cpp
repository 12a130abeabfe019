// Rill's rows: one Google Benchmark for each, under the row's name in rows.py. peers/ holds the same work in other
// libraries. Rows say "traced" if the work runs through `function`; they time whatever its compiler does today.
#include <benchmark/benchmark.h>

#include "models.h"
#include "rill/nn.h"
#include "row.h"

using namespace rill;
using benchmark::State;

namespace {

Tensor normal(const Shape& shape) { return random::normal(shape); }

// Times calls of `call`, and keeps their results from being optimised away.
template <class Call>
void loop(State& state, Call call) {
  call();  // traces and compiles
  for (auto _ : state) {
    auto result = call();
    benchmark::DoNotOptimize(result);
  }
}

void small_add(State& state) {
  Tensor a = normal({4, 4}), b = normal({4, 4});
  loop(state, [&] { return a + b; });
}

void small_add_taped(State& state) {
  Tensor a = normal({4, 4}), b = normal({4, 4});
  while (state.KeepRunningBatch(100)) {  // a tape keeps what it recorded: a hundred calls each
    GradientTape tape;
    tape.watch(a);
    for (int i = 0; i < 100; ++i) {
      Tensor c = a + b;
      benchmark::DoNotOptimize(c);
    }
  }
}

void small_matmul(State& state) {
  Tensor a = normal({4, 4}), b = normal({4, 4});
  loop(state, [&] { return matmul(a, b); });
}

void chain10_backward(State& state) {
  Tensor x = normal({4, 4}), w = normal({4, 4});
  loop(state, [&] {
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 5; ++i) y = tanh(y * w);
    return tape.gradient(y, x);
  });
}

void tape_100K(State& state) {
  constexpr int ops = 100'000;
  Tensor x = normal({4, 4}), w = normal({4, 4});
  while (state.KeepRunningBatch(ops)) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < ops; ++i) y = y + w;
    Tensor g = tape.gradient(y, x);
    benchmark::DoNotOptimize(g);
  }
}

void call_hit(State& state) {
  Tensor a = normal({4, 4}), b = normal({4, 4});
  auto f = function("add", [](const Tensor& a, const Tensor& b) { return a + b; });
  loop(state, [&] { return f(a, b); });
}

void chain(State& state, int64_t n) {
  Tensor x = normal({n}), y = normal({n}), z = normal({n});
  auto f = function("chain", bench::chain);
  loop(state, [&] { return f(x, y, z); });
}

void softmax_row(State& state) {
  Tensor x = normal({4096, 1024});
  auto f = function("softmax", [](const Tensor& x) { return softmax(x, -1); });
  loop(state, [&] { return f(x); });
}

void ln_gelu(State& state) {
  Tensor x = normal({4096, 1024}), g = normal({1024}), b = normal({1024});
  auto f =
      function("ln_gelu", [](const Tensor& x, const Tensor& g, const Tensor& b) { return gelu(layer_norm(x, g, b)); });
  loop(state, [&] { return f(x, g, b); });
}

void sqsum0(State& state) {
  Tensor m = normal({4096, 1024});
  auto f = function("sqsum0", [](const Tensor& m) { return sum(m * m, 0); });
  loop(state, [&] { return f(m); });
}

void matmul_row(State& state, int64_t n) {
  Tensor a = normal({n, n}), b = normal({n, n});
  auto f = function("matmul", [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  loop(state, [&] { return f(a, b); });
}

void conv3x3(State& state) {
  Tensor x = normal({8, 56, 56, 64}), w = normal({3, 3, 64, 64});
  auto f = function("conv3x3", [](const Tensor& x, const Tensor& w) { return conv(x, w, {.padding = "SAME"}); });
  loop(state, [&] { return f(x, w); });
}

template <class Step>
void train(State& state, Step step, const Tensor& x, const Tensor& y) {
  loop(state, [&] { return step(x, y); });
}

// A step whose parameters stay f32 and whose network computes in bf16.
template <class Loss>
void half_step(State& state, const bench::Parameters& p, Loss loss, const Tensor& x, const Tensor& y) {
  const auto narrow = [loss](const bench::Parameters& p, const Tensor& x, const Tensor& y) {
    std::vector<Tensor> small;
    for (const Variable& v : p) small.push_back(v.astype(bf16));
    return loss(small, x.astype(bf16), y).astype(f32);
  };
  train(state, bench::training(p, 0.01f, narrow), x, y);
}

void jacobian(State& state) {
  Tensor v = normal({64}), w1 = normal({64, 64}) * 0.125f, w2 = normal({64, 32}) * 0.125f;
  auto f = function("jacobian", [](const Tensor& v, const Tensor& w1, const Tensor& w2) {
    GradientTape tape;
    tape.watch(v);
    Tensor y = matmul(tanh(matmul(v, w1)), w2);
    return tape.jacobian(y, v);
  });
  loop(state, [&] { return f(v, w1, w2); });
}

void jacobian_1000(State& state) {
  std::vector<Tensor> weights;
  for (int k = 0; k < 10; ++k) weights.push_back(normal({1000, 1000}) * 0.03f);
  auto net = [](const Tensor& v, const std::vector<Tensor>& weights) {
    Tensor h = v;
    for (const Tensor& w : weights) h = tanh(matmul(h, w));
    return h;
  };
  auto f = function("jacobian", [=](const Tensor& v, const std::vector<Tensor>& weights) {
    return jacrev([&](const Tensor& v) { return net(v, weights); })(v);
  });
  const Tensor v = normal({1000});
  loop(state, [&] { return f(v, weights); });
}

// The Hessian of the mean square of a network of 195 parameters and five scales, all in one vector.
void hessian_200(State& state) {
  const Tensor p = normal({200}) * 0.3f, x = normal({64, 8}), y = normal({64, 3});
  auto f = function("hessian", [](const Tensor& p, const Tensor& x, const Tensor& y) {
    return hessian([&](const Tensor& p) {
      const auto part = [&](int64_t first, const Shape& shape) {
        return reshape(p(slice(first, first + shape.numel())), shape);
      };
      const Tensor h = tanh(matmul(x, part(0, {8, 16})) + part(128, {16}));
      const Tensor out = matmul(h, part(144, {16, 3})) + part(192, {3});
      return mean(square(out - y)) + 1e-3f * sum(square(p));
    })(p);
  });
  loop(state, [&] { return f(p, x, y); });
}

// The Hessian of train_mlp's loss times a vector.
void hvp_mlp(State& state) {
  const std::vector<Tensor> p = bench::values_of(bench::mlp_parameters()),
                            v = bench::values_of(bench::mlp_parameters());
  const Tensor x = normal({128, 784}), y = bench::labels(128, 10);
  auto f =
      function("hvp", [](const std::vector<Tensor>& p, const std::vector<Tensor>& v, const Tensor& x, const Tensor& y) {
        return hvp([&](const std::vector<Tensor>& p) { return bench::mlp_loss(p, x, y); }, p, v);
      });
  loop(state, [&] { return f(p, v, x, y); });
}

// The gradient of train_mlp's loss for each of its 128 examples.
void per_example_mlp(State& state) {
  const std::vector<Tensor> p = bench::values_of(bench::mlp_parameters());
  const Tensor x = normal({128, 784}), y = bench::labels(128, 10);
  auto f = function("per_example", [](const std::vector<Tensor>& p, const Tensor& x, const Tensor& y) {
    return vmap([&](const Tensor& x, const Tensor& y) {
      return grad(
          [&](const std::vector<Tensor>& p) { return bench::mlp_loss(p, expand_dims(x, 0), expand_dims(y, 0)); })(p);
    })(x, y);
  });
  loop(state, [&] { return f(p, x, y); });
}

// A step on the rows of a large table that a batch looks up.
void train_table(State& state, bool traced) {
  const Variable table(normal({1000000, 64}), "table");
  const Tensor ids = random::randint(0, 1000000, {1000});
  nn::Adam adam;
  auto step = [&](const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = mean(square(take(table, ids, 0)));
    adam.minimize(loss, tape, {table});
    return loss;
  };
  auto f = function("step", step);
  loop(state, [&] { return traced ? f(ids) : step(ids); });
}

void nbody(State& state) {
  Tensor x = normal({2048, 3}), m = random::uniform({2048});
  auto f = function("nbody", bench::forces);
  loop(state, [&] { return f(x, m); });
}

// A random 100,000 x 100,000 matrix with a million elements, coalesced, times `columns` columns; 0: times a vector.
void sparse_product(State& state, int64_t columns) {
  const int64_t n = 100'000, count = 1'000'000;
  const SparseTensor a = SparseTensor(random::randint(0, n, {count, 2}), normal({count}), {n, n}).coalesce();
  Tensor x = columns ? normal({n, columns}) : normal({n});
  loop(state, [&] { return matmul(a, x); });
}

// A symmetric matrix, positive definite if `shift` is 1.
Tensor symmetric(int64_t n, float shift) {
  const Tensor x = normal({n, n});
  return shift > 0 ? matmul(x, x.T()) / n + shift * eye(n) : x + x.T();
}
Tensor complex_normal(const Shape& shape) { return complex(normal(shape), normal(shape)); }
template <class F>
void on(State& state, F f, const Tensor& x) {
  loop(state, [&] { return f(x); });
}

ROW(small_add, small_add(state));
ROW(small_add_taped, small_add_taped(state));
ROW(small_matmul, small_matmul(state));
ROW(chain10_backward, chain10_backward(state));
ROW(tape_100K, tape_100K(state));
ROW(call_hit, call_hit(state));
ROW(chain_4K, chain(state, 4096));
ROW(chain_16M, chain(state, 1 << 24));
ROW(softmax, softmax_row(state));
ROW(ln_gelu, ln_gelu(state));
ROW(sqsum0, sqsum0(state));
ROW(matmul_64, matmul_row(state, 64));
ROW(matmul_512, matmul_row(state, 512));
ROW(matmul_2048, matmul_row(state, 2048));
ROW(conv3x3, conv3x3(state));
ROW(train_tiny, train(state, bench::train_tiny(), normal({16, 8}), bench::labels(16, 4)));
ROW(train_mlp, train(state, bench::train_mlp(), normal({128, 784}), bench::labels(128, 10)));
ROW(train_cnn, train(state, bench::train_cnn(), normal({64, 28, 28, 1}), bench::labels(64, 10)));
ROW(train_block, train(state, bench::train_block(), normal({8, 128, 256}), bench::labels(8, 2)));
ROW(train_cnn_bf16,
    half_step(state, bench::cnn_parameters(), bench::cnn_loss, normal({64, 28, 28, 1}), bench::labels(64, 10)));
ROW(train_block_bf16,
    half_step(state, bench::block_parameters(), bench::block_loss, normal({8, 128, 256}), bench::labels(8, 2)));
ROW(train_mlp_eager, train(state, bench::eager_training(bench::mlp_parameters(), 0.01f, bench::mlp_loss),
                           normal({128, 784}), bench::labels(128, 10)));
ROW(train_cnn_eager, train(state, bench::eager_training(bench::cnn_parameters(), 0.01f, bench::cnn_loss),
                           normal({64, 28, 28, 1}), bench::labels(64, 10)));
ROW(train_block_eager, train(state, bench::eager_training(bench::block_parameters(), 0.01f, bench::block_loss),
                             normal({8, 128, 256}), bench::labels(8, 2)));
ROW(lstm_scan, train(state, bench::training(bench::lstm_parameters(), 0.01f, bench::lstm_loss), normal({128, 32, 128}),
                     bench::labels(32, 2)));
ROW(train_table, train_table(state, true));
ROW(train_table_eager, train_table(state, false));
ROW(nbody, nbody(state));
ROW(cholesky_1024, on(state, [](const Tensor& x) { return linalg::cholesky(x); }, symmetric(1024, 1)));
ROW(solve_1024, const Tensor b = normal({1024, 16});
    on(state, [&](const Tensor& x) { return linalg::solve(x, b); }, normal({1024, 1024})));
ROW(svd_512, on(state, [](const Tensor& x) { return linalg::svd(x).u; }, normal({512, 512})));
ROW(eigh_512, on(state, [](const Tensor& x) { return linalg::eigh(x).eigenvectors; }, symmetric(512, 0)));
ROW(inv_3x3, on(state, [](const Tensor& x) { return linalg::inv(x); }, normal({1000000, 3, 3})));
ROW(fft_1M, on(state, [](const Tensor& x) { return fft::fft(x); }, complex_normal({1 << 20})));
ROW(rfft_1M, on(state, [](const Tensor& x) { return fft::rfft(x); }, normal({1 << 20})));
ROW(fft2_2048, on(state, [](const Tensor& x) { return fft::fft2(x); }, complex_normal({2048, 2048})));
ROW(fft_batch, on(state, [](const Tensor& x) { return fft::fft(x); }, complex_normal({4096, 256})));
ROW(spmm, sparse_product(state, 64));
ROW(spmv, sparse_product(state, 0));
ROW(jacobian, jacobian(state));
ROW(jacobian_1000, jacobian_1000(state));
ROW(hessian_200, hessian_200(state));
ROW(hvp_mlp, hvp_mlp(state));
ROW(per_example_mlp, per_example_mlp(state));

}  // namespace

BENCHMARK_MAIN();
