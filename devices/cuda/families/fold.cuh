// Reductions: the tree of devices/kernel/ir.h, divided among threads in a way that suits the shape, with the same bits
// in each. A rule R defines the fold: R::Acc, load() of a point, identity(), of(a, b) and store_result().
namespace rill::cuda {

using rill::from_lane;  // accumulators that are structs have their own
using scalar_math::Complex;

// The offset of element i of the axes, in bytes.
RILL i64 offset_of(const Axes& a, i64 i) {
  i64 at = 0, k = a.count;
  if (k == 0) return 0;
  if (i >> 32 == 0)  // 64-bit division is slow
    for (u32 left = u32(i); --k > 0;) {
      if (a.size[k] >> 32 != 0) return at + i64(left) * a.stride[k];  // i is within this axis
      const u32 size = u32(a.size[k]);
      at += i64(left % size) * a.stride[k];
      i = left /= size;
    }
  else
    for (; --k > 0; i /= a.size[k]) at += i % a.size[k] * a.stride[k];
  return at + i * a.stride[0];
}

// --- Rules ---

// Numbers T fold as A by F, Sum<A> and its like of the prelude, and are stored as Out.
template <class T, class A, class F, class Out>
struct Plain {
  typedef A Acc;
  RILL A load(const Folding& s, i64, i64, i64 at) { return Convert<A>::of(Stored<T>::load(s.from + at)); }
  RILL A identity() { return F::identity(); }
  RILL A of(A a, A b) { return F::of(a, b); }
  RILL void store_result(const Folding& s, i64 row, A x) { store(s.to + row * i64(sizeof(Out)), Convert<Out>::of(F::last(x))); }
};

template <class T> RILL bool truth(T x) { return x != T(0); }
RILL bool truth(f16 x) { return (x.bits & 0x7fff) != 0; }
RILL bool truth(bf16 x) { return (x.bits & 0x7fff) != 0; }
template <class T> RILL bool truth(Complex<T> x) { return x.re != T(0) || x.im != T(0); }

template <class T, bool all>
struct Truth {
  typedef u32 Acc;
  RILL u32 load(const Folding& s, i64, i64, i64 at) { return truth(Stored<T>::load(s.from + at)); }
  RILL u32 identity() { return all; }
  RILL u32 of(u32 a, u32 b) { return all ? a & b : a | b; }
  RILL void store_result(const Folding& s, i64 row, u32 x) { store(s.to + row, x != 0); }
};

// The first of equal numbers wins, and NaN wins over all.
template <class A>
struct ValueAndIndex {
  A value;
  i64 index;  // -1: none yet
};
template <class A>
RILL ValueAndIndex<A> from_lane(ValueAndIndex<A> x, int lane) {
  ValueAndIndex<A> y;
  y.value = rill::from_lane(x.value, lane);
  y.index = rill::from_lane(x.index, lane);
  return y;
}
template <class T, class A, bool largest>
struct Extreme {
  typedef ValueAndIndex<A> Acc;
  RILL Acc load(const Folding& s, i64, i64 p, i64 at) {
    Acc x;
    x.value = Convert<A>::of(Stored<T>::load(s.from + at));
    x.index = p;
    return x;
  }
  RILL Acc identity() {
    Acc x;
    x.value = A(0);
    x.index = -1;
    return x;
  }
  RILL Acc of(const Acc& a, const Acc& b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (a_nan || a.value == b.value) return a.index < b.index ? a : b;
    return (largest ? a.value > b.value : a.value < b.value) ? a : b;
  }
  RILL void store_result(const Folding& s, i64 row, const Acc& x) { store(s.to + row * 8, x.index); }
};

// The squares of every dtype but f64 are far inside the range of f64.
template <class T> RILL f64 square(T x) { return f64(x) * f64(x); }
template <class T> RILL f64 square(Complex<T> x) { return square(x.re) + square(x.im); }
template <class T, class Out>
struct Norm {
  typedef f64 Acc;
  RILL f64 load(const Folding& s, i64, i64, i64 at) { return square(Stored<T>::load(s.from + at)); }
  RILL f64 identity() { return 0; }
  RILL f64 of(f64 a, f64 b) { return a + b; }
  RILL void store_result(const Folding& s, i64 row, f64 x) { store(s.to + row * i64(sizeof(Out)), Convert<Out>::of(rill::sqrt(x))); }
};

// Squares of f64 have three sums, of large, middle and small ones, scaled by powers of two (Blue: A portable Fortran
// program to find the Euclidean norm of a vector, 1978), as in devices/cpu/reduce/reduce.cpp.
struct Squares {
  f64 large, middle, small;
};
RILL Squares from_lane(Squares x, int lane) {
  Squares y;
  y.large = rill::from_lane(x.large, lane);
  y.middle = rill::from_lane(x.middle, lane);
  y.small = rill::from_lane(x.small, lane);
  return y;
}
RILL f64 power_of_two(int e) { return same_bits<f64>(u64(1023 + e) << 52); }
RILL void add_square(Squares& to, f64 x) {
  const f64 magnitude = abs_of(x);
  if (magnitude > power_of_two(486)) to.large += (x * power_of_two(-538)) * (x * power_of_two(-538));
  else if (magnitude < power_of_two(-511)) to.small += (x * power_of_two(537)) * (x * power_of_two(537));
  else to.middle += x * x;
}
RILL void add_square(Squares& to, Complex<f64> x) {
  add_square(to, x.re);
  add_square(to, x.im);
}
template <class T>
struct WideNorm {
  typedef Squares Acc;
  RILL Squares identity() {
    Squares x;
    x.large = x.middle = x.small = 0;
    return x;
  }
  RILL Squares load(const Folding& s, i64, i64, i64 at) {
    Squares x = identity();
    add_square(x, Stored<T>::load(s.from + at));
    return x;
  }
  RILL Squares of(Squares a, const Squares& b) {
    a.large += b.large, a.middle += b.middle, a.small += b.small;
    return a;
  }
  RILL void store_result(const Folding& s, i64 row, const Squares& x) {
    const f64 shrink = power_of_two(-538), enlarge = power_of_two(537);
    f64 y = rill::sqrt(x.middle);
    if (x.large > 0) y = rill::sqrt(x.large + x.middle * shrink * shrink) / shrink;
    else if (x.small > 0 && x.middle < power_of_two(-900)) y = rill::sqrt(x.small + x.middle * enlarge * enlarge) / enlarge;
    store(s.to + row * 8, y);
  }
};

// --- Kernels ---

// How many loads of a thread are in flight at once. With four of f32, an H200 read at less than half of its memory's rate.
template <class A>
constexpr int loads_ahead = sizeof(A) <= 8 ? 8 : 4;

// The offsets of every 32nd point of a row, from point `first` on; along one axis they are a step apart.
template <bool one_axis>
class Every32nd {
 public:
  inline Every32nd(const Axes& axes, i64 base, i64 first)
      : axes_(axes), base_(base), point_(first), at_(base + (one_axis ? first * axes.stride[0] : 0)), step_(32 * axes.stride[0]) {}
  inline i64 next() {
    const i64 at = one_axis ? at_ : base_ + offset_of(axes_, point_);
    at_ += step_, point_ += 32;
    return at;
  }

