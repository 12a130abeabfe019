// Products of matrices, and convolutions as such products: the matrix of a convolution's windows is never stored,
// its elements are located as tiles of it are read.
namespace rill::cuda {

template <class R>
struct Parts { R real, imag; };  // a complex number

// --- The types of sums, and how they are computed ---
template <class T>
struct Sums {  // integers: modulo 2^32 or 2^64, which gives the bits of their own width
  typedef u32 Type;
  RILL u32 widen(T x) { return u32(x); }
  RILL T narrow(u32 x) { return T(x); }
  RILL u32 add(u32 sum, u32 a, u32 b) { return sum + a * b; }
  RILL u32 join(u32 a, u32 b) { return a + b; }
};
template <class T>
struct LongSums {
  typedef u64 Type;
  RILL u64 widen(T x) { return u64(x); }
  RILL T narrow(u64 x) { return T(x); }
  RILL u64 add(u64 sum, u64 a, u64 b) { return sum + a * b; }
  RILL u64 join(u64 a, u64 b) { return a + b; }
};
template <> struct Sums<i64> : LongSums<i64> {};
template <> struct Sums<u64> : LongSums<u64> {};
template <>
struct Sums<bool> {
  typedef u32 Type;
  RILL u32 widen(bool x) { return x; }
  RILL bool narrow(u32 x) { return x != 0; }
  RILL u32 add(u32 sum, u32 a, u32 b) { return sum | (a & b); }
  RILL u32 join(u32 a, u32 b) { return a | b; }
};
template <class T, class W>
struct FloatSums {
  typedef W Type;
  RILL W widen(T x) { return W(x); }
  RILL T narrow(W x) { return T(x); }
  RILL W add(W sum, W a, W b) { return fma(a, b, sum); }
  RILL W join(W a, W b) { return a + b; }
};
template <> struct Sums<f32> : FloatSums<f32, f32> {};
template <> struct Sums<f64> : FloatSums<f64, f64> {};
template <class T>
struct HalfSums : FloatSums<f32, f32> {
  RILL f32 widen(T x) { return rill::widen(x); }
  RILL T narrow(f32 x) { return rill::narrow(x, T()); }
};
template <> struct Sums<f16> : HalfSums<f16> {};
template <> struct Sums<bf16> : HalfSums<bf16> {};
template <class R>
struct Sums<Parts<R>> {
  typedef Parts<R> Type;
  RILL Type widen(Type x) { return x; }
  RILL Type narrow(Type x) { return x; }
  RILL Type add(Type sum, Type a, Type b) {
    sum.real = fma(-a.imag, b.imag, fma(a.real, b.real, sum.real));
    sum.imag = fma(a.imag, b.real, fma(a.real, b.imag, sum.imag));
    return sum;
  }
  RILL Type join(Type a, Type b) { a.real += b.real, a.imag += b.imag; return a; }
};

// --- Elements ---
// I, u32 or u64, holds every index, also along a spatial axis.
template <class I> struct Signed { typedef int Type; };
template <> struct Signed<u64> { typedef i64 Type; };

template <class I>
struct ElementPosition {
  i64 offset;
  typename Signed<I>::Type at[3];
};
template <class I, bool windows>
RILL ElementPosition<I> position_of(const IndexLayout& w, I index) {
  typedef typename Signed<I>::Type S;
  ElementPosition<I> p = {0, {0, 0, 0}};
#pragma unroll 1  // it is inlined dozens of times, with divisions
  for (int d = w.digits - 1; d >= 0; --d) {
    I digit = index;
    if (d > 0) {
      index = digit / I(w.size[d]);
      digit -= index * I(w.size[d]);
    }
    p.offset += i64(digit) * w.stride[d];
    if (windows)
      for (int a = 0; a < 3; ++a) p.at[a] += S(digit) * S(w.step[d][a]);
  }
  return p;
}

// Of the left operand. `kind`: 0, no window; 1, a window; 2, a window whose indices are divided.
template <int kind, class I>
RILL bool find_element(const Product& s, const ElementPosition<I>& row, const ElementPosition<I>& column, i64& offset) {
  offset = row.offset + column.offset;
  if (kind == 0) return true;
  for (int a = 0; a < 3; ++a) {
    typename Signed<I>::Type at = row.at[a] + column.at[a];  // `row` holds the start
    if (at < 0) return false;
    if (kind == 2) {
      const I quotient = I(at) / I(s.divide[a]);
      if (quotient * I(s.divide[a]) != I(at)) return false;
      at = quotient;
      offset += i64(quotient) * s.space[a];
    }
    if (I(at) >= I(s.limit[a])) return false;
  }
  return true;
}

template <class T>
RILL typename Sums<T>::Type element(const char* base, i64 offset) {
  return Sums<T>::widen(Stored<T>::load(base + offset * i64(sizeof(T))));
}
template <class I, bool windows>
RILL ElementPosition<I> window_position_of(const Product& s, const IndexLayout& w, I index) {
  ElementPosition<I> p = position_of<I, windows>(w, index);
  if (windows)
    for (int a = 0; a < 3; ++a) p.at[a] += typename Signed<I>::Type(s.start[a]);
  return p;
}

// Stores a sum to the result, or to the sums of its part.
template <class T>
RILL void put_sum(const Product& s, i64 part, i64 offset, typename Sums<T>::Type sum) {
  if (s.parts == 1) store(s.out + offset * i64(sizeof(T)), Sums<T>::narrow(sum));
  else *RILL_AT((typename Sums<T>::Type*)s.out + part * s.out_count + offset) = sum;
}

template <class I>
RILL i64 result_offset(const Product& s, i64 b, i64 i, i64 j) {
  return position_of<I, false>(s.out_batch, I(b)).offset + position_of<I, false>(s.out_m, I(i)).offset +
         position_of<I, false>(s.out_n, I(j)).offset;
}
template <class W>
RILL bool is_nan(W x) { return x != x; }
template <class R>
RILL bool is_nan(Parts<R> x) { return x.real != x.real && x.imag != x.imag; }
// The indices of result q, in an order in which neighbours are contiguous in memory.
RILL void find_result(const Product& s, i64 q, i64& b, i64& i, i64& j) {
  if (s.batch_is_dense) j = q / s.batch % s.n, i = q / s.batch / s.n, b = q % s.batch;
  else if (s.m_is_dense) i = q % s.m, j = q / s.m % s.n, b = q / s.m / s.n;
  else j = q % s.n, i = q / s.n % s.m, b = q / s.n / s.m;
}

// The terms of one result from `begin` to `end`, one by one, without those outside of the window.
template <class T, class I, int kind>
RILL typename Sums<T>::Type sum_of_terms(const Product& s, i64 b, i64 i, i64 j, i64 begin, i64 end) {
  const ElementPosition<I> row = window_position_of<I, kind != 0>(s, s.left_m, I(i));
  const i64 left = position_of<I, false>(s.left_batch, I(b)).offset,
            right = position_of<I, false>(s.right_batch, I(b)).offset + position_of<I, false>(s.right_n, I(j)).offset;
  typename Sums<T>::Type sum = typename Sums<T>::Type();
  for (i64 k = begin; k < end && !is_nan(sum); ++k) {
    i64 offset;
    if (find_element<kind>(s, row, position_of<I, kind != 0>(s.left_k, I(k)), offset))
      sum = Sums<T>::add(sum, element<T>(s.left, left + offset),
                         element<T>(s.right, right + position_of<I, false>(s.right_k, I(k)).offset));
  }
  return sum;
}

// --- By tiles: a block of 16 x 16 threads computes 16 R x 16 R results, R x R in each thread ---
// One operand's tile of `depth` numbers along k: each thread loads four ahead and stores them when the tile is free.
template <class T, class I, int kind, int tile, int depth>
class TileReader {
 public:
  typedef typename Sums<T>::Type W;
  RILL int row_of(bool by_k, int e) { return by_k ? (e * 256 + int(threadIdx.x)) / depth : int(threadIdx.x) % tile; }
  RILL int k_of(bool by_k, int e) { return by_k ? int(threadIdx.x) % depth : (e * 256 + int(threadIdx.x)) / tile; }

