// Traced functions as CUDA graphs, on the simulated driver (on a true one, results alone): what they give is what eager
// code gives, wherever their operands lie at that call; how often they are captured; what happens where that fails.
#include <atomic>
#include <limits>
#include <thread>

#include "catch.h"
#include "child.h"
#include "gpu_devices.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/ops/buffers.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

// Since it was made; always as wanted where the driver does not count.
class Counts {
 public:
  // How many were launched; as many as one likes where the driver does not count.
  long launches() const {
    auto* count = of_driver<long()>("rill_simulated_graph_launches");
    return count ? count() - launches_ : std::numeric_limits<long>::max();
  }
  long captures() const { return now("rill_simulated_graphs") - captures_; }
  bool captured(long n) const { return is("rill_simulated_graphs", captures_, n); }
  bool launched(long n) const { return is("rill_simulated_graph_launches", launches_, n); }

 private:
  static long now(const char* name) {
    auto* count = of_driver<long()>(name);
    return count ? count() : 0;
  }
  static bool is(const char* name, long before, long n) {
    INFO(name << ": " << now(name) - before << ", not " << n);
    CHECK((!of_driver<long()>(name) || now(name) - before == n));
    return !of_driver<long()>(name) || now(name) - before == n;
  }
  long captures_ = now("rill_simulated_graphs"), launches_ = now("rill_simulated_graph_launches");
};

// Two kernels at least, for a sum over the first axis is one of its own.
Tensor two_kernels(const Tensor& x, const Tensor& y) { return cumsum(exp(x) * y, 0) + 1; }

// Called until it is compiled.
template <class F, class... A>
void warm_up(F& f, const A&... args) {
  for (int i = 0; i < 2; ++i) f(args...), jit::wait();
}

Tensor some(const Shape& shape, uint64_t seed) {
  return random::normal(shape, {.key = random::Key(seed), .device = host}).to(gpu);
}

}  // namespace

TEST_CASE("a traced function is captured once, and begun as one") {
  const Tensor x = some({50, 3}, 1), y = some({50, 3}, 2), want = two_kernels(x, y);
  auto f = function("f", two_kernels);
  warm_up(f, x, y);
  f(x, y);
  const Counts counts;
  for (int i = 0; i < 5; ++i) CHECK(same(f(x, y), want));
  CHECK(counts.captured(0));
  CHECK(counts.launched(5));
}

TEST_CASE("operands may lie elsewhere at each call") {
  auto f = function("f", two_kernels);
  std::vector<Tensor> kept;  // so that nothing has the address of another
  const auto call = [&](uint64_t seed) {
    const Tensor x = some({40}, seed), y = some({40}, seed + 1), is = f(x, y);
    for (const Tensor& t : {x, y, is}) kept.push_back(t);
    CHECK(same(is, two_kernels(x, y)));
  };
  for (uint64_t seed = 0; seed < 4; ++seed) call(10 * seed), jit::wait();
  const Counts counts;
  for (uint64_t seed = 4; seed < 12; ++seed) call(10 * seed);
  CHECK(counts.captured(0));
  CHECK(counts.launched(8));
}

TEST_CASE("what libraries read is captured again where it has moved, a few places are kept") {
  const Tensor w = some({16, 16}, 1);
  auto f = function("f", [&](const Tensor& x) { return cumsum(matmul(exp(x), w), 0) + matmul(x, w); });
  std::vector<Tensor> xs, results;
  for (uint64_t i = 0; i < 3; ++i) xs.push_back(some({16, 16}, 2 + i));
  for (int round = 0; round < 6; ++round)
    for (const Tensor& x : xs) {
      const Tensor is = f(x);
      CHECK(same(is, cumsum(matmul(exp(x), w), 0) + matmul(x, w)));
      jit::wait();
    }
  const Counts counts;
  for (int round = 0; round < 4; ++round)
    for (const Tensor& x : xs) f(x);
  CHECK(counts.captured(0));
  // Always elsewhere: capturing is given up.
  const Counts always;
  for (uint64_t i = 0; i < 40; ++i) {
    results.push_back(some({16, 16}, 100 + i));
    CHECK(same(f(results.back()), cumsum(matmul(exp(results.back()), w), 0) + matmul(results.back(), w)));
  }
  CHECK(always.captures() <= 9);
}

