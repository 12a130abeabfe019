// The sums of squares for variances: of a short row while it is in the cache, of a long one by all threads.
#pragma once
#include <cstdint>

namespace rill::cpu {

// out[r] = sum of (x - mean(x))^2 over the n elements of dense row r, n >= 2: with the bits of mean(), a
// difference, square() and sum().
void square_deviations(const float* x, int64_t rows, int64_t n, float* out);
void square_deviations(const double* x, int64_t rows, int64_t n, double* out);

}  // namespace rill::cpu
