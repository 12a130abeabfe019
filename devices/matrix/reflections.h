// Householder reflections I - tau v T(v) of large real matrices: how they are computed, how several are applied as two
// products, and the products with a vector that computing the next one requires. On all threads; the parts, and so the
// bits, are the same for any number of them. (Golub and Van Loan, Matrix Computations, 5.1; Schreiber, Van Loan 1989
// for blocks of them.)
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/matrix/lines.h"
#include "rill/devices/matrix/numbers.h"
#include "rill/devices/threads.h"

namespace rill::matrix {

// Consecutive lines of numbers.
template <class T>
struct Lines {
  const T* at;
  int64_t step, count, n;
  Lines from(int64_t line, int64_t column) const { return {at + line * step + column, step, count - line, n - column}; }
};

inline int64_t lines_a_thread(int64_t n) { return 1 + 2 * cpu::worth_a_thread / std::max<int64_t>(1, n); }

// y := a x, line by line.
template <class T>
void times_vector(const Lines<T>& a, const T* x, T* y) {
  parallel_for(a.count, lines_a_thread(a.n), [&](int64_t begin, int64_t end) {
    cpu::line_dots(a.at + begin * a.step, a.step, end - begin, a.n, x, y + begin);
  });
}

// y += T(a) x, for few lines.
template <class T>
void add_lines(const Lines<T>& a, const T* x, T* y) {
  cpu::add_lines(a.at, a.step, a.count, a.n, x, y);
}

// y := T(a) x: partial sums over this many lines each, and then their sum, so that a thread reads the same lines as in
// times_vector(). `sums` is memory for the partial sums.
inline constexpr int64_t lines_a_sum = 32;
template <class T>
void times_lines(const Lines<T>& a, const T* x, T* y, Numbers<T>& sums) {
  const int64_t parts = (a.count + lines_a_sum - 1) / lines_a_sum;
  if (sums.size() < size_t(parts * a.n)) sums = Numbers<T>(size_t(parts * a.n));
  std::fill_n(sums.data(), parts * a.n, T(0));
  parallel_for(parts, 1 + lines_a_thread(a.n) / lines_a_sum, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * lines_a_sum;
      cpu::add_lines(a.at + first * a.step, a.step, std::min(lines_a_sum, a.count - first), a.n, x + first,
                     &sums[size_t(p * a.n)]);
    }
  });
  const std::vector<T> ones(size_t(parts), T(1));
  std::fill_n(y, a.n, T(0));
  cpu::add_lines(sums.data(), a.n, parts, a.n, ones.data(), y);
}

// The norm of a vector, whose squares may overflow or underflow in the dtype.
template <class T>
T length_of_vector(const T* x, int64_t n) {
  constexpr T small = std::is_same_v<T, float> ? T(1e-26) : T(1e-260),
              large = std::is_same_v<T, float> ? T(1e36) : T(1e300);
  T square = 0;
  cpu::line_dots(x, n, 1, n, x, &square);
  if (square > small && square < large) return std::sqrt(square);
  T most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  if (most == 0) return 0;
  const int exponent = std::ilogb(most);
  std::vector<T> scaled(x, x + n);
  for (T& v : scaled) v = std::scalbn(v, -exponent);
  cpu::line_dots(scaled.data(), n, 1, n, scaled.data(), &square);
  return std::scalbn(std::sqrt(square), exponent);
}

// Replaces x, n >= 1 numbers, by v, whose first number is 1, so that the reflection maps the original x to `first` and
// zeros.
template <class T>
struct Reflection {
  T first, tau = 0;
  Reflection(T* x, int64_t n) : first(x[0]) {
    const T below = n > 1 ? length_of_vector(x + 1, n - 1) : T(0);
    if (below != 0) {
      const T whole = std::hypot(first, below), to = first > 0 ? -whole : whole;
      tau = (to - first) / to;
      const T by = first - to;
      for (int64_t i = 1; i < n; ++i) x[i] /= by;
      first = to;
    }
    x[0] = 1;
  }
};

// A sequence of reflections: v of each is a line, 0 before its own first number.
template <class T>
class Reflections {
 public:
  Reflections(int64_t count, int64_t n) : n_(n), v_(Numbers<T>::zeros(size_t(count * n))), tau_(size_t(count)) {}

  // `v` holds the numbers from `at` on.
  void put(int64_t i, int64_t at, const T* v, T tau) {
    std::copy_n(v, n_ - at, &v_[size_t(i * n_ + at)]);
    tau_[size_t(i)] = tau;
  }

  // c (n x columns, in rows) := the product of all of them times c. Line i starts at `first` + i.
  void apply(int64_t first, int64_t columns, T* c) const {
    const int64_t count = int64_t(tau_.size());
    for (int64_t end = count; end > 0;) {
      const int64_t begin = (end - 1) / block * block;
      apply_block(begin, end - begin, first + begin, columns, c);
      end = begin;
    }
  }

