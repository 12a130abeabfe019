// For every instruction set: elements are gathered from as many matrices as fill a vector, computed on, and put back.
// Start at in_vectors().
#include "rill/devices/matrix/small.h"

#include <algorithm>

#include "rill/devices/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/matrix/small.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int most = int(most_small_rows);
constexpr size_t most_lanes = 16;
template <class T>
using Lanes = hn::CappedTag<T, most_lanes>;

// The elements of several matrices, [element][lane].
template <class T>
struct Elements {
  HWY_ALIGN T at[size_t(most) * size_t(most)][most_lanes];

  // Gathers `matrices` matrices of `size` elements; the other lanes hold the first one again.
  void gather(const T* from, int64_t size, int64_t matrices, size_t lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      const T* x = from + (int64_t(lane) < matrices ? int64_t(lane) : 0) * size;
      for (int64_t e = 0; e < size; ++e) at[e][lane] = x[e];
    }
  }
  void put(T* to, int64_t size, int64_t matrices) const {
    for (int64_t lane = 0; lane < matrices; ++lane)
      for (int64_t e = 0; e < size; ++e) to[lane * size + e] = at[e][lane];
  }
};

template <class D>
HWY_INLINE void exchange_where(hn::Mask<D> which, hn::Vec<D>& x, hn::Vec<D>& y) {
  const hn::Vec<D> first = x;
  x = hn::IfThenElse(which, y, x);
  y = hn::IfThenElse(which, first, y);
}

// Replaces m by U of its factorisation, and applies the same steps to x (n x k). Returns where a pivot is 0. A NaN is
// treated as the largest element, so that it is in the result. `sign` is that of the permutation.
template <int n, class D>
HWY_INLINE hn::Mask<D> eliminate(D d, hn::Vec<D> (&m)[n][n], hn::Vec<D> (*x)[most], int64_t k, hn::Vec<D>& sign) {
  const hn::Vec<D> zero = hn::Zero(d);
  hn::Mask<D> singular = hn::Ne(zero, zero);
  RILL_UNROLL for (int c = 0; c < n; ++c) {
    RILL_UNROLL for (int r = c + 1; r < n; ++r) {
      const hn::Mask<D> larger =
          hn::Or(hn::Gt(hn::Abs(m[r][c]), hn::Abs(m[c][c])), hn::AndNot(hn::IsNaN(m[c][c]), hn::IsNaN(m[r][c])));
      RILL_UNROLL for (int j = c; j < n; ++j) exchange_where<D>(larger, m[c][j], m[r][j]);
      for (int64_t j = 0; j < k; ++j) exchange_where<D>(larger, x[c][j], x[r][j]);
      sign = hn::IfThenElse(larger, hn::Neg(sign), sign);
    }
    const hn::Mask<D> none = hn::Eq(m[c][c], zero);
    singular = hn::Or(singular, none);
    RILL_UNROLL for (int r = c + 1; r < n; ++r) {
      const hn::Vec<D> by = hn::IfThenZeroElse(none, hn::Div(m[r][c], m[c][c]));
      RILL_UNROLL for (int j = c + 1; j < n; ++j) m[r][j] = hn::Sub(m[r][j], hn::Mul(by, m[c][j]));
      for (int64_t j = 0; j < k; ++j) x[r][j] = hn::Sub(x[r][j], hn::Mul(by, x[c][j]));
    }
  }
  return singular;
}

// The first of the matrices whose lane is set, or -1.
template <class D>
int64_t first_of(D d, hn::Mask<D> which, int64_t matrices) {
  const intptr_t lane = hn::FindFirstTrue(d, which);
  return lane >= 0 && lane < matrices ? lane : -1;
}

template <int n, class D>
HWY_INLINE void load(D d, const Elements<hn::TFromD<D>>& from, hn::Vec<D> (&m)[n][n]) {
  RILL_UNROLL for (int e = 0; e < n * n; ++e) m[e / n][e % n] = hn::Load(d, from.at[e]);
}

// Each replaces the gathered elements by those to put back, and returns the first matrix that fails.
template <class T>
struct Solve {
  int64_t k;
  template <int n>
  int64_t run(Elements<T>& a, Elements<T>& b, int64_t matrices) const {
    const Lanes<T> d;
    using V = hn::Vec<Lanes<T>>;
    V m[n][n], x[n][most], sign = hn::Zero(d);
    load<n>(d, a, m);
    for (int r = 0; r < n; ++r)
      for (int64_t j = 0; j < k; ++j) x[r][j] = hn::Load(d, b.at[r * k + j]);
    const auto singular = eliminate<n>(d, m, x, k, sign);
    for (int r = n - 1; r >= 0; --r)
      for (int64_t j = 0; j < k; ++j) {
        for (int c = r + 1; c < n; ++c) x[r][j] = hn::Sub(x[r][j], hn::Mul(m[r][c], x[c][j]));
        x[r][j] = hn::Div(x[r][j], m[r][r]);
        hn::Store(x[r][j], d, b.at[r * k + j]);
      }
    return first_of(d, singular, matrices);
  }
};