TEST_CASE("operands of other strides, and one operand twice") {
  auto f = function("f", two_kernels);
  const Tensor a = some({30, 30}, 1), b = some({30, 30}, 2), wide = some({30, 60}, 3);
  for (int i = 0; i < 4; ++i, jit::wait()) {
    CHECK(same(f(a, b), two_kernels(a, b)));
    CHECK(same(f(a, a), two_kernels(a, a)));
    CHECK(same(f(b, b), two_kernels(b, b)));
    CHECK(same(f(transpose(a), b), two_kernels(transpose(a), b)));
    CHECK(same(f(flip(a, 0), b), two_kernels(flip(a, 0), b)));
    const Tensor part = wide(Slice(), Slice(3, 33));
    CHECK(same(f(part, b), two_kernels(part, b)));
    const Tensor lent = from_buffer(a.rep()->data + 4, {29, 30}, f32, [a] {}, {.device = gpu});
    CHECK(same(f(lent, lent), two_kernels(lent, lent)));
  }
}

TEST_CASE("lent operands that overlap, and later do not") {
  auto f = function("f", two_kernels);
  std::vector<Tensor> kept;
  const auto column = [&](const Tensor& m, int c) {
    return from_buffer(m.rep()->data + 4 * c, {100}, f32, [m] {}, {.strides = {2}, .device = gpu});
  };
  const auto part = [&](const Tensor& a, int begin) {
    return from_buffer(a.rep()->data + 4 * begin, {100}, f32, [a] {}, {.device = gpu});
  };
  const auto call = [&](const Tensor& x, const Tensor& y) {
    kept.push_back(f(x, y));
    CHECK(same(kept.back(), two_kernels(x, y)));
  };
  for (uint64_t i = 0; i < 10; ++i) {
    const Tensor one = some({100, 2}, i), other = some({100, 2}, 100 + i);
    kept.push_back(one), kept.push_back(other);
    call(column(one, 0), column(i < 5 ? one : other, 1));
    call(part(one, 0), part(i < 5 ? one : other, 1));
    jit::wait();
  }
}

TEST_CASE("views inside, and results that are views") {
  const auto g = [](const Tensor& x) {
    const Tensor y = cumsum(x * 2, 0), z = transpose(y);
    return std::vector<Tensor>{reshape(z, {-1}), z, x(0), cumsum(transpose(x), 0)};
  };
  auto f = function("f", g);
  for (uint64_t i = 0; i < 6; ++i, jit::wait()) {
    const Tensor x = some({5, 7}, i);
    const std::vector<Tensor> is = f(x), want = g(x);
    for (size_t k = 0; k < is.size(); ++k) CHECK(same(is[k], want[k]));
  }
}

TEST_CASE("training steps: Variables, what is computed over them, random numbers") {
  const WithDevice there(gpu);
  struct Run {
    nn::Dense in{6, 8}, out{8, 1};
    nn::Adam adam{{.learning_rate = 0.01}};
    Tensor step(const Tensor& x, const Tensor& y, const random::Key& key) {
      GradientTape tape;
      const Tensor noise = random::normal(x.shape(), {.stddev = 0.01, .key = key});
      const Tensor loss = mean(square(out(tanh(in(x + noise))) - y));
      adam.minimize(loss, tape, all());
      return loss;
    }
    std::vector<Variable> all() const { return {in.kernel, *in.bias, out.kernel, *out.bias}; }
  } eager, traced;
  for (size_t i = 0; i < 4; ++i) traced.all()[i].assign(eager.all()[i].value());
  auto step = function(
      "step", [&](const Tensor& x, const Tensor& y, const random::Key& key) { return traced.step(x, y, key); });
  const Counts counts;
  for (uint64_t i = 0; i < 12; ++i, jit::wait()) {
    const Tensor x = some({32, 6}, i), y = expand_dims(sum(x, 1), 1);
    const random::Key key(i);
    CHECK(same(step(x, y, key), eager.step(x, y, key)));
  }
  for (size_t i = 0; i < 4; ++i) CHECK(same(traced.all()[i].value(), eager.all()[i].value()));
  CHECK(counts.launches() > 6);
}

