// Kernels of the solvers and of the factorisations with a fixed number of steps: cholesky, solve,
// triangular_solve, det, slogdet, lu, qr, expm. Over a table of routines; see routines.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/devices/matrix/batch.h"
#include "rill/devices/matrix/blocked_cholesky.h"
#include "rill/devices/matrix/blocked_lu.h"
#include "rill/devices/matrix/small.h"
#include "rill/devices/params/matrix_params.h"

namespace rill {
namespace matrix {
namespace {

// Whether small.h has the kernels: for real matrices on cpu:0.
template <class T>
bool are_small(const KernelArgs& args, int64_t n, int64_t columns = 1) {
  return !is_complex<T> && args.input(0).device().kind() == DeviceKind::cpu && cpu::is_small(n, columns);
}
// Calls body(first, count) for pieces of a batch of small matrices, in parallel; body returns the first matrix of its
// piece that fails, or -1.
template <class F>
void for_each_piece(int64_t count, FirstFault& fault, F&& body) {
  constexpr int64_t worth_a_thread = 2000;
  parallel_for(count, worth_a_thread, [&](int64_t begin, int64_t end) {
    const int64_t at = body(begin, end - begin);
    if (at >= 0) fault.report(begin + at);
  });
}

// As Routines::cholesky; the upper triangle in columns is the lower triangle in rows.
template <class T>
int factor(const KernelArgs& args, const Routines<T>& use, int64_t n, T* l) {
  if constexpr (!is_complex<T>)
    if (n >= blocked_from && args.input(0).device().kind() == DeviceKind::cpu)
      return BlockedCholesky<T>(use, n, l).run();
  return n > 0 ? use.cholesky(int(n), l) : 0;
}

// As Routines::lu and lu_solve.
template <class T>
bool has_blocks(const KernelArgs& args, int64_t m, int64_t n) {
  return !is_complex<T> && BlockedLu<Real<T>>::is_worth_it(m, n) && args.input(0).device().kind() == DeviceKind::cpu;
}
template <class T>
int factor_lu(const KernelArgs& args, const Routines<T>& use, int64_t m, int64_t n, T* a, int* pivots) {
  if constexpr (!is_complex<T>)
    if (has_blocks<T>(args, m, n)) return BlockedLu<T>(use, m, n, a, pivots).run();
  return use.lu(int(m), int(n), a, pivots);
}
template <class T>
void solve_lu(const KernelArgs& args, const Routines<T>& use, int64_t n, int64_t k, const T* lu, const int* pivots,
              T* b) {
  if constexpr (!is_complex<T>)
    if (has_blocks<T>(args, n, n)) return BlockedLu<T>::solve(use, n, k, lu, pivots, b);
  use.lu_solve(int(n), int(k), lu, pivots, b);
}

void cholesky(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("cholesky", b);
  const int64_t n = b.rows;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    const T* from = args.in_data<T>(0);
    T* to = args.out_data<T>();
    if constexpr (!is_complex<T>)
      if (are_small<T>(args, n))
        return for_each_piece(b.count, fault, [&](int64_t first, int64_t count) {
          return cpu::small_cholesky(count, n, from + first * b.size(), to + first * b.size());
        });
    for_each_matrix(b.count, cube(n, n), [&](int64_t i, Scratch&) {
      T* l = to + i * b.size();
      if (hermitian_part<T, false>(from + i * b.size(), n, l) || factor<T>(args, use, n, l) != 0) fault.report(i);
      for (int64_t r = 0; r < n; ++r) {  // U in columns is T(U) in rows
        for (int64_t c = 0; is_complex<T> && c < r; ++c) l[r * n + c] = conjugate(l[r * n + c]);
        std::fill_n(l + r * n + r + 1, n - r - 1, T(0));
      }
    });
  });
  fault.check("cholesky", args.input(0),
              "is not positive definite. add a little to its diagonal, or take linalg::eigh, which takes any Hermitian "
              "matrix");
}

void solve(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0)), right(args.input(1));
  check_sizes("solve", b);
  check_sizes("solve", right);
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    if constexpr (!is_complex<T>)
      if (are_small<T>(args, b.rows, right.columns))
        return for_each_piece(b.count, fault, [&](int64_t first, int64_t count) {
          return cpu::small_solve(count, b.rows, right.columns, args.in_data<T>(0) + first * b.size(),
                                  args.in_data<T>(1) + first * right.size(), args.out_data<T>() + first * right.size());
        });
    for_each_matrix(b.count, cube(b.rows, b.rows + right.columns), [&](int64_t i, Scratch& scratch) {
      const int n = int(b.rows), k = int(right.columns);
      T* a = scratch.get<T>(0, size_t(b.size()));
      T* x = scratch.get<T>(1, size_t(right.size()));
      int* pivots = scratch.get<int>(2, size_t(n));
      transpose_into(args.in_data<T>(0) + i * b.size(), n, n, a);
      transpose_into(args.in_data<T>(1) + i * right.size(), n, k, x);
      if (n > 0 && factor_lu(args, use, n, n, a, pivots) != 0) return fault.report(i);
      if (n > 0 && k > 0) solve_lu(args, use, n, k, a, pivots, x);
      transpose_into(x, k, n, args.out_data<T>() + i * right.size());
    });
  });
  fault.check("solve", args.input(0), "is singular. linalg::lstsq and linalg::pinv take singular matrices");
}

