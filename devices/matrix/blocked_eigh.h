// Eigenvalues of a large real symmetric matrix on all threads: reflections make it tridiagonal, half of whose
// arithmetic is in rill's own products; LAPACK solves the tridiagonal problem (stedc: Cuppen 1981), and the reflections
// are applied to its vectors, by products. The bits are the same for any number of threads. (Dongarra, Sorensen,
// Hammarling 1989, "Block reduction of matrices to condensed forms".) Start at BlockedEigh::run().
#pragma once
#include "rill/devices/matrix/halves.h"
#include "rill/devices/matrix/reflections.h"
#include "rill/devices/matrix/routines.h"
#include "rill/devices/matrix/scaled.h"

namespace rill::matrix {

// Factors a symmetric matrix a = q t T(q), where t has the diagonal d and the subdiagonal e.
template <class T>
class Tridiagonal {
 public:
  std::vector<T> d, e;
  Reflections<T> q;

  Tridiagonal(const T* a, int64_t n) : d(size_t(n)), e(size_t(n)), q(n - 1, n), rest_(a, n, n) {
    for (int64_t at = 0; at < n;) {
      const int64_t count = std::min(Remainder<T>::most, rest_.rows());
      for (int64_t i = 0; i < count; ++i) reduce_row(at, i);
      at += count;
      rest_.advance(count);
    }
  }

 private:
  // A reflection from both sides that leaves only the first number of row i after the diagonal; it subtracts
  // v T(w) + w T(v) from the rows below.
  void reduce_row(int64_t at, int64_t i) {
    const int64_t n = rest_.rows() - i;
    row_.resize(size_t(n));
    std::copy_n(rest_.matrix().from(i, i).at, n, row_.data());
    std::vector<T> own;
    for (int64_t line = 0; line < 2 * i; ++line) own.push_back(rest_.left(line)[i]);
    subtract_lines(rest_.rights(2 * i).from(0, i), own, row_.data());
    d[size_t(at + i)] = row_[0];
    if (n == 1) return;
    T *v = &row_[1], *w = rest_.right(2 * i) + i + 1;
    const Reflection<T> r(v, n - 1);
    e[size_t(at + i)] = r.first;
    q.put(at + i, at + i + 1, v, r.tau);
    times_vector(rest_.matrix().from(i + 1, i + 1), v, w);
    subtract_lines(rest_.lefts(2 * i).from(0, i + 1), dots_with(rest_.rights(2 * i).from(0, i + 1), v), w);
    T along = 0;
    cpu::line_dots(v, n - 1, 1, n - 1, w, &along);
    along *= r.tau * r.tau / 2;
    for (int64_t j = 0; j < n - 1; ++j) w[j] = r.tau * w[j] - along * v[j];
    std::copy_n(v, n - 1, rest_.left(2 * i) + i + 1);
    std::copy_n(w, n - 1, rest_.left(2 * i + 1) + i + 1);
    std::copy_n(v, n - 1, rest_.right(2 * i + 1) + i + 1);
  }

  Remainder<T> rest_;
  std::vector<T> row_;
};

inline bool is_for_blocked_eigh(int64_t n) { return n >= 256; }

// a: n x n, symmetric and finite, is replaced by the eigenvectors, in rows: the vector of an eigenvalue is a column.
// Without `vectors` only w is computed. Returns nonzero if LAPACK's iteration does not converge.
template <class T>
int blocked_eigh(const Routines<T>& use, bool vectors, int64_t n, T* a, T* w, Scratch& scratch) {
  const Scaled<T> scaled(a, n * n);
  Tridiagonal<T> t(scaled.data(), n);
  const Numbers<T> z = vectors ? Numbers<T>(size_t(n * n)) : Numbers<T>();
  if (const int fault = eigh_by_halves(use, int(n), t.d.data(), t.e.data(), z.data(), scratch)) return fault;
  std::copy(t.d.begin(), t.d.end(), w);
  scaled.put_back(w, n);
  if (!vectors) return 0;
  cpu::transpose(z.data(), n, n, n, a, n);
  t.q.apply(1, n, a);
  return 0;
}

}  // namespace rill::matrix
