// The routines by textbook algorithms, in plain loops in a wider type than the dtype: the reference for LAPACK.
//
// Householder reflections for QR, with LAPACK's choice of signs; Jacobi rotations for Hermitian eigenvalues and
// singular values (Golub, Van Loan, "Matrix Computations", 5.1, 8.5, 8.6); the shifted QR iteration on a Hessenberg
// matrix for all other eigenvalues (7.4, 7.5).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "rill/devices/matrix/routines.h"
#include "rill/devices/ref/iterate.h"

namespace rill::matrix {
namespace {

template <class W>
W conj_of(const W& x) {
  if constexpr (is_complex<W>) return std::conj(x);
  else return x;
}
template <class W>
Real<W> real_of(const W& x) {
  if constexpr (is_complex<W>) return x.real();
  else return x;
}
template <class W>
Real<W> squared(const W& x) {
  if constexpr (is_complex<W>) return std::norm(x);
  else return x * x;
}

// A column-major matrix.
template <class W>
struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<W> at;
  Matrix(size_t m, size_t n) : rows(m), columns(n), at(m * n) {}
  template <class T>
  Matrix(size_t m, size_t n, const T* from) : rows(m), columns(n), at(from, from + m * n) {}
  static Matrix identity(size_t m, size_t n) {
    Matrix x(m, n);
    for (size_t i = 0; i < std::min(m, n); ++i) x(i, i) = 1;
    return x;
  }
  W& operator()(size_t i, size_t j) { return at[j * rows + i]; }
  const W& operator()(size_t i, size_t j) const { return at[j * rows + i]; }
  W* column(size_t j) { return at.data() + j * rows; }
  template <class T>
  void store(T* to) const {
    std::transform(at.begin(), at.end(), to, [](const W& x) { return T(x); });
  }
  Matrix adjoint() const {
    Matrix x(columns, rows);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) x(j, i) = conj_of((*this)(i, j));
    return x;
  }
};

// <x, y> over n elements.
template <class W>
W dot(const W* x, const W* y, size_t n) {
  W total = 0;
  for (size_t i = 0; i < n; ++i) total += conj_of(x[i]) * y[i];
  return total;
}

// The rotation that makes two columns p and q with the Gram matrix [[a, g], [conj(g), b]] orthogonal, or the unitary
// similarity that diagonalises this matrix: p := c p - s conj(e) q, q := s p + c conj(e) q.
template <class W>
struct Rotation {
  Real<W> c = 1, s = 0;
  W e = 1;
  Rotation(Real<W> a, Real<W> b, const W& g) {
    const Real<W> size = std::abs(g);
    e = g / size;
    const Real<W> slope = (b - a) / (2 * size);
    const Real<W> t = (slope < 0 ? Real<W>(-1) : Real<W>(1)) / (std::abs(slope) + std::sqrt(1 + slope * slope));
    c = 1 / std::sqrt(1 + t * t);
    s = t * c;
  }
  void rotate(W* p, W* q, size_t n, size_t step = 1) const { rotate(p, q, n, step, conj_of(e)); }
  void rotate_rows(W* p, W* q, size_t n, size_t step) const { rotate(p, q, n, step, e); }

 private:
  void rotate(W* p, W* q, size_t n, size_t step, const W& phase) const {
    for (size_t i = 0; i < n * step; i += step) {
      const W x = p[i], y = phase * q[i];
      p[i] = c * x - s * y;
      q[i] = s * x + c * y;
    }
  }
};

constexpr int most_sweeps = 80;

// The permutation that sorts `values` by `before`.
template <class V, class F>
std::vector<size_t> order_of(const V& values, F&& before) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return before(values[i], values[j]); });
  return order;
}

// Fills the columns from `first` on, starting from unit vectors, so that all columns are orthonormal.
template <class W>
void complete(Matrix<W>& u, size_t first) {
  size_t next = 0;
  for (size_t j = first; j < u.columns; ++j)
    for (bool found = false; !found && next < u.rows; ++next) {
      W* x = u.column(j);
      std::fill(x, x + u.rows, W(0));
      x[next] = 1;
      for (int twice = 0; twice < 2; ++twice)
        for (size_t k = 0; k < j; ++k) {
          const W along = dot(u.column(k), x, u.rows);
          for (size_t i = 0; i < u.rows; ++i) x[i] -= along * u(i, k);
        }
      const Real<W> length = std::sqrt(real_of(dot(x, x, u.rows)));
      if (length < Real<W>(1) / Real<W>(2 * u.rows)) continue;
      for (size_t i = 0; i < u.rows; ++i) x[i] /= length;
      found = true;
    }
}

