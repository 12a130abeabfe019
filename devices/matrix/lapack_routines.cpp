// librill_lapack: the routines by LAPACK's Fortran interface, which every LAPACK has. It does not depend on librill.
//
// If the library is OpenBLAS, it uses one thread while rill is calling it: rill runs matrices in parallel itself, and
// one thread gives the same bits everywhere. The number of threads is global to the process, so it is restored for a
// program that uses OpenBLAS itself (OneThread). Start at Lapack.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "rill/devices/matrix/routines.h"
#include "rill/tensor/fork_mutex.h"

using c32 = std::complex<float>;
using c64 = std::complex<double>;

// The lengths of strings, which Fortran passes last, are all 1.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
int openblas_get_num_threads() __attribute__((weak));
#define RILL_DECLARE_LAPACK(p, T)                                                                                      \
  void p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                                               \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                                                  \
  void p##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*, size_t); \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                    \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*,        \
                const int*, T*, const int*, size_t, size_t, size_t, size_t);                                           \
  void p##gemm_(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*,          \
                const T*, const int*, const T*, T*, const int*, size_t, size_t);
RILL_DECLARE_LAPACK(s, float)
RILL_DECLARE_LAPACK(d, double)
RILL_DECLARE_LAPACK(c, c32)
RILL_DECLARE_LAPACK(z, c64)
#define RILL_DECLARE_Q(p, name, T) \
  void p##name##_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);
RILL_DECLARE_Q(s, orgqr, float)
RILL_DECLARE_Q(d, orgqr, double)
RILL_DECLARE_Q(c, ungqr, c32)
RILL_DECLARE_Q(z, ungqr, c64)
#define RILL_DECLARE_REAL(p, R)                                                                                    \
  void p##gesdd_(const char*, const int*, const int*, R*, const int*, R*, R*, const int*, R*, const int*, R*,      \
                 const int*, int*, int*, size_t);                                                                  \
  void p##syevd_(const char*, const char*, const int*, R*, const int*, R*, R*, const int*, int*, const int*, int*, \
                 size_t, size_t);                                                                                  \
  void p##geev_(const char*, const char*, const int*, R*, const int*, R*, R*, R*, const int*, R*, const int*, R*,  \
                const int*, int*, size_t, size_t);                                                                 \
  void p##bdsdc_(const char*, const char*, const int*, R*, R*, R*, const int*, R*, const int*, R*, int*, R*, int*, \
                 int*, size_t, size_t);                                                                            \
  void p##stedc_(const char*, const int*, R*, R*, R*, const int*, R*, const int*, int*, const int*, int*, size_t); \
  void p##sterf_(const int*, R*, R*, int*);                                                                        \
  void p##lasd0_(const int*, const int*, R*, R*, R*, const int*, R*, const int*, const int*, int*, R*, int*);      \
  void p##lasd1_(const int*, const int*, const int*, R*, R*, R*, R*, const int*, R*, const int*, int*, int*, R*,   \
                 int*);                                                                                            \
  void p##laed1_(const int*, R*, R*, const int*, int*, R*, const int*, R*, int*, int*);
RILL_DECLARE_REAL(s, float)
RILL_DECLARE_REAL(d, double)
#define RILL_DECLARE_COMPLEX(p, T, R)                                                                            \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*, const int*, T*,    \
                 const int*, R*, int*, int*, size_t);                                                            \
  void p##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*, const int*, int*, \
                 const int*, int*, size_t, size_t);                                                              \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*,    \
                const int*, R*, int*, size_t, size_t);
RILL_DECLARE_COMPLEX(c, c32, float)
RILL_DECLARE_COMPLEX(z, c64, double)
}

namespace rill::matrix {
namespace {

// LAPACK's names start with a letter for the dtype.
#define RILL_BY_DTYPE(name)                                         \
  template <class T, class... A>                                    \
  void name(A... a) {                                               \
    if constexpr (std::is_same_v<T, float>) s##name##_(a...);       \
    else if constexpr (std::is_same_v<T, double>) d##name##_(a...); \
    else if constexpr (std::is_same_v<T, c32>) c##name##_(a...);    \
    else z##name##_(a...);                                          \
  }
RILL_BY_DTYPE(potrf)
RILL_BY_DTYPE(getrf)
RILL_BY_DTYPE(getrs)
RILL_BY_DTYPE(geqrf)
RILL_BY_DTYPE(trsm)
RILL_BY_DTYPE(gemm)
template <class T, class... A>
void make_q(A... a) {
  if constexpr (std::is_same_v<T, float>) sorgqr_(a...);
  else if constexpr (std::is_same_v<T, double>) dorgqr_(a...);
  else if constexpr (std::is_same_v<T, c32>) cungqr_(a...);
  else zungqr_(a...);
}

constexpr int query = -1;  // as the length of a workspace, asks for the best length

int length_of(double best) { return std::max(1, int(best)); }
int length_of(const std::complex<double>& best) { return length_of(best.real()); }
// A float cannot hold every integer: the next float is large enough.
int length_of(float best) { return length_of(double(std::nextafter(best, std::numeric_limits<float>::infinity()))); }
int length_of(const c32& best) { return length_of(best.real()); }

// The blocks of Scratch that the routines use.
enum Block : size_t { work = Scratch::routines, real_work, integer_work, more };

template <class T>
struct Lapack {
  using R = Real<T>;
  using C = Complex<T>;

