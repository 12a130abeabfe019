// Iterative decompositions: svd, pinv, lstsq, eigh, eig and their values alone. factors.cuh precedes this text; the
// methods are those of devices/matrix/plain_routines.cpp: Jacobi rotations, and the shifted QR iteration on a
// Hessenberg matrix.
//
// A matrix with an infinity or a NaN gives NaN. Vectors, which are unique up to a factor of magnitude 1, are multiplied
// by the one that makes their largest element real and positive.
namespace rill::cuda {

const f64 epsilon = 2.220446049250313e-16;
const int most_sweeps = 80;

// The rotation that makes two columns p and q with the Gram matrix [[a, g], [conj(g), b]] orthogonal, or the unitary
// similarity that diagonalises this matrix.
template <class W>
struct Rotation {
  f64 c, s;
  W e;
  inline Rotation(f64 a, f64 b, W g) {
    const f64 magnitude = magnitude_of(g), slope = (b - a) / (2 * magnitude);
    const f64 t = (slope < 0 ? -1. : 1.) / (abs_of(slope) + ::sqrt(1 + slope * slope));
    e = g / W(magnitude);
    c = 1 / ::sqrt(1 + t * t);
    s = t * c;
  }
  inline void turn(W* p, W* q, i64 n, i64 step, W phase) const {
    RILL_LANES(i, 0, n) {
      const W x = p[i * step], y = phase * q[i * step];
      p[i * step] = W(c) * x - W(s) * y;
      q[i * step] = W(s) * x + W(c) * y;
    }
  }
  inline void columns(Mat<W> x, i64 p, i64 q) const { turn(x.column(p), x.column(q), x.rows, 1, conj_of(e)); }
  inline void rows(Mat<W> x, i64 p, i64 q) const { turn(x.at + p, x.at + q, x.columns, x.rows, e); }
};

// Scales the largest element of a finite matrix to about 1 by a power of two, so that squares neither overflow nor
// underflow; returns the inverse factor.
template <class W>
RILL f64 scale_down(Mat<W> x) {
  f64 largest = 0;
  RILL_LANES(e, 0, x.rows * x.columns) {
    const f64 magnitude = largest_part(x.at[e]);
    if (magnitude > largest) largest = magnitude;
  }
  largest = warp_max(largest);
  if (largest == 0) return 1;
  const int power = largest > 1e300 ? 1000 : largest < 1e-300 ? -1000 : ::ilogb(largest);
  const W by = ::ldexp(1., -power);
  RILL_LANES(e, 0, x.rows * x.columns) x.at[e] *= by;
  __syncwarp();
  return ::ldexp(1., power);
}

// order[r] := the index that r others are ordered before; before(i, j) is a strict order of different i and j. For
// NaNs, which have none, it is any list of indices.
template <class F>
RILL void make_order(i64 n, i64* order, F before) {
  RILL_LANES(i, 0, n) order[i] = i;
  __syncwarp();
  RILL_LANES(i, 0, n) {
    i64 rank = 0;
    for (i64 j = 0; j < n; ++j) rank += i != j && before(j, i);
    order[rank] = i;
  }
  __syncwarp();
}
// Multiplies a column by the factor that makes its largest element real and positive, and returns it.
template <class W>
RILL W make_positive(W* x, i64 n) {
  const i64 at = warp_largest(0, n, [&](i64 i) { return magnitude_of(x[i]); });
  if (at < 0) return W(1.);
  const f64 magnitude = magnitude_of(x[at]);
  const W phase = magnitude > 0 ? conj_of(x[at]) / W(magnitude) : W(1.);
  __syncwarp();
  RILL_LANES(i, 0, n) x[i] *= phase;
  __syncwarp();
  return phase;
}

// --- Hermitian matrices ---
// Diagonalises x; applies each rotation to v too, if it has columns.
template <class W>
RILL void diagonalise(Mat<W> x, Mat<W> v) {
  const i64 n = x.rows;
  f64 largest = 0;
  RILL_LANES(e, 0, n * n) {
    const f64 magnitude = magnitude_of(x.at[e]);
    if (magnitude > largest) largest = magnitude;
  }
  const f64 small = epsilon * warp_max(largest) / 16;
  bool turned = true;
  for (int sweep = 0; turned && sweep < most_sweeps; ++sweep) {
    turned = false;
    for (i64 p = 0; p < n; ++p)
      for (i64 q = p + 1; q < n; ++q) {
        const W g = x(p, q);
        if (!(magnitude_of(g) > small)) continue;
        const Rotation<W> r(real_of(x(p, p)), real_of(x(q, q)), g);
        __syncwarp();
        r.columns(x, p, q);
        if (v.columns > 0) r.columns(v, p, q);
        __syncwarp();
        r.rows(x, p, q);
        __syncwarp();
        if (lane() == 0) x(p, q) = 0., x(q, p) = 0.;
        __syncwarp();
        turned = true;
      }
  }
}
template <class T, int held>
RILL void eigh(const MatrixBatch& s) {
  typedef wide_t<T> W;
  typedef part_t<T> Part;
  const i64 n = s.rows;
  const Mat<W> x{workspace<W, held>(s), n, n}, v{x.end(), n, s.vectors ? n : 0};
  i64* order = (i64*)v.end();
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, x);
    const bool good = all_finite(x);
    const f64 factor = good ? scale_down(x) : 1;
    make_hermitian(x);
    if (good) {
      make_identity(v);
      diagonalise(x, v);
      make_order(n, order, [&](i64 i, i64 j) {
        const f64 a = real_of(x(i, i)), b = real_of(x(j, j));
        return a < b || (a == b && i < j);
      });
    }
    store_matrix<Part>(s.out[0], m, n, 1,
                       [&](i64 i, i64) { return good ? factor * real_of(x(order[i], order[i])) : not_a_number(0.); });
    if (!s.vectors) continue;
    for (i64 j = 0; good && j < n; ++j) make_positive(v.column(j), n);
    store_matrix<T>(s.out[1], m, n, n, [&](i64 i, i64 j) { return good ? v(i, order[j]) : not_a_number(W(0.)); });
  }
}

