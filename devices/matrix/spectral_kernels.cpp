// Kernels of the iterative decompositions: svd, eigh, eig, and their values alone. They use a table of routines; see
// routines.h.
//
// A matrix with an infinity or a NaN gives NaN without calling a routine: some would never return. Vectors, which are
// unique up to a factor of magnitude 1, are multiplied by the one that makes their largest element real and positive,
// so that they do not depend on the LAPACK.
#include <cmath>
#include <numeric>
#include <vector>

#include "rill/devices/matrix/batch.h"
#include "rill/devices/matrix/blocked_eigh.h"
#include "rill/devices/matrix/blocked_svd.h"
#include "rill/devices/params/matrix_params.h"

namespace rill {
namespace matrix {
namespace {

constexpr const char* no_convergence = "is one on which LAPACK's iteration does not converge. scale it, or use f64";

// The factor of magnitude 1 that makes the largest of x's n elements real and positive.
template <class T>
T phase_of(const T* x, int64_t n) {
  T largest = 0;
  for (int64_t i = 0; i < n; ++i)
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  if constexpr (is_complex<T>) return std::abs(largest) > 0 ? std::conj(largest) / std::abs(largest) : T(1);
  else return largest < 0 ? T(-1) : T(1);
}
template <class T>
void multiply_line(T* x, int64_t n, int64_t step, const T& by) {
  for (int64_t i = 0; i < n; ++i) x[i * step] *= by;
}

// Multiplies the columns of u (m x p, in rows), and the matching rows of vh (q x n), by the phases of the columns; the
// other rows of vh by their own.
template <class T>
void fix_signs(int64_t m, int64_t p, int64_t q, int64_t n, T* u, T* vh) {
  std::vector<T> largest(size_t(p), T(0));
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < p; ++j) {
      const T x = u[r * p + j];
      largest[size_t(j)] = std::abs(x) > std::abs(largest[size_t(j)]) ? x : largest[size_t(j)];
    }
  for (T& x : largest) x = x < 0 ? T(-1) : T(1);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t j = 0; j < p; ++j) u[r * p + j] *= largest[size_t(j)];
  const int64_t k = std::min(m, n);
  for (int64_t j = 0; j < q; ++j) multiply_line(vh + j * n, n, 1, j < k ? largest[size_t(j)] : phase_of(vh + j * n, n));
}

// Whether to use the blocked algorithms, which are for real matrices: on cpu:0, with a LAPACK.
template <class T>
bool for_blocks(const KernelArgs& args, const Routines<T>& use) {
  return !is_complex<T> && use.bidiagonal_svd && args.input(0).device().kind() == DeviceKind::cpu;
}

void svd(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("svd", b, 4);  // gesdd's workspace has 4 n^2 numbers
  check_sizes("svd", Batch(args.output(0)));
  check_sizes("svd", Batch(args.output(2)));
  const bool full = args.attrs.as<FactorParams>().full;
  const int64_t m = b.rows, n = b.columns, k = std::min(m, n), p = full ? m : k, q = full ? n : k;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, 10 * cube(m, n), [&](int64_t i, Scratch& scratch) {
      Real<T>* s = args.out_data<Real<T>>(1) + i * k;
      if constexpr (!is_complex<T>)
        if (for_blocks(args, use) && is_for_blocked_svd(m, n)) {
          const T* from = args.in_data<T>(0) + i * b.size();
          T *left = args.out_data<T>(0) + i * m * p, *right = args.out_data<T>(2) + i * q * n;
          if (!all_finite(from, b.size())) fill_nan(left, m * p), fill_nan(right, q * n), fill_nan(s, k);
          else if (BlockedSvd<T>(use).run(full, m, n, from, s, left, right, scratch) != 0) fault.report(i);
          else fix_signs(m, p, q, n, left, right);
          return;
        }
      T* a = scratch.get<T>(0, size_t(b.size()));
      T* u = scratch.get<T>(1, size_t(m * p));
      T* vh = scratch.get<T>(2, size_t(q * n));
      transpose_into(args.in_data<T>(0) + i * b.size(), m, n, a);
      if (k == 0) {  // the full factors of an empty matrix are identities
        for (T* x : {u, vh}) std::fill_n(x, x == u ? m * p : q * n, T(0));
        for (int64_t j = 0; j < p; ++j) u[j * m + j] = 1;
        for (int64_t j = 0; j < q; ++j) vh[j * q + j] = 1;
      } else if (!all_finite(a, b.size())) {
        fill_nan(u, m * p), fill_nan(vh, q * n), fill_nan(s, k);
      } else if (use.svd(full, int(m), int(n), a, s, u, vh, scratch) != 0) {
        return fault.report(i);
      }
      for (int64_t j = 0; j < p; ++j) {
        const T phase = phase_of(u + j * m, m);
        multiply_line(u + j * m, m, 1, phase);
        if (j < k) multiply_line(vh + j, n, q, conjugate(phase));
      }
      for (int64_t j = k; j < q; ++j) {
        std::vector<T> row(static_cast<size_t>(n));
        for (int64_t c = 0; c < n; ++c) row[size_t(c)] = vh[c * q + j];
        multiply_line(vh + j, n, q, phase_of(row.data(), n));
      }
      transpose_into(u, p, m, args.out_data<T>(0) + i * m * p);
      transpose_into(vh, n, q, args.out_data<T>(2) + i * q * n);
    });
  });
  fault.check("svd", args.input(0), no_convergence);
}

