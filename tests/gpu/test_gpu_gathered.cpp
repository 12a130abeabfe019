// Many small kernels as few (devices/cuda/driver/gathered.h), on the simulated driver (on a true one, results alone): steps
// of optimizers over hundreds of parameters give the CPU's bits in a few launches, eagerly and traced, and nothing
// begins before what it depends on.
#include <limits>
#include <thread>

#include "catch.h"
#include "gpu_devices.h"
#include "rill/devices/driver.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

// Kernels that were launched while `work` ran; none where the driver does not count.
template <class F>
long launches(F&& work) {
  auto* count = of_driver<long()>("rill_simulated_launches");
  synchronize(gpu);
  const long before = count ? count() : 0;
  work();
  synchronize(gpu);
  return count ? count() - before : 0;
}

constexpr int parameters = 200;

Tensor numbers(const Shape& shape, uint64_t seed) {
  return random::normal(shape, {.key = random::Key(seed), .device = host});
}
// Vectors and matrices in turn, of other sizes; one of them is large.
Shape shape_of(int i) {
  if (i == 7) return {300, 301};
  return i % 2 ? Shape{1 + i % 37} : Shape{3 + i % 5, 1 + i % 11};
}

// Parameters on a device, and an optimizer.
template <class O>
struct Run {
  Device device;
  std::vector<Variable> variables;
  O optimizer;

  template <class Options>
  Run(Device d, const Options& options) : device(d), optimizer(make(d, options)) {
    for (int i = 0; i < parameters; ++i)
      variables.emplace_back(numbers(shape_of(i), uint64_t(i)).to(d), "p" + std::to_string(i));
  }
  template <class Options>
  static O make(Device d, const Options& options) {
    const WithDevice here(d);
    return O(options);
  }
  std::vector<Tensor> gradients(int step) const {
    std::vector<Tensor> all;
    for (int i = 0; i < parameters; ++i) all.push_back(numbers(shape_of(i), uint64_t(1000 * step + i + 7)).to(device));
    return all;
  }
  void step(const std::vector<Tensor>& gradients) {
    const WithDevice here(device);
    optimizer.apply_gradients(gradients, variables);
  }
};

template <class O, class Options>
void same_steps(const Options& options, long most) {
  Run<O> on_host(host, options), on_gpu(gpu, options), traced(gpu, options);
  auto step = function("step", [&](const std::vector<Tensor>& g) { traced.step(g); });
  for (int s = 1; s <= 4; ++s) {
    on_host.step(on_host.gradients(s));
    const std::vector<Tensor> g = on_gpu.gradients(s);
    const long eager = launches([&] { on_gpu.step(g); });
    const long replayed = launches([&] { step(g); });
    jit::wait();
    INFO("step " << s << ": " << eager << " launches, traced " << replayed);
    if (s > 1) CHECK(eager <= most);
    if (s > 3) CHECK(replayed <= most);
    for (size_t i = 0; i < parameters; ++i) {
      CHECK(same(on_gpu.variables[i].value().to(host), on_host.variables[i].value()));
      CHECK(same(traced.variables[i].value().to(host), on_host.variables[i].value()));
    }
  }
}

}  // namespace

TEST_CASE("steps of optimizers over many parameters are a few launches") {
  same_steps<nn::Adam>(nn::AdamOptions{.learning_rate = 0.01}, 25);
  same_steps<nn::AdamW>(nn::AdamWOptions{.learning_rate = 0.01}, 25);
  same_steps<nn::SGD>(nn::SGDOptions{.learning_rate = 0.1, .momentum = 0.9}, 40);
  same_steps<nn::Lion>(nn::LionOptions{.learning_rate = 0.1, .clip_value = 1.5}, 80);
}

TEST_CASE("groups of parameters have rates of their own in one step") {
  const auto make = [](Device d) {
    Run<nn::Adam> run(d, nn::AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1});
    run.optimizer.group("p1*", {.rate = 0.5}).group("p2*", {.weight_decay = 0});
    return run;
  };
  Run<nn::Adam> on_host = make(host), on_gpu = make(gpu);
  for (int s = 0; s < 2; ++s) on_host.step(on_host.gradients(s)), on_gpu.step(on_gpu.gradients(s));
  for (size_t i = 0; i < parameters; ++i)
    CHECK(same(on_gpu.variables[i].value().to(host), on_host.variables[i].value()));
}