// --- Singular values: one-sided Jacobi ---
// Makes the columns of b orthogonal, and applies each rotation to v too.
template <class W>
RILL void orthogonalise(Mat<W> b, Mat<W> v) {
  bool turned = true;
  for (int sweep = 0; turned && sweep < most_sweeps; ++sweep) {
    turned = false;
    for (i64 p = 0; p < b.columns; ++p)
      for (i64 q = p + 1; q < b.columns; ++q) {
        const f64 pp = real_of(dot(b.column(p), b.column(p), b.rows)),
                  qq = real_of(dot(b.column(q), b.column(q), b.rows));
        const W pq = dot(b.column(p), b.column(q), b.rows);
        if (!(magnitude_of(pq) > epsilon * ::sqrt(pp * qq))) continue;
        const Rotation<W> r(pp, qq, pq);
        r.columns(b, p, q);
        if (v.columns > 0) r.columns(v, p, q);
        __syncwarp();
        turned = true;
      }
  }
}
// Fills the columns of u from `first` on, starting from unit vectors, so that all are orthonormal.
template <class W>
RILL void complete(Mat<W> u, i64 first) {
  i64 next = 0;
  for (i64 j = first; j < u.columns; ++j)
    for (bool found = false; !found && next < u.rows; ++next) {
      W* x = u.column(j);
      RILL_LANES(i, 0, u.rows) x[i] = i == next ? 1. : 0.;
      for (int twice = 0; twice < 2; ++twice)
        for (i64 k = 0; k < j; ++k) {
          const W along = dot(u.column(k), x, u.rows);
          RILL_LANES(i, 0, u.rows) x[i] -= along * u(i, k);
        }
      const f64 length = ::sqrt(real_of(dot(x, x, u.rows)));
      if (length < 1 / (2 * f64(u.rows))) continue;
      RILL_LANES(i, 0, u.rows) x[i] = x[i] / W(length);
      found = true;
    }
  __syncwarp();
}

