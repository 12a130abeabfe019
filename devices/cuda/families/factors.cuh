// Solvers, and factorisations with a fixed number of steps: cholesky, solve, triangular_solve, det, slogdet, lu,
// qr, expm. What matrix.cuh shares with them is in front.
//
// A warp computes a matrix, in a workspace where it is column-major and in f64, whatever the operands are. That suits
// batches of small matrices, whose workspace is shared memory; a single large one leaves nearly all of a GPU idle, and
// needs cuSOLVER.
// complex_number.h precedes this text.
namespace rill::cuda {

using scalar_math::Complex;

// --- Numbers ---
template <class T> struct WideOf { typedef f64 type; };
template <class R> struct WideOf<Complex<R>> { typedef Complex<f64> type; };
template <class T> using wide_t = typename WideOf<T>::type;
template <class T> struct PartOf { typedef T type; };
template <class R> struct PartOf<Complex<R>> { typedef R type; };
template <class T> using part_t = typename PartOf<T>::type;

RILL f64 widened(f64 x) { return x; }
template <class R> RILL Complex<f64> widened(Complex<R> x) { return {f64(x.re), f64(x.im)}; }
template <class T> RILL void put_number(T* to, f64 x) { *to = T(x); }
template <class R> RILL void put_number(Complex<R>* to, Complex<f64> x) { *to = {R(x.re), R(x.im)}; }
RILL f64 conj_of(f64 x) { return x; }
RILL Complex<f64> conj_of(Complex<f64> x) { return conj(x); }
RILL f64 real_of(f64 x) { return x; }
RILL f64 real_of(Complex<f64> x) { return x.re; }
RILL f64 magnitude_of(f64 x) { return abs_of(x); }
RILL f64 magnitude_of(Complex<f64> x) { return size(x); }
RILL f64 pivot_size(f64 x) { return abs_of(x); }
RILL f64 pivot_size(Complex<f64> x) { return abs_of(x.re) + abs_of(x.im); }  // as LAPACK compares pivots
RILL f64 largest_part(f64 x) { return abs_of(x); }
RILL f64 largest_part(Complex<f64> x) { return abs_of(x.re) > abs_of(x.im) ? abs_of(x.re) : abs_of(x.im); }
RILL f64 squared(f64 x) { return x * x; }
RILL f64 squared(Complex<f64> x) { return x.re * x.re + x.im * x.im; }
RILL bool is_zero(f64 x) { return x == 0; }
RILL bool is_zero(Complex<f64> x) { return x.re == 0 && x.im == 0; }
RILL bool is_finite(f64 x) { return x - x == 0; }
RILL bool is_finite(Complex<f64> x) { return is_finite(x.re) && is_finite(x.im); }
RILL f64 not_a_number(f64) { return same_bits<f64>(u64(0x7ff8) << 48); }
RILL Complex<f64> not_a_number(Complex<f64>) { return {not_a_number(0.), not_a_number(0.)}; }

// --- Warps: control flow is the same on all lanes, which share the work on columns ---
RILL int lane() { return int(threadIdx.x % 32); }
RILL i64 warp() { return first_thread() / 32; }
RILL i64 all_warps() { return all_threads() / 32; }
#define RILL_LANES(i, begin, end) for (i64 i = (begin) + lane(); i < (end); i += 32)

RILL f64 warp_sum(f64 x) {
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(~0u, x, by);
  return x;
}
RILL Complex<f64> warp_sum(Complex<f64> x) { return {warp_sum(x.re), warp_sum(x.im)}; }
RILL f64 warp_max(f64 x) {
  for (int by = 16; by > 0; by /= 2) {
    const f64 y = __shfl_xor_sync(~0u, x, by);
    if (y > x) x = y;
  }
  return from_lane(x, 0);
}
// The first i in [begin, end) where size(i) is largest.
template <class F>
RILL i64 warp_largest(i64 begin, i64 end, F size) {
  f64 most = 0;
  i64 at = -1;
  RILL_LANES(i, begin, end) {
    const f64 x = size(i);
    if (at < 0 || x > most) most = x, at = i;
  }
  for (int by = 16; by > 0; by /= 2) {
    const f64 x = __shfl_xor_sync(~0u, most, by);
    const i64 i = __shfl_xor_sync(~0u, at, by);
    if (i >= 0 && (at < 0 || x > most || (x == most && i < at))) most = x, at = i;
  }
  return __shfl_sync(~0u, at, 0);
}

// --- Column-major matrices ---
template <class W>
struct Mat {
  W* at;
  i64 rows, columns;
  inline W& operator()(i64 i, i64 j) const { return at[j * rows + i]; }
  inline W* column(i64 j) const { return at + j * rows; }
  inline W* end() const { return at + rows * columns; }
};
// The workspace of this warp: shared memory for `held` numbers, or s.work if that is 0.
template <class W, int held>
RILL W* workspace(const MatrixBatch& s) {
  if constexpr (held > 0) {
    __shared__ W memory[held];
    return memory;
  } else {
    return RILL_AT((W*)s.work + warp() * s.room);
  }
}

template <class T, class W>
RILL void load_matrix(const char* from, i64 number, Mat<W> to) {
  const i64 size = to.rows * to.columns;
  const T* x = RILL_AT((const T*)from + number * size);
  RILL_LANES(e, 0, size) to(e / to.columns, e % to.columns) = widened(x[e]);
  __syncwarp();
}
// value(i, j) of a matrix of this many rows and columns.
template <class T, class F>
RILL void store_matrix(char* to, i64 number, i64 rows, i64 columns, F value) {
  T* y = RILL_AT((T*)to + number * rows * columns);
  RILL_LANES(e, 0, rows * columns) put_number(y + e, value(e / columns, e % columns));
  __syncwarp();
}
template <class W>
RILL void make_identity(Mat<W> x) {
  RILL_LANES(e, 0, x.rows * x.columns) x.at[e] = e % x.rows == e / x.rows ? 1. : 0.;
  __syncwarp();
}
// Of two numbers that should be equal, whose sum may overflow.
template <class W>
RILL W mean(W a, W b) { return is_zero(a - b) ? a : a * W(0.5) + b * W(0.5); }
template <class W>
RILL void make_hermitian(Mat<W> x) {
  RILL_LANES(e, 0, x.rows * x.rows) {
    const i64 i = e % x.rows, j = e / x.rows;
    if (i < j) continue;
    const W y = mean(x(i, j), conj_of(x(j, i)));
    x(i, j) = y;
    x(j, i) = conj_of(y);
  }
  __syncwarp();
}
template <class W>
RILL bool all_finite(Mat<W> x) {
  bool bad = false;
  RILL_LANES(e, 0, x.rows * x.columns) bad |= !is_finite(x.at[e]);
  return __ballot_sync(~0u, bad) == 0;
}
// <x, y> over n elements.
template <class W>
RILL W dot(const W* x, const W* y, i64 n) {
  W total = 0.;
  RILL_LANES(i, 0, n) total += conj_of(x[i]) * y[i];
  return warp_sum(total);
}
// c := a b. A function call, not inlined, like those below: expm multiplies a dozen times, and was 215 KB of code.
template <class W>
__attribute__((noinline)) static void multiply(Mat<W> a, Mat<W> b, Mat<W> c) {
  RILL_LANES(e, 0, c.rows * c.columns) {
    const i64 i = e % c.rows, j = e / c.rows;
    W total = 0.;
    for (i64 l = 0; l < a.columns; ++l) total += a(i, l) * b(l, j);
    c.at[e] = total;
  }
  __syncwarp();
}

// to(j) -= x from(j) for j = begin, begin + step, ..., 4 at a time: their loads are in flight together.
template <int step, class W, class I, class To, class From>
RILL void subtract_multiple(W x, I begin, I end, To to, From from) {
  for (I j = begin; j < end; j += 4 * step) {
    W y[4], by[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (j + k * step < end) y[k] = to(j + k * step), by[k] = from(j + k * step);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (j + k * step < end) to(j + k * step) = y[k] - x * by[k];
  }
}

// --- Cholesky's factor, in the lower triangle ---
template <class W>
RILL bool factor_cholesky(Mat<W> a) {
  const i64 n = a.rows;
  for (i64 j = 0; j < n; ++j) {
    const f64 d = real_of(a(j, j)), root = ::sqrt(d);
    __syncwarp();
    if (!(d > 0)) return false;
    RILL_LANES(i, j, n) a(i, j) = i == j ? W(root) : a(i, j) / W(root);
    __syncwarp();
    for (i64 c = j + 1; c < n; ++c) {
      const W by = conj_of(a(c, j));
      RILL_LANES(i, c, n) a(i, c) -= a(i, j) * by;
    }
    __syncwarp();
  }
  return true;
}
template <class T, int held>
RILL void cholesky(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.rows};
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    make_hermitian(a);
    if (!factor_cholesky(a) && lane() == 0) report(s.fault, s.code, 0, 0, m);
    store_matrix<T>(s.out[0], m, s.rows, s.rows, [&](i64 i, i64 j) { return j <= i ? a(i, j) : W(0.); });
  }
}

