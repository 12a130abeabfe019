// rill::linalg: solvers, factorisations, eigenvalues and norms of matrices, as the Python array API standard (2024.12)
// and numpy.linalg name them. Products are in linalg.h; those that the standard has here too are among these.
//
// The last two axes of an operand are a matrix, and all axes before them a batch, of which each matrix is taken alone.
// f32, f64, c64, c128; integers and bools become f32; f16 and bf16 are rejected. H stands for the conjugate transpose.
// Computed by LAPACK, small matrices on one thread each; by loops over many of them (cholesky, solve, inv and
// determinants of real matrices of up to 4 rows); and by blocks on rill's products, on all threads (large real ones). The
// bits depend neither on the number of threads nor on the batch. Every function has derivatives of any order unless it
// says otherwise. Errors that depend on the elements ("is singular") name the first such matrix of the batch.
#pragma once
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/linalg.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill::linalg {

// --- Solving (matrix/solve.cpp) --------------------------------------------------------------------------------------

// The x for which a x = b, by LU factorisation with partial pivoting. a: [..., n, n]. b: [n], or [..., n, k]; leading
// axes broadcast. Throws where a matrix is singular.
Tensor solve(const Tensor& a, const Tensor& b, Where where = Where::current());

struct TriangularOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool lower = false;      // the triangle of `a` that is read; the other one may hold anything
  bool left = true;        // solve a x = b, else x a = b
  bool transpose = false;  // a's transpose in place of a
  bool conjugate = false;  // a's conjugate in place of a; with `transpose` its H
  bool unit = false;       // the diagonal is taken for ones
};
// The x for which a x = b (or, not `left`, x a = b), where a is triangular. a: [..., n, n]; b: [n], or [..., n, k], not
// `left` [..., k, n]; leading axes broadcast. A zero on the diagonal divides, and gives infinities.
Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& options = {},
                        Where where = Where::current());

// The inverse. x: [..., n, n]. Throws where a matrix is singular. solve(a, b) is faster and more exact than inv(a) b.
Tensor inv(const Tensor& x, Where where = Where::current());
// The determinant of each matrix, 0 of a singular one. x: [..., n, n]; the result: [...]. Its gradient is that of
// the polynomial, for singular matrices too.
Tensor det(const Tensor& x, Where where = Where::current());

struct Slogdet {
  Tensor sign;       // of magnitude 1, of x's dtype; 0 where the matrix is singular
  Tensor logabsdet;  // real; -infinity where the matrix is singular
};
// The determinant as sign * exp(logabsdet), which does not overflow. x: [..., n, n]; both results: [...].
Slogdet slogdet(const Tensor& x, Where where = Where::current());

// The x for which a x = b, by a's factor of cholesky(). b: [..., n, k] or [n]; leading axes broadcast.
struct CholeskySolveOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool upper = false;  // the factor is the upper one
};
Tensor cholesky_solve(const Tensor& factor, const Tensor& b, const CholeskySolveOptions& options = {},
                      Where where = Where::current());

// --- Factorisations (matrix/factor.cpp) ------------------------------------------------------------------------------

struct CholeskyOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool upper = false;  // the upper factor, H of the lower one
};
// The lower triangular L, with a positive diagonal, for which L H(L) = x. x: [..., n, n], positive definite; of a
// matrix that is not quite Hermitian, (x + H(x)) / 2 is factorised. Throws where that is not positive definite.
Tensor cholesky(const Tensor& x, const CholeskyOptions& options = {}, Where where = Where::current());

enum class QrMode : uint8_t {
  reduced,  // q: [..., m, k], r: [..., k, n], where k is the smaller of m and n
  complete  // q: [..., m, m], r: [..., m, n]; there is no gradient where m > n
};
struct Qr {
  Tensor q;  // its columns are orthonormal
  Tensor r;  // upper triangular; the signs on its diagonal are LAPACK's
};
// x = q r. x: [..., m, n]. The gradient is that of a matrix whose first k columns are independent (Walter, Lehmann
// 2018).
Qr qr(const Tensor& x, QrMode mode = QrMode::reduced, Where where = Where::current());

struct Lu {
  Tensor p;  // [..., m, m], a permutation matrix of x's dtype
  Tensor l;  // [..., m, k], lower triangular with ones on the diagonal, where k is the smaller of m and n
  Tensor u;  // [..., k, n], upper triangular
};
// x = p l u, with partial pivoting: scipy.linalg.lu. x: [..., m, n].
Lu lu(const Tensor& x, Where where = Where::current());
// The x for which a x = b, by a's factors, a: [..., n, n]. A singular matrix gives infinities or NaN. b: [..., n, k] or
// [n]; leading axes broadcast.
Tensor lu_solve(const Lu& factors, const Tensor& b, Where where = Where::current());