// For a matrix with at least as many rows as columns, or the adjoint of another: b = u diag(length) adjoint(v), all in
// `order`, descending. Sorted columns of v are stored in `sorted`.
template <class W>
struct Svd {
  Mat<W> b, v, sorted, u;
  f64* length;
  i64* order;
  bool wide;
  inline Svd(const MatrixBatch& s, W* work) {
    const i64 rows = s.rows > s.columns ? s.rows : s.columns, columns = s.rows + s.columns - rows;
    wide = s.rows < s.columns;
    b = {work, rows, columns};
    v = {b.end(), columns, s.vectors ? columns : 0};
    sorted = {v.end(), columns, v.columns};
    u = {sorted.end(), rows, !s.vectors ? 0 : s.full ? rows : columns};
    length = (f64*)u.end();
    order = (i64*)(length + columns);
  }
  // False if the matrix has an infinity or a NaN.
  template <class T>
  inline bool run(const char* from, i64 m) const {
    const T* x = RILL_AT((const T*)from + m * b.rows * b.columns);
    RILL_LANES(e, 0, b.rows * b.columns) {
      if (wide) b.at[e] = conj_of(widened(x[e]));  // the rows are the adjoint's columns
      else b(e / b.columns, e % b.columns) = widened(x[e]);
    }
    __syncwarp();
    if (!all_finite(b)) return false;
    const f64 factor = scale_down(b);
    make_identity(v);
    orthogonalise(b, v);
    for (i64 j = 0; j < b.columns; ++j) {
      const f64 magnitude = ::sqrt(real_of(dot(b.column(j), b.column(j), b.rows)));
      if (lane() == 0) length[j] = magnitude;
    }
    __syncwarp();
    make_order(b.columns, order,
               [&](i64 i, i64 j) { return length[i] > length[j] || (length[i] == length[j] && i < j); });
    if (v.columns > 0 || u.columns > 0) make_vectors();
    RILL_LANES(j, 0, b.columns) length[j] *= factor;
    __syncwarp();
    return true;
  }
  inline f64 value(i64 j) const { return length[order[j]]; }

 private:
  inline void make_vectors() const {
    const f64 nothing = b.columns == 0 ? 0. : value(0) * 4 * f64(b.rows) * epsilon;
    i64 rank = 0;
    for (i64 j = 0; j < b.columns; ++j) {
      RILL_LANES(i, 0, v.rows) sorted(i, j) = v(i, order[j]);
      if (!(value(j) > nothing)) continue;
      RILL_LANES(i, 0, b.rows) u(i, j) = b(i, order[j]) / W(value(j));
      rank = j + 1;
    }
    __syncwarp();
    complete(u, rank);
  }
};
template <class T, int held>
RILL void svd(const MatrixBatch& s) {
  typedef wide_t<T> W;
  typedef part_t<T> Part;
  const Svd<W> d(s, workspace<W, held>(s));
  const Mat<W> left = d.wide ? d.sorted : d.u, right = d.wide ? d.u : d.sorted;
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    const bool good = d.template run<T>(s.a, m);
    store_matrix<Part>(s.out[s.vectors ? 1 : 0], m, d.b.columns, 1,
                       [&](i64 j, i64) { return good ? d.value(j) : not_a_number(0.); });
    if (!s.vectors) continue;
    for (i64 j = 0; good && j < left.columns; ++j) {
      const W phase = make_positive(left.column(j), left.rows);
      if (j < d.b.columns) RILL_LANES(i, 0, right.rows) right(i, j) *= phase;
      __syncwarp();
    }
    for (i64 j = d.b.columns; good && j < right.columns; ++j) make_positive(right.column(j), right.rows);
    store_matrix<T>(s.out[0], m, s.rows, left.columns,
                    [&](i64 i, i64 j) { return good ? left(i, j) : not_a_number(W(0.)); });
    store_matrix<T>(s.out[2], m, right.columns, s.columns,
                    [&](i64 i, i64 j) { return good ? conj_of(right(j, i)) : not_a_number(W(0.)); });
  }
}
// V diag(1 / s) adjoint(U), for the nonzero singular values.
template <class T, int held>
RILL void pinv(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Svd<W> d(s, workspace<W, held>(s));
  const Mat<W> left = d.wide ? d.sorted : d.u, right = d.wide ? d.u : d.sorted;
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    const bool good = d.template run<T>(s.a, m);
    store_matrix<T>(s.out[0], m, s.columns, s.rows, [&](i64 i, i64 j) {
      if (!good) return not_a_number(W(0.));
      W total = 0.;
      for (i64 k = 0; k < d.b.columns && d.value(k) > s.cutoff * d.value(0); ++k)
        total += right(i, k) * conj_of(left(j, k)) * W(1 / d.value(k));
      return total;
    });
  }
}

