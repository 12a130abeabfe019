// What attention's kernels share: matrices of operands, the score of a query and a key, and what is reduced over a row.
namespace rill::cuda {

// A second name for the parameters, of kernels of which a multiprocessor runs three blocks of 128 threads: at most 168
// registers. RILL_KERNEL finds the bounds by the name of its parameters.
typedef Attention AttentionByThrees;
#ifndef RILL_ON_HOST
#define RILL_BOUNDS_Attention
#define RILL_BOUNDS_AttentionByThrees __launch_bounds__(128, 3)
#undef RILL_KERNEL
#define RILL_KERNEL(name, Params) extern "C" __global__ void RILL_BOUNDS_##Params name(const Params s)
#endif

template <class T> struct Wide {
  typedef T Type;
  RILL T widen(T x) { return x; }
  RILL T narrow(T x) { return x; }
};
template <class T> struct WideHalf {
  typedef f32 Type;
  RILL f32 widen(T x) { return rill::widen(x); }
  RILL T narrow(f32 x) { return rill::narrow(x, T()); }
};
template <> struct Wide<f16> : WideHalf<f16> {};
template <> struct Wide<bf16> : WideHalf<bf16> {};

RILL f32 exp_of(f32 x) { return ::expf(x); }
RILL f64 exp_of(f64 x) { return ::exp(x); }
RILL f32 log_of(f32 x) { return ::logf(x); }
RILL f64 log_of(f64 x) { return ::log(x); }

// One matrix of an operand.
template <class T>
struct Matrix {
  char* data;
  i64 row, column;
  inline char* at(i64 i, i64 j) const { return data + (i * row + j * column) * i64(sizeof(T)); }
  inline typename Wide<T>::Type load(i64 i, i64 j) const { return Wide<T>::widen(Stored<T>::load(at(i, j))); }
  inline void put(i64 i, i64 j, typename Wide<T>::Type x) const { store(at(i, j), Wide<T>::narrow(x)); }
};
// a / b of numbers that are not negative: a division of 64 bits takes several times as long as one of 32.
RILL i64 divide_counts(i64 a, i64 b) { return ((a | b) >> 32) == 0 ? i64(u32(a) / u32(b)) : a / b; }
template <class T>
RILL Matrix<T> matrix(const MatrixGrid& m, i64 b) {
  i64 offset = 0;
#pragma unroll 1  // it is inlined for each operand, with divisions
  for (int d = m.digits - 1; d >= 0 && b > 0; --d) {
    const i64 rest = b < m.size[d] ? 0 : divide_counts(b, m.size[d]);
    offset += (b - rest * m.size[d]) * m.stride[d];
    b = rest;
  }
  Matrix<T> y = {m.data + offset * i64(sizeof(T)), m.row, m.column};
  return y;
}

// The score of a head's query i and key j, -inf if masked. As on the CPU, the scale is in
// the queries: the last bits of a score affect the middle ones of a gradient.
template <class T>
struct Scores {
  typedef typename Wide<T>::Type W;
  const Attention& s;
  Matrix<T> added_mask;
  Matrix<bool> bool_mask;
  inline Scores(const Attention& a, i64 head) : s(a), added_mask(), bool_mask() {
    if (a.mask_kind == 1) bool_mask = matrix<bool>(a.mask, head);
    if (a.mask_kind == 2) added_mask = matrix<T>(a.mask, head);
  }
  inline W of(W y, i64 i, i64 j, bool& visible) const {
    const W minus_infinity = lowest(W());
    visible = !s.causal || j <= i + s.keys - s.queries;
    if (s.mask_kind == 1) visible = visible && Stored<bool>::load(bool_mask.at(i, j));
    if (s.mask_kind == 2) {
      const W x = added_mask.load(i, j);
      visible = visible && x != minus_infinity;
      y += x;
    }
    return visible ? y : minus_infinity;
  }
};
// How many keys the queries before `end` may attend to.
RILL i64 visible_keys_before(const Attention& s, i64 end) {
  if (!s.causal) return s.keys;
  const i64 y = (end < s.queries ? end : s.queries) + s.keys - s.queries;
  return y < 0 ? 0 : y;
}
// The first query that may attend to key j.
RILL i64 first_query_that_sees(const Attention& s, i64 j) {
  const i64 y = j - s.keys + s.queries;
  return !s.causal || y < 0 ? 0 : y;
}

// How many of a tile's `side` rows exist if `n` do from its first one on.
template <int side>
RILL int rows_in_tile(i64 n) { return n < 0 ? 0 : n < side ? int(n) : side; }

template <class T>
struct Maximum { RILL T of(T a, T b) { return max(a, b); } };  // of a NaN and a number, the NaN
template <class T>
struct Add { RILL T of(T a, T b) { return a + b; } };
// Over the 16 threads that share a row.
template <class F, class T>
RILL T reduce_row(T x) {
  for (int with = 8; with > 0; with /= 2) x = F::of(x, __shfl_xor_sync(~0u, x, with));
  return x;
}

}  // namespace rill::cuda