TEST_CASE("independent branches run side by side, what depends on others after them") {
  const Tensor w = some({16, 16}, 9);
  const auto g = [&](const Tensor& x) {
    Tensor sum_of_all = x;
    for (int i = 0; i < 3; ++i) {
      const Tensor y = cumsum(exp(x * float(i)), 0);
      sum_of_all = sum_of_all + cumsum(matmul(y, w) + y, 1) * softmax(y);
    }
    return cumsum(sum_of_all, 0);
  };
  auto* branches = of_driver<size_t()>("rill_simulated_branches");
  auto f = function("f", g);
  if (branches) branches();
  for (uint64_t i = 0; i < 12; ++i, jit::wait()) {
    const Tensor x = some({16, 16}, i % 4);
    CHECK(same(f(x), g(x)));
  }
  if (branches) CHECK(branches() >= 3);
}

TEST_CASE("inner functions, loops and choices run as before") {
  const auto g = [](const Tensor& x) {
    const Tensor n = cumsum(exp(x), 0) * 2;
    const Tensor y = cond(sum(n) > 0, [&] { return cumsum(n - 1, 0) * 3; }, [&] { return n; });
    return cumsum(y * y, 0) + 1;
  };
  auto f = function("f", g);
  for (uint64_t i = 0; i < 6; ++i, jit::wait()) {
    const Tensor x = some({20}, i);
    CHECK(same(f(x), g(x)));
  }
}

TEST_CASE("threads that call one function at once") {
  auto f = function("f", two_kernels);
  const Tensor x = some({64}, 1), y = some({64}, 2);
  warm_up(f, x, y);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 15; ++i) {
        const Tensor own = some({64}, 10 * t + i);
        right += same(f(own, y), two_kernels(own, y));
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 60);
}

TEST_CASE("faults in graphs are told to the thread that launches them") {
  const Tensor x = arange(5.f, {.device = gpu}), near = tensor({1, 2}, {.device = gpu}),
               far = tensor({1, 7}, {.device = gpu});
  auto f = function("f", [](const Tensor& x, const Tensor& at) { return cumsum(take(x * 2, at, 0), 0); });
  warm_up(f, x, near);
  for (int i = 0; i < 3; ++i) f(x, near);
  static_cast<void>(f(x, far));
  says([] { synchronize(gpu); }, {"[take]", "index 7 is out of bounds"});
  const int rounds = 4;
  for (int i = 0; i < rounds; ++i) {
    std::string message;
    std::thread([&] {
      static_cast<void>(f(x, far));
      message = message_of([] { synchronize(gpu); });
    }).join();
    CHECK(has(message, "index 7 is out of bounds"));
    CHECK_NOTHROW(synchronize(gpu));
  }
}