// The same for a matrix of up to `side` rows by a block, which has its lower triangle in shared memory: columns that
// are one element longer, so that rows are in different banks, or where that is too much, packed ones.
template <class W, int side>
struct Triangle {
  static constexpr bool packed = (side + 1) * side * sizeof(W) > 36864;
  static constexpr int room = packed ? side * (side + 1) / 2 : (side + 1) * side;
  W* at;
  int n;
  inline W& operator()(int i, int j) const { return at[packed ? j * n - (j * (j + 1) >> 1) + i : j * (side + 1) + i]; }
};
template <int warps>
RILL void sync_warps() {
  if constexpr (warps == 1) __syncwarp();
  else __syncthreads();
}
// Calls f(i, j) for all elements: a warp has every so many rows.
template <int warps, class F>
RILL void for_each_element(int n, F f) {
  for (int i = int(threadIdx.x) / 32; i < n; i += warps)
    for (int j = lane(); j < n; j += 32) f(i, j);
  sync_warps<warps>();
}
template <int warps, class T, class A>
RILL void load_hermitian(const T* x, A a) {
  for_each_element<warps>(a.n, [&](int i, int j) {
    if (j < i) a(i, j) = widened(x[i * a.n + j]);
    if (j == i) a(i, i) = mean(widened(x[i * a.n + i]), conj_of(widened(x[i * a.n + i])));
  });
  for_each_element<warps>(a.n, [&](int i, int j) {
    if (i < j) a(j, i) = mean(a(j, i), conj_of(widened(x[i * a.n + j])));
  });
}
// Subtracts from the columns after j what column j contributes. A warp has every so many columns.
template <int warps, class A>
RILL void subtract_column(A a, int j) {
  const int first = j + 1 + int(threadIdx.x) / 32;
  for (int i = j + 1 + lane(); i < a.n; i += 32)
    subtract_multiple<warps>(a(i, j), first, i + 1, [&](int c) -> auto& { return a(i, c); },
                             [&](int c) { return conj_of(a(c, j)); });
}
template <int warps, class W, class A>
RILL bool factor_triangle(A a) {
  const int thread = int(threadIdx.x);
  for (int j = 0; j < a.n; ++j) {
    const f64 d = real_of(a(j, j));
    if (!(d > 0)) return false;
    f64 root = 0;
    if (j + thread < a.n) {
      root = ::sqrt(d);
      if (thread > 0) a(j + thread, j) = a(j + thread, j) / W(root);
    }
    sync_warps<warps>();
    if (thread == 0) a(j, j) = root;  // which others have read now
    subtract_column<warps>(a, j);
    sync_warps<warps>();
  }
  return true;
}
template <class T, int side>
RILL void short_cholesky(const MatrixBatch& s) {
  constexpr int warps = side > 32 ? 4 : 1;
  static_assert(side <= 32 * warps, "");  // a thread divides an element of a column
  typedef wide_t<T> W;
  __shared__ W memory[Triangle<W, side>::room];
  const Triangle<W, side> a{memory, int(s.rows)};
  for (i64 m = blockIdx.x; m < s.count; m += gridDim.x) {
    load_hermitian<warps>(RILL_AT((const T*)s.a + m * a.n * a.n), a);
    if (!factor_triangle<warps, W>(a) && threadIdx.x == 0) report(s.fault, s.code, 0, 0, m);
    T* y = RILL_AT((T*)s.out[0] + m * a.n * a.n);
    for_each_element<warps>(a.n, [&](int i, int j) { put_number(y + i * a.n + j, j <= i ? a(i, j) : W(0.)); });
  }
}

