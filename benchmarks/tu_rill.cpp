// The 20-line program of row tu_compile, in rill: the same program as benchmarks/peers/tu_libtorch.cpp.
#include <rill/rill.h>

#include <iostream>

int main() {
  rill::Tensor x = rill::random::normal({32, 8}), y = rill::random::normal({32, 1});
  rill::Variable w(rill::zeros({8, 1})), b(rill::zeros({1}));
  for (int step = 0; step < 10; ++step) {
    rill::GradientTape tape;
    rill::Tensor loss = rill::mean(rill::square(rill::matmul(x, w) + b - y));
    auto [dw, db] = tape.gradient(loss, w, b);
    w.assign_sub(0.1f * dw);
    b.assign_sub(0.1f * db);
  }
  std::cout << w.value() << "\n";
}