// --- Eigenvalues and singular values (matrix/spectral.cpp) -----------------------------------------------------------
// A matrix that holds an infinity or a NaN gives NaN. Vectors are unique up to a factor of magnitude 1, which is chosen
// so that each one's largest element is real and positive. Gradients through vectors are infinite or NaN where two
// values are equal; those of complex vectors are right for functions that this factor does not change. Second derivatives,
// of values too, are not to be used where two values are equal: they are NaN, or finite and wrong.

struct SvdOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool full_matrices = true;  // u: [..., m, m], vh: [..., n, n]; else [..., m, k], [..., k, n]
};
struct Svd {
  Tensor u;   // orthonormal columns
  Tensor s;   // [..., k], real, descending, where k is the smaller of m and n
  Tensor vh;  // orthonormal rows
};
// x = u diag(s) vh. x: [..., m, n]. With whole matrices there is a gradient only where m = n.
Svd svd(const Tensor& x, const SvdOptions& options = {}, Where where = Where::current());
// The singular values alone: [..., k], descending.
Tensor svdvals(const Tensor& x, Where where = Where::current());

struct Eigen {
  Tensor eigenvalues;   // [..., n]
  Tensor eigenvectors;  // [..., n, n], in columns of length 1
};
// Of a Hermitian matrix; of one that is not quite, of (x + H(x)) / 2. x: [..., n, n]. The values are real and
// ascending, the vectors orthonormal.
Eigen eigh(const Tensor& x, Where where = Where::current());
// The eigenvalues of eigh alone.
Tensor eigvalsh(const Tensor& x, Where where = Where::current());
// Of any square matrix: complex values, ordered by real part, then by imaginary part, and complex vectors.
Eigen eig(const Tensor& x, Where where = Where::current());
// The eigenvalues of eig alone.
Tensor eigvals(const Tensor& x, Where where = Where::current());

// --- By singular values (matrix/least_squares.cpp) -------------------------------------------------------------------

struct RankOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<double> rtol = {};  // singular values up to rtol * the largest count as 0; default: max(m, n) * epsilon
};
// The Moore-Penrose pseudo-inverse, [..., n, m] of [..., m, n]. Its gradient is that of matrices of one rank (Golub,
// Pereyra 1973).
Tensor pinv(const Tensor& x, const RankOptions& options = {}, Where where = Where::current());
// How many singular values are not 0, i64: [...].
Tensor matrix_rank(const Tensor& x, const RankOptions& options = {}, Where where = Where::current());

// Orthonormal columns that span what a matrix maps to 0, [n, n - rank], and what it maps to, [m, rank]: singular
// vectors. x: [m, n]. Not inside `function`, for the sizes depend on the values. Throw for infinities and NaN.
// Gradients are those of svd(): NaN where singular values are equal, as the zeros of several columns of null_space are.
Tensor null_space(const Tensor& x, const RankOptions& options = {}, Where where = Where::current());
Tensor orth(const Tensor& x, const RankOptions& options = {}, Where where = Where::current());

struct Polar {
  Tensor u;  // [..., m, n], orthonormal columns (rows, where m < n)
  Tensor p;  // positive semidefinite: x = u p, or, by the left, x = p u
};
// The polar decomposition, by singular values (Higham: Functions of Matrices, 8). x: [..., m, n]; p: [..., n, n], by
// the left [..., m, m]. Gradients are infinite or NaN where two singular values are equal, as those of svd().
Polar polar(const Tensor& x, bool left = false, Where where = Where::current());

struct Lstsq {
  Tensor solution;         // [..., n, k], or [n] where b is a vector
  Tensor residuals;        // [..., k] or []: |b - a x|^2, of each column
  Tensor rank;             // i64: [...]
  Tensor singular_values;  // of a: [..., min(m, n)]
};
// The shortest x that minimises |a x - b|. a: [..., m, n]; b: [m], or [..., m, k]; leading axes broadcast.
Lstsq lstsq(const Tensor& a, const Tensor& b, const RankOptions& options = {}, Where where = Where::current());

// numpy's tensorsolve: the x with tensordot(a, x, x.ndim()) == b, of the shape of a's axes behind the first b.ndim()
// ones. Throws unless those are as many numbers as b has.
Tensor tensorsolve(const Tensor& a, const Tensor& b, Where where = Where::current());
// The inverse of tensordot by x's last axes: of shape x.shape()[ind:] + x.shape()[:ind]. Throws unless both halves have
// as many numbers.
Tensor tensorinv(const Tensor& x, int64_t ind = 2, Where where = Where::current());