// One-sided Jacobi: makes the columns of b orthogonal, and applies each rotation to v too.
template <class W>
void orthogonalise(Matrix<W>& b, Matrix<W>& v) {
  const Real<W> small = std::numeric_limits<Real<W>>::epsilon();
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool rotated = false;
    for (size_t p = 0; p < b.columns; ++p)
      for (size_t q = p + 1; q < b.columns; ++q) {
        const Real<W> pp = real_of(dot(b.column(p), b.column(p), b.rows)),
                      qq = real_of(dot(b.column(q), b.column(q), b.rows));
        const W pq = dot(b.column(p), b.column(q), b.rows);
        if (!(std::abs(pq) > small * std::sqrt(pp * qq))) continue;
        const Rotation<W> r(pp, qq, pq);
        r.rotate(b.column(p), b.column(q), b.rows);
        r.rotate(v.column(p), v.column(q), v.rows);
        rotated = true;
      }
    if (!rotated) return;
  }
}

// The singular value decomposition of a matrix with at least as many rows as columns.
template <class W>
struct TallSvd {
  std::vector<Real<W>> s;
  Matrix<W> u, v;
  TallSvd(const Matrix<W>& a, size_t u_columns) : u(a.rows, u_columns), v(a.columns, a.columns) {
    Matrix<W> b = a, rotations = Matrix<W>::identity(a.columns, a.columns);
    orthogonalise(b, rotations);
    std::vector<Real<W>> lengths;
    for (size_t j = 0; j < b.columns; ++j) lengths.push_back(std::sqrt(real_of(dot(b.column(j), b.column(j), b.rows))));
    const std::vector<size_t> order = order_of(lengths, [](auto x, auto y) { return x > y; });
    const Real<W> nothing =
        order.empty() ? Real<W>(0) : lengths[order[0]] * Real<W>(4 * a.rows) * std::numeric_limits<Real<W>>::epsilon();
    size_t rank = 0;
    for (size_t j = 0; j < order.size(); ++j) {
      s.push_back(lengths[order[j]]);
      std::copy_n(rotations.column(order[j]), v.rows, v.column(j));
      if (!(s[j] > nothing)) continue;
      for (size_t i = 0; i < b.rows; ++i) u(i, j) = b(i, order[j]) / s[j];
      rank = j + 1;
    }
    complete(u, rank);
  }
};

template <class W>
struct Hessenberg {
  Matrix<W> h, z;  // z h z^H is the matrix

  explicit Hessenberg(const Matrix<W>& a) : h(a), z(Matrix<W>::identity(a.rows, a.rows)) {
    const size_t n = a.rows;
    for (size_t k = 0; k + 2 < n; ++k)
      for (size_t i = k + 2; i < n; ++i) rotate(k + 1, i, k, n);
  }

  // The Givens rotation of rows p and q that makes h(q, column) zero, and of columns p and q. Rows from `first` on.
  void rotate(size_t p, size_t q, size_t column, size_t n) {
    const Real<W> length = std::hypot(std::abs(h(p, column)), std::abs(h(q, column)));
    if (length == 0 || h(q, column) == W(0)) return;
    const W c = h(p, column) / length, s = h(q, column) / length;
    rows(p, q, c, s, n);
    columns(p, q, c, s, n);
  }
  void rows(size_t p, size_t q, const W& c, const W& s, size_t n) {
    for (size_t j = 0; j < n; ++j) {
      const W x = h(p, j), y = h(q, j);
      h(p, j) = conj_of(c) * x + conj_of(s) * y;
      h(q, j) = c * y - s * x;
    }
  }
  void columns(size_t p, size_t q, const W& c, const W& s, size_t n) {
    for (Matrix<W>* m : {&h, &z})
      for (size_t i = 0; i < n; ++i) {
        const W x = (*m)(i, p), y = (*m)(i, q);
        (*m)(i, p) = c * x + s * y;
        (*m)(i, q) = conj_of(c) * y - conj_of(s) * x;
      }
  }

  // Wilkinson's shift of the last two of rows [first, last].
  W shift(size_t last) const {
    const W a = h(last - 1, last - 1), b = h(last - 1, last), c = h(last, last - 1), d = h(last, last);
    const W half = (a - d) / Real<W>(2), root = std::sqrt(half * half + b * c);
    const W far = std::abs(half + root) >= std::abs(half - root) ? half + root : half - root;
    return far == W(0) ? d : d - b * c / far;
  }