  static int cholesky(int n, T* a) {
    int info = 0;
    potrf<T>("U", &n, a, &n, &info, size_t(1));
    return info;
  }
  static int lu(int m, int n, T* a, int* pivots) {
    int info = 0;
    getrf<T>(&m, &n, a, &m, pivots, &info);
    return info;
  }
  static void lu_solve(int n, int k, const T* lu, const int* pivots, T* b) {
    int info = 0;
    getrs<T>("N", &n, &k, lu, &n, pivots, b, &n, &info, size_t(1));
  }
  static void triangular_solve(bool lower, bool adjoint, bool unit, int n, int k, const T* a, T* b) {
    const T one = 1;
    trsm<T>("L", lower ? "L" : "U", adjoint ? "C" : "N", unit ? "U" : "N", &n, &k, &one, a, &n, b, &n, size_t(1),
            size_t(1), size_t(1), size_t(1));
  }
  static void multiply(int m, int n, int k, const T* a, const T* b, T* c) {
    const T one = 1, zero = 0;
    gemm<T>("N", "N", &m, &n, &k, &one, a, &m, b, &k, &zero, c, &m, size_t(1), size_t(1));
  }

  static void qr(int m, int n, int columns, T* a, T* q, Scratch& scratch) {
    const int k = std::min(m, n);
    int info = 0;
    T* tau = scratch.get<T>(more, size_t(k));
    if (scratch.lengths.work == 0) {
      T best[2] = {};
      geqrf<T>(&m, &n, a, &m, tau, &best[0], &query, &info);
      make_q<T>(&m, &columns, &k, q, &m, tau, &best[1], &query, &info);
      scratch.lengths.work = std::max(length_of(best[0]), length_of(best[1]));
    }
    const int length = scratch.lengths.work;
    T* w = scratch.get<T>(work, size_t(length));
    geqrf<T>(&m, &n, a, &m, tau, w, &length, &info);
    std::copy(a, a + size_t(m) * size_t(k), q);
    make_q<T>(&m, &columns, &k, q, &m, tau, w, &length, &info);
  }

  // Calls ask(&best) unless it was called for an earlier matrix.
  template <class F>
  static int best_length(F&& ask, Scratch& scratch) {
    if (scratch.lengths.work == 0) {
      T best = 0;
      ask(&best);
      scratch.lengths.work = length_of(best);
    }
    return scratch.lengths.work;
  }

  static int svd(bool full, int m, int n, T* a, R* s, T* u, T* vh, Scratch& scratch) {
    const char* job = !u ? "N" : full ? "A" : "S";
    const int k = std::min(m, n), vh_rows = full ? n : k;
    const size_t low = size_t(k), high = size_t(std::max(m, n));
    int info = 0, length = query;
    int* integers = scratch.get<int>(integer_work, 8 * low);
    const auto run = [&](T* w) {
      if constexpr (is_complex<T>) {
        R* reals = scratch.get<R>(real_work, std::max(5 * low * low + 7 * low, 2 * high * low + 2 * low * low + low));
        const auto call = [&](auto routine) {
          routine(job, &m, &n, a, &m, s, u, &m, vh, &vh_rows, w, &length, reals, integers, &info, size_t(1));
        };
        if constexpr (std::is_same_v<T, c32>) call(cgesdd_);
        else call(zgesdd_);
      } else {
        const auto call = [&](auto routine) {
          routine(job, &m, &n, a, &m, s, u, &m, vh, &vh_rows, w, &length, integers, &info, size_t(1));
        };
        if constexpr (std::is_same_v<T, float>) call(sgesdd_);
        else call(dgesdd_);
      }
    };
    length = best_length(run, scratch);
    run(scratch.get<T>(work, size_t(length)));
    return info;
  }