void svdvals(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("svdvals", b);
  const int64_t k = std::min(b.rows, b.columns);
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, 4 * cube(b.rows, b.columns), [&](int64_t i, Scratch& scratch) {
      Real<T>* s = args.out_data<Real<T>>() + i * k;
      if constexpr (!is_complex<T>)
        if (for_blocks(args, use) && is_for_blocked_svd(b.rows, b.columns)) {
          const T* from = args.in_data<T>(0) + i * b.size();
          if (!all_finite(from, b.size())) fill_nan(s, k);
          else if (BlockedSvd<T>(use).run(false, b.rows, b.columns, from, s, nullptr, nullptr, scratch) != 0)
            fault.report(i);
          return;
        }
      T* a = scratch.get<T>(0, size_t(b.size()));
      transpose_into(args.in_data<T>(0) + i * b.size(), b.rows, b.columns, a);
      if (!all_finite(a, b.size())) fill_nan(s, k);
      else if (k > 0 && use.svd(false, int(b.rows), int(b.columns), a, s, nullptr, nullptr, scratch) != 0)
        fault.report(i);
    });
  });
  fault.check("svdvals", args.input(0), no_convergence);
}

// Singular values up to this fraction of the largest are treated as 0: `rtol`, or numpy's default if it is negative.
template <class R>
R cutoff(double rtol, int64_t m, int64_t n) {
  return rtol >= 0 ? R(rtol) : R(std::max(m, n)) * std::numeric_limits<R>::epsilon();
}

// The exponent n such that 2^n times the least nonzero singular value has a finite inverse in R, or 0: its inverse may
// overflow where elements of the pseudo-inverse do not.
template <class R>
int too_small(const R* s, int64_t k, R fraction) {
  R least = s[0];
  for (int64_t j = 0; j < k; ++j)
    if (s[j] > fraction * s[0]) least = s[j];
  return least > 0 && least < 4 * std::numeric_limits<R>::min() ? -std::ilogb(least) : 0;
}
// x * 2^n, where 2^n may overflow R.
template <class R, class T>
T times_power(const T& x, int n) {
  return x * std::ldexp(R(1), n / 2) * std::ldexp(R(1), n - n / 2);
}

