// The sums of squares that variances are made of, row by row while a row is in the cache.
#pragma once
#include <cstdint>

namespace rill::cpu {

inline constexpr int64_t longest_deviations = 1 << 15;  // elements of a row, which are kept until they are summed

// out[r] = sum of (x - mean(x))^2 over the n elements of dense row r, 2 <= n <= longest_deviations: the bits of mean(),
// a difference, square() and sum().
void square_deviations(const float* x, int64_t rows, int64_t n, float* out);
void square_deviations(const double* x, int64_t rows, int64_t n, double* out);

}  // namespace rill::cpu