// V diag(1 / s) adjoint(U) b, and s.
template <class T, int held>
RILL void lstsq(const MatrixBatch& s) {
  typedef wide_t<T> W;
  typedef part_t<T> Part;
  const Svd<W> d(s, workspace<W, held>(s));
  const Mat<W> left = d.wide ? d.sorted : d.u, right = d.wide ? d.u : d.sorted;
  W* const parts = (W*)(d.order + d.b.columns);  // coordinates of the solution along V, for one right side
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    const bool good = d.template run<T>(s.a, m);
    store_matrix<Part>(s.out[1], m, d.b.columns, 1, [&](i64 j, i64) { return good ? d.value(j) : not_a_number(0.); });
    const T* b = RILL_AT((const T*)s.b + m * s.rows * s.right);
    T* x = RILL_AT((T*)s.out[0] + m * s.columns * s.right);
    for (i64 c = 0; c < s.right; ++c) {
      RILL_LANES(k, 0, d.b.columns) {
        W total = 0.;
        for (i64 i = 0; i < s.rows; ++i) total += conj_of(left(i, k)) * widened(b[i * s.right + c]);
        parts[k] = d.value(k) > s.cutoff * d.value(0) ? total / W(d.value(k)) : W(0.);
      }
      __syncwarp();
      RILL_LANES(j, 0, s.columns) {
        W total = 0.;
        for (i64 k = 0; good && k < d.b.columns; ++k) total += right(j, k) * parts[k];
        put_number(x + j * s.right + c, good ? total : not_a_number(W(0.)));
      }
      __syncwarp();
    }
  }
}

// --- All other eigenvalues ---
struct Schur {
  typedef Complex<f64> W;
  Mat<W> h, z;  // z h adjoint(z) is the matrix
  W* turns;     // two for each row

