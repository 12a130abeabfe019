// libtorch's side of the benchmark: what a C++ program pays, without Python between it and the kernels.
// Answers rows the way peers/common.py does: names on the command line or on standard input, JSON lines on standard output.
// Start at rows(). libtorch cannot compile from C++, so every row here is eager.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace F = torch::nn::functional;
using torch::Tensor;
using Call = std::function<void(int)>;  // does the work this many times
using Clock = std::chrono::steady_clock;

static double seconds_of(const Call& call, int times) {
  auto start = Clock::now();
  call(times);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Median over batches of at least a millisecond, as in common.py.
static double median_us(const Call& call) {
  const char* setting = std::getenv("RILL_BENCH_SECONDS");
  const double budget = setting ? std::atof(setting) : 0.4;
  call(1);
  int batch = 1;
  for (double spent; (spent = seconds_of(call, batch)) < 1e-3 && batch < 1 << 16;)
    batch = std::max(batch + 1, std::min(batch * 8, static_cast<int>(batch * 1.5e-3 / std::max(spent, 1e-7))));
  std::vector<double> samples;
  for (auto end = Clock::now() + std::chrono::duration<double>(budget); Clock::now() < end || samples.size() < 5;)
    samples.push_back(seconds_of(call, batch));
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2] / batch * 1e6;
}

static Call inference(std::function<Tensor()> f) {
  return [f](int n) {
    c10::InferenceMode guard;
    while (n--) f();
  };
}

static std::vector<Tensor> parameters(std::initializer_list<std::vector<int64_t>> shapes) {
  std::vector<Tensor> result;
  for (const auto& s : shapes) {
    const double fan_in = s.size() == 2 ? s[0] : s.size() == 4 ? 25 * s[1] : 0;
    result.push_back((fan_in ? torch::randn(s) / std::sqrt(fan_in) : torch::zeros(s)).requires_grad_());
  }
  return result;
}

// One SGD step: the loss, its gradients, an in-place update.
static Call training(std::vector<Tensor> params, double lr, std::function<Tensor(const std::vector<Tensor>&)> loss) {
  return [=](int n) {
    while (n--) {
      auto grads = torch::autograd::grad({loss(params)}, params);
      torch::NoGradGuard guard;
      for (size_t i = 0; i < params.size(); ++i) params[i].sub_(grads[i], lr);
    }
  };
}

static Call chain10_backward() {
  Tensor x = torch::randn({4, 4}).requires_grad_(), w = torch::randn({4, 4}), seed = torch::ones({4, 4});
  return [=](int n) {
    while (n--) {
      Tensor y = x;
      for (int i = 0; i < 5; ++i) y = torch::tanh(y * w);
      torch::autograd::grad({y}, {x}, {seed});
    }
  };
}

static Call matmul(int n) {
  Tensor a = torch::randn({n, n}), b = torch::randn({n, n});
  return inference([=] { return torch::matmul(a, b); });
}

static Call chain(int64_t n) {
  Tensor x = torch::randn(n), y = torch::randn(n), z = torch::randn(n);
  return inference([=] { return torch::tanh(x * y + z) * 0.5 + x; });
}

static Call conv3x3() {
  auto layout = at::MemoryFormat::ChannelsLast;
  Tensor x = torch::randn({8, 64, 56, 56}).contiguous(layout), w = torch::randn({64, 64, 3, 3}).contiguous(layout);
  return inference([=] { return torch::conv2d(x, w, {}, 1, 1); });
}

static Call train_tiny() {
  Tensor x = torch::randn({16, 8}), y = torch::randint(4, {16});
  return training(parameters({{8, 16}, {16}, {16, 4}, {4}}), 0.1, [=](const std::vector<Tensor>& p) {
    return torch::cross_entropy_loss(torch::tanh(torch::matmul(x, p[0]) + p[1]).matmul(p[2]) + p[3], y);
  });
}

static Call train_mlp() {
  Tensor x = torch::randn({128, 784}), y = torch::randint(10, {128});
  return training(parameters({{784, 512}, {512}, {512, 512}, {512}, {512, 10}, {10}}), 0.01, [=](const auto& p) {
    Tensor h = torch::relu(torch::matmul(x, p[0]) + p[1]);
    return torch::cross_entropy_loss(torch::relu(h.matmul(p[2]) + p[3]).matmul(p[4]) + p[5], y);
  });
}

static Call train_cnn() {
  Tensor x = torch::randn({64, 1, 28, 28}), y = torch::randint(10, {64});
  auto params = parameters({{32, 1, 5, 5}, {32}, {64, 32, 5, 5}, {64}, {3136, 1024}, {1024}, {1024, 10}, {10}});
  return training(params, 0.01, [=](const auto& p) {
    Tensor h = torch::max_pool2d(torch::relu(torch::conv2d(x, p[0], p[1], 1, 2)), 2);
    h = torch::max_pool2d(torch::relu(torch::conv2d(h, p[2], p[3], 1, 2)), 2);
    h = torch::relu(h.flatten(1).matmul(p[4]) + p[5]);
    return torch::cross_entropy_loss(h.matmul(p[6]) + p[7], y);
  });
}

static std::map<std::string, std::function<Call()>> rows() {
  return {
      {"small_add", [] { return inference([a = torch::randn({4, 4}), b = torch::randn({4, 4})] { return a + b; }); }},
      {"small_add_taped",
       [] {
         Tensor a = torch::randn({4, 4}).requires_grad_(), b = torch::randn({4, 4});
         return Call([=](int n) {
           while (n--) Tensor c = a + b;
         });
       }},
      {"small_matmul", [] { return matmul(4); }},
      {"chain10_backward", chain10_backward},
      {"chain_4K", [] { return chain(4096); }},
      {"chain_16M", [] { return chain(1 << 24); }},
      {"softmax", [] { return inference([m = torch::randn({4096, 1024})] { return torch::softmax(m, -1); }); }},
      {"sqsum0", [] { return inference([m = torch::randn({4096, 1024})] { return (m * m).sum(0); }); }},
      {"matmul_64", [] { return matmul(64); }},
      {"matmul_512", [] { return matmul(512); }},
      {"matmul_2048", [] { return matmul(2048); }},
      {"conv3x3", conv3x3},
      {"train_tiny", train_tiny},
      {"train_mlp", train_mlp},
      {"train_cnn", train_cnn},
  };
}

static long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) * 1024;
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--start")) {
    (torch::ones({4, 4}) + torch::ones({4, 4})).data_ptr<float>();
    const double us = std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count();
    std::printf("{\"row\": \"start\", \"peer\": \"libtorch\", \"clock_us\": %.3f}\n", us);
    return 0;
  }
  torch::set_num_threads(2);
  torch::manual_seed(0);
  if (argc > 1 && !std::strcmp(argv[1], "--peak-memory")) {
    train_cnn()(5);
    std::printf("{\"row\": \"peak_memory\", \"peer\": \"libtorch\", \"bytes\": %ld}\n", peak_bytes());
    return 0;
  }
  const auto all = rows();
  std::string name;
  for (int i = 1; argc > 1 ? i < argc && (name = argv[i], true) : bool(std::getline(std::cin, name)); ++i) {
    if (auto row = all.find(name); row != all.end())
      std::printf("{\"row\": \"%s\", \"peer\": \"libtorch\", \"median_us\": %.6f}\n", name.c_str(),
                  median_us(row->second()));
    std::printf("\n");
    std::fflush(stdout);
  }
}
