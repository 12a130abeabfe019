// Libraries that a program does not need are not loaded: oneDNN, 50 MB, comes with the first convolution, LAPACK with the first
// matrix that is factorised.
#include <rill/rill.h>

#include "expect.h"
#include "loaded.h"

using namespace rill;

int main() {
  if (loaded("librill.so").empty()) return 0;  // a static one has the others in it
  const Tensor a = ones({100, 100});
  EXPECT(sum(matmul(a + a, a)).item<float>() == 2e6f);
  EXPECT(loaded("libdnnl").empty() && loaded("librill_onednn").empty());
#ifdef RILL_HAVE_ONEDNN
  EXPECT(sum(conv(ones({1, 8, 8, 16}), ones({3, 3, 16, 16}))).item<float>() == 36 * 9 * 16 * 16);
  EXPECT(!loaded("librill_onednn").empty());
#endif
  EXPECT(loaded("librill_lapack").empty());
  linalg::det(a);
}