// --- Gauss's elimination: row k was exchanged with row pivots[k]. False where a pivot is 0 ---
template <class W>
RILL bool factor_lu(Mat<W> a, i64* pivots) {
  bool good = true;
  const i64 steps = a.rows < a.columns ? a.rows : a.columns;
  for (i64 k = 0; k < steps; ++k) {
    const i64 at = warp_largest(k, a.rows, [&](i64 i) { return pivot_size(a(i, k)); });
    const W pivot = a(at, k);
    __syncwarp();
    if (lane() == 0) pivots[k] = at;
    if (is_zero(pivot)) {
      good = false;
      continue;
    }
    if (at != k) {
      RILL_LANES(j, 0, a.columns) {
        const W x = a(k, j);
        a(k, j) = a(at, j);
        a(at, j) = x;
      }
      __syncwarp();
    }
    RILL_LANES(i, k + 1, a.rows) a(i, k) = a(i, k) / pivot;
    __syncwarp();
    RILL_LANES(i, k + 1, a.rows)
      subtract_multiple<1>(a(i, k), k + 1, a.columns, [&](i64 j) -> W& { return a(i, j); },
                        [&](i64 j) { return a(k, j); });
    __syncwarp();
  }
  __syncwarp();
  return good;
}
// x := the solution of a triangular system of the elements at(i, j).
template <class W, class F>
RILL void solve_triangle(bool forward, bool unit, Mat<W> x, F at) {
  const i64 n = x.rows;
  for (i64 step = 0; step < n; ++step) {
    const i64 j = forward ? step : n - 1 - step, left = n - 1 - step, first = forward ? j + 1 : 0;
    if (!unit) {
      const W by = at(j, j);
      RILL_LANES(c, 0, x.columns) x(j, c) = x(j, c) / by;
    }
    __syncwarp();
    if (left < 32 && x.columns > left) {  // few rows: the lanes share the columns
      for (i64 i = first; i < first + left; ++i)
        subtract_multiple<32>(at(i, j), i64(lane()), x.columns, [&](i64 c) -> W& { return x(i, c); },
                              [&](i64 c) { return x(j, c); });
    } else {
      RILL_LANES(i, first, first + left)
        subtract_multiple<1>(at(i, j), i64(0), x.columns, [&](i64 c) -> W& { return x(i, c); },
                             [&](i64 c) { return x(j, c); });
    }
    __syncwarp();
  }
}
template <class W>
RILL void solve_factored(Mat<W> lu, const i64* pivots, Mat<W> x) {
  for (i64 k = 0; k < lu.rows; ++k) {
    const i64 at = pivots[k];
    RILL_LANES(c, 0, x.columns) {
      const W y = x(k, c);
      x(k, c) = x(at, c);
      x(at, c) = y;
    }
    __syncwarp();
  }
  const auto element = [&](i64 i, i64 j) { return lu(i, j); };
  solve_triangle(true, true, x, element);
  solve_triangle(false, false, x, element);
}
template <class T, int held>
RILL void solve(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.rows}, x{a.end(), s.rows, s.right};
  i64* pivots = (i64*)x.end();
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    load_matrix<T>(s.b, m, x);
    if (!factor_lu(a, pivots)) {
      if (lane() == 0) report(s.fault, s.code, 0, 0, m);
      continue;
    }
    solve_factored(a, pivots, x);
    store_matrix<T>(s.out[0], m, s.rows, s.right, [&](i64 i, i64 j) { return x(i, j); });
  }
}
template <class T, int held>
RILL void triangular_solve(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.rows}, x{a.end(), s.rows, s.right};
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    load_matrix<T>(s.b, m, x);
    const bool adjoint = s.adjoint;
    solve_triangle(s.lower != s.adjoint, s.unit, x, [&](i64 i, i64 j) { return adjoint ? conj_of(a(j, i)) : a(i, j); });
    store_matrix<T>(s.out[0], m, s.rows, s.right, [&](i64 i, i64 j) { return x(i, j); });
  }
}
// det, and slogdet where there are two results.
template <class T, int held>
RILL void det(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.rows};
  i64* pivots = (i64*)a.end();
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    factor_lu(a, pivots);
    W product = 1.;
    f64 logarithm = 0;
    for (i64 j = 0; j < s.rows; ++j) {
      W x = a(j, j);
      if (s.out[1]) {
        const f64 size = magnitude_of(x);
        x = size == 0 ? W(0.) : x / W(size);
        logarithm += ::log(size);
      }
      product *= pivots[j] == j ? x : -x;
    }
    __syncwarp();
    if (lane() != 0) continue;
    put_number(RILL_AT((T*)s.out[0] + m), product);
    if (s.out[1]) put_number(RILL_AT((part_t<T>*)s.out[1] + m), logarithm);
  }
}
template <class T, int held>
RILL void lu(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.columns};
  i64* pivots = (i64*)a.end();
  const i64 steps = s.rows < s.columns ? s.rows : s.columns;
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    factor_lu(a, pivots);
    i64* rows = RILL_AT((i64*)s.out[0] + m * s.rows);
    RILL_LANES(i, 0, s.rows) rows[i] = i;
    __syncwarp();
    for (i64 k = 0; lane() == 0 && k < steps; ++k) {
      const i64 x = rows[k];
      rows[k] = rows[pivots[k]];
      rows[pivots[k]] = x;
    }
    store_matrix<T>(s.out[1], m, s.rows, steps,
                    [&](i64 i, i64 j) { return j < i ? a(i, j) : W(i == j ? 1. : 0.); });
    store_matrix<T>(s.out[2], m, steps, s.columns, [&](i64 i, i64 j) { return j >= i ? a(i, j) : W(0.); });
  }
}

