// Weights that never change are brought into the layout of the library's kernels once, at the first call: the bits stay
// those of eager, and nothing but outputs is allocated from then on.
#include <thread>
#include <tuple>

#include "catch.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

Tensor normal(const Shape& s, DType d = f32) {
  return random::normal(s, {.dtype = d, .key = random::Key(uint64_t(s.numel()))});
}

// Calls f five times, through the change of tiers, and compares each with eager.
template <class F>
void same_as_eager(F f, const Tensor& x) {
  auto traced = function("f", f);
  for (int call = 0; call < 5; ++call) {
    INFO("call " << call);
    CHECK(same(traced(x), f(x)));
    if (call == 1) jit::wait();
  }
}

}  // namespace

TEST_CASE("a product with constant weights has the bits of eager") {
  struct Sizes {
    int64_t m, k, n;
  };
  for (auto [m, k, n] : {Sizes{1, 512, 512}, {8, 300, 77}, {33, 2000, 65}, {128, 784, 512}, {100, 64, 1000}}) {
    INFO(m << "x" << k << "x" << n);
    const Tensor w = normal({k, n}), v = normal({n, k}), bias = normal({n});
    same_as_eager([&](const Tensor& x) { return matmul(x, w); }, normal({m, k}));
    same_as_eager([&](const Tensor& x) { return matmul(x, transpose(v)); }, normal({m, k}));
    same_as_eager([&](const Tensor& x) { return relu(matmul(x, w) + bias); }, normal({m, k}));
    same_as_eager([&](const Tensor& x) { return matmul(x, slice_axis(w, 0, 0, k)); }, normal({3, m, k}));
  }
  for (DType d : {f16, bf16}) {
    const Tensor w = normal({200, 300}, d);
    same_as_eager([&](const Tensor& x) { return matmul(x, w); }, normal({64, 200}, d));
  }
}

TEST_CASE("products of slices and of turned operands have the bits of eager") {
  // oneDNN may take another implementation for what is packed than for what lies so, which adds up in another order.
  const auto part = [](const Tensor& t) { return t(ellipsis, slice(0, t.dim(-1) / 2)); };
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{8, 480, 480}, {8, 481, 96}, {12, 352, 274}}) {
    INFO(m << "x" << k << "x" << n);
    const Tensor dense = normal({k, n}), turned = normal({n, k}).T(), padded = part(normal({k, 2 * n})),
                 padded_turned = part(normal({n, 2 * k})).T();
    for (const Tensor& w : {dense, turned, padded, padded_turned}) {
      same_as_eager([&](const Tensor& x) { return matmul(x, w); }, normal({m, k}));
      same_as_eager([&](const Tensor& x) { return matmul(part(x), w); }, normal({m, 2 * k}));
      same_as_eager([&](const Tensor& x) { return relu(matmul(part(x), w) + 1); }, normal({m, 2 * k}));
      same_as_eager([&](const Tensor& x) { return matmul(x.T(), w); }, normal({k, m}));
      const auto steps = [&](const Tensor& x, const Tensor& w) {
        const auto step = [&](const Tensor& s, const Tensor&) { return std::pair(s, matmul(x, w) * s); };
        return scan(step, tensor(1.f), zeros({5})).second;
      };
      const Tensor x = part(normal({m, 2 * k}));
      auto traced = function("steps", [&](const Tensor& x, const Tensor& w) { return steps(x, w); });
      CHECK(same(traced(x, w), steps(x, w)));
    }
    const Tensor batch = transpose(normal({k, 2, n}), {1, 0, 2});
    same_as_eager([&](const Tensor& x) { return matmul(x, batch); }, normal({2, m, k}));
    same_as_eager([&](const Tensor& x) { return einsum("bij,jbk->bik", x, swapaxes(batch, 0, 1)); }, normal({2, m, k}));
  }
}

TEST_CASE("products of batches with constant weights have the bits of eager") {
  struct Sizes {
    int64_t batch, m, k, n;
  };
  for (auto [batch, m, k, n] : {Sizes{2, 8, 128, 512}, {3, 1, 200, 300}, {2, 33, 257, 65}, {5, 64, 100, 31}}) {
    INFO(batch << " of " << m << "x" << k << "x" << n);
    const Tensor w = normal({batch, k, n}), v = normal({batch, n, k}), shared = normal({1, k, n});
    same_as_eager([&](const Tensor& x) { return matmul(x, w); }, normal({batch, m, k}));
    same_as_eager([&](const Tensor& x) { return matmul(x, swapaxes(v, -1, -2)); }, normal({batch, m, k}));
    same_as_eager([&](const Tensor& x) { return matmul(x, shared); }, normal({batch, m, k}));
    same_as_eager([&](const Tensor& x) { return relu(matmul(x, w)) + 1; }, normal({batch, m, k}));
  }
}

