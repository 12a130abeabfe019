// Rows that need a process of their own, one for each mode; run.py starts it and reads the JSON line that it prints.
//   --start        the first eager result; prints the clock, which run.py read before it started this process
//   --first-call   the first call of a traced function, tracing included
//   --peak-memory  a few steps of train_cnn, or of `block`, `deep` or `segments`; prints the peak resident size
//   --tape         a million recorded ops; prints by how much the process grew
//   --backward     MODEL traced|eager: the time of a loss and its gradients divided by that of the loss alone
//   --100-steps    a hundred steps of train_block; prints the clock, as --start
//   --first-step   the first step of ResNet-50; prints the clock, as --start
//   --lengths      one traced step of train_block's network at each of 50 lengths
//   --compile N    tracing and compiling a chain of N ops, to its first result by compiled code
#include <cstdio>
#include <cstring>

#include "../examples/models/resnet.h"
#include "answer.h"
#include "models.h"
#include "rill/trace/jit.h"

using namespace rill;

static void start() {
  Tensor c = ones({4, 4}) + ones({4, 4});
  const bool right = c.data<float>()[0] == 2;
  std::printf("{\"row\": \"start\", \"peer\": \"rill\", \"clock_us\": %.3f}\n", right ? bench::clock_us() : 0.0);
}

static void first_call() {
  Tensor x = random::normal({4096}), y = random::normal({4096}), z = random::normal({4096});
  auto begin = bench::clock_us();
  auto f = function("chain", bench::chain);
  Tensor result = f(x, y, z);
  std::printf("{\"row\": \"first_call\", \"peer\": \"rill\", \"median_us\": %.3f}\n", bench::clock_us() - begin);
}

// Of 50 layers, in this many segments; 1: everything is kept.
static void deep_steps(int64_t segments) {
  const bench::Parameters p = bench::deep_parameters();
  const auto chain = bench::deep_chain(p);
  const Tensor x = random::normal({4096, 256});
  for (int i = 0; i < 3; ++i) {
    GradientTape tape;
    const Tensor loss = mean(square(recompute_chain(chain, x, {.segments = segments})));
    const std::vector<Tensor> gradients = tape.gradient(loss, p);
  }
}

static void peak_memory(const char* what) {
  if (!std::strcmp(what, "deep")) {
    deep_steps(1);
  } else if (!std::strcmp(what, "segments")) {
    deep_steps(7);
  } else if (!std::strcmp(what, "block")) {
    auto step = bench::train_block();
    for (int i = 0; i < 5; ++i) step(random::normal({8, 128, 256}), bench::labels(8, 2));
  } else {
    auto step = bench::train_cnn();
    Tensor x = random::normal({64, 28, 28, 1}), y = bench::labels(64, 10);
    for (int i = 0; i < 5; ++i) step(x, y);
  }
  std::printf("{\"row\": \"peak_memory\", \"peer\": \"rill\", \"bytes\": %ld}\n", bench::peak_bytes());
}

static void tape_memory() {
  Tensor x = ones({4, 4}), w = ones({4, 4}), y = x + w;
  const long before = bench::peak_bytes();
  GradientTape tape;
  tape.watch(x);
  y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + w;
  std::printf("{\"row\": \"tape_memory\", \"peer\": \"rill\", \"bytes\": %ld}\n", bench::peak_bytes() - before);
}

static double time_of(const auto& call) {
  return bench::median_us([&](int times) {
    for (int i = 0; i < times; ++i) static_cast<void>(call());
  });
}

template <class Loss>
static void backward(const bench::Parameters& p, Loss loss, const Tensor& x, const Tensor& y, bool traced) {
  const auto value = [&](const Tensor& x, const Tensor& y) { return loss(p, x, y); };
  const auto gradients = [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor v = loss(p, x, y);
    return std::pair(v, tape.gradient(v, p));
  };
  double alone = 0, both = 0;
  if (traced) {
    auto f = function("loss", value);
    auto g = function("gradients", gradients);
    alone = time_of([&] { return f(x, y); }), both = time_of([&] { return g(x, y); });
  } else {
    alone = time_of([&] { return value(x, y); }), both = time_of([&] { return gradients(x, y); });
  }
  std::printf("{\"row\": \"backward\", \"peer\": \"rill\", \"median_us\": %.4f, \"loss_us\": %.1f}\n", both / alone,
              alone);
}