// --- Householder's reflections, with LAPACK's choice of signs ---
// x -= factor v <v, x> over n elements, where v's first is 1, whatever is stored there.
template <class W>
RILL void reflect(const W* v, W* x, i64 n, W factor) {
  W along = lane() == 0 ? x[0] : W(0.);
  RILL_LANES(i, 1, n) along += conj_of(v[i]) * x[i];
  along = factor * warp_sum(along);
  RILL_LANES(i, 0, n) x[i] -= i == 0 ? along : along * v[i];
  __syncwarp();
}
// The number of q's columns is a parameter.
template <class W>
RILL void factor_qr(Mat<W> a, Mat<W> q, W* factors) {
  const i64 m = a.rows, n = a.columns, steps = m < n ? m : n;
  for (i64 j = 0; j < steps; ++j) {
    W* v = a.column(j) + j;
    f64 below = 0;
    RILL_LANES(i, 1, m - j) below += squared(v[i]);
    below = warp_sum(below);
    const W first = v[0];
    W factor = 0.;
    f64 length = real_of(first);
    if (below != 0 || !is_zero(first - W(length))) {
      length = ::sqrt(squared(first) + below) * (real_of(first) > 0 ? -1. : 1.);
      factor = (W(length) - first) / W(length);
    }
    __syncwarp();
    if (!is_zero(factor)) RILL_LANES(i, 1, m - j) v[i] = v[i] / (first - W(length));
    if (lane() == 0) v[0] = length, factors[j] = factor;
    __syncwarp();
    for (i64 c = j + 1; c < n; ++c) reflect(v, a.column(c) + j, m - j, conj_of(factor));
  }
  make_identity(q);
  for (i64 j = steps; j-- > 0;)
    for (i64 c = 0; c < q.columns; ++c) reflect(a.column(j) + j, q.column(c) + j, m - j, factors[j]);
}
template <class T, int held>
RILL void qr(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const i64 k = s.full || s.rows < s.columns ? s.rows : s.columns;
  const Mat<W> a{workspace<W, held>(s), s.rows, s.columns}, q{a.end(), s.rows, k};
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, a);
    factor_qr(a, q, q.end());
    store_matrix<T>(s.out[0], m, s.rows, k, [&](i64 i, i64 j) { return q(i, j); });
    store_matrix<T>(s.out[1], m, k, s.columns, [&](i64 i, i64 j) { return j >= i ? a(i, j) : W(0.); });
  }
}

