// Jacobians judged from outside: least squares fits of NIST's data sets to the certified parameters (examples/nist.h).
#include "../../examples/nist.h"

#include <cmath>

#include "catch.h"

TEST_CASE("nonlinear least squares reach the certified parameters of NIST from both starts") {
  for (const nist::Problem& p : nist::problems())
    for (const std::vector<double>& start : p.starts) {
      INFO(p.name);
      const nist::Fit fit = nist::fit(p, start);
      // Eleven digits are certified; the normal equations leave about as many of f64.
      for (size_t k = 0; k < p.certified.size(); ++k)
        CHECK(std::abs(fit.parameters[k] - p.certified[k]) <= 1e-9 * std::abs(p.certified[k]));
      CHECK(std::abs(fit.residual_sum - p.residual_sum) <= 1e-10 * p.residual_sum);
    }
}
