// The 20-line program of row tu_compile, in MLX: the same program as benchmarks/tu_rill.cpp.
#include <mlx/mlx.h>

#include <iostream>

namespace mx = mlx::core;

int main() {
  mx::array x = mx::random::normal({32, 8}), y = mx::random::normal({32, 1});
  std::vector<mx::array> params = {mx::zeros({8, 1}), mx::zeros({1})};
  auto loss = [&](const std::vector<mx::array>& p) { return mx::mean(mx::square(mx::matmul(x, p[0]) + p[1] - y)); };
  auto gradient = mx::grad(loss, std::vector<int>{0, 1});
  for (int step = 0; step < 10; ++step) {
    std::vector<mx::array> grads = gradient(params);
    for (size_t i = 0; i < params.size(); ++i) params[i] = params[i] - mx::array(0.1f) * grads[i];
    mx::eval(params);
  }
  std::cout << params[0] << "\n";
}
