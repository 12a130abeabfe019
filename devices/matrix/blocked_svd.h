// Singular values of a large real matrix on all threads: reflections from both sides make it bidiagonal, half of whose
// arithmetic is in rill's own products; LAPACK solves the bidiagonal problem (bdsdc: Gu, Eisenstat 1995), and the
// reflections are applied to its vectors, by products. The bits are the same for any number of threads.
// (Dongarra, Sorensen, Hammarling 1989, "Block reduction of matrices to condensed forms".) Start at BlockedSvd::run().
#pragma once
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/matrix/halves.h"
#include "rill/devices/matrix/reflections.h"
#include "rill/devices/matrix/routines.h"
#include "rill/devices/matrix/scaled.h"

namespace rill::matrix {

// Factors a, with at least as many rows as columns, as q b T(p), where b has the diagonal d and the superdiagonal e.
template <class T>
class Bidiagonal {
 public:
  std::vector<T> d, e;
  Reflections<T> q, p;

  Bidiagonal(const T* a, int64_t m, int64_t n) : d(size_t(n)), e(size_t(n)), q(n, m), p(n - 1, n), rest_(a, m, n) {
    for (int64_t at = 0; at < n;) {
      const int64_t count = std::min(Remainder<T>::most, rest_.columns());
      copy_columns(count);
      for (int64_t i = 0; i < count; ++i) reduce_column(at, i), reduce_row(at, i);
      at += count;
      rest_.advance(count);
    }
  }

 private:
  // The columns that are reduced next, dense.
  void copy_columns(int64_t count) {
    if (columns_.size() < size_t(count * rest_.rows())) columns_ = Numbers<T>(size_t(count * rest_.rows()));
    cpu::transpose(rest_.matrix().at, rest_.matrix().step, rest_.rows(), count, columns_.data(), rest_.rows());
  }

  // A reflection from the left that leaves only the first number of column i, and its effect on the columns after it.
  void reduce_column(int64_t at, int64_t i) {
    const int64_t rows = rest_.rows() - i, columns = rest_.columns() - i - 1;
    T* x = rest_.left(2 * i) + i;
    std::copy_n(&columns_[size_t(i * rest_.rows() + i)], rows, x);
    std::vector<T> own;
    for (int64_t line = 0; line < 2 * i; ++line) own.push_back(rest_.right(line)[i]);
    subtract_lines(rest_.lefts(2 * i).from(0, i), own, x);
    const Reflection<T> r(x, rows);
    d[size_t(at + i)] = r.first;
    q.put(at + i, at + i, x, r.tau);
    if (columns == 0) return;
    T* y = rest_.right(2 * i) + i + 1;
    times_lines(rest_.matrix().from(i, i + 1), x, y, sums_);
    subtract_lines(rest_.rights(2 * i).from(0, i + 1), dots_with(rest_.lefts(2 * i).from(0, i), x), y);
    for (int64_t j = 0; j < columns; ++j) y[j] *= r.tau;
  }

  // The same for row i, from the right.
  void reduce_row(int64_t at, int64_t i) {
    const int64_t columns = rest_.columns() - i - 1, rows = rest_.rows() - i - 1;
    if (columns == 0) return;
    T* x = rest_.right(2 * i + 1) + i + 1;
    std::copy_n(rest_.matrix().from(i, i + 1).at, columns, x);
    std::vector<T> own;
    for (int64_t line = 0; line <= 2 * i; ++line) own.push_back(rest_.left(line)[i]);
    subtract_lines(rest_.rights(2 * i + 1).from(0, i + 1), own, x);
    const Reflection<T> r(x, columns);
    e[size_t(at + i)] = r.first;
    p.put(at + i, at + i + 1, x, r.tau);
    T* y = rest_.left(2 * i + 1) + i + 1;
    times_vector(rest_.matrix().from(i + 1, i + 1), x, y);
    subtract_lines(rest_.lefts(2 * i + 1).from(0, i + 1), dots_with(rest_.rights(2 * i + 1).from(0, i + 1), x), y);
    for (int64_t j = 0; j < rows; ++j) y[j] *= r.tau;
  }

  Remainder<T> rest_;
  Numbers<T> columns_, sums_;
};

// Whether this is faster than other ways, among them a QR factorisation first.
inline bool is_for_blocked_svd(int64_t m, int64_t n) {
  constexpr int64_t least = 256;
  return std::min(m, n) >= least && std::max(m, n) < 2 * std::min(m, n);
}

template <class T>
class BlockedSvd {
 public:
  explicit BlockedSvd(const Routines<T>& use) : use_(use) {}

  // a: m x n, in rows and finite. u: m x p, vh: q x n, both in rows; p and q are m and n with `full`, else the smaller
  // of them. u and vh are null for the values s alone. Returns nonzero if LAPACK's iteration does not converge.
  int run(bool full, int64_t m, int64_t n, const T* a, T* s, T* u, T* vh, Scratch& scratch) {
    const Scaled<T> scaled(a, m * n);
    if (m >= n) {
      if (const int fault = decompose(scaled.data(), m, n, full ? m : n, s, u != nullptr, scratch)) return fault;
      if (u) std::copy_n(of_left_.data(), of_left_.size(), u), transpose_into(of_right_, n, n, vh);
    } else {
      const Numbers<T> transposed(size_t(m * n));
      cpu::transpose(scaled.data(), n, m, n, transposed.data(), m);
      if (const int fault = decompose(transposed.data(), n, m, full ? n : m, s, u != nullptr, scratch)) return fault;
      if (u) std::copy_n(of_right_.data(), of_right_.size(), u), transpose_into(of_left_, n, full ? n : m, vh);
    }
    scaled.put_back(s, std::min(m, n));
    return 0;
  }

 private:
  static void transpose_into(const Numbers<T>& from, int64_t rows, int64_t columns, T* to) {
    cpu::transpose(from.data(), columns, rows, columns, to, rows);
  }

  // m >= n. of_left_: m x columns, of_right_: n x n, whose columns are the vectors.
  int decompose(const T* a, int64_t m, int64_t n, int64_t columns, T* s, bool vectors, Scratch& scratch) {
    Bidiagonal<T> b(a, m, n);
    const Numbers<T> u = vectors ? Numbers<T>(size_t(n * n)) : Numbers<T>();
    if (vectors) of_right_ = Numbers<T>(u.size());
    if (const int fault = svd_by_halves(use_, int(n), b.d.data(), b.e.data(), u.data(), of_right_.data(), scratch))
      return fault;
    std::copy(b.d.begin(), b.d.end(), s);
    if (!vectors) return 0;
    of_left_ = Numbers<T>::zeros(size_t(m * columns));
    cpu::transpose(u.data(), n, n, n, of_left_.data(), columns);
    for (int64_t i = n; i < columns; ++i) of_left_[size_t(i * columns + i)] = 1;
    b.q.apply(0, columns, of_left_.data());
    b.p.apply(1, n, of_right_.data());
    return 0;
  }

  const Routines<T>& use_;
  Numbers<T> of_left_, of_right_;
};

}  // namespace rill::matrix