  inline void rows(i64 p, i64 q, W c, W s) const {
    RILL_LANES(j, 0, h.rows) {
      const W x = h(p, j), y = h(q, j);
      h(p, j) = conj_of(c) * x + conj_of(s) * y;
      h(q, j) = c * y - s * x;
    }
    __syncwarp();
  }
  inline void columns(i64 p, i64 q, W c, W s) const {
    RILL_LANES(e, 0, 2 * h.rows) {
      const Mat<W>& m = e < h.rows ? h : z;
      const i64 i = e < h.rows ? e : e - h.rows;
      const W x = m(i, p), y = m(i, q);
      m(i, p) = c * x + s * y;
      m(i, q) = conj_of(c) * y - conj_of(s) * x;
    }
    __syncwarp();
  }
  // Givens's rotations of rows and columns that leave one diagonal below the main one.
  inline void reduce() const {
    make_identity(z);
    for (i64 k = 0; k + 2 < h.rows; ++k)
      for (i64 i = k + 2; i < h.rows; ++i) {
        const f64 length = ::hypot(magnitude_of(h(k + 1, k)), magnitude_of(h(i, k)));
        if (length == 0 || is_zero(h(i, k))) continue;
        const W c = h(k + 1, k) / W(length), s = h(i, k) / W(length);
        __syncwarp();
        rows(k + 1, i, c, s);
        columns(k + 1, i, c, s);
      }
  }
  // Wilkinson's shift of the last two remaining rows.
  inline W shift(i64 last) const {
    const W a = h(last - 1, last - 1), b = h(last - 1, last), c = h(last, last - 1), d = h(last, last);
    const W half = (a - d) / W(2.), root = square_root(half * half + b * c);
    const W far = magnitude_of(half + root) >= magnitude_of(half - root) ? half + root : half - root;
    return is_zero(far) ? d : d - b * c / far;
  }
  // Makes h upper triangular. False if it does not converge.
  inline bool triangulate() const {
    f64 largest = 0;
    RILL_LANES(e, 0, h.rows * h.rows) {
      const f64 magnitude = magnitude_of(h.at[e]);
      if (magnitude > largest) largest = magnitude;
    }
    const f64 all = warp_max(largest);
    const auto is_small = [&](i64 i) {
      const f64 beside = magnitude_of(h(i, i)) + magnitude_of(h(i - 1, i - 1)), least = epsilon * all;
      return !(magnitude_of(h(i, i - 1)) > epsilon * (beside > least ? beside : least));
    };
    for (i64 last = h.rows; last-- > 1;)
      for (int steps = 0;; ++steps) {
        i64 first = last;
        while (first > 0 && !is_small(first)) --first;
        __syncwarp();
        if (first > 0 && lane() == 0) h(first, first - 1) = 0.;
        __syncwarp();
        if (first == last) break;
        if (steps > 30 * most_sweeps) return false;
        const bool stuck = steps % 11 == 10;
        const W by = stuck ? W(magnitude_of(h(last, last - 1))) + h(last, last) : shift(last);
        __syncwarp();
        step(first, last, by);
      }
    return true;
  }
  // The eigenvectors of the triangular matrix, by back substitution, times z; normalised. y: a row.
  inline void vectors(Mat<W> v, W* y) const {
    const i64 n = h.rows;
    f64 largest = 0;
    RILL_LANES(e, 0, n * n) {
      const f64 magnitude = magnitude_of(h.at[e]);
      if (magnitude > largest) largest = magnitude;
    }
    const f64 all = warp_max(largest) * epsilon, least = all > 2.2250738585072014e-308 ? all : 2.2250738585072014e-308;
    for (i64 k = 0; k < n; ++k) {
      RILL_LANES(i, 0, n) y[i] = i == k ? 1. : 0.;
      __syncwarp();
      for (i64 i = k; i-- > 0;) {
        W total = 0.;
        RILL_LANES(j, i + 1, k) total += h(i, j) * y[j];
        total = warp_sum(total) + h(i, k);
        W gap = h(k, k) - h(i, i);
        if (magnitude_of(gap) < least) gap = least;
        if (lane() == 0) y[i] = total / gap;
        __syncwarp();
      }
      W* x = v.column(k);
      RILL_LANES(i, 0, n) {
        W total = 0.;
        for (i64 j = 0; j <= k; ++j) total += z(i, j) * y[j];
        x[i] = total;
      }
      const f64 length = ::sqrt(real_of(dot(x, x, n)));
      RILL_LANES(i, 0, n) x[i] = x[i] / W(length);
      __syncwarp();
    }
  }