void triangular_solve(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0)), right(args.input(1));
  check_sizes("triangular_solve", b);
  check_sizes("triangular_solve", right);
  const auto& p = args.attrs.as<TriangularParams>();
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, double(b.size()) * double(right.columns), [&](int64_t i, Scratch& scratch) {
      const int n = int(b.rows), k = int(right.columns);
      T* a = scratch.get<T>(0, size_t(b.size()));
      T* x = scratch.get<T>(1, size_t(right.size()));
      transpose_into(args.in_data<T>(0) + i * b.size(), n, n, a);
      transpose_into(args.in_data<T>(1) + i * right.size(), n, k, x);
      if (n > 0 && k > 0) use.triangular_solve(p.lower, p.adjoint, p.unit, n, k, a, x);
      transpose_into(x, k, n, args.out_data<T>() + i * right.size());
    });
  });
}

// Calls f(i, diagonal of U, sign of the permutation) for each matrix.
template <class T, class F>
void for_each_diagonal(const KernelArgs& args, const Batch& b, const Routines<T>& use, F&& f) {
  if constexpr (!is_complex<T>)
    if (are_small<T>(args, b.rows)) {
      FirstFault none;
      return for_each_piece(b.count, none, [&](int64_t first, int64_t count) {
        constexpr int64_t some = 64;
        T diagonals[some * cpu::most_small_rows];
        for (int64_t i = 0; i < count; i += some) {
          const int64_t own = std::min(some, count - i);
          cpu::small_pivots(own, b.rows, args.in_data<T>(0) + (first + i) * b.size(), diagonals);
          for (int64_t j = 0; j < own; ++j) f(first + i + j, diagonals + j * b.rows, T(1));
        }
        return int64_t(-1);
      });
    }
  for_each_matrix(b.count, cube(b.rows, b.rows), [&](int64_t i, Scratch& scratch) {
    const int n = int(b.rows);
    T* a = scratch.get<T>(0, size_t(b.size()));
    int* pivots = scratch.get<int>(1, size_t(n));
    transpose_into(args.in_data<T>(0) + i * b.size(), n, n, a);
    if (n > 0) factor_lu(args, use, n, n, a, pivots);
    Real<T> sign = 1;
    for (int j = 0; j < n; ++j) {
      if (pivots[j] != j + 1) sign = -sign;
      a[j] = a[int64_t(j) * n + j];
    }
    f(i, a, sign);
  });
}

