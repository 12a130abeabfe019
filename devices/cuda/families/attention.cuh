// Attention and its gradient by tiles: no matrix of queries by keys is ever stored (Dao et al., FlashAttention, 2022;
// the running maximum and sum are Milakov and Gimelshein's, Online normalizer calculation for softmax, 2018).
//
// A block of 16 x 16 threads computes a tile of 16 R x 16 R scores, R x R in each thread, and their products, 16 R rows
// by
// 16 C columns, R x C in each thread: rows ty, ty + 16, ... and columns tx, tx + 16, ... Results with more columns than
// that take more blocks, each of which computes the scores again. Every number is computed by one block, in one order.
namespace rill::cuda {

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
template <class T>
RILL Matrix<T> matrix(const MatrixGrid& m, i64 b) {
  i64 offset = 0;
#pragma unroll 1  // it is inlined for each operand, with divisions
  for (int d = m.digits - 1; d >= 0; --d) {
    offset += b % m.size[d] * m.stride[d];
    b /= m.size[d];
  }
  Matrix<T> y = {m.data + offset * i64(sizeof(T)), m.row, m.column};
  return y;
}

template <class T, int R, int C>
struct Tile {
  typedef typename Wide<T>::Type W;
  enum { side = 16 * R, wide = 16 * C, depth = 16, line = side + 4 };
  W left[depth][line], right[depth][line], scores[side][line], values[depth][wide];
};

// Rows of a matrix, from `first` on, times a number.
template <class T>
struct Rows {
  const Matrix<T>& m;
  i64 first, count;
  typename Wide<T>::Type scale;
  inline typename Wide<T>::Type load(i64 i, i64 j) const { return m.load(first + i, j) * scale; }
};
// sum[i][j] = row i of a times row j of b.
template <class T, int R, int C>
RILL void dot_rows(Tile<T, R, C>& t, const Rows<T>& a, const Rows<T>& b, i64 width, typename Wide<T>::Type (&sum)[R][R]) {
  typedef typename Wide<T>::Type W;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) sum[i][j] = W(0);
  for (i64 first = 0; first < width; first += 16) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < R; ++e) {
      const int row = ty + 16 * e;
      const i64 c = first + tx;
      t.left[tx][row] = c < width && a.first + row < a.count ? a.load(row, c) : W(0);
      t.right[tx][row] = c < width && b.first + row < b.count ? b.load(row, c) : W(0);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < 16; ++d) {
      W x[R], y[R];
#pragma unroll
      for (int i = 0; i < R; ++i) x[i] = t.left[d][ty + 16 * i], y[i] = t.right[d][tx + 16 * i];
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < R; ++j) sum[i][j] = fma(x[i], y[j], sum[i][j]);
    }
  }
}

// sum[i][j] += row i of the tile's scores times column first_column + j of m, whose rows are `first` and after.
template <class T, int R, int C>
RILL void add_product(Tile<T, R, C>& t, const Matrix<T>& m, i64 first, i64 count, i64 first_column, i64 columns,
                      typename Wide<T>::Type (&sum)[R][C]) {
  typedef typename Wide<T>::Type W;
  enum { side = 16 * R, wide = 16 * C };
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int k = 0; k < side && first + k < count; k += 16) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < C; ++e) {
      const int at = e * 256 + threadIdx.x, row = at / wide, c = at % wide;
      const bool inside = first + k + row < count && first_column + c < columns;
      t.values[row][c] = inside ? m.load(first + k + row, first_column + c) : W(0);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < 16; ++d) {
      W x[R], y[C];
#pragma unroll
      for (int i = 0; i < R; ++i) x[i] = t.scores[ty + 16 * i][k + d];
#pragma unroll
      for (int j = 0; j < C; ++j) y[j] = t.values[d][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < C; ++j) sum[i][j] = fma(x[i], y[j], sum[i][j]);
    }
  }
  __syncthreads();  // the scores may be overwritten
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