 private:
  static constexpr int64_t block = 64;

  // The product is I - V T T(V): T is upper triangular, and stored in columns.
  std::vector<T> triangle(const T* v, int64_t count, int64_t rows) const {
    std::vector<T> products(size_t(count * count)), t(size_t(count * count));
    cpu::gemm_blocked(cpu::GemmProduct<T>{{count, count, rows, n_, 1, 1, n_}, v, v, products.data()});
    const T* tau = &tau_[size_t((v - v_.data()) / n_)];
    for (int64_t j = 0; j < count; ++j) {
      T* column = &t[size_t(j * count)];
      T* along = &products[size_t(j * count)];
      for (int64_t i = 0; i < j; ++i) along[i] *= -tau[j];
      add_lines(Lines<T>{t.data(), count, j, j}, along, column);
      column[j] = tau[j];
    }
    return t;
  }
  void apply_block(int64_t i, int64_t count, int64_t at, int64_t columns, T* c) const {
    const int64_t rows = n_ - at;
    const T* v = &v_[size_t(i * n_ + at)];
    const std::vector<T> t = triangle(v, count, rows);
    const Numbers<T> along(size_t(count * columns)), turned(size_t(count * columns));
    T* from = c + at * columns;
    cpu::gemm_blocked(cpu::GemmProduct<T>{{count, columns, rows, n_, 1, columns, 1}, v, from, along.data()});
    cpu::gemm_blocked(
        cpu::GemmProduct<T>{{count, columns, count, 1, count, columns, 1}, t.data(), along.data(), turned.data()});
    const TailStep minus{TailStep::Kind::subtract_from, TailStep::Broadcast::in_place};
    const void* own = from;
    cpu::gemm_blocked(
        cpu::GemmProduct<T>{{rows, columns, count, 1, n_, columns, 1}, v, turned.data(), from, {{&minus, 1}, &own}});
  }

  const int64_t n_;
  const Numbers<T> v_;
  std::vector<T> tau_;
};

// The trailing matrix while some of its columns and rows are reduced: a - T(left) right. Each reflection adds a line to
// `left` and `right`, which are later multiplied.
template <class T>
class Remainder {
 public:
  static constexpr int64_t most = 32;  // columns that are reduced before the product

  // a: m x n, in rows.
  Remainder(const T* a, int64_t m, int64_t n)
      : m_(m),
        n_(n),
        a_(size_t(m * n)),
        next_(size_t(m * n)),
        left_(size_t(2 * most * m)),
        right_(size_t(2 * most * n)) {
    std::copy_n(a, m * n, a_.data());
    clear_lines();
  }

  int64_t rows() const { return m_; }
  int64_t columns() const { return n_; }
  Lines<T> matrix() const { return {a_.data(), n_, m_, n_}; }
  T* left(int64_t line) { return &left_[size_t(line * m_)]; }
  T* right(int64_t line) { return &right_[size_t(line * n_)]; }
  Lines<T> lefts(int64_t count) const { return {left_.data(), m_, count, m_}; }
  Lines<T> rights(int64_t count) const { return {right_.data(), n_, count, n_}; }

  // Drops the first `count` rows and columns, and multiplies all lines.
  void advance(int64_t count) {
    const int64_t m = m_ - count, n = n_ - count;
    if (m > 0 && n > 0) {
      cpu::gemm_blocked(cpu::GemmProduct<T>{
          {m, n, 2 * count, 1, m_, n_, 1}, left_.data() + count, right_.data() + count, next_.data()});
      parallel_for(m, lines_a_thread(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* from = &a_[size_t((count + i) * n_ + count)];
          T* to = &next_[size_t(i * n)];
          for (int64_t j = 0; j < n; ++j) to[j] = from[j] - to[j];
        }
      });
      std::swap(a_, next_);
    }
    m_ = m, n_ = n;
    clear_lines();
  }

 private:
  void clear_lines() {
    std::fill_n(left_.data(), left_.size(), T(0));
    std::fill_n(right_.data(), right_.size(), T(0));
  }

  int64_t m_, n_;
  Numbers<T> a_, next_, left_, right_;
};

// y -= T(lines) x.
template <class T>
void subtract_lines(const Lines<T>& lines, std::vector<T> x, T* y) {
  for (T& v : x) v = -v;
  add_lines(lines, x.data(), y);
}
// lines y.
template <class T>
std::vector<T> dots_with(const Lines<T>& lines, const T* y) {
  std::vector<T> out(size_t(lines.count));
  cpu::line_dots(lines.at, lines.step, lines.count, lines.n, y, out.data());
  return out;
}

}  // namespace rill::matrix