 private:
  const Axes& axes_;
  const i64 base_;
  i64 point_, at_;
  const i64 step_;
};

// A lane's fold of the points [begin, end) of a row; `begin` is a multiple of 1024.
template <class R, bool one_axis>
RILL typename R::Acc fold_points(const Folding& s, i64 row, i64 begin, i64 end, int lane) {
  constexpr int ahead = loads_ahead<typename R::Acc>;
  PairwiseFold<typename R::Acc, R> blocks;
  const i64 base = offset_of(s.kept, row);
  for (i64 block = begin; block < end; block += 1024) {
    const i64 first = block + lane;
    const int left = int((block + 1024 < end ? block + 1024 : end) - first);
    typename R::Acc sum = R::identity();
    Every32nd<one_axis> at(s.reduced, base, first);
    int c = 0;
#pragma unroll 1
    for (; c + 32 * (ahead - 1) < left; c += 32 * ahead) {
      typename R::Acc x[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k) x[k] = R::load(s, row, first + c + 32 * k, at.next());
#pragma unroll
      for (int k = 0; k < ahead; ++k) sum = R::of(sum, x[k]);
    }
#pragma unroll 1
    for (; c < left; c += 32) sum = R::of(sum, R::load(s, row, first + c, at.next()));
    blocks.push(sum);
  }
  return blocks.result();
}

// Rows of up to g points, g <= 32: as many in each warp as fit.
template <class R, int g>
RILL void fold_groups(const Folding& s) {
  const int lane = threadIdx.x % 32;
  const i64 all = (s.rows * g + 31) / 32 * 32;  // all lanes of a warp have the same number of iterations
  for (i64 q = first_thread(); q < all; q += all_threads()) {
    const i64 row = q / g, p = q % g;
    typename R::Acc x = R::identity();
    if (row < s.rows && p < s.n) x = R::load(s, row, p, offset_of(s.kept, row) + offset_of(s.reduced, p));
    for (int half = g / 2; half > 0; half /= 2) x = R::of(x, from_lane(x, lane + half));
    if (row < s.rows && p == 0) R::store_result(s, row, x);
  }
}

// The same if neighbouring rows are contiguous: a thread computes one.
template <class R, int g>
RILL void fold_threads(const Folding& s) {
  for (i64 row = first_thread(); row < s.rows; row += all_threads()) {
    const i64 base = offset_of(s.kept, row);
    typename R::Acc x[g];
#pragma unroll
    for (int p = 0; p < g; ++p) x[p] = p < s.n ? R::load(s, row, p, base + offset_of(s.reduced, p)) : R::identity();
#pragma unroll
    for (int half = g / 2; half > 0; half /= 2)
#pragma unroll
      for (int p = 0; p < half; ++p) x[p] = R::of(x[p], x[p + half]);
    R::store_result(s, row, x[0]);
  }
}

// Joins the lanes' partial results of a piece and stores them if the piece is the complete row, else keeps them
// for fold_parts().
template <class R>
RILL void finish_piece(const Folding& s, i64 row, i64 piece, typename R::Acc x, int lane) {
  if (s.pieces > 1) {
    *RILL_AT((typename R::Acc*)s.parts + (row * s.pieces + piece) * 32 + lane) = x;
    return;
  }
  for (int half = 16; half > 0; half /= 2) x = R::of(x, from_lane(x, lane + half));
  if (lane == 0) R::store_result(s, row, x);
}

// Rows of middle length: a warp computes one.
template <class R, bool one_axis>
RILL void fold_warps(const Folding& s) {
  const int lane = threadIdx.x % 32;
  for (i64 row = first_thread() / 32; row < s.rows; row += all_threads() / 32)
    finish_piece<R>(s, row, 0, fold_points<R, one_axis>(s, row, 0, s.n, lane), lane);
}

// Joins in pairs what the first `warps` of a block's `most` warps have left in `joined`; the result is in joined[0].
template <class R, int most>
RILL void join_warps(typename R::Acc (&joined)[most][32], int warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();
  for (int step = 1; step < most; step *= 2) {
    if (warp % (2 * step) == 0 && warp + step < warps)
      joined[warp][lane] = R::of(joined[warp][lane], joined[warp + step][lane]);
    __syncthreads();
  }
}

// Long rows: a block computes a piece, each of its 8 warps an eighth, and they are joined in pairs.
template <class R, bool one_axis>
RILL void fold_blocks(const Folding& s) {
  __shared__ typename R::Acc joined[8][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (i64 b = blockIdx.x; b < s.rows * s.pieces; b += gridDim.x) {
    const i64 row = b / s.pieces, first = b % s.pieces * s.piece, eighth = s.piece / 8;
    const i64 last = first + s.piece < s.n ? first + s.piece : s.n, begin = first + warp * eighth;
    const i64 end = begin + eighth < last ? begin + eighth : last;
    const int warps = int((last - first + eighth - 1) / eighth);
    if (begin < end) joined[warp][lane] = fold_points<R, one_axis>(s, row, begin, end, lane);
    join_warps<R>(joined, warps);
    if (warp == 0) finish_piece<R>(s, row, b % s.pieces, joined[0][lane], lane);
    __syncthreads();
  }
}

// Neighbouring rows that are contiguous: a block computes a piece of 8 or 16 of them, with 32 threads each, so that their
// reads are coalesced.
template <class R, bool one_axis, int columns>
RILL void fold_columns(const Folding& s) {
  __shared__ typename R::Acc joined[columns][33];
  const int lane = threadIdx.x / columns, column = threadIdx.x % columns;
  const i64 groups = (s.rows + columns - 1) / columns;
  for (i64 b = blockIdx.x; b < groups * s.pieces; b += gridDim.x) {
    const i64 row = b % groups * columns + column, first = b / groups * s.piece;
    const i64 end = first + s.piece < s.n ? first + s.piece : s.n;
    if (row < s.rows) joined[column][lane] = fold_points<R, one_axis>(s, row, first, end, lane);
    __syncthreads();
    const i64 mine = b % groups * columns + threadIdx.x / 32;
    if (mine < s.rows) finish_piece<R>(s, mine, b / groups, joined[threadIdx.x / 32][threadIdx.x % 32], threadIdx.x % 32);
    __syncthreads();
  }
}

// A lane's fold of the pieces [begin, end) of a row, as the tree joins its blocks; `begin` is a multiple of 8, or of as many
// as there are.
template <class R>
RILL typename R::Acc fold_pieces(const Folding& s, i64 row, i64 begin, i64 end, int lane) {
  PairwiseFold<typename R::Acc, R> eights;
  const typename R::Acc* part = (const typename R::Acc*)s.parts + row * s.pieces * 32 + lane;
  for (i64 p = begin; p < end; p += 8) {
    const int count = end - p < 8 ? int(end - p) : 8;
    typename R::Acc x[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (k < count) x[k] = *RILL_AT(part + (p + k) * 32);
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
#pragma unroll
      for (int k = 0; k + step < 8; k += 2 * step)
        if (k + step < count) x[k] = R::of(x[k], x[k + step]);
    eights.push(x[0]);
  }
  return eights.result();
}

// Joins the pieces of each row: there may be a thousand of them, which would take one warp 0.3 ms.
template <class R, int most>
RILL void fold_parts(const Folding& s) {
  __shared__ typename R::Acc joined[most][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 some = 1;  // pieces of a warp
  while (some * most < s.pieces) some *= 2;
  for (i64 row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const i64 begin = warp * some, end = begin + some < s.pieces ? begin + some : s.pieces;
    if (begin < end) joined[warp][lane] = fold_pieces<R>(s, row, begin, end, lane);
    join_warps<R>(joined, int((s.pieces + some - 1) / some));
    if (warp == 0) {
      typename R::Acc x = joined[0][lane];
      for (int half = 16; half > 0; half /= 2) x = R::of(x, from_lane(x, lane + half));
      if (lane == 0) R::store_result(s, row, x);
    }
    __syncthreads();
  }
}

}  // namespace rill::cuda