  static int eigh(bool vectors, int n, T* a, R* w, Scratch& scratch) {
    const char* job = vectors ? "V" : "N";
    int info = 0, length = query, integer_length = query, real_length = query, best_whole = 0;
    T best = 0;
    R best_real = 0;
    const auto run = [&](T* space, R* reals, int* integers) {
      if constexpr (is_complex<T>) {
        const auto call = [&](auto routine) {
          routine(job, "L", &n, a, &n, w, space, &length, reals, &real_length, integers, &integer_length, &info,
                  size_t(1), size_t(1));
        };
        if constexpr (std::is_same_v<T, c32>) call(cheevd_);
        else call(zheevd_);
      } else {
        const auto call = [&](auto routine) {
          routine(job, "L", &n, a, &n, w, space, &length, integers, &integer_length, &info, size_t(1), size_t(1));
        };
        if constexpr (std::is_same_v<T, float>) call(ssyevd_);
        else call(dsyevd_);
      }
    };
    if (scratch.lengths.work == 0) {
      run(&best, &best_real, &best_whole);
      scratch.lengths = {length_of(best), length_of(best_real), std::max(1, best_whole)};
    }
    length = scratch.lengths.work;
    real_length = scratch.lengths.reals;
    integer_length = scratch.lengths.integers;
    run(scratch.get<T>(work, size_t(length)), scratch.get<R>(real_work, size_t(real_length)),
        scratch.get<int>(integer_work, size_t(integer_length)));
    return info;
  }

  static int eig(int n, T* a, C* w, C* v, Scratch& scratch) {
    const char* job = v ? "V" : "N";
    int info = 0, length = query;
    if constexpr (is_complex<T>) {
      R* reals = scratch.get<R>(real_work, 2 * size_t(n));
      const auto run = [&](T* space) {
        const auto call = [&](auto routine) {
          routine("N", job, &n, a, &n, w, nullptr, &n, v, &n, space, &length, reals, &info, size_t(1), size_t(1));
        };
        if constexpr (std::is_same_v<T, c32>) call(cgeev_);
        else call(zgeev_);
      };
      length = best_length(run, scratch);
      run(scratch.get<T>(work, size_t(length)));
    } else {
      R* re = scratch.get<R>(real_work, 2 * size_t(n));
      R* im = re + n;
      R* pairs = v ? scratch.get<R>(more, size_t(n) * size_t(n)) : nullptr;
      const auto run = [&](T* space) {
        const auto call = [&](auto routine) {
          routine("N", job, &n, a, &n, re, im, nullptr, &n, pairs, &n, space, &length, &info, size_t(1), size_t(1));
        };
        if constexpr (std::is_same_v<T, float>) call(sgeev_);
        else call(dgeev_);
      };
      length = best_length(run, scratch);
      run(scratch.get<T>(work, size_t(length)));
      for (int j = 0; j < n; ++j) w[j] = C(re[j], im[j]);
      if (v) complex_vectors(n, im, pairs, v);
    }
    return info;
  }

  // For a conjugate pair LAPACK returns the real and the imaginary part of the first vector.
  static void complex_vectors(int n, const R* im, const R* pairs, C* v) {
    const size_t rows = size_t(n);
    for (size_t j = 0; j < rows; ++j)
      for (size_t i = 0; i < rows; ++i) {
        const R own = pairs[j * rows + i];
        if (im[j] == 0) v[j * rows + i] = own;
        else if (im[j] > 0) v[j * rows + i] = C(own, pairs[(j + 1) * rows + i]);
        else v[j * rows + i] = C(pairs[(j - 1) * rows + i], -own);
      }
  }

