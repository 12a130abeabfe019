// Cumulative ops along lines. A rule R defines the accumulation: R::Acc, R::Item, load() of an element, identity(),
// step(acc, item), which adds the next element, combine(a, b), where a comes before b, and out(), which stores.
//
// Sums, extremes and products of integers are combined in any grouping: a block scans a line, or pieces of it. Products
// of floats and recurrences go step by step, because a group's product may overflow where the line's does not.
namespace rill::cuda {

using rill::from_lane;
using scalar_math::Complex;

// --- Numbers ---

template <class A> RILL A plus(A a, A b) { return add(a, b); }
template <class A> RILL A times(A a, A b) { return mul(a, b); }
template <class A> RILL Complex<A> plus(Complex<A> a, Complex<A> b) { return a + b; }
template <class A> RILL Complex<A> times(Complex<A> a, Complex<A> b) { return a * b; }
template <class A> RILL bool is_zero(A a) { return a == A(0); }
template <class A> RILL bool is_zero(Complex<A> a) { return a.re == A(0) && a.im == A(0); }

// To the accumulator's type and back. Halves go through f32 on the way back, as on the CPU.
template <class To>
struct As {
  template <class From>
  RILL To of(From x) { return Convert<To>::of(x); }
};
template <>
struct As<f16> {
  RILL f16 of(f64 x) { return Convert<f16>::of(f32(x)); }
};
template <>
struct As<bf16> {
  RILL bf16 of(f64 x) { return Convert<bf16>::of(f32(x)); }
};
template <class To>
struct As<Complex<To>> {
  template <class From>
  RILL Complex<To> of(Complex<From> x) { return Complex<To>(To(x.re), To(x.im)); }
};
template <class A> RILL A from_int(A, int x) { return A(x); }
template <class A> RILL Complex<A> from_int(Complex<A>, int x) { return Complex<A>(A(x)); }
template <class A> RILL A minus_zero(A) { return -A(0); }
template <class A> RILL Complex<A> minus_zero(Complex<A>) { return Complex<A>(-A(0), -A(0)); }

template <class A>
RILL Complex<A> from_lane(Complex<A> x, int lane) {
  return Complex<A>(rill::from_lane(x.re, lane), rill::from_lane(x.im, lane));
}

// --- Rules ---

// T is read, A accumulates, Out is stored.
template <class T, class A, class Out>
struct Numbers {
  typedef A Acc;
  typedef A Item;
  RILL A load(const Scanning& s, i64 at) { return As<A>::of(Stored<T>::load(s.from + at * i64(sizeof(T)))); }
  RILL A move(A x, int lane) { return from_lane(x, lane); }
  RILL void out(const Scanning& s, i64 at, A x) { store(s.to + at * i64(sizeof(Out)), As<Out>::of(x)); }
  RILL A finished(const Scanning&, A x) { return x; }
  // Four elements that one instruction moves: whether they may be, from this one on and every fourth, and their moves.
  RILL bool reads_packs(const Scanning& s, i64 at) { return (i64(s.from) + at * i64(sizeof(T))) % i64(4 * sizeof(T)) == 0; }
  RILL bool writes_packs(const Scanning& s, i64 at) { return (i64(s.to) + at * i64(sizeof(Out))) % i64(4 * sizeof(Out)) == 0; }
  RILL void load_pack(const Scanning& s, i64 at, A (&x)[4]) {
    const Pack<T, 4> y = *RILL_AT((const Pack<T, 4>*)(s.from + at * i64(sizeof(T))));
#pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = As<A>::of(element<T>(y.v[k]));
  }
  RILL void out_pack(const Scanning& s, i64 at, const A (&x)[4]) {
    Pack<Out, 4> y;
#pragma unroll
    for (int k = 0; k < 4; ++k) y.v[k] = As<Out>::of(x[k]);
    *RILL_AT((Pack<Out, 4>*)(s.to + at * i64(sizeof(Out)))) = y;
  }
};
template <class T, class A, class Out>
struct Sums : Numbers<T, A, Out> {
  RILL A identity() { return minus_zero(A()); }  // -0 + -0 is -0
  RILL A finished(const Scanning& s, A x) { return s.exclusive ? plus(x, from_int(A(), 0)) : x; }  // of no elements: 0
  RILL A combine(A a, A b) { return plus(a, b); }
  RILL A step(A a, A b) { return plus(a, b); }
};
template <class T, class A, class Out>
struct Products : Numbers<T, A, Out> {
  RILL A identity() { return from_int(A(), 1); }
  RILL A combine(A a, A b) { return times(a, b); }
  RILL A step(A a, A b) { return times(a, b); }
};
// The first of equal numbers stays, and so does the first NaN.
template <class T, class A, class Out, bool largest>
struct Extremes : Numbers<T, A, Out> {
  RILL A identity() { return largest ? lowest(A()) : highest(A()); }
  RILL A combine(A a, A b) { return a != a || !(b != b || (largest ? b > a : b < a)) ? a : b; }
  RILL A step(A a, A b) { return combine(a, b); }
};
template <class T, class A, class Out>
struct Recurrence : Numbers<T, A, Out> {
  struct Item { A a, b; };
  RILL Item load(const Scanning& s, i64 at) {
    Item x;
    x.a = As<A>::of(Stored<T>::load(s.factors + at * i64(sizeof(T))));
    x.b = As<A>::of(Stored<T>::load(s.from + at * i64(sizeof(T))));
    return x;
  }
  RILL Item move(const Item& x, int lane) {
    Item y;
    y.a = from_lane(x.a, lane);
    y.b = from_lane(x.b, lane);
    return y;
  }
  RILL A identity() { return from_int(A(), 0); }
  RILL A step(A last, const Item& x) { return plus(is_zero(last) ? identity() : times(x.a, last), x.b); }
};
// Where a line's elements are, in the order of the scan: numbers of elements.
struct Line {
  i64 first, step;
  inline Line(const Scanning& s, i64 line) {
    const i64 outer = s.inner == 1 ? line : line / s.inner;
    first = (outer * s.n + (s.reverse ? s.n - 1 : 0)) * s.inner + (line - outer * s.inner);
    step = s.reverse ? -s.inner : s.inner;
  }
  inline i64 at(i64 i) const { return first + i * step; }
};

// --- Step by step ---

// A thread computes a line; neighbouring lines are contiguous.
template <class R>
RILL void step_threads(const Scanning& s) {
  for (i64 line = first_thread(); line < s.lines; line += all_threads()) {
    typename R::Acc acc = R::identity();
    const Line elements(s, line);
    const i64 first = elements.first, step = elements.step;
    for (i64 i = 0; i < s.n; i += 4) {
      typename R::Item x[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (i + k < s.n) x[k] = R::load(s, first + (i + k) * step);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (i + k < s.n) {
          const typename R::Acc before = acc;
          acc = R::step(acc, x[k]);
          R::out(s, first + (i + k) * step, R::finished(s, s.exclusive ? before : acc));
        }
    }
  }
}

// A warp computes a line, whose elements are contiguous: it reads 32 at once, and all of its lanes do the same steps.
template <class R>
RILL void step_warps(const Scanning& s) {
  const int lane = threadIdx.x % 32;
  for (i64 line = first_thread() / 32; line < s.lines; line += all_threads() / 32) {
    typename R::Acc acc = R::identity();
    const Line elements(s, line);
    for (i64 first = 0; first < s.n; first += 32) {
      const i64 i = first + lane;
      typename R::Item x;
      if (i < s.n) x = R::load(s, elements.at(i));
      typename R::Acc mine = acc;
      const int count = s.n - first < 32 ? int(s.n - first) : 32;
      for (int k = 0; k < count; ++k) {
        const typename R::Acc before = acc;
        acc = R::step(acc, R::move(x, k));
        if (k == lane) mine = s.exclusive ? before : acc;
      }
      if (i < s.n) R::out(s, elements.at(i), R::finished(s, mine));
    }
  }
}

// --- In any grouping ---

// The exclusive prefix of this thread in a group of `warps` warps, and `all`, the total of the group. `shared` holds a
// value for each warp.
template <class R, int warps>
RILL typename R::Acc exclusive_prefix(typename R::Acc mine, typename R::Acc& all, typename R::Acc* shared) {
  typedef typename R::Acc A;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % warps;
  A sum = mine;  // of the warp's lanes up to this one
  for (int by = 1; by < 32; by *= 2) {
    const A other = from_lane(sum, (lane - by) & 31);
    if (lane >= by) sum = R::combine(other, sum);
  }
  const A left = from_lane(sum, (lane - 1) & 31), whole_warp = from_lane(sum, 31);
  A before = R::identity();
  if (warps > 1) {
    __syncthreads();  // `shared` was read
    if (lane == 31) shared[warp] = sum;
    __syncthreads();
    all = shared[0];
    for (int w = 1; w < warps; ++w) {
      if (w == warp) before = all;
      all = R::combine(all, shared[w]);
    }
  } else {
    all = whole_warp;
  }
  if (lane > 0) before = warp > 0 ? R::combine(before, left) : left;
  return before;
}

// Four neighbouring elements of a line, which one instruction moves where they are aligned neighbours in memory.
template <class R>
struct Four {
  typename R::Acc v[4];
  inline void load(const Scanning& s, i64 at, i64 step, int count, bool packed) {
    if (packed && count >= 4) {
      R::load_pack(s, at, v);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = k < count ? R::load(s, at + k * step) : R::identity();
    }
  }
  inline void store(const Scanning& s, i64 at, i64 step, int count, bool packed) const {
    if (packed && count >= 4) {
      R::out_pack(s, at, v);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (k < count) R::out(s, at + k * step, v[k]);
    }
  }
};

// A group of `warps` warps scans a piece of a line, 4 elements for each thread at once. `only_totals`: it stores the
// piece's total; else it continues from the totals of the pieces before, which are in `totals`.
template <class R, int warps, bool only_totals>
RILL void scan(const Scanning& s) {
  typedef typename R::Acc A;
  __shared__ A shared[8];
  const i64 group = warps == 8 ? blockIdx.x : first_thread() / 32, groups = warps == 8 ? gridDim.x : all_threads() / 32;
  const int me = threadIdx.x % (32 * warps);
  for (i64 t = group; t < s.lines * s.pieces; t += groups) {
    const i64 line = s.pieces == 1 ? t : t / s.pieces, first = (t - line * s.pieces) * s.piece;
    const i64 end = first + s.piece < s.n ? first + s.piece : s.n;
    const Line elements(s, line);
    const bool reads_packs = elements.step == 1 && R::reads_packs(s, elements.first);
    const bool writes_packs = !only_totals && elements.step == 1 && R::writes_packs(s, elements.first);
    A carried = R::identity();
    if (!only_totals && s.pieces > 1) carried = *RILL_AT((const A*)s.totals + t);
    for (i64 begin = first; begin < end; begin += 128 * warps) {
      const i64 i = begin + me * 4, at = elements.at(i);
      const int count = end - i < 4 ? int(end - i) : 4;
      Four<R> x;
      x.load(s, at, elements.step, count, reads_packs);
      const A mine = R::combine(R::combine(R::combine(x.v[0], x.v[1]), x.v[2]), x.v[3]);
      A all, acc = exclusive_prefix<R, warps>(mine, all, shared);
      if (!only_totals) {
        acc = R::combine(carried, acc);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const A next = R::combine(acc, x.v[k]);
          x.v[k] = R::finished(s, s.exclusive ? acc : next);
          acc = next;
        }
        x.store(s, at, elements.step, count, writes_packs);
      }
      carried = R::combine(carried, all);
    }
    if (only_totals && me == 0) *RILL_AT((A*)s.totals + t) = carried;
  }
}

// Replaces the pieces' totals of each line by their exclusive prefixes: a block computes a line.
template <class R>
RILL void scan_totals(const Scanning& s) {
  typedef typename R::Acc A;
  __shared__ A shared[8];
  for (i64 line = blockIdx.x; line < s.lines; line += gridDim.x) {
    A carried = R::identity();
    for (i64 first = 0; first < s.pieces; first += 256) {
      A* at = (A*)s.totals + line * s.pieces + first + threadIdx.x;
      const bool is_here = first + threadIdx.x < s.pieces;
      A all, x = R::identity();
      if (is_here) x = *RILL_AT(at);
      const A before = exclusive_prefix<R, 8>(x, all, shared);
      if (is_here) *RILL_AT(at) = R::combine(carried, before);
      carried = R::combine(carried, all);
    }
  }
}

}  // namespace rill::cuda