  // Makes h upper triangular. False if it does not converge.
  bool triangulate() {
    const size_t n = h.rows;
    const Real<W> small = std::numeric_limits<Real<W>>::epsilon();
    Real<W> size = 0;
    for (const W& x : h.at) size = std::max(size, std::abs(x));
    const auto is_small = [&](size_t i) {
      const Real<W> neighbours = std::abs(h(i, i)) + std::abs(h(i - 1, i - 1));
      return !(std::abs(h(i, i - 1)) > small * std::max(neighbours, small * size));
    };
    for (size_t last = n; last-- > 1;) {
      for (int steps = 0;; ++steps) {
        size_t first = last;
        while (first > 0 && !is_small(first)) --first;
        if (first > 0) h(first, first - 1) = 0;
        if (first == last) break;
        if (steps > 30 * most_sweeps) return false;
        const bool stuck = steps % 11 == 10;
        step(first, last, stuck ? W(std::abs(h(last, last - 1))) + h(last, last) : shift(last));
      }
    }
    return true;
  }

 private:
  // One QR step with a shift: h - shift = Q R, h := R Q + shift.
  void step(size_t first, size_t last, const W& shift) {
    const size_t n = h.rows;
    std::vector<std::pair<W, W>> rotations;
    for (size_t i = first; i <= last; ++i) h(i, i) -= shift;
    for (size_t k = first; k < last; ++k) {
      const Real<W> length = std::hypot(std::abs(h(k, k)), std::abs(h(k + 1, k)));
      const W c = length == 0 ? W(1) : h(k, k) / length, s = length == 0 ? W(0) : h(k + 1, k) / length;
      rotations.emplace_back(c, s);
      rows_from(k, c, s, n);
    }
    for (size_t k = first; k < last; ++k) columns(k, k + 1, rotations[k - first].first, rotations[k - first].second, n);
    // The rows and columns outside of [first, last] belong to the unshifted matrix: only the block was shifted.
    for (size_t i = first; i <= last; ++i) h(i, i) += shift;
  }
  void rows_from(size_t k, const W& c, const W& s, size_t n) { rows(k, k + 1, c, s, n); }
};

// The eigenvectors of an upper triangular matrix, by back substitution, times z; normalised.
template <class W>
Matrix<W> eigenvectors(const Hessenberg<W>& schur) {
  const Matrix<W>& t = schur.h;
  const size_t n = t.rows;
  Matrix<W> v(n, n);
  Real<W> size = 0;
  for (const W& x : t.at) size = std::max(size, std::abs(x));
  const Real<W> least = std::max(size * std::numeric_limits<Real<W>>::epsilon(), std::numeric_limits<Real<W>>::min());
  for (size_t k = 0; k < n; ++k) {
    std::vector<W> y(n);
    y[k] = 1;
    for (size_t i = k; i-- > 0;) {
      W total = t(i, k);
      for (size_t j = i + 1; j < k; ++j) total += t(i, j) * y[j];
      W gap = t(k, k) - t(i, i);
      if (std::abs(gap) < least) gap = least;
      y[i] = total / gap;
    }
    W* x = v.column(k);
    for (size_t j = 0; j <= k; ++j)
      for (size_t i = 0; i < n; ++i) x[i] += schur.z(i, j) * y[j];
    const Real<W> length = std::sqrt(real_of(dot(x, x, n)));
    for (size_t i = 0; i < n; ++i) x[i] /= length;
  }
  return v;
}

template <class T>
struct Plain {
  using R = Real<T>;
  using C = Complex<T>;
  using W = ref::Wide<T>;
  using WR = Real<W>;
  using WC = std::complex<WR>;

  static int cholesky(int size, T* a) {
    const size_t n = size_t(size);
    Matrix<W> u(n, n, a);
    for (size_t j = 0; j < n; ++j) {
      WR d = real_of(u(j, j));
      for (size_t k = 0; k < j; ++k) d -= squared(u(k, j));
      if (!(d > 0)) return int(j) + 1;
      u(j, j) = std::sqrt(d);
      for (size_t i = j + 1; i < n; ++i) {
        for (size_t k = 0; k < j; ++k) u(j, i) -= conj_of(u(k, j)) * u(k, i);
        u(j, i) /= u(j, j);
      }
    }
    u.store(a);
    return 0;
  }