// V diag(1 / s) H(U), for the nonzero singular values.
void pinv(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0));
  check_sizes("pinv", b, 4);
  const int64_t m = b.rows, n = b.columns, k = std::min(m, n);
  const double rtol = args.attrs.as<PinvParams>().rtol;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    const auto fraction = cutoff<Real<T>>(rtol, m, n);
    for_each_matrix(b.count, 10 * cube(m, n), [&](int64_t i, Scratch& scratch) {
      T* a = scratch.get<T>(0, size_t(b.size()));
      T* u = scratch.get<T>(1, size_t(m * k));
      T* vh = scratch.get<T>(2, size_t(k * n));
      Real<T>* s = scratch.get<Real<T>>(3, size_t(k));
      T* v = scratch.get<T>(4, size_t(n * k));
      T* uh = scratch.get<T>(5, size_t(k * m));
      transpose_into(args.in_data<T>(0) + i * b.size(), m, n, a);
      if (k == 0) return;
      if (!all_finite(a, b.size())) return fill_nan(args.out_data<T>() + i * b.size(), b.size());
      if (use.svd(false, int(m), int(n), a, s, u, vh, scratch) != 0) return fault.report(i);
      const int up = too_small(s, k, fraction);
      for (int64_t j = 0; j < k; ++j) {
        const Real<T> factor = s[j] > fraction * s[0] ? 1 / times_power<Real<T>>(s[j], up) : Real<T>(0);
        for (int64_t r = 0; r < n; ++r) v[j * n + r] = conjugate(vh[r * k + j]) * factor;
        for (int64_t c = 0; c < m; ++c) uh[c * k + j] = conjugate(u[j * m + c]);
      }
      use.multiply(int(n), int(m), int(k), v, uh, a);
      for (int64_t j = 0; up != 0 && j < n * m; ++j) a[j] = times_power<Real<T>>(a[j], up);
      transpose_into(a, m, n, args.out_data<T>() + i * b.size());
    });
  });
  fault.check("pinv", args.input(0), no_convergence);
}

// x := V diag(1 / s) H(U) b, for the nonzero singular values: the right side is multiplied by U first, so that the
// error is proportional to the condition number, as in LAPACK's gelsd.
void lstsq(const KernelArgs& args, const Tables& tables) {
  const Batch b(args.input(0)), right(args.input(1)), result(args.output(0));
  check_sizes("lstsq", b, 4);
  check_sizes("lstsq", right);
  check_sizes("lstsq", result);
  const int64_t m = b.rows, n = b.columns, k = std::min(m, n), columns = right.columns;
  const double rtol = args.attrs.as<PinvParams>().rtol;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    const auto fraction = cutoff<Real<T>>(rtol, m, n);
    for_each_matrix(b.count, 10 * cube(m, n) + double(m + n) * double(k) * double(columns),
                    [&](int64_t i, Scratch& scratch) {
                      T* a = scratch.get<T>(0, size_t(b.size()));
                      T* u = scratch.get<T>(1, size_t(m * k));
                      T* vh = scratch.get<T>(2, size_t(k * n));
                      T* y = scratch.get<T>(3, size_t(m * columns));     // the right side
                      T* in_u = scratch.get<T>(4, size_t(k * columns));  // along U, then the solution's along V
                      T* transposed = scratch.get<T>(5, size_t(std::max(m, n) * k));  // H(U), then V
                      T* x = scratch.get<T>(6, size_t(n * columns));
                      Real<T>* s = args.out_data<Real<T>>(1) + i * k;
                      T* to = args.out_data<T>(0) + i * result.size();
                      transpose_into(args.in_data<T>(0) + i * b.size(), m, n, a);
                      transpose_into(args.in_data<T>(1) + i * right.size(), m, columns, y);
                      if (k == 0) return std::fill_n(to, result.size(), T(0)), void();
                      if (!all_finite(a, b.size())) return fill_nan(to, result.size()), fill_nan(s, k);
                      if (use.svd(false, int(m), int(n), a, s, u, vh, scratch) != 0) return fault.report(i);
                      if (columns == 0) return;
                      for (int64_t j = 0; j < k; ++j)
                        for (int64_t r = 0; r < m; ++r) transposed[r * k + j] = conjugate(u[j * m + r]);
                      use.multiply(int(k), int(columns), int(m), transposed, y, in_u);
                      for (int64_t c = 0; c < columns; ++c)
                        for (int64_t j = 0; j < k; ++j) {
                          T& part = in_u[c * k + j];
                          part = s[j] > fraction * s[0] ? part / s[j] : T(0);
                        }
                      for (int64_t j = 0; j < k; ++j)
                        for (int64_t r = 0; r < n; ++r) transposed[j * n + r] = conjugate(vh[r * k + j]);
                      use.multiply(int(n), int(columns), int(k), transposed, in_u, x);
                      transpose_into(x, columns, n, to);
                    });
  });
  fault.check("lstsq", args.input(0), no_convergence);
}

