// Divides bidiagonal and tridiagonal matrices into two halves, each solved on a thread, which LAPACK then joins: the
// first step of its own divide and conquer (bdsdc, stedc), which runs on one thread. If a matrix is block diagonal,
// LAPACK (Gu, Eisenstat 1995, "A divide-and-conquer algorithm for the bidiagonal SVD"; Cuppen 1981.)
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "rill/devices/matrix/numbers.h"
#include "rill/devices/matrix/routines.h"
#include "rill/devices/threads.h"

namespace rill::matrix {

// A diagonal and its off-diagonal, divided by a power of two near the largest element.
template <class T>
struct ScaledBand {
  std::vector<T> d, e;
  int exponent = 0;
  // Whether no off-diagonal number is negligible.
  bool is_unreduced = true;

  ScaledBand(int n, const T* diagonal, const T* off_diagonal)
      : d(diagonal, diagonal + n), e(off_diagonal, off_diagonal + n - 1) {
    T most = 0;
    for (T x : d) most = std::max(most, std::abs(x));
    for (T x : e) most = std::max(most, std::abs(x));
    exponent = most > 0 ? std::ilogb(most) : 0;
    for (std::vector<T>* v : {&d, &e})
      for (T& x : *v) x = std::scalbn(x, -exponent);
    e.push_back(0);
    for (int i = 0; i + 1 < n; ++i) is_unreduced &= std::abs(e[size_t(i)]) > 2 * std::numeric_limits<T>::epsilon();
  }
};

// The permutation, counted from 1, that sorts x in ascending order.
template <class T>
void order_of_numbers(const T* x, int n, int* order) {
  std::iota(order, order + n, 1);
  std::stable_sort(order, order + n, [x](int i, int j) { return x[i - 1] < x[j - 1]; });
}

// Calls f(0) and f(1), each with its own scratch, on two threads. Returns whether both returned 0.
template <class F>
bool run_halves(F&& f) {
  std::atomic<bool> good{true};
  parallel_for(2, 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      Scratch own;
      if (f(int(begin), own) != 0) good = false;
    }
  });
  return good;
}

// As Routines::bidiagonal_svd.
template <class T>
int svd_by_halves(const Routines<T>& use, int n, T* d, T* e, T* u, T* vh, Scratch& scratch) {
  ScaledBand<T> b(n, d, e);
  if (!u || !b.is_unreduced) return use.bidiagonal_svd(n, d, e, u, vh, scratch);
  constexpr T least = std::numeric_limits<T>::epsilon() / 2;
  for (T& x : b.d)
    if (std::abs(x) < least) x = std::copysign(least, x);
  const size_t rows = size_t(n);
  const int left = n / 2, right = n - left - 1, second = left + 1;  // with one row between the halves
  const auto own_u = Numbers<T>::zeros(rows * rows), own_vh = Numbers<T>::zeros(rows * rows);
  for (size_t i = 0; i < rows; ++i) own_u[i * rows + i] = own_vh[i * rows + i] = 1;
  const T alpha = b.d[size_t(left)], beta = b.e[size_t(left)];
  const bool good = run_halves([&](int half, Scratch& own) {
    const size_t at = half == 0 ? 0 : size_t(second), corner = at * rows + at;
    return use.bidiagonal_part(half == 0, half == 0 ? left : right, &b.d[at], &b.e[at], &own_u[corner], &own_vh[corner],
                               n, own);
  });
  std::vector<int> order(rows);
  order_of_numbers(b.d.data(), left, order.data());
  order_of_numbers(&b.d[size_t(second)], right, &order[size_t(second)]);
  if (!good || use.bidiagonal_join(left, right, b.d.data(), alpha, beta, own_u.data(), own_vh.data(), order.data(),
                                   scratch) != 0)
    return use.bidiagonal_svd(n, d, e, u, vh, scratch);
  for (size_t j = 0; j < rows; ++j) {  // in descending order
    const size_t from = size_t(order[rows - 1 - j]) - 1;
    d[j] = std::scalbn(b.d[from], b.exponent);
    std::copy_n(&own_u[from * rows], rows, u + j * rows);
  }
  for (size_t c = 0; c < rows; ++c)
    for (size_t j = 0; j < rows; ++j) vh[c * rows + j] = own_vh[c * rows + size_t(order[rows - 1 - j]) - 1];
  return 0;
}

// As Routines::tridiagonal_eigh.
template <class T>
int eigh_by_halves(const Routines<T>& use, int n, T* d, T* e, T* v, Scratch& scratch) {
  ScaledBand<T> b(n, d, e);
  if (!v || !b.is_unreduced) return use.tridiagonal_eigh(n, d, e, v, scratch);
  const size_t rows = size_t(n), cut = rows / 2;
  const T between = b.e[cut - 1];
  b.d[cut - 1] -= std::abs(between), b.d[cut] -= std::abs(between);
  const auto own = Numbers<T>::zeros(rows * rows);
  const bool good = run_halves([&](int half, Scratch& space) {
    const size_t at = half == 0 ? 0 : cut;
    return use.tridiagonal_part(int(half == 0 ? cut : rows - cut), &b.d[at], &b.e[at], &own[at * rows + at], n, space);
  });
  std::vector<int> order(rows);
  order_of_numbers(b.d.data(), int(cut), order.data());
  order_of_numbers(&b.d[cut], int(rows - cut), &order[cut]);
  if (!good || use.tridiagonal_join(n, int(cut), b.d.data(), between, own.data(), order.data(), scratch) != 0)
    return use.tridiagonal_eigh(n, d, e, v, scratch);
  for (size_t j = 0; j < rows; ++j) {
    const size_t from = size_t(order[j]) - 1;
    d[j] = std::scalbn(b.d[from], b.exponent);
    std::copy_n(&own[from * rows], rows, v + j * rows);
  }
  return 0;
}

}  // namespace rill::matrix
