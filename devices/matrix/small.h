// Matrices of up to 4 rows, several at a time: a LAPACK call for each would take ten times longer than its arithmetic.
// Vectors hold the same element of several matrices, and every operation is rounded separately, so that the bits of a
// matrix depend neither on its neighbours nor on the vector width.
#pragma once
#include <cstdint>

namespace rill::cpu {

inline constexpr int64_t most_small_rows = 4;
// Whether the functions below support matrices of n rows and `columns` on the right side. For float and double.
inline bool is_small(int64_t n, int64_t columns = 1) {
  return n >= 1 && n <= most_small_rows && columns >= 1 && columns <= most_small_rows;
}

// The first of `count` dense, row-major n x n matrices a that is singular, or -1 (the solutions x of a x = b, n x k,
// are unspecified if it is). By LU factorisation with partial pivoting.
int64_t small_solve(int64_t count, int64_t n, int64_t k, const float* a, const float* b, float* x);
int64_t small_solve(int64_t count, int64_t n, int64_t k, const double* a, const double* b, double* x);

// The diagonals of U, n numbers for each matrix; the first is multiplied by the sign of the permutation.
void small_pivots(int64_t count, int64_t n, const float* a, float* pivots);
void small_pivots(int64_t count, int64_t n, const double* a, double* pivots);

// l := the Cholesky factors of (a + T(a)) / 2. Returns the first matrix that is not positive definite, or -1.
int64_t small_cholesky(int64_t count, int64_t n, const float* a, float* l);
int64_t small_cholesky(int64_t count, int64_t n, const double* a, double* l);

}  // namespace rill::cpu