  // As LAPACK compares pivots.
  static WR pivot_size(const W& x) {
    if constexpr (is_complex<W>) return std::abs(x.real()) + std::abs(x.imag());
    else return std::abs(x);
  }

  static int lu(int rows, int columns, T* a, int* pivots) {
    const size_t m = size_t(rows), n = size_t(columns);
    Matrix<W> x(m, n, a);
    int info = 0;
    for (size_t k = 0; k < std::min(m, n); ++k) {
      size_t best = k;
      for (size_t i = k + 1; i < m; ++i)
        if (pivot_size(x(i, k)) > pivot_size(x(best, k))) best = i;
      pivots[k] = int(best) + 1;
      if (x(best, k) == W(0)) {
        if (info == 0) info = int(k) + 1;
        continue;
      }
      for (size_t j = 0; best != k && j < n; ++j) std::swap(x(k, j), x(best, j));
      for (size_t i = k + 1; i < m; ++i) {
        x(i, k) /= x(k, k);
        for (size_t j = k + 1; j < n; ++j) x(i, j) -= x(i, k) * x(k, j);
      }
    }
    x.store(a);
    return info;
  }

  static void lu_solve(int size, int columns, const T* lu, const int* pivots, T* b) {
    const size_t n = size_t(size);
    for (size_t j = 0; j < size_t(columns); ++j)
      for (size_t i = 0; i < n; ++i) std::swap(b[j * n + i], b[j * n + size_t(pivots[i]) - 1]);
    triangular_solve(true, false, true, size, columns, lu, b);
    triangular_solve(false, false, false, size, columns, lu, b);
  }

  static void triangular_solve(bool lower, bool adjoint, bool unit, int size, int columns, const T* a, T* b) {
    const size_t n = size_t(size);
    const auto at = [&](size_t i, size_t j) { return adjoint ? conj_of(W(a[i * n + j])) : W(a[j * n + i]); };
    const bool forward = lower != adjoint;
    for (size_t column = 0; column < size_t(columns); ++column) {
      std::vector<W> x(b + column * n, b + (column + 1) * n);
      for (size_t step = 0; step < n; ++step) {
        const size_t i = forward ? step : n - 1 - step;
        for (size_t done = 0; done < step; ++done) {
          const size_t j = forward ? done : n - 1 - done;
          x[i] -= at(i, j) * x[j];
        }
        if (!unit) x[i] /= at(i, i);
      }
      std::transform(x.begin(), x.end(), b + column * n, [](const W& v) { return T(v); });
    }
  }

  static void qr(int rows, int columns, int q_columns, T* a, T* q, Scratch&) {
    const size_t m = size_t(rows), n = size_t(columns), k = std::min(m, n);
    Matrix<W> x(m, n, a), full_q = Matrix<W>::identity(m, size_t(q_columns));
    std::vector<W> factors;
    for (size_t j = 0; j < k; ++j) {
      W* v = x.column(j) + j;
      WR below = 0;
      for (size_t i = 1; i < m - j; ++i) below += squared(v[i]);
      const W first = v[0];
      W factor = 0;
      WR length = real_of(first);
      if (below != 0 || first != W(length)) {
        length = std::sqrt(squared(first) + below) * (real_of(first) > 0 ? WR(-1) : WR(1));
        factor = (W(length) - first) / length;
        for (size_t i = 1; i < m - j; ++i) v[i] /= first - W(length);
      }
      factors.push_back(factor);
      v[0] = 1;
      for (size_t c = j + 1; c < n; ++c) reflect(v, x.column(c) + j, m - j, conj_of(factor));
      v[0] = length;
    }
    for (size_t j = k; j-- > 0;) {
      std::vector<W> v(x.column(j) + j, x.column(j) + m);
      v[0] = 1;
      for (size_t c = 0; c < full_q.columns; ++c) reflect(v.data(), full_q.column(c) + j, m - j, factors[j]);
    }
    x.store(a);
    full_q.store(q);
  }
  // x -= factor v <v, x>
  static void reflect(const W* v, W* x, size_t n, const W& factor) {
    const W along = factor * dot(v, x, n);
    for (size_t i = 0; i < n; ++i) x[i] -= along * v[i];
  }