  inline TileReader(const Product& s, const char* base, const IndexLayout& rows, const IndexLayout& ks, bool by_k, i64 first, i64 count)
      : s_(s), ks_(ks), base_(base), by_k_(by_k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const i64 row = first + row_of(by_k, e);
      inside_[e] = row < count;
      row_[e] = window_position_of<I, kind != 0>(s, rows, I(inside_[e] ? row : 0));
    }
  }
  inline void read(i64 k, i64 end) {
    ElementPosition<I> column;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const i64 at = k + k_of(by_k_, e);
      W x = W();
      if (at < end && inside_[e]) {
        if (e == 0 || !by_k_) column = position_of<I, kind != 0>(ks_, I(at));
        i64 offset;
        if (find_element<kind>(s_, row_[e], column, offset)) x = element<T>(base_, offset);
      }
      x_[e] = x;
    }
  }
  inline void store_tile(W (*to)[tile + 4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) to[k_of(by_k_, e)][row_of(by_k_, e)] = x_[e];
  }

 private:
  const Product& s_;
  const IndexLayout& ks_;
  const char* base_;
  const bool by_k_;
  bool inside_[4];
  ElementPosition<I> row_[4];
  W x_[4];
};

template <class T, class I, int kind, int R>
RILL void product(const Product& s) {
  typedef typename Sums<T>::Type W;
  enum { tile = 16 * R, depth = 64 / R };
  __shared__ W left[depth][tile + 4], right[depth][tile + 4];
  const i64 tiles_m = (s.m + tile - 1) / tile, tiles_n = (s.n + tile - 1) / tile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int my_m = s.m_is_dense ? tx : ty, my_n = s.m_is_dense ? ty : tx;
  for (i64 t = blockIdx.x; t < tiles_m * tiles_n * s.parts * s.batch; t += gridDim.x) {
    const i64 tm = t / tiles_n % tiles_m * tile, tn = t % tiles_n * tile, rest = t / (tiles_m * tiles_n);
    const i64 part = rest % s.parts, b = rest / s.parts;
    const i64 begin = part * s.part, end = begin + s.part < s.k ? begin + s.part : s.k;
    TileReader<T, I, kind, tile, depth> lefts(
        s, s.left + position_of<I, false>(s.left_batch, I(b)).offset * i64(sizeof(T)), s.left_m, s.left_k, s.left_by_k, tm, s.m);
    TileReader<T, I, 0, tile, depth> rights(
        s, s.right + position_of<I, false>(s.right_batch, I(b)).offset * i64(sizeof(T)), s.right_n, s.right_k, s.right_by_k, tn, s.n);
    W sum[R][R];
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < R; ++j) sum[i][j] = W();
    for (i64 k = begin;; k += depth) {
      lefts.read(k, end);
      rights.read(k, end);
      if (k > begin) {  // meanwhile, the products of the tiles before
#pragma unroll
        for (int d = 0; d < depth; ++d) {
          W x[R], y[R];
#pragma unroll
          for (int i = 0; i < R; ++i) x[i] = left[d][my_m + 16 * i], y[i] = right[d][my_n + 16 * i];
#pragma unroll
          for (int i = 0; i < R; ++i)
#pragma unroll
            for (int j = 0; j < R; ++j) sum[i][j] = Sums<T>::add(sum[i][j], x[i], y[j]);
        }
        __syncthreads();
      }
      if (k >= end) break;
      lefts.store_tile(left);
      rights.store_tile(right);
      __syncthreads();
    }
    const i64 base = position_of<I, false>(s.out_batch, I(b)).offset;
    i64 column_offsets[R];
#pragma unroll
    for (int j = 0; j < R; ++j) column_offsets[j] = position_of<I, false>(s.out_n, I(tn + my_n + 16 * j)).offset;
    u64 nans = 0;  // which results are NaN: a bit each
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const i64 row = tm + my_m + 16 * i;
      if (row >= s.m) continue;
      const i64 row_offset = base + position_of<I, false>(s.out_m, I(row)).offset;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        if (tn + my_n + 16 * j >= s.n) continue;
        if (kind != 0 && is_nan(sum[i][j])) nans |= u64(1) << (i * R + j);
        put_sum<T>(s, part, row_offset + column_offsets[j], sum[i][j]);
      }
    }
    // Padding times an infinity is NaN, but there is no padding in the result's definition. One loop for all, since its
    // body is long.
