// A separate program, as a user of an installed rill would write it: it includes every public header, and its numbers
// come from both libraries.
#include <rill/rill.h>
#include <rill/tensor/version.h>
#include <cstdio>

int main() {
  using namespace rill;
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  GradientTape tape;
  tape.watch(x);
  Tensor y = sum(matmul(x, x));
  Tensor slope = tape.gradient(y, x);
  std::printf("rill %s: %g, slope %g\n", version(), double(y.item<float>()), double(slope(0, 0).item<float>()));
  return y.item<float>() == 54.f && slope(0, 0).item<float>() == 7.f ? 0 : 1;
}