// --- Norms (matrix/norms.cpp) ----------------------------------------------------------------------------------------

// Which norm of a matrix: "fro", "nuc" (the sum of its singular values), 1, -1 (the largest and the smallest sum of a
// column's magnitudes), infinity, -infinity (the same of rows), 2, -2 (the largest and the smallest singular value).
class MatrixOrd {
 public:
  MatrixOrd(const char* name) : name_(name) {}
  MatrixOrd(std::nullptr_t) = delete;
  template <class N>
    requires std::is_arithmetic_v<N>
  MatrixOrd(N number) : number_(double(number)) {}
  std::string_view name() const { return name_; }  // "" for a number
  double number() const { return number_; }        // of one without a name

 private:
  std::string_view name_ = "";
  double number_ = 0;
};
struct MatrixNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool keepdims = false;
  MatrixOrd ord = "fro";
};
// The norm of each matrix: real, [...]; of one without elements 0. Throws for another `ord`, and for a smallest of no
// elements.
Tensor matrix_norm(const Tensor& x, const MatrixNormOptions& options = {}, Where where = Where::current());

// The norm of vectors along axes (all of them by default): norm() under the standard's name.
Tensor vector_norm(const Tensor& x, const NormOptions& options = {}, Where where = Where::current());
// The condition number matrix_norm(x, ord) * matrix_norm(inv(x), ord); by singular values for 2 and -2, also of
// matrices that are not square. A singular matrix gives infinity; one without elements throws.
Tensor cond(const Tensor& x, const MatrixOrd& ord = 2, Where where = Where::current());

// --- Powers and products (matrix/powers.cpp) -------------------------------------------------------------------------

// The product of n times x; of its inverse for a negative n, and the identity for 0. x: [..., n, n].
Tensor matrix_power(const Tensor& x, int64_t n, Where where = Where::current());
// The exponential, the sum of x^k / k!, of each matrix (Higham 2005). x: [..., n, n].
Tensor expm(const Tensor& x, Where where = Where::current());
// The product of two or more matrices, in the order that takes the fewest multiplications (of more than 199: one that
// takes at most 1.16 times as many). The first and the last may be vectors.
Tensor multi_dot(const std::vector<Tensor>& x, Where where = Where::current());
// The sum of conj(a) * b along `axis`, counted from the back; the other axes broadcast.
Tensor vecdot(const Tensor& a, const Tensor& b, Axis axis = -1, Where where = Where::current());

// The Kronecker product of each column of a, [..., m, k], with that of b, [..., n, k]: [..., m n, k].
Tensor khatri_rao(const Tensor& a, const Tensor& b, Where where = Where::current());

// --- Matrices of a structure (matrix/structured.cpp) -----------------------------------------------------------------

// Equal along each diagonal: the first column c, [..., m], and the first row r, [..., n] (default: conj(c)), of which
// the first element is not read.
Tensor toeplitz(const Tensor& c, const std::optional<Tensor>& r = {}, Where where = Where::current());
// Equal along each diagonal that rises: the first column c, [..., m], and the last row r, [..., n] (default: zeros), of
// which the first element is not read.
Tensor hankel(const Tensor& c, const std::optional<Tensor>& r = {}, Where where = Where::current());
// Each column is the one before it, rolled by one; the first is c, [..., n].
Tensor circulant(const Tensor& c, Where where = Where::current());
// The matrix whose eigenvalues are the roots of the polynomial with these coefficients, the highest power first: [n]
// gives [n - 1, n - 1]. Throws for fewer than two; a first one of 0 gives infinities or NaN.
Tensor companion(const Tensor& p, Where where = Where::current());
// Of 1 and -1, with orthogonal rows (Sylvester). n is a power of 2.
Tensor hadamard(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(hadamard, TensorOptions, (int64_t n), n)
// 1 / (i + j + 1).
Tensor hilbert(int64_t n, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(hilbert, TensorOptions, (int64_t n), n)

// The standard's functions of a stack of matrices: of the last two axes, where rill::diagonal and rill::trace take the
// first two.
Tensor diagonal(const Tensor& x, int offset = 0, Where where = Where::current());
Tensor trace(const Tensor& x, int offset = 0, Where where = Where::current());  // the sum of that diagonal
using rill::cross;
using rill::matmul;
using rill::matrix_transpose;
using rill::outer;
using rill::tensordot;

}  // namespace rill::linalg

namespace rill {
using linalg::vecdot;
}

#pragma GCC visibility pop