// The product of n numbers, times powers of two that keep it within range until the last.
template <class T>
T scaled_product(T product, const T* x, int64_t n) {
  using R = Real<T>;
  const auto exponent = [](const T& v) {
    const R size = std::max(std::abs(std::real(v)), std::abs(std::imag(v)));
    return size > 0 && std::isfinite(size) ? std::ilogb(size) : 0;
  };
  const auto scaled = [](const T& v, int by) {
    if constexpr (std::is_same_v<T, R>) return std::scalbn(v, by);
    else return T(std::scalbn(v.real(), by), std::scalbn(v.imag(), by));
  };
  int64_t power = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int of_product = exponent(product), of_factor = exponent(x[j]);
    product = scaled(product, -of_product) * scaled(x[j], -of_factor);
    power += of_product + of_factor;
  }
  return scaled(product, int(std::clamp<int64_t>(power, -5000, 5000)));
}

void det(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("det", b);
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_diagonal(args, b, use, [&](int64_t i, const T* diagonal, Real<T> sign) {
      using R = Real<T>;
      constexpr R least = std::numeric_limits<R>::min(), most = std::numeric_limits<R>::max();
      T product = sign;
      bool in_range = true;
      for (int64_t j = 0; j < b.rows; ++j) {
        product *= diagonal[j];
        const R size = std::max(std::abs(std::real(product)), std::abs(std::imag(product)));
        in_range &= size >= least && size <= most;
      }
      args.out_data<T>()[i] = in_range ? product : scaled_product<T>(sign, diagonal, b.rows);
    });
  });
}

void slogdet(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("slogdet", b);
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_diagonal(args, b, use, [&](int64_t i, const T* diagonal, Real<T> sign) {
      T direction = sign;
      Real<T> logarithm = 0;
      for (int64_t j = 0; j < b.rows; ++j) {
        const Real<T> size = std::abs(diagonal[j]);
        direction = size == 0 ? T(0) : direction * (diagonal[j] / size);
        logarithm += std::log(size);
      }
      args.out_data<T>()[i] = direction;
      args.out_data<Real<T>>(1)[i] = logarithm;
    });
  });
}

void lu(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("lu", b);
  const int64_t m = b.rows, n = b.columns, k = std::min(m, n);
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, cube(m, n), [&](int64_t i, Scratch& scratch) {
      T* a = scratch.get<T>(0, size_t(b.size()));
      int* pivots = scratch.get<int>(1, size_t(k));
      transpose_into(args.in_data<T>(0) + i * b.size(), m, n, a);
      if (k > 0) factor_lu(args, use, m, n, a, pivots);
      int64_t* rows = args.out_data<int64_t>(0) + i * m;
      for (int64_t r = 0; r < m; ++r) rows[r] = r;
      for (int64_t r = 0; r < k; ++r) std::swap(rows[r], rows[pivots[r] - 1]);
      T* lower = args.out_data<T>(1) + i * m * k;
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < k; ++c) lower[r * k + c] = c < r ? a[c * m + r] : T(c == r ? 1 : 0);
      T* upper = args.out_data<T>(2) + i * k * n;
      for (int64_t r = 0; r < k; ++r)
        for (int64_t c = 0; c < n; ++c) upper[r * n + c] = c >= r ? a[c * m + r] : T(0);
    });
  });
}

void qr(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("qr", b);
  const int64_t m = b.rows, n = b.columns, k = args.attrs.as<FactorParams>().full ? m : std::min(m, n);
  check_sizes("qr", Batch(args.output(0)));
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, 2 * cube(m, std::max(n, k)), [&](int64_t i, Scratch& scratch) {
      T* a = scratch.get<T>(0, size_t(b.size()));
      // The routine stores the reflections of a in q before it computes q.
      T* q = scratch.get<T>(1, size_t(m * std::max(k, std::min(m, n))));
      transpose_into(args.in_data<T>(0) + i * b.size(), m, n, a);
      if (n == 0)
        for (int64_t c = 0; c < k; ++c)
          for (int64_t r = 0; r < m; ++r) q[c * m + r] = T(r == c ? 1 : 0);
      else if (m > 0) use.qr(int(m), int(n), int(k), a, q, scratch);
      transpose_into(q, k, m, args.out_data<T>(0) + i * m * k);
      T* upper = args.out_data<T>(1) + i * k * n;
      for (int64_t r = 0; r < k; ++r)
        for (int64_t c = 0; c < n; ++c) upper[r * n + c] = c >= r ? a[c * m + r] : T(0);
    });
  });
}