#pragma unroll 1
    for (int e = 0; kind != 0 && nans != 0; ++e, nans >>= 1) {
      if (!(nans & 1)) continue;
      const i64 row = tm + my_m + 16 * (e / R), column = tn + my_n + 16 * (e % R);
      put_sum<T>(s, part, result_offset<I>(s, b, row, column), sum_of_terms<T, I, kind>(s, b, row, column, begin, end));
    }
  }
}

// --- A thread for each result: where tiles would be mostly empty, and sums short ---
template <class T, class I, int kind>
RILL void direct(const Product& s) {
  for (i64 q = first_thread(); q < s.batch * s.m * s.n; q += all_threads()) {
    i64 b, i, j;
    find_result(s, q, b, i, j);
    put_sum<T>(s, 0, result_offset<I>(s, b, i, j), sum_of_terms<T, I, kind>(s, b, i, j, 0, s.k));
  }
}

// --- A warp for each result: long sums of few results, whose terms are neighbours in memory ---
template <class W>
RILL W shuffled(W x, int with) {
  if constexpr (sizeof(W) == 16) {
    x.real = __shfl_xor_sync(~0u, x.real, with);
    x.imag = __shfl_xor_sync(~0u, x.imag, with);
    return x;
  } else if constexpr (sizeof(W) == 8) {
    return same_bits<W>(__shfl_xor_sync(~0u, same_bits<u64>(x), with));
  } else {
    return same_bits<W>(__shfl_xor_sync(~0u, same_bits<u32>(x), with));
  }
}
template <class T, class I, int kind>
RILL void dots(const Product& s) {
  typedef typename Sums<T>::Type W;
  const int lane = threadIdx.x % 32;
  for (i64 q = first_thread() / 32; q < s.batch * s.m * s.n * s.parts; q += all_threads() / 32) {
    const i64 part = q % s.parts, r = q / s.parts, j = r % s.n, i = r / s.n % s.m, b = r / s.n / s.m;
    const i64 end = (part + 1) * s.part < s.k ? (part + 1) * s.part : s.k;
    const ElementPosition<I> row = window_position_of<I, kind != 0>(s, s.left_m, I(i));
    const i64 left = position_of<I, false>(s.left_batch, I(b)).offset,
              right = position_of<I, false>(s.right_batch, I(b)).offset + position_of<I, false>(s.right_n, I(j)).offset;
    W sum = W();
#pragma unroll 4
    for (i64 k = part * s.part + lane; k < end; k += 32) {
      i64 offset;
      if (!find_element<kind>(s, row, position_of<I, kind != 0>(s.left_k, I(k)), offset)) continue;
      sum = Sums<T>::add(sum, element<T>(s.left, left + offset),
                         element<T>(s.right, right + position_of<I, false>(s.right_k, I(k)).offset));
    }
    for (int with = 16; with > 0; with /= 2) sum = Sums<T>::join(sum, shuffled(sum, with));
    if (lane == 0)
      put_sum<T>(s, part,
                 position_of<I, false>(s.out_batch, I(b)).offset + position_of<I, false>(s.out_m, I(i)).offset +
                     position_of<I, false>(s.out_n, I(j)).offset,
                 sum);
  }
}

