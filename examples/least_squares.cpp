// Fits two of NIST's reference data sets for nonlinear regression and prints the parameters next to the certified ones.
// The method is in nist.h: Gauss-Newton with Jacobians by the tape.
#include <cstdio>

#include "nist.h"

int main() {
  for (const nist::Problem& p : nist::problems())
    for (size_t start = 0; start < p.starts.size(); ++start) {
      const nist::Fit fit = nist::fit(p, p.starts[start]);
      std::printf("%s, start %zu: %d steps\n", p.name.c_str(), start + 1, fit.steps);
      for (size_t k = 0; k < p.certified.size(); ++k)
        std::printf("  b%zu %.10e  certified %.10e\n", k + 1, fit.parameters[k], p.certified[k]);
      std::printf("  sum of squares %.10e  certified %.10e\n", fit.residual_sum, p.residual_sum);
    }
}
