// libtorch's side of the benchmark: the cost of a C++ program, without Python between it and the kernels.
// Answers rows as peers/common.py does: names on the command line or on standard input, JSON lines on standard
// output. Start at rows(). libtorch cannot compile from C++, so every row here is eager.
#include <torch/torch.h>

#include <cstring>

#include "../answer.h"

using bench::Call;
using torch::Tensor;

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

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--start")) {
    (torch::ones({4, 4}) + torch::ones({4, 4})).data_ptr<float>();
    std::printf("{\"row\": \"start\", \"peer\": \"libtorch\", \"clock_us\": %.3f}\n", bench::clock_us());
    return 0;
  }
  torch::set_num_threads(2);
  torch::manual_seed(0);
  if (argc > 1 && !std::strcmp(argv[1], "--peak-memory")) {
    train_cnn()(5);
    std::printf("{\"row\": \"peak_memory\", \"peer\": \"libtorch\", \"bytes\": %ld}\n", bench::peak_bytes());
    return 0;
  }
  bench::Rows answers;
  for (auto& [name, make] : rows()) answers[name] = [make = make] { return bench::Ways{{"libtorch", make()}}; };
  bench::serve(answers, argc, argv);
}