template <class T>
RILL void join(const Join& s) {
  typedef typename Sums<T>::Type W;
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    W sum = *RILL_AT((const W*)s.sums + q);
    for (i64 p = 1; p < s.parts; ++p) sum = Sums<T>::join(sum, *RILL_AT((const W*)s.sums + p * s.count + q));
    store(s.out + q * i64(sizeof(T)), Sums<T>::narrow(sum));
  }
}

// --- Operands and results in cuBLASLt's layout ---
struct U64x2 { u64 low, high; };

// The left operand's rows from first_m on, stored: [batch, m, k], or [batch, k, m] if neighbours along m are
// neighbours in memory. Word may be several elements: then sizes and strides count in words.
template <class Word, class I, int kind>
RILL void unfold(const Product& s) {
  for (i64 q = first_thread(); q < s.batch * s.m * s.k; q += all_threads()) {
    const I fast = I(s.left_by_k ? s.k : s.m), slow = I(s.left_by_k ? s.m : s.k);
    const I line = I(q) / fast, x = I(q) - line * fast, b = line / slow, y = line - b * slow;
    const I row = s.left_by_k ? y : x, column = s.left_by_k ? x : y;
    const i64 matrix = position_of<I, false>(s.left_batch, b).offset;
    i64 offset;
    Word word = Word();
    if (find_element<kind>(s, window_position_of<I, kind != 0>(s, s.left_m, I(s.first_m) + row), position_of<I, kind != 0>(s.left_k, column), offset))
      word = *RILL_AT((const Word*)s.left + matrix + offset);
    *RILL_AT((Word*)s.out + q) = word;
  }
}
// Whether `mine` is true for any thread of the block, to all of them.
RILL bool any_of_block(bool mine) {
  __shared__ u32 lanes[8];
  const u32 of_warp = __ballot_sync(~0u, mine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) lanes[threadIdx.x / 32] = of_warp;
  __syncthreads();
  u32 all = 0;
  for (int w = 0; w < 8; ++w) all |= lanes[w];
  return all != 0;
}
template <class T>
RILL void find_nans(const NanSearch& s) {
  enum { many = 16 / sizeof(T), ahead = 4 };
  typedef Pack<T, many> Many;
  const i64 packs = i64(s.from) % 16 == 0 ? s.count / many : 0;
  bool mine = false;
  for (i64 q = first_thread(); q < packs; q += ahead * all_threads()) {
    Many x[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const i64 at = q + a * all_threads();
      x[a] = *RILL_AT((const Many*)s.from + (at < packs ? at : q));
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a)
#pragma unroll
      for (int j = 0; j < many; ++j) mine |= is_nan(Sums<T>::widen(x[a].v[j]));
  }
  for (i64 q = packs * many + first_thread(); q < s.count; q += all_threads()) mine |= is_nan(element<T>(s.from, q));
  const bool any = any_of_block(mine);
  if (threadIdx.x == 0) *RILL_AT((u32*)s.found + blockIdx.x) = any;
}
// Recomputes results that are NaN: padding times an infinity is NaN, and the definition has no padding.
template <class T, class I, int kind>
RILL void without_padding(const NanCorrection& s) {
  bool mine = s.finders == 0;
  for (i64 q = threadIdx.x; q < s.finders; q += blockDim.x) mine |= *RILL_AT((const u32*)s.found + q) != 0;
  if (!any_of_block(mine)) return;
  for (i64 q = first_thread(); q < s.batch * s.m * s.n; q += all_threads()) {
    i64 b, i, j;
    find_result(s, q, b, i, j);
    const i64 offset = result_offset<I>(s, b, i, j);
    if (is_nan(element<T>(s.out, offset))) put_sum<T>(s, 0, offset, sum_of_terms<T, I, kind>(s, b, i, j, 0, s.k));
  }
}
// Copies [batch, m, n] at `left` to the result's elements.
template <class Word, class I>
RILL void fold_back(const Product& s) {
  for (i64 q = first_thread(); q < s.batch * s.m * s.n; q += all_threads()) {
    const I fast = I(s.m_is_dense ? s.m : s.n), slow = I(s.m_is_dense ? s.n : s.m);
    const I line = I(q) / fast, x = I(q) - line * fast, b = line / slow, y = line - b * slow;
    const I i = s.m_is_dense ? x : y, j = s.m_is_dense ? y : x;
    const i64 to = position_of<I, false>(s.out_batch, b).offset + position_of<I, false>(s.out_m, i).offset + position_of<I, false>(s.out_n, j).offset;
    *RILL_AT((Word*)s.out + to) = *RILL_AT((const Word*)s.left + (i64(b) * s.m + i) * s.n + j);
  }
}

}  // namespace rill::cuda