 private:
  static inline W square_root(W x) {
    const f64 magnitude = magnitude_of(x);
    if (magnitude == 0) return W(0.);
    const f64 larger = ::sqrt((magnitude + abs_of(x.re)) / 2), smaller = x.im / (2 * larger);
    return x.re >= 0 ? W(larger, smaller) : W(abs_of(smaller), x.im < 0 ? -larger : larger);
  }
  // One QR step: h - shift = Q R, h := R Q + shift, of the rows from first to last.
  inline void step(i64 first, i64 last, W shift) const {
    RILL_LANES(i, first, last + 1) h(i, i) -= shift;
    __syncwarp();
    for (i64 k = first; k < last; ++k) {
      const f64 length = ::hypot(magnitude_of(h(k, k)), magnitude_of(h(k + 1, k)));
      const W c = length == 0 ? W(1.) : h(k, k) / W(length), s = length == 0 ? W(0.) : h(k + 1, k) / W(length);
      __syncwarp();
      if (lane() == 0) turns[2 * k] = c, turns[2 * k + 1] = s;
      rows(k, k + 1, c, s);
    }
    for (i64 k = first; k < last; ++k) columns(k, k + 1, turns[2 * k], turns[2 * k + 1]);
    RILL_LANES(i, first, last + 1) h(i, i) += shift;
    __syncwarp();
  }
};
// Makes the diagonal's numbers real or conjugates of one another, as they are for a real matrix up to rounding.
RILL void pair_conjugates(Mat<Complex<f64>> h, i64* done) {
  const i64 n = h.rows;
  RILL_LANES(i, 0, n) done[i] = 0;
  __syncwarp();
  for (i64 i = 0; i < n; ++i) {
    if (done[i]) continue;
    const Complex<f64> x = h(i, i);
    const i64 at = warp_largest(i, n, [&](i64 j) {
      return done[j] ? -highest(0.) : -magnitude_of(h(j, j) - conj(x));
    });
    __syncwarp();
    if (lane() == 0) h(at, at) = {x.re, at == i ? 0. : -x.im}, done[at] = done[i] = 1;
    __syncwarp();
  }
  __syncwarp();
}
template <class T, int held>
RILL void eig(const MatrixBatch& s) {
  typedef Complex<f64> W;
  typedef Complex<part_t<T>> Out;
  const i64 n = s.rows;
  const Mat<W> h{workspace<W, held>(s), n, n}, z{h.end(), n, n}, v{z.end(), n, s.vectors ? n : 0};
  const Schur schur{h, z, v.end()};
  W* y = v.end() + 2 * n;
  i64* order = (i64*)(y + n);
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, h);
    bool good = all_finite(h);
    if (good) {
      const f64 factor = scale_down(h);
      schur.reduce();
      good = schur.triangulate();
      if (!good && lane() == 0) report(s.fault, s.code, 0, 0, m);
      if (good && s.vectors) schur.vectors(v, y);
      RILL_LANES(i, 0, n) h(i, i) *= W(factor);
      __syncwarp();
      if (sizeof(T) == sizeof(part_t<T>)) pair_conjugates(h, order);
    }
    // Values that are equal in the dtype keep their order.
    const auto value = [&](i64 i) { return Out(part_t<T>(h(i, i).re), part_t<T>(h(i, i).im)); };
    make_order(n, order, [&](i64 i, i64 j) {
      const Out a = value(i), b = value(j);
      return a.re != b.re ? a.re < b.re : a.im != b.im ? a.im < b.im : i < j;
    });
    store_matrix<Out>(s.out[0], m, n, 1, [&](i64 i, i64) { return good ? h(order[i], order[i]) : not_a_number(W(0.)); });
    if (!s.vectors) continue;
    for (i64 j = 0; good && j < n; ++j) make_positive(v.column(j), n);
    store_matrix<Out>(s.out[1], m, n, n, [&](i64 i, i64 j) { return good ? v(i, order[j]) : not_a_number(W(0.)); });
  }
}

}  // namespace rill::cuda
