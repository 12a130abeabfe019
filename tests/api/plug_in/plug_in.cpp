// A plug-in that uses rill, as an interpreter or an editor opens one: with what it brings kept from everybody else. What
// librill itself opens when it is needed has to find librill there.
#include <rill/ops/op.h>
#include <rill/rill.h>

#include <cmath>

#include "../expect.h"

using namespace rill;

extern "C" __attribute__((visibility("default"))) void use_rill() {
  const Tensor a = tensor({{4.f, 1.f}, {2.f, 3.f}});
  EXPECT(std::abs(linalg::det(a).item<float>() - 10) < 1e-5f);
  EXPECT(std::abs(sum(linalg::eigvalsh(matmul(a, transpose(a)))).item<float>() - 30) < 1e-4f);
  EXPECT(sum(conv(ones({1, 8, 8, 16}), ones({3, 3, 16, 16}))).item<float>() == 36 * 9 * 16 * 16);
  auto f = function("f", [](Tensor x) { return exp(x) * 2 + tanh(x); });
  EXPECT(array_equal(f(a), exp(a) * 2 + tanh(a)));
  EXPECT(find_op("svd") && find_op("fft"));
}