// eigh, and eigvalsh without `vectors`, whose only outputs are the values.
void hermitian(const KernelArgs& args, const Tables& tables, bool vectors) {
  const Batch b(args.input(0));
  const char* op = vectors ? "eigh" : "eigvalsh";
  check_sizes(op, b, 2);  // syevd's workspace has 2 n^2 numbers
  const int64_t n = b.rows;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    for_each_matrix(b.count, 5 * cube(n, n), [&](int64_t i, Scratch& scratch) {
      Real<T>* w = args.out_data<Real<T>>() + i * n;
      if constexpr (!is_complex<T>)
        if (for_blocks(args, use) && is_for_blocked_eigh(n)) {
          T* v = vectors ? args.out_data<T>(1) + i * b.size() : scratch.get<T>(0, size_t(b.size()));
          hermitian_part(args.in_data<T>(0) + i * b.size(), n, v);
          if (!all_finite(v, b.size())) fill_nan(v, b.size()), fill_nan(w, n);
          else if (blocked_eigh(use, vectors, n, v, w, scratch) != 0) fault.report(i);
          else if (vectors) fix_signs(n, n, 0, n, v, v);
          return;
        }
      T* a = scratch.get<T>(0, size_t(b.size()));
      hermitian_part(args.in_data<T>(0) + i * b.size(), n, a);
      if (!all_finite(a, b.size())) fill_nan(a, b.size()), fill_nan(w, n);
      else if (n > 0 && use.eigh(vectors, int(n), a, w, scratch) != 0) return fault.report(i);
      if (!vectors) return;
      for (int64_t j = 0; j < n; ++j) multiply_line(a + j * n, n, 1, phase_of(a + j * n, n));
      transpose_into(a, n, n, args.out_data<T>(1) + i * b.size());
    });
  });
  fault.check(op, args.input(0), no_convergence);
}
void eigh(const KernelArgs& args, const Tables& tables) { hermitian(args, tables, true); }
void eigvalsh(const KernelArgs& args, const Tables& tables) { hermitian(args, tables, false); }

// eig, and eigvals without `vectors`.
void general(const KernelArgs& args, const Tables& tables, bool vectors) {
  const Batch b(args.input(0));
  const char* op = vectors ? "eig" : "eigvals";
  check_sizes(op, b);
  const int64_t n = b.rows;
  FirstFault fault;
  with_routines(args, tables, [&]<class T>(const Routines<T>& use) {
    using C = Complex<T>;
    for_each_matrix(b.count, 20 * cube(n, n), [&](int64_t i, Scratch& scratch) {
      T* a = scratch.get<T>(0, size_t(b.size()));
      C* w = scratch.get<C>(1, size_t(n));
      C* v = vectors ? scratch.get<C>(2, size_t(b.size())) : nullptr;
      transpose_into(args.in_data<T>(0) + i * b.size(), n, n, a);
      if (!all_finite(a, b.size())) {
        fill_nan(w, n);
        if (v) fill_nan(v, b.size());
      } else if (n > 0 && use.eig(int(n), a, w, v, scratch) != 0) {
        return fault.report(i);
      }
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), int64_t(0));
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
        return w[x].real() != w[y].real() ? w[x].real() < w[y].real() : w[x].imag() < w[y].imag();
      });
      for (int64_t j = 0; j < n; ++j) args.out_data<C>()[i * n + j] = w[order[size_t(j)]];
      for (int64_t j = 0; v && j < n; ++j) {
        C* x = v + order[size_t(j)] * n;
        multiply_line(x, n, 1, phase_of(x, n));
        for (int64_t r = 0; r < n; ++r) args.out_data<C>(1)[i * b.size() + r * n + j] = x[r];
      }
    });
  });
  fault.check(op, args.input(0), no_convergence);
}
void eig(const KernelArgs& args, const Tables& tables) { general(args, tables, true); }
void eigvals(const KernelArgs& args, const Tables& tables) { general(args, tables, false); }

}  // namespace
}  // namespace matrix

RILL_MATRIX_KERNEL(svd)
RILL_MATRIX_KERNEL(svdvals)
RILL_MATRIX_KERNEL(eigh)
RILL_MATRIX_KERNEL(eigvalsh)
RILL_MATRIX_KERNEL(eig)
RILL_MATRIX_KERNEL(eigvals)
RILL_MATRIX_KERNEL(pinv)
RILL_MATRIX_KERNEL(lstsq)

}  // namespace rill
