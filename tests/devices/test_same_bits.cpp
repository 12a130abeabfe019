// A product or a convolution has the same bits whatever else happens: again in the same process, with more or fewer
// threads, called by several host threads at once, while the cores are taken, inside a parallel region, traced, with
// weights packed and with a tail. And a row's bits do not depend on the batch that it stands in.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <thread>

#include "catch.h"
#include "rill/devices/crowding.h"
#include "rill/rill.h"
#include "same.h"
#include "threads.h"

using namespace rill;

namespace {

using Run = std::function<Tensor()>;

Tensor normal(const Shape& s, DType d = f32, uint64_t seed = 1) {
  return random::normal(s, {.dtype = d, .key = random::Key(uint64_t(s.numel()) * 7 + seed)});
}

// Parallel regions have just been late, several times: small work stays on the calling thread for a while.
void crowd() {
  const auto now = [] {
    return int64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  };
  for (int i = 0; i < 5; ++i) process_crowding().saw(now(), 3'000'000);
  REQUIRE(crowded(1, 1));
}

int differing(const Run& run, const Tensor& expected, int times) {
  int count = 0;
  for (int i = 0; i < times; ++i) count += !same(run(), expected);
  return count;
}

// What happens around `run` while the number of threads stays.
void same_around(const Run& run, const Tensor& expected) {
  CHECK(differing(run, expected, 3) == 0);
  crowd();
  CHECK(differing(run, expected, 2) == 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) others.emplace_back([&] { wrong += differing(run, expected, 2); });
  for (std::thread& t : others) t.join();
  CHECK(wrong == 0);
}

// The same with any number of threads, one inside a parallel region included.
void same_whatever(const Run& run) {
  Tensor expected;
  {
    const Threads one(1);
    expected = run();
  }
  for (int count : {2, 3, 1}) {
    INFO(count << " threads");
    const Threads threads(count);
    same_around(run, expected);
    std::atomic<int> wrong{0};
    parallel_for(4, 1, [&](int64_t begin, int64_t end) { wrong += differing(run, expected, int(end - begin)); });
    CHECK(wrong == 0);
  }
}

// Eager, and traced, where `weight` is an operand and where it is a constant, which is packed.
template <class F>
void same_traced(F f, const Tensor& x, const Tensor& weight) {
  same_whatever([&] { return f(x, weight); });
  auto traced = function("f", f);
  auto packed = function("packed", [&](const Tensor& x) { return f(x, weight); });
  const Tensor expected = f(x, weight);
  for (int call = 0; call < 3; ++call) {
    CHECK(same(traced(x, weight), expected));
    CHECK(same(packed(x), expected));
    jit::wait();
  }
  same_whatever([&] { return concat({traced(x, weight), packed(x)}); });
}

struct Sizes {
  int64_t m, k, n;
};
constexpr Sizes sizes[] = {{64, 512, 64},  {100, 1000, 200}, {400, 400, 400}, {33, 1024, 65}, {7, 2000, 300},
                           {64, 5000, 64}, {50, 3000, 1},    {2, 20000, 3},   {16, 512, 512}};

}  // namespace

TEST_CASE("the gradient by weights of a layer, again and again") {
  const Tensor x = normal({512, 64}), g = normal({512, 64}, f32, 2);
  const Threads threads(2);
  const Tensor expected = matmul(transpose(x), g);
  CHECK(differing([&] { return matmul(transpose(x), g); }, expected, 200) == 0);
}

TEST_CASE("a product on three threads, again and again") {
  const Tensor a = normal({100, 1000}), b = normal({1000, 200});
  const Threads threads(3);
  const Tensor expected = matmul(a, b);
  CHECK(differing([&] { return matmul(a, b); }, expected, 200) == 0);
}

TEST_CASE("a traced chain behind a product has the bits of the eager one") {
  const Tensor a = normal({400, 400}), b = normal({400, 400}, f32, 2);
  const auto chain = [](const Tensor& a, const Tensor& b) { return tanh(matmul(a, b) * 0.1f + 1) * 2; };
  auto traced = function("chain", chain);
  for (int count : {1, 2, 3}) {
    const Threads threads(count);
    for (int call = 0; call < 20; ++call) CHECK(same(traced(a, b), chain(a, b)));
  }
}

TEST_CASE("products of matrices") {
  for (DType d : {f32, f64, bf16, f16})
    for (const auto& [m, k, n] : std::span(sizes).first(d == f32 ? std::size(sizes) : 4)) {
      INFO(name(d) << ": " << m << "x" << k << " by " << k << "x" << n);
      const Tensor a = normal({m, k}).astype(d), b = normal({k, n}, f32, 2).astype(d);
      const Tensor at = transpose(a) + 0, bt = transpose(b) + 0;
      same_whatever([&] { return matmul(a, b); });
      same_whatever([&] { return matmul(transpose(at), b); });
      // How the operands lie is nothing that shows, but to oneDNN, which multiplies halves.
      if (d == f32 || d == f64) {
        CHECK(same(matmul(transpose(at), b), matmul(a, b)));
        CHECK(same(matmul(a, transpose(bt)), matmul(a, b)));
      }
    }
}

