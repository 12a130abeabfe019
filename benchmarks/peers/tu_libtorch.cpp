// The 20-line program of row tu_compile, in libtorch: the same program as benchmarks/tu_rill.cpp.
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::Tensor x = torch::randn({32, 8}), y = torch::randn({32, 1});
  torch::Tensor w = torch::zeros({8, 1}).requires_grad_(), b = torch::zeros({1}).requires_grad_();
  for (int step = 0; step < 10; ++step) {
    torch::Tensor loss = torch::mean(torch::square(torch::matmul(x, w) + b - y));
    auto grads = torch::autograd::grad({loss}, {w, b});
    torch::NoGradGuard guard;
    w.sub_(0.1 * grads[0]);
    b.sub_(0.1 * grads[1]);
  }
  std::cout << w << "\n";
}
