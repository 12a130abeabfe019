// A separate program, as a user of an installed rill would write it. It includes every public header; given the name
// of a file it also writes a graph there, which takes the library of files as well. det() takes librill_ops.
#include <rill/data.h>
#include <rill/distribute.h>
#include <rill/distributions.h>
#include <rill/metrics.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/summary.h>
#include <rill/tensor/version.h>
#if __has_include(<rill/train.h>)
#include <rill/train.h>
#endif

#include <cmath>
#include <cstdio>
#include <string>

#if defined(NEWER_THAN_20) && __cplusplus <= 202002L
#error "what rill says to compilers replaced the standard that was asked for"
#endif
#if !RILL_VERSION_AT_LEAST(0, 1, 0) || \
    RILL_VERSION_AT_LEAST(RILL_VERSION_MAJOR, RILL_VERSION_MINOR, RILL_VERSION_PATCH + 1)
#error "RILL_VERSION_AT_LEAST compares versions wrongly"
#endif

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
  const std::string headers = std::to_string(RILL_VERSION_MAJOR) + "." + std::to_string(RILL_VERSION_MINOR) + "." +
                              std::to_string(RILL_VERSION_PATCH);
  if (headers != version()) {
    std::printf("the headers are of %s\n", headers.c_str());
    return 1;
  }
  const bool right = y.item<float>() == 54.f && slope(0, 0).item<float>() == 7.f;
  return right && std::abs(linalg::det(x).item<float>() + 2) < 1e-5f ? 0 : 1;
}