// Al-Mohy, Higham 2009, "A new scaling and squaring algorithm for the matrix exponential": the Pade approximant of
// degree
// 13 of a / 2^s, squared s times. s is chosen by the norms of powers of a, not by that of a itself, which may be far
// larger: each squaring doubles the error. A theta that is smaller than necessary costs single precision nothing. The
// coefficients are divided by the first, so that large elements do not overflow.
constexpr double theta_13 = 4.25;
constexpr double pade_first = 64764752532480000.;
constexpr double pade_13[] = {1,
                              0.5,
                              7771770303897600. / pade_first,
                              1187353796428800. / pade_first,
                              129060195264000. / pade_first,
                              10559470521600. / pade_first,
                              670442572800. / pade_first,
                              33522128640. / pade_first,
                              1323241920. / pade_first,
                              40840800. / pade_first,
                              960960. / pade_first,
                              16380. / pade_first,
                              182. / pade_first,
                              1. / pade_first};

template <class T>
class Exponential {
 public:
  Exponential(int64_t n, const Routines<T>& use, Scratch& scratch)
      : n_(n), size_(n * n), use_(use), memory_(scratch.get<T>(0, size_t(8 * size_))), scratch_(scratch) {}

  // Replaces `a`, in block 0 of the eight, by its exponential, in block 6; false if that fails.
  bool run() {
    const int squarings = scale();  // blocks 1 to 3 are now a^2, a^4, a^6
    // u = a (a^6 (b13 a^6 + b11 a^4 + b9 a^2) + b7 a^6 + b5 a^4 + b3 a^2 + b1), v is similar with the even
    // coefficients.
    half(13, 4, 5);
    multiply(0, 5, 4);  // u
    half(12, 6, 5);     // v
    for (int64_t i = 0; i < size_; ++i) {
      const T u = at(4)[i], v = at(5)[i];
      at(6)[i] = v + u;
      at(7)[i] = v - u;
    }
    int* pivots = scratch_.get<int>(1, size_t(n_));
    if (use_.lu(int(n_), int(n_), at(7), pivots) != 0) return false;
    use_.lu_solve(int(n_), int(n_), at(7), pivots, at(6));
    for (int s = 0; s < squarings; ++s) {
      multiply(6, 6, 7);
      std::copy_n(at(7), size_, at(6));
    }
    return true;
  }
  T* at(int block) { return memory_ + block * size_; }
  // The 1-norm of a block; not finite if an element is not.
  double norm(int block = 0) {
    double largest = 0;
    for (int64_t j = 0; j < n_; ++j) {
      double column = 0;
      for (int64_t i = 0; i < n_; ++i) column += double(std::abs(at(block)[j * n_ + i]));
      if (!(column <= largest)) largest = column;
      if (!std::isfinite(column)) break;
    }
    return largest;
  }

