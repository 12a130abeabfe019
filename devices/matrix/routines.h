// What the kernels on matrices need for a single matrix: a table of functions for each dtype, by LAPACK or in plain
// loops.
//
// Matrices are dense and column-major. Sizes are C ints, like LAPACK's; kernels have checked them. A result
// of int is 0, or says where the computation failed, counting from 1.
#pragma once
#include <array>
#include <complex>
#include <cstddef>
#include <memory>

namespace rill::matrix {

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
using Complex = std::complex<Real<T>>;
template <class T>
inline constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

// Memory that one thread reuses for each of its matrices: numbered blocks, which only grow.
class Scratch {
 public:
  template <class T>
  T* get(size_t block, size_t count) {
    auto& [memory, size] = blocks_[block];
    const size_t words = (count * sizeof(T) + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t) + 1;
    if (size < words) memory = std::make_unique_for_overwrite<std::max_align_t[]>(words), size = words;
    return reinterpret_cast<T*>(memory.get());
  }
  // Blocks below this one are the kernels'; the others are the routines' own.
  static constexpr size_t routines = 8;

  // The sizes of LAPACK's workspaces, queried for the first of the matrices: one Scratch serves a single routine and a
  // single size. 0 if not yet queried.
  struct Lengths {
    int work = 0, reals = 0, integers = 0;
  } lengths;

 private:
  struct Block {
    std::unique_ptr<std::max_align_t[]> memory;
    size_t words = 0;
  };
  std::array<Block, 14> blocks_;
};

template <class T>
struct Routines {
  // a (n x n, Hermitian, the upper triangle is read) := the U for which H(U) U = a. Fails at the first leading
  // minor that is not positive.
  int (*cholesky)(int n, T* a);
  // a (m x n) := L without its unit diagonal, and U. Row i was exchanged with row pivots[i] - 1, in order. Fails, after
  // completing, if a diagonal element of U is 0.
  int (*lu)(int m, int n, T* a, int* pivots);
  // b (n x k) := the solution, from the result of lu().
  void (*lu_solve)(int n, int k, const T* lu, const int* pivots, T* b);
  // b (n x k) := the solution of the triangular system.
  void (*triangular_solve)(bool lower, bool adjoint, bool unit, int n, int k, const T* a, T* b);
  // a (m x n) := R in its upper triangle. q: m x columns, at least min(m, n). Never fails.
  void (*qr)(int m, int n, int columns, T* a, T* q, Scratch& scratch);
  // a (m x n) is destroyed; s: min(m, n), descending. Without u: only the values. u: m x p and vh: q x n, where p and
  // q are m and n with `full`, else min(m, n). Fails if it does not converge.
  int (*svd)(bool full, int m, int n, T* a, Real<T>* s, T* u, T* vh, Scratch& scratch);
  // a (n x n, Hermitian, the lower triangle is read) := its eigenvectors (without `vectors`, undefined); w ascending.
  int (*eigh)(bool vectors, int n, T* a, Real<T>* w, Scratch& scratch);
  // a (n x n) is destroyed. v: n x n with columns of norm 1, or null. Both are unordered.
  int (*eig)(int n, T* a, Complex<T>* w, Complex<T>* v, Scratch& scratch);
  // c (m x n) := a (m x k) b (k x n).
  void (*multiply)(int m, int n, int k, const T* a, const T* b, T* c);

  // Of real dtypes, and null if a table has none. The bidiagonal matrix with the diagonal d, n numbers, and
  // superdiagonal e: d := its singular values, descending. u, vh: n x n, or null for the values alone. Fails if it does
  // not converge.
  int (*bidiagonal_svd)(int n, T* d, T* e, T* u, T* vh, Scratch& scratch);
  // The symmetric matrix with the diagonal d and subdiagonal e: d := its eigenvalues, ascending. v: n x n, or null.
  int (*tridiagonal_eigh)(int n, T* d, T* e, T* v, Scratch& scratch);
  // The steps of these two, for halves.h. A part of a larger matrix, whose columns are `step` apart; d is unordered.
  // `wide`: it has one more column than rows, and e has one more number. u and vh hold identities.
  int (*bidiagonal_part)(bool wide, int n, T* d, T* e, T* u, T* vh, int step, Scratch& scratch);
  int (*tridiagonal_part)(int n, T* d, T* e, T* v, int step, Scratch& scratch);
  // Joins two parts and what was between them: the row (alpha, beta); the number that was subtracted from both
  // diagonals. `order` sorts the values of each part, counting from 1, and then all values.
  int (*bidiagonal_join)(int left, int right, T* d, T alpha, T beta, T* u, T* vh, int* order, Scratch& scratch);
  int (*tridiagonal_join)(int n, int cut, T* d, T between, T* v, int* order, Scratch& scratch);
};

struct Tables {
  Routines<float> f32;
  Routines<double> f64;
  Routines<std::complex<float>> c64;
  Routines<std::complex<double>> c128;
  // Called around all calls of routines, by any number of threads at once, if the library needs it.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
  template <class T>
  const Routines<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return f32;
    else if constexpr (std::is_same_v<T, double>) return f64;
    else if constexpr (std::is_same_v<T, std::complex<float>>) return c64;
    else return c128;
  }
};

const Tables& plain_tables();
// By LAPACK; the plain ones in a build without it. Throws rill::Error if librill_lapack cannot be opened.
const Tables& lapack_tables();

}  // namespace rill::matrix

// The exports of librill_lapack.so: rill's version, and the tables, read once.
extern "C" const char rill_lapack_version[];
extern "C" const rill::matrix::Tables* rill_lapack_tables();
