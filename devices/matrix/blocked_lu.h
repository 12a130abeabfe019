// The LU factorisation of a large real matrix by blocks of columns: the columns of a block by the table's routine, and
// the trailing matrix by rill's own products, on all threads. The blocks, and so the bits, are the same for any number
// of threads. (Golub and Van Loan, Matrix Computations, 3.4.7, right-looking.)
#pragma once
#include <algorithm>
#include <vector>

#include "rill/devices/matrix/batch.h"
#include "rill/devices/matrix/reflections.h"

namespace rill::matrix {

template <class T>
class BlockedLu {
 public:
  // As Routines::lu: a is m x n, in columns.
  BlockedLu(const Routines<T>& use, int64_t m, int64_t n, T* a, int* pivots)
      : use_(use), m_(m), n_(n), a_(a), pivots_(pivots), product_(size_t(columns_at_once * m)) {}

  static bool is_worth_it(int64_t m, int64_t n) { return std::min(m, n) >= 256; }

  int run() {
    int fault = 0;
    for (int64_t at = 0, all = std::min(m_, n_); at < all; at += width) {
      const int64_t count = std::min(width, all - at);
      const int found = factor_columns(at, count);
      if (found != 0 && fault == 0) fault = int(at) + found;
      exchange_rows(at, count);
      const int64_t right = n_ - at - count;
      if (right == 0) break;
      solve_above(at, count, right);
      if (at + count == m_) continue;
      for (int64_t j = 0; j < right; j += columns_at_once) update(at, count, j, std::min(columns_at_once, right - j));
    }
    return fault;
  }

  // b (n x k, in columns) := the solution; threads divide the columns.
  static void solve(const Routines<T>& use, int64_t n, int64_t k, const T* lu, const int* pivots, T* b) {
    parallel_for((k + some_columns - 1) / some_columns, 1, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin)
        use.lu_solve(int(n), int(std::min(some_columns, k - begin * some_columns)), lu, pivots,
                     b + begin * some_columns * n);
    });
  }

 private:
  static constexpr int64_t width = 64, some_columns = 64, columns_at_once = 256;

  T* column(int64_t j) { return a_ + j * m_; }

  int factor_columns(int64_t at, int64_t count) {
    const int64_t rows = m_ - at;
    if (block_.size() < size_t(rows * count)) block_ = Numbers<T>(size_t(rows * count));
    for (int64_t j = 0; j < count; ++j) std::copy_n(column(at + j) + at, rows, &block_[size_t(j * rows)]);
    const int fault = use_.lu(int(rows), int(count), block_.data(), pivots_ + at);
    for (int64_t j = 0; j < count; ++j) std::copy_n(&block_[size_t(j * rows)], rows, column(at + j) + at);
    for (int64_t i = 0; i < count; ++i) pivots_[at + i] += int(at);
    return fault;
  }

  // Exchanges the rows of all columns outside the block, whose own rows already are.
  void exchange_rows(int64_t at, int64_t count) {
    parallel_for(n_ - count, 1 + (1 << 14) / count, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        T* x = column(j < at ? j : j + count);
        for (int64_t i = at; i < at + count; ++i) std::swap(x[i], x[pivots_[i] - 1]);
      }
    });
  }

  // Replaces the rows to the right of the block by those of U, also in above_.
  void solve_above(int64_t at, int64_t count, int64_t right) {
    const int64_t rows = m_ - at;
    if (corner_.size() < size_t(count * count)) corner_ = Numbers<T>(size_t(count * count));
    if (above_.size() < size_t(count * right)) above_ = Numbers<T>(size_t(count * right));
    for (int64_t j = 0; j < count; ++j) std::copy_n(&block_[size_t(j * rows)], count, &corner_[size_t(j * count)]);
    parallel_for((right + some_columns - 1) / some_columns, 1, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) {
        const int64_t first = begin * some_columns, columns = std::min(some_columns, right - first);
        T* part = &above_[size_t(first * count)];
        const auto line = [&](int64_t j) { return column(at + count + first + j) + at; };
        for (int64_t j = 0; j < columns; ++j) std::copy_n(line(j), count, part + j * count);
        use_.triangular_solve(true, false, true, int(count), int(columns), corner_.data(), part);
        for (int64_t j = 0; j < columns; ++j) std::copy_n(part + j * count, count, line(j));
      }
    });
  }

  // Subtracts the products from `columns` columns of the trailing matrix, from its column j on.
  void update(int64_t at, int64_t count, int64_t j, int64_t columns) {
    const int64_t rows = m_ - at, below = rows - count;
    cpu::gemm_blocked(cpu::GemmProduct<T>{{columns, below, count, count, 1, rows, 1},
                                          &above_[size_t(j * count)],
                                          block_.data() + count,
                                          product_.data()});
    parallel_for(columns, lines_a_thread(below), [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) {
        T* to = column(at + count + j + begin) + at + count;
        const T* minus = &product_[size_t(begin * below)];
        for (int64_t i = 0; i < below; ++i) to[i] -= minus[i];
      }
    });
  }

  const Routines<T>& use_;
  const int64_t m_, n_;
  T* const a_;
  int* const pivots_;
  Numbers<T> block_, corner_, above_, product_;
};

}  // namespace rill::matrix
