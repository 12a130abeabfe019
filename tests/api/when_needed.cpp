// Libraries that a program does not need are not loaded: oneDNN, 50 MB, comes with the first convolution, LAPACK with the first
// matrix that is factorised.
#include <rill/rill.h>

#include <fstream>
#include <iterator>
#include <string>

#include "expect.h"

using namespace rill;

static bool is_loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find(library) != std::string::npos;
}

int main() {
  if (!is_loaded("librill.so")) return 0;  // a static one has the others in it
  const Tensor a = ones({100, 100});
  EXPECT(sum(matmul(a + a, a)).item<float>() == 2e6f);
  EXPECT(!is_loaded("libdnnl") && !is_loaded("librill_onednn"));
#ifdef RILL_HAVE_ONEDNN
  EXPECT(sum(conv(ones({1, 8, 8, 16}), ones({3, 3, 16, 16}))).item<float>() == 36 * 9 * 16 * 16);
  EXPECT(is_loaded("librill_onednn"));
#endif
  EXPECT(!is_loaded("librill_lapack"));
  linalg::det(a);
}