 private:
  void multiply(int a, int b, int to) { use_.multiply(int(n_), int(n_), int(n_), at(a), at(b), at(to)); }
  static int halvings(double size) { return size > theta_13 ? int(std::ceil(std::log2(size / theta_13))) : 0; }
  void times_power_of_two(int block, int exponent) {
    const int most = std::is_same_v<Real<T>, float> ? 100 : 1000;  // a power of two that the dtype represents
    for (int left = exponent; left != 0;) {
      const int step = std::clamp(left, -most, most);
      const Real<T> factor = Real<T>(std::ldexp(1.0, step));
      for (int64_t i = 0; i < size_; ++i) at(block)[i] *= factor;
      left -= step;
    }
  }
  // Divides block 0 by a power of two, and stores a^2, a^4 and a^6 of the result in the next three; returns the
  // exponent. First it divides by as much as the norm requires, so that no power overflows, and then undoes as much as
  // possible.
  int scale() {
    const int most = halvings(norm());
    const double rest = most > 0 ? rest_exponent() : 0;
    times_power_of_two(0, -most);
    multiply(0, 0, 1), multiply(1, 1, 2), multiply(1, 2, 3);
    if (most == 0) return 0;
    multiply(2, 2, 4), multiply(2, 3, 5);
    const double by_6 = std::pow(norm(3), 1 / 6.0), by_8 = std::pow(norm(4), 1 / 8.0),
                 by_10 = std::pow(norm(5), 1 / 10.0);
    const double size = std::min(std::max(by_6, by_8), std::max(by_8, by_10));
    constexpr double unit = std::is_same_v<Real<T>, float> ? -24 : -53;
    int squarings = 0;
    while (squarings < most && (std::ldexp(size, most - squarings) > theta_13 || rest - 26.0 * squarings > unit))
      ++squarings;
    const int back = most - squarings;
    if (back == 0) return most;
    times_power_of_two(0, back);
    multiply(0, 0, 1), multiply(1, 1, 2), multiply(1, 2, 3);
    return squarings;
  }
  // log2 of a bound of the truncation error of the approximant of block 0, relative to its norm: by the 27th power of
  // the elements' magnitudes, whose 1-norm is that of a product by ones (Al-Mohy, Higham 2009, 5.1). Halving the matrix
  // lessens it by 26.
  double rest_exponent() {
    std::vector<double> sums(size_t(n_), 1.0);
    int exponent = 0;
    for (int step = 0; step < 27; ++step) {
      const std::vector<double> last = sums;
      for (int64_t j = 0; j < n_; ++j) {
        sums[size_t(j)] = 0;
        for (int64_t i = 0; i < n_; ++i) sums[size_t(j)] += last[size_t(i)] * double(std::abs(at(0)[j * n_ + i]));
      }
      const double largest = *std::max_element(sums.begin(), sums.end());
      if (largest == 0) return -std::numeric_limits<double>::infinity();  // a^27 is 0
      int power = 0;
      std::frexp(largest, &power);
      exponent += power;
      for (double& x : sums) x = std::ldexp(x, -power);  // so that it neither overflows nor underflows
    }
    return exponent - std::log2(norm()) - 116.45;  // log2(binomial(26, 13) 27!)
  }
  // The polynomial of a^2 with the coefficients top, top - 2, ...; overwrites `work`.
  void half(int top, int work, int to) {
    const auto c = [&](int i) { return Real<T>(pade_13[top - i]); };
    for (int64_t i = 0; i < size_; ++i) at(work)[i] = c(0) * at(3)[i] + c(2) * at(2)[i] + c(4) * at(1)[i];
    multiply(3, work, to);
    for (int64_t i = 0; i < size_; ++i) at(to)[i] += c(6) * at(3)[i] + c(8) * at(2)[i] + c(10) * at(1)[i];
    for (int64_t i = 0; i < n_; ++i) at(to)[i * n_ + i] += c(12);
  }

  const int64_t n_, size_;
  const Routines<T>& use_;
  T* const memory_;
  Scratch& scratch_;
};

void expm(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("expm", b);
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, 10 * cube(b.rows, b.rows), [&](int64_t i, Scratch& scratch) {
      if (b.rows == 0) return;
      Exponential<T> e(b.rows, use, scratch);
      transpose_into(args.in_data<T>(0) + i * b.size(), b.rows, b.rows, e.at(0));
      if (!std::isfinite(e.norm())) fill_nan(e.at(6), b.size());  // so large that no digit is known
      else if (!e.run()) fault.report(i);
      transpose_into(e.at(6), b.rows, b.rows, args.out_data<T>() + i * b.size());
    });
  });
  fault.check("expm", args.input(0), "has no exponential that the dtype holds");
}

}  // namespace
}  // namespace matrix

RILL_MATRIX_KERNEL(cholesky)
RILL_MATRIX_KERNEL(solve)
RILL_MATRIX_KERNEL(triangular_solve)
RILL_MATRIX_KERNEL(det)
RILL_MATRIX_KERNEL(slogdet)
RILL_MATRIX_KERNEL(lu)
RILL_MATRIX_KERNEL(qr)
RILL_MATRIX_KERNEL(expm)

}  // namespace rill