TEST_CASE("nothing begins before what it depends on") {
  const auto work = [](Device d) {
    std::vector<Tensor> all;
    run_together(d, [&] {
      Tensor x = numbers({100}, 1).to(d), y = numbers({100}, 2).to(d);
      for (int i = 0; i < 20; ++i) {
        const Tensor before = x;
        x = x * 0.5f + y;                       // what was computed is read
        y = before - x(Slice(none, none, -1));  // in another order, and memory that was freed is taken again
        if (i % 5 == 0) x = x + sum(y);         // what is no map comes after what is gathered
        if (i % 7 == 0) y = y + numbers({100}, 3).to(d);
        all.push_back(x.at(i).set(y(3)));
      }
      all.push_back(concat({x, y}));
    });
    for (Tensor& t : all) t = t.to(host);
    return all;
  };
  const std::vector<Tensor> want = work(host), is = work(gpu);
  for (size_t i = 0; i < want.size(); ++i) CHECK(same(is[i], want[i]));
}

TEST_CASE("what is gathered has begun when others use it") {
  const Tensor x = numbers({50}, 1), there = x.to(gpu);
  Tensor is, seen;
  const long n = launches([&] {
    run_together(gpu, [&] {
      std::vector<Tensor> some;
      for (int i = 0; i < 10; ++i) some.push_back(there + float(i));
      is = some[9];
      std::thread([&] { seen = (is * 2.f).to(host); }).join();
      for (int i = 0; i < 10; ++i) some.push_back(there * float(i));
      CHECK(same(some[19].to(host), x * 9.f));
    });
  });
  CHECK(same(seen, (x + 9.f) * 2.f));
  CHECK(n <= 3);
  // Also where the work throws.
  CHECK_THROWS(run_together(gpu, [&] {
    is = there + 1.f;
    seen = is + 2.f;
    fail("test", "no more", Where());
  }));
  CHECK(same(seen.to(host), x + 1.f + 2.f));
}

TEST_CASE("what is gathered begins where memory is out") {
  const Tensor x = numbers({1 << 18}, 1);
  Tensor y = x.to(gpu);
  synchronize(gpu);
  release_cached_memory(gpu);
  set_memory_limit(gpu, memory_stats(gpu).reserved + (8 << 20));
  run_together(gpu, [&] {
    for (int i = 0; i < 40; ++i) y = y + 1.f;
  });
  set_memory_limit(gpu, 0);
  Tensor want = x;
  for (int i = 0; i < 40; ++i) want = want + 1.f;
  CHECK(same(y.to(host), want));
}

TEST_CASE("maps make random numbers themselves") {
  const WithDevice there(gpu);
  const auto dropped = [](const Tensor& x, const random::Key& key) {
    const Tensor noise = random::normal(x.shape(), {.key = key});
    return where(random::uniform(x.shape(), {.key = key.split()[1]}) < 0.3f, 0.f, x * 2 + noise);
  };
  for (const Shape& shape : {Shape{64, 48}, Shape{7, 5, 3}, Shape{1}})
    for (const DType d : {f32, f16, f64}) {
      const Tensor x = numbers(shape, 3).astype(d).to(gpu);
      const auto of = [&](uint64_t seed) { return random::Key(seed); };
      auto f = function("dropped", dropped);
      for (uint64_t i = 0; i < 4; ++i, jit::wait()) {
        const random::Key key = of(i);
        Tensor is;
        const long n = launches([&] { is = f(x, key); });
        CHECK(same(is, dropped(x, key)));
        INFO(to_string(shape) << " " << n << " launches");
        if (i > 2) CHECK(n <= 4);
      }
      auto turned =
          function("turned", [&](const Tensor& y, const random::Key& key) { return dropped(transpose(y), key); });
      if (shape.size() != 2) continue;
      for (uint64_t i = 0; i < 3; ++i, jit::wait()) CHECK(same(turned(x, of(i)), dropped(transpose(x), of(i))));
    }
}