// --- The exponential: scaling, Pade's approximant of degree 13, squaring (see devices/matrix/kernels.cpp) ---
RILL f64 pade(int i) {
  const f64 all[] = {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000.,
                     10559470521600., 670442572800., 33522128640., 1323241920., 40840800., 960960., 16380., 182., 1.};
  return all[i] / all[0];
}
template <class W>
__attribute__((noinline)) static f64 column_norm(Mat<W> x) {
  f64 most = 0;
  RILL_LANES(j, 0, x.columns) {
    f64 column = 0;
    for (i64 i = 0; i < x.rows; ++i) column += magnitude_of(x(i, j));
    if (column > most) most = column;
  }
  return warp_max(most);
}
template <class W>
RILL void times_power_of_two(Mat<W> x, int exponent) {
  for (int left = exponent; left != 0;) {
    const int step = left > 1000 ? 1000 : left < -1000 ? -1000 : left;
    RILL_LANES(e, 0, x.rows * x.columns) x.at[e] *= W(::ldexp(1., step));
    left -= step;
  }
  __syncwarp();
}
// rest_exponent() of devices/matrix/kernels.cpp; `work` is the memory of two matrices.
template <class W>
RILL f64 rest_exponent(Mat<W> x, const Mat<W>* work) {
  f64 *sums = (f64*)work[0].at, *next = (f64*)work[1].at;
  const i64 n = x.rows;
  int exponent = 0;
  RILL_LANES(j, 0, n) sums[j] = 1;
  __syncwarp();
  for (int step = 0; step < 27; ++step) {
    f64 largest = 0;
    RILL_LANES(j, 0, n) {
      f64 total = 0;
      for (i64 i = 0; i < n; ++i) total += sums[i] * magnitude_of(x(i, j));
      next[j] = total;
      if (total > largest) largest = total;
    }
    largest = warp_max(largest);
    if (largest == 0) return -1e9;
    const int power = int(::ceil(::log2(largest)));
    exponent += power;
    RILL_LANES(j, 0, n) next[j] = ::ldexp(next[j], -power);
    __syncwarp();
    f64* const last = sums;
    sums = next, next = last;
  }
  return exponent - ::log2(column_norm(x)) - 116.45;
}
// Divides x[0] by a power of two, and computes its powers; returns the exponent.
template <class W>
RILL int scale_for_pade(const Mat<W>* x, f64 norm) {
  const f64 theta = 4.25;
  const int most = norm > theta ? int(::ceil(::log2(norm / theta))) : 0;
  const f64 rest = most > 0 ? rest_exponent(x[0], x + 4) : 0.;
  times_power_of_two(x[0], -most);
  multiply(x[0], x[0], x[1]), multiply(x[1], x[1], x[2]), multiply(x[1], x[2], x[3]);
  if (most == 0) return 0;
  multiply(x[2], x[2], x[4]), multiply(x[2], x[3], x[5]);
  const f64 by_6 = ::pow(column_norm(x[3]), 1 / 6.), by_8 = ::pow(column_norm(x[4]), 1 / 8.),
            by_10 = ::pow(column_norm(x[5]), 1 / 10.);
  const f64 first = by_6 > by_8 ? by_6 : by_8, second = by_8 > by_10 ? by_8 : by_10;
  const f64 size = first < second ? first : second;
  int squarings = 0;
  while (squarings < most && (::ldexp(size, most - squarings) > theta || rest - 26. * squarings > -53)) ++squarings;
  const int back = most - squarings;
  if (back == 0) return most;
  times_power_of_two(x[0], back);
  multiply(x[0], x[0], x[1]), multiply(x[1], x[1], x[2]), multiply(x[1], x[2], x[3]);
  return squarings;
}
// The polynomial of a^2 with the coefficients top, top - 2, ...
template <class W>
__attribute__((noinline)) static void half_pade(const Mat<W>* powers, int top, Mat<W> work, Mat<W> to) {
  const i64 size = to.rows * to.rows;
  const auto c = [&](int i) { return W(pade(top - i)); };
  const W *x2 = powers[1].at, *x4 = powers[2].at, *x6 = powers[3].at;
  RILL_LANES(e, 0, size) work.at[e] = c(0) * x6[e] + c(2) * x4[e] + c(4) * x2[e];
  __syncwarp();
  multiply(powers[3], work, to);
  RILL_LANES(e, 0, size) {
    to.at[e] += c(6) * x6[e] + c(8) * x4[e] + c(10) * x2[e];
    if (e % to.rows == e / to.rows) to.at[e] += c(12);
  }
  __syncwarp();
}
template <class T, int held>
RILL void expm(const MatrixBatch& s) {
  typedef wide_t<T> W;
  const i64 n = s.rows, size = n * n;
  Mat<W> x[8];
  for (int i = 0; i < 8; ++i) x[i] = {workspace<W, held>(s) + i * size, n, n};
  i64* pivots = (i64*)x[7].end();
  for (i64 m = warp(); m < s.count; m += all_warps()) {
    load_matrix<T>(s.a, m, x[0]);
    const f64 norm = column_norm(x[0]);
    if (!all_finite(x[0]) || norm > 1.7976931348623157e308) {  // so large that no digit is known
      store_matrix<T>(s.out[0], m, n, n, [&](i64, i64) { return not_a_number(W(0.)); });
      continue;
    }
    const int squarings = scale_for_pade(x, norm);
    half_pade(x, 13, x[4], x[5]);
    multiply(x[0], x[5], x[4]);
    half_pade(x, 12, x[6], x[5]);
    RILL_LANES(e, 0, size) {
      const W u = x[4].at[e], v = x[5].at[e];
      x[6].at[e] = v + u;
      x[7].at[e] = v - u;
    }
    __syncwarp();
    if (!factor_lu(x[7], pivots)) {
      if (lane() == 0) report(s.fault, s.code, 0, 0, m);
      continue;
    }
    solve_factored(x[7], pivots, x[6]);
    int from = 6;
    for (int i = 0; i < squarings; ++i, from = 13 - from) multiply(x[from], x[from], x[13 - from]);
    store_matrix<T>(s.out[0], m, n, n, [&](i64 i, i64 j) { return x[from](i, j); });
  }
}

}  // namespace rill::cuda