  static int svd(bool full, int rows, int columns, T* a, R* s, T* u, T* vh, Scratch&) {
    const size_t m = size_t(rows), n = size_t(columns);
    const Matrix<W> x(m, n, a);
    const bool wide = m < n;
    const TallSvd<W> tall(wide ? x.adjoint() : x, full ? std::max(m, n) : std::min(m, n));
    std::transform(tall.s.begin(), tall.s.end(), s, [](WR v) { return R(v); });
    if (!u) return 0;
    (wide ? tall.v : tall.u).store(u);
    (wide ? tall.u : tall.v).adjoint().store(vh);
    return 0;
  }

  static int eigh(bool, int size, T* a, R* w, Scratch&) {
    const size_t n = size_t(size);
    Matrix<W> x(n, n, a), v = Matrix<W>::identity(n, n);
    for (size_t i = 0; i < n; ++i) {
      x(i, i) = real_of(x(i, i));
      for (size_t j = i + 1; j < n; ++j) x(i, j) = conj_of(x(j, i));
    }
    WR size_of_all = 0;
    for (const W& e : x.at) size_of_all = std::max<WR>(size_of_all, std::abs(e));
    const WR small = std::numeric_limits<WR>::epsilon() * size_of_all / 16;
    bool rotated = true;
    for (int sweep = 0; rotated && sweep < most_sweeps; ++sweep) {
      rotated = false;
      for (size_t p = 0; p < n; ++p)
        for (size_t q = p + 1; q < n; ++q) {
          if (!(std::abs(x(p, q)) > small)) continue;
          const Rotation<W> r(real_of(x(p, p)), real_of(x(q, q)), x(p, q));
          r.rotate(x.column(p), x.column(q), n);
          r.rotate_rows(&x(p, 0), &x(q, 0), n, n);
          r.rotate(v.column(p), v.column(q), n);
          x(p, q) = x(q, p) = 0;
          rotated = true;
        }
    }
    std::vector<WR> values;
    for (size_t i = 0; i < n; ++i) values.push_back(real_of(x(i, i)));
    const std::vector<size_t> order = order_of(values, [](WR p, WR q) { return p < q; });
    for (size_t j = 0; j < n; ++j) {
      w[j] = R(values[order[j]]);
      std::transform(v.column(order[j]), v.column(order[j]) + n, a + j * n, [](const W& e) { return T(e); });
    }
    return 0;
  }

  // A complex shift leaves the real values of a real matrix, and their vectors, with what rounding makes of 0.
  static void clear_rounding(const Hessenberg<WC>& schur, C* w, C* v) {
    const size_t n = schur.h.rows;
    WR largest = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(schur.h(i, i)));
    for (size_t i = 0; i < n; ++i) {
      if (std::abs(schur.h(i, i).imag()) > 8 * std::numeric_limits<WR>::epsilon() * largest) continue;
      w[i] = C(w[i].real(), 0);
      if (!v) continue;
      C* const x = v + i * n;
      const C most = *std::max_element(x, x + n, [](const C& p, const C& q) { return std::norm(p) < std::norm(q); });
      const C turn = most == C(0) ? C(1) : std::conj(most) / std::abs(most);
      for (size_t k = 0; k < n; ++k) x[k] = C((x[k] * turn).real(), 0);
    }
  }
  static int eig(int size, T* a, C* w, C* v, Scratch&) {
    const size_t n = size_t(size);
    Hessenberg<WC> schur(Matrix<WC>(n, n, a));
    if (!schur.triangulate()) return 1;
    for (size_t i = 0; i < n; ++i) w[i] = C(schur.h(i, i));
    if (v) eigenvectors(schur).store(v);
    if constexpr (std::is_same_v<T, Real<T>>) clear_rounding(schur, w, v);
    return 0;
  }

  static void multiply(int rows, int columns, int inner, const T* a, const T* b, T* c) {
    const size_t m = size_t(rows), n = size_t(columns), k = size_t(inner);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < m; ++i) {
        W total = 0;
        for (size_t l = 0; l < k; ++l) total += W(a[l * m + i]) * W(b[j * k + l]);
        c[j * m + i] = T(total);
      }
  }

  static constexpr Routines<T> table = {cholesky, lu,      lu_solve, triangular_solve, qr,      svd,     eigh,   eig,
                                        multiply, nullptr, nullptr,  nullptr,          nullptr, nullptr, nullptr};
};

}  // namespace

const Tables& plain_tables() {
  static const Tables tables = {Plain<float>::table, Plain<double>::table, Plain<std::complex<float>>::table,
                                Plain<std::complex<double>>::table};
  return tables;
}

}  // namespace rill::matrix