template <class T>
struct Pivots {
  template <int n>
  int64_t run(Elements<T>& a, Elements<T>& pivots, int64_t) const {
    const Lanes<T> d;
    hn::Vec<Lanes<T>> m[n][n], sign = hn::Set(d, T(1));
    load<n>(d, a, m);
    eliminate<n>(d, m, static_cast<hn::Vec<Lanes<T>>(*)[most]>(nullptr), 0, sign);
    for (int r = 0; r < n; ++r) hn::Store(r == 0 ? hn::Mul(sign, m[0][0]) : m[r][r], d, pivots.at[r]);
    return -1;
  }
};

template <class T>
struct Cholesky {
  template <int n>
  int64_t run(Elements<T>& a, Elements<T>& l, int64_t matrices) const {
    const Lanes<T> d;
    using V = hn::Vec<Lanes<T>>;
    const V zero = hn::Zero(d);
    V m[n][n];
    load<n>(d, a, m);
    auto good = hn::Eq(zero, zero);
    RILL_UNROLL for (int j = 0; j < n; ++j) {
      V rest = m[j][j];
      RILL_UNROLL for (int c = 0; c < j; ++c) rest = hn::Sub(rest, hn::Mul(m[j][c], m[j][c]));
      good = hn::And(good, hn::Gt(rest, zero));
      m[j][j] = hn::Sqrt(rest);
      RILL_UNROLL for (int i = j + 1; i < n; ++i) {
        const V half = hn::Set(d, T(0.5)), a = m[i][j], b = m[j][i];  // hermitian_part()
        V x = hn::IfThenElse(hn::Eq(a, b), a, hn::Add(hn::Mul(a, half), hn::Mul(b, half)));
        RILL_UNROLL for (int c = 0; c < j; ++c) x = hn::Sub(x, hn::Mul(m[i][c], m[j][c]));
        m[i][j] = hn::Div(x, m[j][j]);
      }
    }
    for (int r = 0; r < n; ++r)
      for (int c = 0; c < n; ++c) hn::Store(c <= r ? m[r][c] : zero, d, l.at[r * n + c]);
    return first_of(d, hn::Not(good), matrices);
  }
};

// Gathers a (n x n) and b (b_size elements, may be 0), runs `what`, and puts y (y_size elements) back.
template <class T, class What>
int64_t in_vectors(int64_t count, int64_t n, const T* a, const T* b, int64_t b_size, T* y, int64_t y_size,
                   const What& what) {
  const int64_t lanes = int64_t(hn::Lanes(Lanes<T>()));
  Elements<T> in, out;
  for (int64_t first = 0; first < count; first += lanes) {
    const int64_t matrices = std::min(lanes, count - first);
    in.gather(a + first * n * n, n * n, matrices, size_t(lanes));
    if (b) out.gather(b + first * b_size, b_size, matrices, size_t(lanes));
    int64_t fault = -1;
    switch (n) {
      case 1: fault = what.template run<1>(in, out, matrices); break;
      case 2: fault = what.template run<2>(in, out, matrices); break;
      case 3: fault = what.template run<3>(in, out, matrices); break;
      default: fault = what.template run<4>(in, out, matrices);
    }
    if (fault >= 0) return first + fault;
    out.put(y + first * y_size, y_size, matrices);
  }
  return -1;
}

template <class T>
int64_t solve(int64_t count, int64_t n, int64_t k, const T* a, const T* b, T* x) {
  return in_vectors(count, n, a, b, n * k, x, n * k, Solve<T>{k});
}
template <class T>
void pivots(int64_t count, int64_t n, const T* a, T* y) {
  in_vectors(count, n, a, static_cast<const T*>(nullptr), 0, y, n, Pivots<T>());
}
template <class T>
int64_t cholesky(int64_t count, int64_t n, const T* a, T* l) {
  return in_vectors(count, n, a, static_cast<const T*>(nullptr), 0, l, n * n, Cholesky<T>());
}

#define RILL_SMALL(T, suffix)                                                                  \
  int64_t solve_##suffix(int64_t count, int64_t n, int64_t k, const T* a, const T* b, T* x) {  \
    return solve(count, n, k, a, b, x);                                                        \
  }                                                                                            \
  void pivots_##suffix(int64_t count, int64_t n, const T* a, T* y) { pivots(count, n, a, y); } \
  int64_t cholesky_##suffix(int64_t count, int64_t n, const T* a, T* l) { return cholesky(count, n, a, l); }
RILL_SMALL(float, f32)
RILL_SMALL(double, f64)
#undef RILL_SMALL

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

#define RILL_SMALL(T, suffix)                                                              \
  HWY_EXPORT(solve_##suffix);                                                              \
  HWY_EXPORT(pivots_##suffix);                                                             \
  HWY_EXPORT(cholesky_##suffix);                                                           \
  int64_t small_solve(int64_t count, int64_t n, int64_t k, const T* a, const T* b, T* x) { \
    return HWY_DYNAMIC_DISPATCH(solve_##suffix)(count, n, k, a, b, x);                     \
  }                                                                                        \
  void small_pivots(int64_t count, int64_t n, const T* a, T* y) {                          \
    HWY_DYNAMIC_DISPATCH(pivots_##suffix)(count, n, a, y);                                 \
  }                                                                                        \
  int64_t small_cholesky(int64_t count, int64_t n, const T* a, T* l) {                     \
    return HWY_DYNAMIC_DISPATCH(cholesky_##suffix)(count, n, a, l);                        \
  }
RILL_SMALL(float, f32)
RILL_SMALL(double, f64)

}  // namespace rill::cpu
#endif