TEST_CASE("where capturing fails, kernels are started one by one") {
  const auto fail = of_driver<void(const char*, int)>("rill_simulated_fail");
  if (!fail) return skip_case("a true driver does not fail on demand");
  const Tensor x = some({30}, 1), y = some({30}, 2), want = two_kernels(x, y);
  const auto with_product = [&](const Tensor& x, const Tensor& y) { return cumsum(matmul(x, y) + x, 0); };
  const Tensor a = some({16, 16}, 3), b = some({16, 16}, 4), product = with_product(a, b);
  const auto runs_without = [&](const char* call, auto g, const Tensor& p, const Tensor& q, const Tensor& result) {
    INFO(call);
    auto f = function("f", g);
    const Counts counts;
    fail(call, 1);
    for (int i = 0; i < 5; ++i, jit::wait()) CHECK(same(f(p, q), result));
    CHECK(counts.launched(0));
  };
  for (const char* call : {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"})
    runs_without(call, two_kernels, x, y, want);
  for (const char* call : {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphAddChildGraphNode"})
    runs_without(call, with_product, a, b, product);
  // A kernel whose parameters cannot be written: captured again.
  auto f = function("f", two_kernels);
  std::vector<Tensor> kept;
  for (uint64_t i = 0; i < 8; ++i, jit::wait()) {
    if (i >= 5) fail("cuGraphExecKernelNodeSetParams_v2", int(i % 2) + 1);
    kept.push_back(some({30}, 10 + i));
    kept.push_back(f(kept.back(), y));
    CHECK(same(kept.back(), two_kernels(kept[kept.size() - 2], y)));
  }
  fail("cuGraphLaunch", 1);
  for (int i = 0; i < 3; ++i) CHECK(same(f(x, y), want));
}

TEST_CASE("what kernels need for themselves stays where it is, operands may move") {
  const auto g = [](const Tensor& x) { return sort(cumsum(exp(x), 0)) + argsort(x * -1.f).astype(f32); };
  auto f = function("f", g);
  std::vector<Tensor> kept;
  const auto call = [&](uint64_t seed) {
    kept.push_back(some({5000}, seed));
    kept.push_back(f(kept.back()));
    CHECK(same(kept.back(), g(kept[kept.size() - 2])));
  };
  for (uint64_t i = 0; i < 5; ++i, jit::wait()) call(i);
  const Counts counts;
  for (uint64_t i = 5; i < 10; ++i) call(i);
  CHECK(counts.captured(0));
  CHECK(counts.launched(5));
}

TEST_CASE("graphs and their memory go with their function, and where memory is out") {
  const auto living = of_driver<long()>("rill_simulated_living_graphs");
  if (!living) return skip_case("a true driver does not count");
  const long before = living();
  const Tensor x = some({1 << 10}, 1), y = some({1 << 10}, 2);
  synchronize(gpu);
  const size_t bytes = memory_stats(gpu).in_use;
  {
    auto f = function("f", [](const Tensor& x, const Tensor& y) { return sort(two_kernels(x, y)) + 1; });
    warm_up(f, x, y);
    for (int i = 0; i < 3; ++i) f(x, y);
    CHECK(living() > before);
    CHECK(memory_stats(gpu).in_use > bytes);
  }
  synchronize(gpu);
  CHECK(living() == before);
  CHECK(memory_stats(gpu).in_use == bytes);
}

TEST_CASE("where memory is out, captures go, and programs that fitted before still do") {
  const int64_t n = 1 << 13;
  const auto g = [](const Tensor& x) {
    const Tensor a = sort(x * 2);
    const Tensor s = cond(sum(a) > 0, [&] { return a + 1; }, [&] { return a - 1; });
    return sort(-s);
  };
  const Tensor x = some({n}, 1), want = g(x);
  release_cached_memory(gpu);
  size_t peak = 0;
  {
    auto f = function("f", g);
    f(x), jit::wait(), synchronize(gpu);
    reset_peak_memory(gpu);
    f(x), synchronize(gpu);
    peak = memory_stats(gpu).peak;
  }
  for (const size_t more : {size_t(0), size_t(32) << 10, size_t(128) << 10}) {
    auto f = function("f", g);
    f(x), jit::wait(), f(x), jit::wait(), synchronize(gpu);
    release_cached_memory(gpu);
    set_memory_limit(gpu, std::max(peak, memory_stats(gpu).in_use) + (8 << 10) + more);
    for (int i = 0; i < 5; ++i) {
      Tensor is;
      CHECK_NOTHROW(is = f(x));
      if (i == 4) {
        set_memory_limit(gpu, 0);
        CHECK(same(is, want));
      }
    }
    set_memory_limit(gpu, 0);
  }
}

TEST_CASE("lent memory is waited for, whatever other threads capture") {
  const Tensor w = some({16, 16}, 1);
  std::atomic<bool> stop = false;
  std::thread captures([&] {
    while (!stop) {
      auto f = function("f", [&](const Tensor& x) { return cumsum(matmul(x, w) + 1, 0); });
      for (int i = 0; i < 4; ++i, jit::wait()) f(w);
      synchronize(gpu);
    }
  });
  for (uint64_t i = 0; i < 8; ++i) {
    Tensor own = some({16, 16}, i);
    const Tensor want = exp(own);
    Tensor result;
    {
      const Tensor lent = from_buffer(own.rep()->data, {16, 16}, f32, [own] {}, {.device = gpu});
      result = exp(lent);
    }
    CHECK(same(result, want));
  }
  stop = true;
  captures.join();
}

TEST_CASE("child: no graphs", "[.]") {
  const Tensor x = some({30}, 1), y = some({30}, 2);
  auto f = function("f", two_kernels);
  const Counts counts;
  for (int i = 0; i < 5; ++i, jit::wait()) CHECK(same(f(x, y), two_kernels(x, y)));
  CHECK(counts.captured(0));
}
TEST_CASE("RILL_CUDA_GRAPHS=off keeps kernels apart") {
  std::string output;
  CHECK(child("RILL_CUDA_GRAPHS=off", "child: no graphs", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}