template <class T, int R, int C>
RILL void attention(const Attention& s) {
  typedef typename Wide<T>::Type W;
  enum { side = 16 * R, wide = 16 * C };
  __shared__ Tile<T, R, C> t;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const W minus_infinity = lowest(W());
  const i64 tiles = (s.queries + side - 1) / side, column_parts = s.value_width > 0 ? (s.value_width + wide - 1) / wide : 1;
  for (i64 q = blockIdx.x; q < s.heads * tiles * column_parts; q += gridDim.x) {
    const i64 first_column = q % column_parts * wide, first = q / column_parts % tiles * side, head = q / column_parts / tiles;
    const Matrix<T> queries = matrix<T>(s.q, head), keys = matrix<T>(s.k, head / s.group), values = matrix<T>(s.v, head / s.group);
    const Scores<T> scores(s, head);
    W row_max[R], row_sum[R], sum[R][C];
    int sees_any[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      row_max[i] = minus_infinity, row_sum[i] = W(0), sees_any[i] = 0;
#pragma unroll
      for (int j = 0; j < C; ++j) sum[i][j] = W(0);
    }
    const i64 end = visible_keys_before(s, first + side);
    for (i64 key = 0; key < end; key += side) {
      W x[R][R];
      dot_rows<T, R, C>(t, Rows<T>{queries, first, s.queries, W(s.scale)}, Rows<T>{keys, key, s.keys, W(1)}, s.width, x);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const i64 row = first + ty + 16 * i;
        W new_max = minus_infinity;
#pragma unroll
        for (int j = 0; j < R; ++j) {
          const i64 column = key + tx + 16 * j;
          bool visible = false;
          x[i][j] = row < s.queries && column < s.keys ? scores.of(x[i][j], row, column, visible) : minus_infinity;
          sees_any[i] |= visible;
          new_max = Maximum<W>::of(new_max, x[i][j]);
        }
        new_max = Maximum<W>::of(row_max[i], reduce_row<Maximum<W>>(new_max));
        const W rescale = new_max == row_max[i] ? W(1) : exp_of(row_max[i] - new_max);
        row_max[i] = new_max;
        W tile_sum = W(0);
#pragma unroll
        for (int j = 0; j < R; ++j) {
          const W e = x[i][j] == minus_infinity ? W(0) : exp_of(x[i][j] - new_max);
          t.scores[ty + 16 * i][tx + 16 * j] = e;
          tile_sum += e;
        }
        row_sum[i] = row_sum[i] * rescale + reduce_row<Add<W>>(tile_sum);
#pragma unroll
        for (int j = 0; j < C; ++j) sum[i][j] *= rescale;
      }
      add_product<T, R, C>(t, values, key, s.keys, first_column, s.value_width, sum);
    }
    const Matrix<T> out = matrix<T>(s.out, head);
    const Matrix<W> out_sums = matrix<W>(s.out_sums, head);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const i64 row = first + ty + 16 * i;
      // A query without visible keys gives 0; one whose scores are all -inf nevertheless, NaN.
      const bool any_visible = reduce_row<Maximum<int>>(sees_any[i]) != 0, is_empty = row_sum[i] == W(0);
      const W empty_result = any_visible ? minus_infinity - minus_infinity : W(0);
      if (row >= s.queries) continue;
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const i64 column = first_column + tx + 16 * j;
        if (column < s.value_width) out.put(row, column, is_empty ? empty_result : sum[i][j] / row_sum[i]);
      }
      if (first_column == 0 && tx == 0) {
        out_sums.put(row, 0, is_empty ? empty_result : row_max[i]);
        out_sums.put(row, 1, is_empty ? empty_result : log_of(row_sum[i]));
      }
    }
  }
}

// What a row of the gradient of a query needs.
template <class T>
struct RowStatistics {
  typename Wide<T>::Type row_max, log_row_sum, delta;
  inline RowStatistics(const Attention& s, i64 head, i64 i) {
    typedef typename Wide<T>::Type W;
    const Matrix<W> sums = matrix<W>(s.log_sums, head);
    row_max = sums.load(i, 0), log_row_sum = sums.load(i, 1), delta = matrix<W>(s.delta, head).load(i, 0);
  }
};