  static int bidiagonal_svd(int n, T* d, T* e, T* u, T* vh, Scratch& scratch) {
    int info = 0;
    if constexpr (!is_complex<T>) {
      const size_t rows = size_t(n);
      T* w = scratch.get<T>(work, u ? 3 * rows * rows + 4 * rows : 4 * rows);
      int* integers = scratch.get<int>(integer_work, 8 * rows);
      const auto call = [&](auto routine) {
        routine("U", u ? "I" : "N", &n, d, e, u, &n, vh, &n, nullptr, nullptr, w, integers, &info, size_t(1),
                size_t(1));
      };
      if constexpr (std::is_same_v<T, float>) call(sbdsdc_);
      else call(dbdsdc_);
    }
    return info;
  }
  static int bidiagonal_part(bool wide, int n, T* d, T* e, T* u, T* vh, int step, Scratch& scratch) {
    int info = 0;
    if constexpr (!is_complex<T>) {
      const int more_columns = wide ? 1 : 0, smallest = 25;  // ilaenv's value for bdsdc
      const size_t columns = size_t(n + more_columns);
      const auto call = [&](auto routine) {
        routine(&n, &more_columns, d, e, u, &step, vh, &step, &smallest, scratch.get<int>(integer_work, 8 * columns),
                scratch.get<T>(work, 3 * columns * columns + 2 * columns), &info);
      };
      if constexpr (std::is_same_v<T, float>) call(slasd0_);
      else call(dlasd0_);
    }
    return info;
  }
  static int bidiagonal_join(int left, int right, T* d, T alpha, T beta, T* u, T* vh, int* order, Scratch& scratch) {
    int info = 0;
    if constexpr (!is_complex<T>) {
      const int n = left + right + 1, no_more_columns = 0;
      const size_t columns = size_t(n);
      const auto call = [&](auto routine) {
        routine(&left, &right, &no_more_columns, d, &alpha, &beta, u, &n, vh, &n, order,
                scratch.get<int>(integer_work, 4 * columns), scratch.get<T>(work, 3 * columns * columns + 2 * columns),
                &info);
      };
      if constexpr (std::is_same_v<T, float>) call(slasd1_);
      else call(dlasd1_);
    }
    return info;
  }
  static int tridiagonal_part(int n, T* d, T* e, T* v, int step, Scratch& scratch) {
    int info = 0;
    if constexpr (!is_complex<T>) {
      const int length = 1 + 4 * n + n * n, integer_length = 3 + 5 * n;
      const auto call = [&](auto routine) {
        routine("I", &n, d, e, v, &step, scratch.get<T>(work, size_t(length)), &length,
                scratch.get<int>(integer_work, size_t(integer_length)), &integer_length, &info, size_t(1));
      };
      if constexpr (std::is_same_v<T, float>) call(sstedc_);
      else call(dstedc_);
    }
    return info;
  }
  static int tridiagonal_join(int n, int cut, T* d, T between, T* v, int* order, Scratch& scratch) {
    int info = 0;
    if constexpr (!is_complex<T>) {
      const size_t rows = size_t(n);
      const auto call = [&](auto routine) {
        routine(&n, d, v, &n, order, &between, &cut, scratch.get<T>(work, 4 * rows + rows * rows),
                scratch.get<int>(integer_work, 4 * rows), &info);
      };
      if constexpr (std::is_same_v<T, float>) call(slaed1_);
      else call(dlaed1_);
    }
    return info;
  }

  static int tridiagonal_eigh(int n, T* d, T* e, T* v, Scratch& scratch) {
    int info = 0;
    if (v) return tridiagonal_part(n, d, e, v, n, scratch);
    if constexpr (std::is_same_v<T, float>) ssterf_(&n, d, e, &info);
    else if constexpr (!is_complex<T>) dsterf_(&n, d, e, &info);
    return info;
  }

  static constexpr bool has_bands = !is_complex<T>;
  static constexpr Routines<T> table = {cholesky,
                                        lu,
                                        lu_solve,
                                        triangular_solve,
                                        qr,
                                        svd,
                                        eigh,
                                        eig,
                                        multiply,
                                        has_bands ? bidiagonal_svd : nullptr,
                                        has_bands ? tridiagonal_eigh : nullptr,
                                        has_bands ? bidiagonal_part : nullptr,
                                        has_bands ? tridiagonal_part : nullptr,
                                        has_bands ? bidiagonal_join : nullptr,
                                        has_bands ? tridiagonal_join : nullptr};
};

// Sets OpenBLAS's number of threads to 1 while any thread is inside.
class OneThread {
 public:
  static void enter() {
    const std::lock_guard hold(lock_);
    if (inside_++ > 0) return;
    before_ = openblas_get_num_threads();
    if (before_ != 1) openblas_set_num_threads(1);
  }
  static void leave() {
    const std::lock_guard hold(lock_);
    if (--inside_ == 0 && before_ != 1) openblas_set_num_threads(before_);
  }

 private:
  static inline ForkMutex lock_;
  static inline int inside_ = 0, before_ = 1;
};

}  // namespace
}  // namespace rill::matrix

extern "C" __attribute__((visibility("default"))) const char rill_lapack_version[] = RILL_VERSION;

extern "C" __attribute__((visibility("default"))) const rill::matrix::Tables* rill_lapack_tables() {
  using namespace rill::matrix;
  const bool threads = openblas_set_num_threads && openblas_get_num_threads;
  static const Tables tables = {Lapack<float>::table,
                                Lapack<double>::table,
                                Lapack<c32>::table,
                                Lapack<c64>::table,
                                threads ? OneThread::enter : nullptr,
                                threads ? OneThread::leave : nullptr};
  return &tables;
}