static void backward_of(const char* model, bool traced) {
  if (!std::strcmp(model, "cnn"))
    backward(bench::cnn_parameters(), bench::cnn_loss, random::normal({64, 28, 28, 1}), bench::labels(64, 10), traced);
  else if (!std::strcmp(model, "block"))
    backward(bench::block_parameters(), bench::block_loss, random::normal({8, 128, 256}), bench::labels(8, 2), traced);
  else backward(bench::mlp_parameters(), bench::mlp_loss, random::normal({128, 784}), bench::labels(128, 10), traced);
}

static void first_100_steps() {
  auto step = bench::train_block();
  Tensor x = random::normal({8, 128, 256}), y = bench::labels(8, 2), loss;
  for (int i = 0; i < 100; ++i) loss = step(x, y);
  const bool finite = loss.item<float>() < 1e9f;
  std::printf("{\"row\": \"first_100_steps\", \"peer\": \"rill\", \"clock_us\": %.3f}\n",
              finite ? bench::clock_us() : 0.0);
}

static void first_step() {
  models::ResNet<models::Bottleneck> net = models::resnet50(1000);
  nn::Adam adam;
  const auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = bench::mean_cross_entropy(net(x, nn::Mode::training), y);
    adam.minimize(loss, tape, variables(net));
    return loss;
  });
  const Tensor x = random::normal({4, 64, 64, 3});
  nn::build(net, x);
  const bool finite = step(x, bench::labels(4, 10)).item<float>() < 1e9f;
  std::printf("{\"row\": \"nn_build\", \"peer\": \"rill\", \"clock_us\": %.3f}\n", finite ? bench::clock_us() : 0.0);
}

static void varying_lengths() {
  auto step = bench::training(bench::block_parameters(), 0.01f, bench::block_loss,
                              {.signature = {spec(f32, {8, any, 256}), spec(i64, {8})}});
  Tensor y = bench::labels(8, 2), loss;
  std::vector<Tensor> xs;
  for (int i = 0; i < 50; ++i) xs.push_back(random::normal({8, 16 + i * 37 % 50 * 240 / 49, 256}));
  auto begin = bench::clock_us();
  for (const Tensor& x : xs) loss = step(x, y);
  static_cast<void>(loss.item<float>());
  std::printf("{\"row\": \"varying_lengths\", \"peer\": \"rill\", \"median_us\": %.3f}\n", bench::clock_us() - begin);
}

static void compile_chain(int n) {
  Tensor x = random::normal({64, 64}), w = random::normal({64, 64}) * 0.1f;
  jit::set_mode(jit::Mode::wait);
  auto begin = bench::clock_us();
  auto f = function("chain", [&](const Tensor& x) { return bench::long_chain(x, w, n); });
  static_cast<void>(f(x));
  std::printf("{\"row\": \"compile\", \"peer\": \"rill\", \"median_us\": %.3f}\n", bench::clock_us() - begin);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (!std::strcmp(mode, "--start")) return start(), 0;
  if (!std::strcmp(mode, "--first-call")) return first_call(), 0;
  if (!std::strcmp(mode, "--peak-memory")) return peak_memory(argc > 2 ? argv[2] : ""), 0;
  if (!std::strcmp(mode, "--tape")) return tape_memory(), 0;
  if (!std::strcmp(mode, "--backward") && argc > 3) return backward_of(argv[2], !std::strcmp(argv[3], "traced")), 0;
  if (!std::strcmp(mode, "--100-steps")) return first_100_steps(), 0;
  if (!std::strcmp(mode, "--first-step")) return first_step(), 0;
  if (!std::strcmp(mode, "--lengths")) return varying_lengths(), 0;
  if (!std::strcmp(mode, "--compile") && argc > 2) return compile_chain(std::atoi(argv[2])), 0;
  std::fprintf(stderr,
               "usage: %s --start | --first-call | --peak-memory [block | deep | segments] | --tape | --backward MODEL "
               "traced|eager | --100-steps | --first-step | --lengths | --compile N\n",
               argv[0]);
  return 1;
}
