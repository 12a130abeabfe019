// A separate program, as a user of an installed rill would write it. It includes every public header; given the name
// of a file it also writes a graph there, which takes the library of files as well.
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/summary.h>
#include <rill/tensor/version.h>

#include <cstdio>

int main(int argc, char** argv) {
  using namespace rill;
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  GradientTape tape;
  tape.watch(x);
  Tensor y = sum(matmul(x, x));
  Tensor slope = tape.gradient(y, x);
  std::printf("rill %s: %g, slope %g\n", version(), double(y.item<float>()), double(slope(0, 0).item<float>()));
  auto squares = function("squares", [](const Tensor& t) { return sum(t * t + 1); });
  squares(x), squares(ones({3}));  // two traces
  if (argc > 1) {
    export_graph(squares.graph(spec(f32, {2, 2})), argv[1]);
  }
  return y.item<float>() == 54.f && slope(0, 0).item<float>() == 7.f ? 0 : 1;
}
