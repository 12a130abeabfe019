// What the kernels on matrices share: the batch, whose matrices are computed in parallel, each on one thread; copies
// between rill's rows and LAPACK's columns; and failures, of which the first in the batch is reported, whichever thread
// finds it.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/kernel.h"
#include "rill/devices/matrix/routines.h"
#include "rill/devices/threads.h"
#include "rill/tensor/error.h"

namespace rill::matrix {

// The last two axes of a tensor, and the number of such matrices.
struct Batch {
  int64_t rows, columns, count;
  explicit Batch(const Tensor& t) {
    const Shape& s = t.shape();
    rows = s[s.size() - 2], columns = s[s.size() - 1], count = 1;
    for (size_t i = 0; i + 2 < s.size(); ++i) count *= s[i];
  }
  int64_t size() const { return rows * columns; }
};

// Throws if the sizes of such a matrix, or of a workspace of `squares` square matrices of its shorter side, exceed
// LAPACK's ints.
inline void check_sizes(std::string_view op, const Batch& b, int64_t squares = 1) {
  constexpr double most = 0x7fff0000;  // some room for what LAPACK adds
  const double side = double(std::min(b.rows, b.columns));
  if (double(b.rows) * double(b.columns) > most || side * side * double(squares) > most)
    throw Error(fmt::format("[{}] a matrix of {} rows and {} columns is larger than LAPACK takes, which counts in ints",
                            op, b.rows, b.columns));
}

// The first matrix of a batch for which the computation failed.
class FirstFault {
 public:
  void report(int64_t matrix) {
    int64_t known = first_.load();
    while (matrix < known && !first_.compare_exchange_weak(known, matrix)) {
    }
  }
  // Throws "[op] the matrix <message>", or "matrix [1,2] <message>" if `t` holds more than one.
  void check(std::string_view op, const Tensor& t, std::string_view message) const {
    int64_t at = first_.load();
    if (at == none) return;
    const Shape& s = t.shape();
    std::string which;
    for (size_t i = s.size() - 2; i-- > 0; at /= s[i])
      which = fmt::format("{}{}{}", at % s[i], which.empty() ? "" : ",", which);
    throw Error(fmt::format("[{}] {} {}. operands: {}", op, which.empty() ? "the matrix" : "matrix [" + which + "]",
                            message, to_string(t.spec())));
  }

 private:
  static constexpr int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_ = none;
};

// Calls body(i, scratch) for each matrix, in parallel if the total work (in multiplications) is worth it.
template <class F>
void for_each_matrix(int64_t count, double work, F&& body) {
  constexpr double worth_a_thread = 50000;
  const int64_t grain = std::max<int64_t>(1, int64_t(worth_a_thread / std::max(1.0, work)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end; ++i) body(i, scratch);
  });
}
inline double cube(int64_t m, int64_t n) { return double(m) * double(n) * double(std::min(m, n)); }

template <class T>
T conjugate(const T& x) {
  if constexpr (is_complex<T>) return std::conj(x);
  else return x;
}

// to[j, i] := from[i, j]: converts rows to columns, and back with the sizes exchanged.
template <class T>
void transpose_into(const T* from, int64_t rows, int64_t columns, T* to) {
  cpu::transpose(from, columns, rows, columns, to, rows);
}

inline constexpr int64_t hermitian_side = 32;

// to[j] := the mean of conj(x[j]) and other[j]; returns whether one is NaN. Of a fixed length, so that compilers vectorise it.
template <class T>
bool average_lines(const T* x, const T* other, T* to) {
  std::conditional_t<sizeof(Real<T>) == 8, int64_t, int32_t> nan = 0;
  for (int64_t j = 0; j < hermitian_side; ++j) {
    const T a = conjugate(x[j]), b = other[j],
            middle = a * Real<T>(0.5) + b * Real<T>(0.5);  // halved first, as their sum may overflow
    to[j] = a == b ? a : middle;
    nan |= to[j] != to[j];
  }
  return nan != 0;
}

// A block of hermitian_part(), from row i0 and column j0 <= i0 on.
template <class T, bool both>
bool hermitian_square(const T* from, int64_t n, int64_t i0, int64_t j0, T* to) {
  constexpr int64_t side = hermitian_side;
  const int64_t rows = std::min(side, n - i0), columns = std::min(side, n - j0);
  T other[side * side] = {}, part[side * side] = {}, line[side] = {};
  bool nan = false;
  cpu::transpose(from + j0 * n + i0, n, columns, rows, other, side);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from + (i0 + i) * n + j0, columns, line);
    nan |= average_lines(line, other + i * side, part + i * side);
    std::copy_n(part + i * side, i0 == j0 ? i + 1 : columns, to + (i0 + i) * n + j0);
  }
  if constexpr (both) {
    for (T& x : part) x = conjugate(x);
    if (i0 != j0) cpu::transpose(part, side, rows, columns, to + j0 * n + i0, n);
    for (int64_t i = 0; i0 == j0 && i < rows; ++i)
      for (int64_t j = 0; j < i; ++j) to[(j0 + j) * n + i0 + i] = part[i * side + j];
  }
  return nan;
}

// The Hermitian part of a square matrix, in columns: all of it, or only the triangle that is the lower one in rows.
// Returns whether it has a NaN.
template <class T, bool both = true>
bool hermitian_part(const T* from, int64_t n, T* to) {
  std::atomic<bool> nan{false};
  const int64_t lines = (n + hermitian_side - 1) / hermitian_side;
  const auto run = [&](int64_t line) {
    for (int64_t j = 0; j <= line; ++j)
      if (hermitian_square<T, both>(from, n, line * hermitian_side, j * hermitian_side, to)) nan = true;
  };
  // A short line with a long one, so that each piece has as much to do.
  parallel_for((lines + 1) / 2, 1 + (1 << 14) / (hermitian_side * std::max<int64_t>(1, n)),
               [&](int64_t i, int64_t end) {
                 for (; i < end; ++i) {
                   run(i);
                   if (lines - 1 - i != i) run(lines - 1 - i);
                 }
               });
  return nan;
}

template <class T>
bool all_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](const T& v) {
    if constexpr (is_complex<T>) return std::isfinite(v.real()) && std::isfinite(v.imag());
    else return std::isfinite(v);
  });
}
template <class T>
void fill_nan(T* x, int64_t count) {
  const Real<T> nan = std::numeric_limits<Real<T>>::quiet_NaN();
  if constexpr (is_complex<T>) std::fill_n(x, count, T(nan, nan));
  else std::fill_n(x, count, nan);
}

class Entered {
 public:
  explicit Entered(const Tables& tables) : tables_(tables) {
    if (tables_.enter) tables_.enter();
  }
  ~Entered() {
    if (tables_.leave) tables_.leave();
  }
  Entered(const Entered&) = delete;

 private:
  const Tables& tables_;
};

// Calls f.template operator()<T>(routines for T) for the dtype of the kernel's first operand.
template <class F>
void with_routines(const KernelArgs& args, const Tables& tables, F&& f) {
  const Entered entered(tables);
  switch (args.input(0).dtype()) {
    case DType::f32: return f(tables.f32);
    case DType::f64: return f(tables.f64);
    case DType::c64: return f(tables.c64);
    default: return f(tables.c128);
  }
}

// A kernel for any table, and the two that records name.
#define RILL_MATRIX_KERNEL(name)                                                          \
  void cpu::name(const KernelArgs& args) { matrix::name(args, matrix::lapack_tables()); } \
  void ref::name(const KernelArgs& args) { matrix::name(args, matrix::plain_tables()); }

}  // namespace rill::matrix