TEST_CASE("products of halves, whichever way the left operand lies") {
  for (DType d : {bf16, f16})
    for (const auto& [m, k, n] : {std::array{128, 600, 64}, {200, 600, 512}, {128, 32, 512}, {17, 257, 100}}) {
      INFO(name(d) << ": " << m << "x" << k << " by " << k << "x" << n);
      const Tensor a = normal({m, k}).astype(d), at = transpose(a) + 0, b = normal({k, n}, f32, 2).astype(d);
      CHECK(same(matmul(transpose(at), b), matmul(a, b)));
    }
}

TEST_CASE("products traced, packed and with tails") {
  for (const auto& [m, k, n] : sizes) {
    INFO(m << "x" << k << " by " << k << "x" << n);
    const Tensor x = normal({m, k}), w = normal({k, n}, f32, 2), bias = normal({n}), residual = normal({m, n});
    same_traced([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, x, w);
    same_traced([](const Tensor& x, const Tensor& w) { return matmul(x, transpose(w)); }, x, transpose(w) + 0);
    same_traced([&](const Tensor& x, const Tensor& w) { return relu(matmul(x, w) + bias) * 2; }, x, w);
    same_traced([&](const Tensor& x, const Tensor& w) { return residual - 0.1f * matmul(x, w); }, x, w);
    same_traced([&](const Tensor& x, const Tensor& w) { return bias - matmul(x, w) * residual; }, x, w);
  }
}

TEST_CASE("batches of products, contractions and attention") {
  for (DType d : {f32, f64, bf16}) {
    INFO(name(d));
    for (int64_t batch : {2, 3, 20}) {
      const Tensor a = normal({batch, 70, 300}).astype(d), b = normal({batch, 300, 90}, f32, 2).astype(d);
      same_whatever([&] { return matmul(a, b); });
      same_whatever([&] { return matmul(a, b(0)); });
      same_whatever([&] { return einsum("bij,bjk->ik", a, b); });
      same_whatever([&] { return einsum("bij,bjk->kbi", a, b); });
    }
    const Tensor q = normal({2, 4, 60, 32}).astype(d), k = normal({2, 4, 90, 32}).astype(d);
    same_whatever([&] { return attention(q, k, k * 2); });
  }
  const Tensor x = normal({300, 40}), y = normal({300}), square = matmul(transpose(x), x);
  same_whatever([&] { return linalg::solve(square, transpose(x)); });
  same_whatever([&] { return linalg::cholesky(square); });
  same_whatever([&] { return linalg::lstsq(x, y).solution; });
}

TEST_CASE("the gradients of a layer, on a tape and recomputed") {
  const Tensor x = normal({128, 400}), target = normal({128, 300});
  const Variable w(normal({400, 300}, f32, 2));
  const auto loss = [&] { return sum(square(tanh(matmul(x, w)) - target)); };
  const auto gradient = [&](const auto& f) {
    GradientTape tape;
    const Tensor value = f();
    return tape.gradient(value, w);
  };
  same_whatever([&] { return gradient(loss); });
  const Tensor expected = gradient(loss);
  same_whatever([&] {
    return gradient(
        [&] { return recompute([&](const Tensor& x) { return sum(square(tanh(matmul(x, w)) - target)); })(x); });
  });
  CHECK(same(
      gradient([&] { return recompute([&](const Tensor& x) { return sum(square(tanh(matmul(x, w)) - target)); })(x); }),
      expected));
}

TEST_CASE("convolutions on the same number of threads") {
  for (int64_t channels : {1, 3, 16, 40}) {
    const Tensor x = normal({4, 20, 20, channels}), w = normal({3, 3, channels, 24}), g = normal({4, 20, 20, 24});
    const auto forward = [&] { return conv(x, w, {.padding = "SAME"}); };
    const auto gradients = [&](const Tensor& of) {
      GradientTape tape;
      tape.watch(x), tape.watch(w);
      const Tensor y = sum(conv(x, w, {.padding = "SAME"}) * g);
      return tape.gradient(y, of);
    };
    for (int count : {1, 2, 3}) {
      INFO(channels << " channels on " << count << " threads");
      const Threads threads(count);
      same_around(forward, forward());
      const Tensor by_x = gradients(x), by_w = gradients(w);
      same_around([&] { return gradients(x); }, by_x);
      same_around([&] { return gradients(w); }, by_w);
    }
  }
}

namespace {
struct Deterministic {
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(false); }
};
}  // namespace