// The gradient of the queries: D k, where D = scale P (g v^T - delta) and P = exp(scores - log_sums).
template <class T, int R, int C>
RILL void attention_grad_q(const Attention& s) {
  typedef typename Wide<T>::Type W;
  enum { side = 16 * R, wide = 16 * C };
  __shared__ Tile<T, R, C> t;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const i64 tiles = (s.queries + side - 1) / side, column_parts = (s.width + wide - 1) / wide;
  for (i64 q = blockIdx.x; q < s.heads * tiles * column_parts; q += gridDim.x) {
    const i64 first_column = q % column_parts * wide, first = q / column_parts % tiles * side, head = q / column_parts / tiles;
    const Matrix<T> queries = matrix<T>(s.q, head), keys = matrix<T>(s.k, head / s.group), values = matrix<T>(s.v, head / s.group);
    const Matrix<T> g = matrix<T>(s.g, head);
    const Scores<T> scores(s, head);
    W sum[R][C];
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < C; ++j) sum[i][j] = W(0);
    const i64 end = visible_keys_before(s, first + side);
    for (i64 key = 0; key < end; key += side) {
      W x[R][R], y[R][R];
      dot_rows<T, R, C>(t, Rows<T>{queries, first, s.queries, W(s.scale)}, Rows<T>{keys, key, s.keys, W(1)}, s.width, x);
      dot_rows<T, R, C>(t, Rows<T>{g, first, s.queries, W(1)}, Rows<T>{values, key, s.keys, W(1)}, s.value_width, y);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const i64 row = first + ty + 16 * i;
        const RowStatistics<T> of_row(s, head, row < s.queries ? row : 0);
#pragma unroll
        for (int j = 0; j < R; ++j) {
          const i64 column = key + tx + 16 * j;
          bool visible;
          W d = W(0);
          if (row < s.queries && column < s.keys)
            d = exp_of((scores.of(x[i][j], row, column, visible) - of_row.row_max) - of_row.log_row_sum) * (y[i][j] - of_row.delta) *
                W(s.scale);
          t.scores[ty + 16 * i][tx + 16 * j] = d;
        }
      }
      add_product<T, R, C>(t, keys, key, s.keys, first_column, s.width, sum);
    }
    const Matrix<T> out = matrix<T>(s.dq, head);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const i64 row = first + ty + 16 * i, column = first_column + tx + 16 * j;
        if (row < s.queries && column < s.width) out.put(row, column, sum[i][j]);
      }
  }
}

// The gradients of keys and values: D^T q and P^T g. A tile's rows are keys here, its columns queries.
template <class T, int R, int C>
RILL void attention_grad_kv(const Attention& s) {
  typedef typename Wide<T>::Type W;
  enum { side = 16 * R, wide = 16 * C };
  __shared__ Tile<T, R, C> t;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const i64 widest = s.width > s.value_width ? s.width : s.value_width;
  const i64 tiles = (s.keys + side - 1) / side, column_parts = (widest + wide - 1) / wide;
  for (i64 q = blockIdx.x; q < s.shared * tiles * column_parts; q += gridDim.x) {
    const i64 first_column = q % column_parts * wide, first = q / column_parts % tiles * side, shared = q / column_parts / tiles;
    const Matrix<T> keys = matrix<T>(s.k, shared), values = matrix<T>(s.v, shared);
    W to_keys[R][C], to_values[R][C];
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < C; ++j) to_keys[i][j] = to_values[i][j] = W(0);
    for (i64 head = shared * s.group; head < (shared + 1) * s.group; ++head) {
      const Matrix<T> queries = matrix<T>(s.q, head), g = matrix<T>(s.g, head);
      const Scores<T> scores(s, head);
      for (i64 query = first_query_that_sees(s, first) / side * side; query < s.queries; query += side) {
        W x[R][R], y[R][R];
        dot_rows<T, R, C>(t, Rows<T>{keys, first, s.keys, W(1)}, Rows<T>{queries, query, s.queries, W(s.scale)}, s.width, x);
        dot_rows<T, R, C>(t, Rows<T>{values, first, s.keys, W(1)}, Rows<T>{g, query, s.queries, W(1)}, s.value_width, y);
#pragma unroll
        for (int j = 0; j < R; ++j) {
          const i64 column = query + tx + 16 * j;
          const RowStatistics<T> of_row(s, head, column < s.queries ? column : 0);
#pragma unroll
          for (int i = 0; i < R; ++i) {
            const i64 row = first + ty + 16 * i;
            bool visible;
            W p = W(0);
            if (row < s.keys && column < s.queries)
              p = exp_of((scores.of(x[i][j], column, row, visible) - of_row.row_max) - of_row.log_row_sum);
            t.scores[ty + 16 * i][tx + 16 * j] = p;
            y[i][j] = row < s.keys && column < s.queries ? p * (y[i][j] - of_row.delta) * W(s.scale) : W(0);
          }
        }
        add_product<T, R, C>(t, g, query, s.queries, first_column, s.value_width, to_values);
#pragma unroll
        for (int i = 0; i < R; ++i)
#pragma unroll
          for (int j = 0; j < R; ++j) t.scores[ty + 16 * i][tx + 16 * j] = y[i][j];
        add_product<T, R, C>(t, queries, query, s.queries, first_column, s.width, to_keys);
      }
    }
    const Matrix<T> dk = matrix<T>(s.dk, shared), dv = matrix<T>(s.dv, shared);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const i64 row = first + ty + 16 * i, column = first_column + tx + 16 * j;
        if (row < s.keys && column < s.width) dk.put(row, column, to_keys[i][j]);
        if (row < s.keys && column < s.value_width) dv.put(row, column, to_values[i][j]);
      }
  }
}

}  // namespace rill::cuda