TEST_CASE("weights that the steps of a loop share are packed anew for each loop") {
  // Other weights in the same memory at each call: what an earlier loop has packed must not be used again.
  const auto recurrent = [](const Tensor& seed, int64_t m, int64_t n) {
    const Tensor w = 0.1f * sin(seed * (1 + iota({n * n}, f32).reshape({n, n}))), batch = stack({w, -w});
    const Tensor h = cos(seed + iota({m * n}, f32).reshape({m, n}));
    const auto [last, all] = scan(
        [&](const std::pair<Tensor, Tensor>& s, const Tensor& row) {
          const Tensor next = tanh(matmul(s.first, w) + row);
          const Tensor pair = tanh(matmul(s.second, swapaxes(batch, -1, -2)) + row);
          return std::pair(std::pair(next, pair), sum(pair, {.axis = 0}) + matmul(next, w.T()));
        },
        std::pair(h, stack({h, h * 2})), seed * iota({9}, f32));
    const Tensor counted = while_loop([](const Tensor& x) { return sum(abs(x)) < 1e4; },
                                      [&](const Tensor& x) { return matmul(x, w) + x * 1.5f + 1; }, h);
    const auto flat = [](const Tensor& t) { return reshape(t, {-1}); };
    return concat({flat(last.first), flat(last.second), flat(all), flat(counted)});
  };
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 96}, {8, 128}, {40, 70}}) {
    INFO(m << "x" << n);
    auto traced = function("recurrent", [&, m = m, n = n](const Tensor& seed) { return recurrent(seed, m, n); });
    for (int call = 0; call < 5; ++call) {
      INFO("call " << call);
      const Tensor seed = tensor(0.3f + float(call));
      CHECK(same(traced(seed), recurrent(seed, m, n)));
      if (call == 1) jit::wait();
    }
  }
}

TEST_CASE("a convolution with constant weights has the bits of eager") {
  const Tensor w = normal({3, 3, 16, 32}), bias = normal({32});
  same_as_eager([&](const Tensor& x) { return conv2d(x, w); }, normal({2, 14, 14, 16}));
  same_as_eager([&](const Tensor& x) { return relu(conv2d(x, w) + bias); }, normal({2, 14, 14, 16}));
  auto gradient = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(square(conv2d(x, w))), x);
  };
  same_as_eager(gradient, normal({2, 14, 14, 16}));
}

TEST_CASE("the packed weights are made once, and go with the function") {
  const Tensor w = normal({512, 512}), x = normal({8, 512});
  jit::set_mode(jit::Mode::wait);
  const size_t before = memory_stats(Device()).in_use;
  {
    auto f = function("f", [&](const Tensor& t) { return matmul(t, w) * 2.0f; });
    f(x);
    const size_t bytes = memory_stats(Device()).in_use;
    CHECK(bytes - before >= 512 * 512 * 4);
    for (int i = 0; i < 10; ++i) f(x);
    CHECK(memory_stats(Device()).in_use == bytes);
  }
  CHECK(memory_stats(Device()).in_use == before);
  jit::set_mode(jit::Mode::tiered);
}

TEST_CASE("traces that read the same weights share what is packed") {
  const Tensor w = normal({512, 512}), other = w + 0;
  jit::set_mode(jit::Mode::wait);
  auto f = function("f", [&](const Tensor& t, int k) { return matmul(t, w) * float(k) + matmul(tanh(t), w); });
  const Tensor x = normal({8, 512});
  const size_t before = memory_stats(Device()).in_use;
  f(x, 1);
  const size_t one = memory_stats(Device()).in_use - before;
  CHECK(one >= 512 * 512 * 4);
  CHECK(one < 2 * 512 * 512 * 4);  // two products, one packed copy
  for (int k = 2; k < 10; ++k) CHECK(same(f(x, k), matmul(x, w) * float(k) + matmul(tanh(x), w)));
  CHECK(memory_stats(Device()).in_use - before < one + 512 * 512 * 4);
  // Equal elements elsewhere, and another layout of the same, are other operands.
  auto g = function("g", [&](const Tensor& t) { return matmul(t, other) + matmul(t, transpose(w)); });
  CHECK(same(g(x), matmul(x, other) + matmul(x, transpose(w))));
  jit::set_mode(jit::Mode::tiered);
}

TEST_CASE("many threads share packed weights") {
  const Tensor w = normal({256, 256}), x = normal({16, 256}), expected = matmul(x, w);
  auto f = function("f", [&](const Tensor& t) { return matmul(t, w); });
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int call = 0; call < 20; ++call) wrong += !same(f(x), expected);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