TEST_CASE("deterministic convolutions and their gradients, whatever the threads and the batch") {
  const Deterministic on;
  struct Layer {
    int64_t batch, size, in, out, window, stride;
  };
  for (DType d : {f32, bf16})
    for (const auto& [batch, size, in, out, window, stride] : {Layer{3, 56, 3, 64, 7, 2},
                                                               {5, 14, 64, 64, 3, 1},
                                                               {4, 14, 40, 32, 1, 2},
                                                               {2, 20, 16, 24, 3, 2},
                                                               {20, 9, 5, 7, 3, 1},
                                                               {3, 10, 4, 6, 1, 2}}) {
      INFO(name(d) << ": " << batch << " images of " << size << "x" << size << "x" << in << " by " << window << "x"
                   << window << ", stride " << stride << ", to " << out);
      const Tensor x = normal({batch, size, size, in}).astype(d),
                   w = normal({window, window, in, out}, f32, 2).astype(d);
      const auto forward = [&, s = stride](const Tensor& x) {
        return conv(x, w, {.strides = {s, s}, .padding = "SAME"});
      };
      const auto by_input = [&](const Tensor& x) {
        GradientTape tape;
        tape.watch(x);
        return tape.gradient(sum(forward(x) * 0.5f), x);
      };
      const auto by_weights = [&, s = stride] {
        GradientTape tape;
        tape.watch(w);
        return tape.gradient(sum(conv(x, w, {.strides = {s, s}, .padding = "SAME"}) * 0.5f), w);
      };
      same_whatever([&] { return forward(x); });
      same_whatever([&] { return by_input(x); });
      same_whatever(by_weights);
      for (int64_t rows : {int64_t(1), batch - 1}) {
        const Tensor part = slice_axis(x, 0, 0, rows);
        CHECK(same(forward(part), slice_axis(forward(x), 0, 0, rows)));
        CHECK(same(by_input(part), slice_axis(by_input(x), 0, 0, rows)));
      }
      auto traced = function("traced", [&](const Tensor& x) { return relu(forward(x) + 1); });
      for (int call = 0; call < 3; ++call) {
        CHECK(same(traced(x), relu(forward(x) + 1)));
        jit::wait();
      }
    }
}

TEST_CASE("convolutions of small images: whatever the layout, traced and eager") {
  for (const auto& [batch, size, window, stride] :
       {std::array<int64_t, 4>{64, 1, 3, 1}, {8, 1, 3, 1}, {40, 2, 3, 2}, {64, 1, 1, 1}, {64, 2, 3, 1}}) {
    INFO(batch << " images of " << size << "x" << size << " by " << window << "x" << window << ", stride " << stride);
    const Tensor x = normal({batch, size, size, 48}), w = normal({window, window, 48, 80}, f32, 2), b = normal({80});
    const ConvOptions how{.strides = {stride, stride}, .padding = int(window / 2)};
    ConvOptions turned = how;
    turned.layout = Layout::nchw;
    const Tensor y = conv(x, w, how);
    CHECK(same(transpose(conv(transpose(x, {0, 3, 1, 2}), transpose(w, {3, 2, 0, 1}), turned), {0, 2, 3, 1}), y));
    auto traced = function("traced", [&](const Tensor& x, const Tensor& w) { return relu(conv(x, w, how) + b); });
    for (int call = 0; call < 3; ++call) {
      CHECK(same(traced(x, w), relu(y + b)));
      jit::wait();
    }
  }
}

// One thread computes it, whatever there are.
TEST_CASE("a small convolution has the same bits for any number of threads, and so have its gradients") {
  for (DType d : {f32, bf16}) {
    INFO(name(d));
    const Tensor x = normal({6, 16, 16, 8}).astype(d), w = normal({3, 3, 8, 8}, f32, 2).astype(d);
    const auto gradient = [&](const Tensor& of) {
      GradientTape tape;
      tape.watch(of);
      return tape.gradient(sum(conv(x, w, {.strides = {2, 2}, .padding = "SAME"}) * 0.5f), of);
    };
    same_whatever([&] { return conv(x, w, {.strides = {2, 2}, .padding = "SAME"}); });
    same_whatever([&] { return gradient(x); });
    same_whatever([&] { return gradient(w); });
  }
}

TEST_CASE("batched products beside other threads") {
  for (DType d : {f32, f64, bf16, f16, c64})
    for (const auto& [batch, m, k, n] : {std::array<int64_t, 4>{40, 7, 300, 9}, {9, 64, 512, 64}, {3, 200, 300, 150}}) {
      INFO(name(d) << ": " << batch << " of " << m << "x" << k << " by " << k << "x" << n);
      const Tensor a = normal({batch, m, k}).astype(d), b = normal({batch, k, n}, f32, 2).astype(d);
      same_whatever([&] { return matmul(a, b); });
    }
}

TEST_CASE("a row of a product does not depend on the batch") {
  for (DType d : {f32, f64})
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{64, 64}, {300, 70}, {1024, 200}, {700, 7}}) {
      const Tensor a = normal({600, k}).astype(d), b = normal({k, n}, f32, 2).astype(d), bt = transpose(b) + 0;
      const Tensor all_rows = matmul(a, b);
      for (int64_t m : {1, 2, 5, 6, 7, 12, 13, 24, 25, 33, 64, 100, 145, 599}) {
        INFO(name(d) << ": " << m << " rows of " << k << " by " << n);
        const Tensor part = slice_axis(a, 0, 0, m), expected = slice_axis(all_rows, 0, 0, m);
        CHECK(same(matmul(part, b), expected));
        CHECK(same(matmul(part, transpose(bt)), expected));
        CHECK(same(matmul(expand_dims(part, 1), b).reshape({m, n}), expected));
      }
    }
}
