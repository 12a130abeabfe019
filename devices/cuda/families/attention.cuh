// Attention and its gradient by tiles: no matrix of queries by keys is ever stored (Dao et al., FlashAttention, 2022;
// the running maximum and sum are Milakov and Gimelshein's, Online normalizer calculation for softmax, 2018).
//
// A block computes a tile of 16 R x 16 R scores and their products, 16 R rows by 16 C columns. Results with more columns
// than that take more blocks, each of which computes the scores again. Every number is computed by one block, in one order.
//
// Gradients have blocks of 16 x 16 threads, of which each has R x R scores and R x C products: rows ty, ty + 16, ... and
// columns tx, tx + 16, ...
//
// attention_scores.cuh precedes this text.
namespace rill::cuda {

// --- The result: a block of 128 threads for 16 R queries ---
//
// A thread has 2 R of the queries, ty, ty + 8, ..., for R of a tile's keys, tx, tx + 16, ..., and later C of the result's
// columns. Operands pass shared memory in slices of 16 columns, or of 16 rows of values. While one is computed, the next
// one is on its way to registers, and then it is stored to the other of two buffers.

// 16 bytes of numbers, as shared memory is read.
template <class W> struct alignas(16) Pack {
  enum { size = 16 / sizeof(W) };
  W v[size];
};
template <class T, int size> struct alignas(size * sizeof(T)) StoredPack { T v[size]; };

// The rows of a matrix from `first` on, and its columns, as a thread loads them that has the packs from one on.
template <class T>
struct PackedRows {
  typedef Pack<typename Wide<T>::Type> P;
  const char* at;
  i64 row_step, step;
  int rows, columns;
  bool is_dense;
  inline PackedRows(const Matrix<T>& m, int row, int column, i64 first_column, i64 all_columns)
      : at(m.at(row, first_column + column)), row_step(m.row * i64(sizeof(T))), step(m.column * i64(sizeof(T))), rows(0) {
    const i64 left = all_columns - first_column;
    columns = int(left < 1 << 30 ? left : 1 << 30) - column;
    is_dense = m.column == 1 && m.row % P::size == 0 && i64(at) % sizeof(StoredPack<T, P::size>) == 0;
  }
  inline P load(int row, int column) const {
    const int count = row < rows ? columns - column : 0;
    const char* from = at + row * row_step + column * step;
    P x;
    if (is_dense && count >= P::size) {
      const StoredPack<T, P::size> y = *RILL_AT((const StoredPack<T, P::size>*)from);
#pragma unroll
      for (int e = 0; e < P::size; ++e) x.v[e] = Wide<T>::widen(y.v[e]);
    } else {
#pragma unroll
      for (int e = 0; e < P::size; ++e) x.v[e] = e < count ? Wide<T>::widen(Stored<T>::load(from + e * step)) : 0;
    }
    return x;
  }
};

template <class T, int R, int C>
struct Slices {
  typedef typename Wide<T>::Type W;
  typedef Pack<W> P;
  enum { n = P::size, side = 16 * R, wide = 16 * C, packs = 16 / n, line = packs + 1, value_packs = wide / n };
  // The rows of a slice that the block's threads load at a time, and how often they do.
  enum { lines = 128 / packs, loads = side / lines, value_lines = 128 / value_packs, value_loads = 16 / value_lines };
  enum { most_loads = 2 * loads > value_loads ? 2 * loads : value_loads };
  enum { scores_line = side + (sizeof(W) == 4 ? 16 : 2) };  // two neighbouring rows start in different banks
  P slices[2][2 * side * line];
  alignas(16) W scores[side][scores_line];
  W row_max[side], row_sum[2 * R][128];  // of each row; of each thread's rows
};
template <class T, int R, int C>
struct SliceReader {
  typedef Slices<T, R, C> S;
  typedef typename S::W W;
  typedef typename S::P P;
  S& t;
  P ahead[S::most_loads];
  int now;  // the buffer that the next slice is stored to
  // Of queries and keys, the columns from `column` on.
  inline void load(const PackedRows<T>& queries, const PackedRows<T>& keys, int column) {
#pragma unroll
    for (int e = 0; e < S::loads; ++e) {
      ahead[e] = queries.load(e * S::lines, column);
      ahead[S::loads + e] = keys.load(e * S::lines, column);
    }
  }
  inline void load_values(const PackedRows<T>& values, int row) {
#pragma unroll
    for (int e = 0; e < S::value_loads; ++e) ahead[e] = values.load(row + e * S::value_lines, 0);
  }
  inline void store(W scale) {
    P* to = &t.slices[now][threadIdx.x / S::packs * S::line + threadIdx.x % S::packs];
#pragma unroll
    for (int e = 0; e < S::loads; ++e) {
#pragma unroll
      for (int k = 0; k < S::n; ++k) ahead[e].v[k] *= scale;
      to[e * S::lines * S::line] = ahead[e];
      to[(S::side + e * S::lines) * S::line] = ahead[S::loads + e];
    }
    __syncthreads();
  }
  inline void store_values() {
#pragma unroll
    for (int e = 0; e < S::value_loads; ++e) t.slices[now][e * 128 + threadIdx.x] = ahead[e];
    __syncthreads();
  }
  // x[i][j] += row i of the queries' slice times row j of the keys'.
  inline void multiply(W (&x)[2 * R][R]) {
    const P* left = &t.slices[now][threadIdx.x / 16 * S::line];
    const P* right = &t.slices[now][(S::side + threadIdx.x % 16) * S::line];
#pragma unroll
    for (int d = 0; d < S::packs; ++d) {
      P b[R];
#pragma unroll
      for (int j = 0; j < R; ++j) b[j] = right[16 * j * S::line + d];
#pragma unroll
      for (int i = 0; i < 2 * R; ++i) {
        const P a = left[8 * i * S::line + d];
#pragma unroll
        for (int e = 0; e < S::n; ++e)
#pragma unroll
          for (int j = 0; j < R; ++j) x[i][j] = fma(a.v[e], b[j].v[e], x[i][j]);
      }
    }
    now ^= 1;
  }
  // sum[i][j] += row i of the scores, from column `first` on, times the values' slice.
  inline void multiply_values(int first, W (&sum)[2 * R][C]) {
    const P* values = &t.slices[now][threadIdx.x % 16];
    const W* scores = &t.scores[threadIdx.x / 16][first];
#pragma unroll
    for (int d = 0; d < S::packs; ++d) {
      P b[S::n][C / S::n];
#pragma unroll
      for (int e = 0; e < S::n; ++e)
#pragma unroll
        for (int j = 0; j < C / S::n; ++j) b[e][j] = values[(d * S::n + e) * S::value_packs + 16 * j];
#pragma unroll
      for (int i = 0; i < 2 * R; ++i) {
        const P a = *(const P*)&scores[8 * i * S::scores_line + d * S::n];
#pragma unroll
        for (int e = 0; e < S::n; ++e)
#pragma unroll
          for (int j = 0; j < C; ++j) sum[i][j] = fma(a.v[e], b[e][j / S::n].v[j % S::n], sum[i][j]);
      }
    }
    now ^= 1;
  }
};

// Of causal attention, the longest tiles are the first, so that no block is left to run alone.
struct TileOfQueries {
  i64 head, first;
  inline TileOfQueries(const Attention& s, i64 q, int side) {
    const i64 tiles = (s.queries + side - 1) / side, turn = divide_counts(q, s.causal ? s.heads : tiles);
    head = s.causal ? q - turn * s.heads : turn;
    first = (s.causal ? tiles - 1 - turn : q - turn * tiles) * side;
  }
};

// The scores of a tile's keys that a query does not see become -inf, and the mask is added to the others. It is for the tiles
// that have such keys, or a mask, and passes shared memory because a loop needs fewer registers than copies of its body.
template <class T, int R, int C>
RILL void mask_scores(Slices<T, R, C>& t, const Attention& s, const TileOfQueries& tile, i64 key,
                      typename Wide<T>::Type (&x)[2 * R][R], int& sees_any) {
  typedef typename Wide<T>::Type W;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const Scores<T> scores(s, tile.head);
  __syncwarp();  // the warp has read the scores of the tile before
#pragma unroll
  for (int i = 0; i < 2 * R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) t.scores[ty + 8 * i][tx + 16 * j] = x[i][j];
#pragma unroll 1
  for (int i = 0; i < 2 * R; ++i) {
    const i64 query = tile.first + ty + 8 * i;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const i64 of = key + tx + 16 * j;
      W& y = t.scores[ty + 8 * i][tx + 16 * j];
      bool visible = false;
      y = query < s.queries && of < s.keys ? scores.of(y, query, of, visible) : lowest(W());
      sees_any |= int(visible) << i;
    }
  }
#pragma unroll
  for (int i = 0; i < 2 * R; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j) x[i][j] = t.scores[ty + 8 * i][tx + 16 * j];
}

// Weights of a tile's keys in place of scores, in shared memory, where only the same warp reads them. Sums are over
// the thread's own keys. Earlier sums are corrected if a row's maximum has grown.
template <class T, int R, int C>
RILL void weights_of_scores(Slices<T, R, C>& t, const typename Wide<T>::Type (&x)[2 * R][R],
                            typename Wide<T>::Type (&sum)[2 * R][C]) {
  typedef typename Wide<T>::Type W;
  const W minus_infinity = lowest(W());
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2 * R; ++i) {
    const W old_max = t.row_max[ty + 8 * i];
    W new_max = x[i][0];
#pragma unroll
    for (int j = 1; j < R; ++j) new_max = Maximum<W>::of(new_max, x[i][j]);
    new_max = Maximum<W>::of(old_max, reduce_row<Maximum<W>>(new_max));
    const W factor = new_max == old_max ? W(1) : exp_of(old_max - new_max);
    const W base = new_max == minus_infinity ? W(0) : new_max;
    W tile_sum = W(0);
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const W e = exp_of(x[i][j] - base);
      t.scores[ty + 8 * i][tx + 16 * j] = e;
      tile_sum += e;
    }
    __syncwarp();  // all of the row's threads have read its maximum
    t.row_max[ty + 8 * i] = new_max;
    W& row_sum = t.row_sum[i][threadIdx.x];
    row_sum = row_sum * factor + tile_sum;
#pragma unroll
    for (int j = 0; j < C; ++j) sum[i][j] *= factor;
  }
  __syncwarp();
}

template <class T, int R, int C>
RILL void attention(const Attention& s) {
  typedef typename Wide<T>::Type W;
  typedef Slices<T, R, C> S;
  enum { side = 16 * R, wide = 16 * C, rows = 2 * R, n = S::n };
  __shared__ S t;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const W minus_infinity = lowest(W());
  const i64 tiles = (s.queries + side - 1) / side, column_parts = s.value_width > 0 ? (s.value_width + wide - 1) / wide : 1;
  SliceReader<T, R, C> reader = {t};
  for (i64 q = blockIdx.x; q < s.heads * tiles * column_parts; q += gridDim.x) {
    const i64 number = divide_counts(q, column_parts), first_column = (q - number * column_parts) * wide;
    const TileOfQueries tile(s, number, side);
    const i64 shared = divide_counts(tile.head, s.group), first = tile.first;
    const int row = threadIdx.x / S::packs, column = threadIdx.x % S::packs * n;
    const int value_row = threadIdx.x / S::value_packs, value_column = threadIdx.x % S::value_packs * n;
    PackedRows<T> queries(matrix<T>(s.q, tile.head), row, column, 0, s.width);
    PackedRows<T> keys(matrix<T>(s.k, shared), row, column, 0, s.width);
    PackedRows<T> values(matrix<T>(s.v, shared), value_row, value_column, first_column, s.value_width);
    queries.at += first * queries.row_step;
    queries.rows = rows_in_tile<side>(s.queries - first) - row;
    W sum[rows][C];
    int sees_any = 0;  // bits of the thread's rows
    __syncwarp();  // the statistics of the tile before are stored
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      t.row_max[ty + 8 * i] = minus_infinity, t.row_sum[i][threadIdx.x] = W(0);
#pragma unroll
      for (int j = 0; j < C; ++j) sum[i][j] = W(0);
    }
    const i64 end = visible_keys_before(s, first + side);
    // All of the tile's queries see the keys before this one.
    const i64 seen_by_all = s.mask_kind == 0 ? visible_keys_before(s, first + 1) : 0;
    keys.rows = rows_in_tile<side>(s.keys) - row;
    if (end > 0) reader.load(queries, keys, 0);
    for (i64 key = 0; key < end; key += side) {
      W x[rows][R];
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < R; ++j) x[i][j] = W(0);
      const int present = rows_in_tile<side>(s.keys - key);
      values.rows = present - value_row;
      for (int c = 0; c == 0 || c < s.width; c += 16) {
        reader.store(W(s.scale));
        if (c + 16 < s.width) reader.load(queries, keys, c + 16);
        else reader.load_values(values, 0);
        reader.multiply(x);
      }
      if (key + side <= seen_by_all) {
        sees_any = ~0;
      } else {
        mask_scores<T, R, C>(t, s, tile, key, x, sees_any);
      }
      weights_of_scores<T, R, C>(t, x, sum);
      keys.at += side * keys.row_step;
      keys.rows = rows_in_tile<side>(s.keys - key - side) - row;
      for (int r = 0; r < present; r += 16) {
        reader.store_values();
        if (r + 16 < present) reader.load_values(values, r + 16);
        else if (key + side < end) reader.load(queries, keys, 0);
        reader.multiply_values(r, sum);
      }
      values.at += side * values.row_step;
    }
    const Matrix<T> out = matrix<T>(s.out, tile.head);
    const Matrix<W> out_sums = matrix<W>(s.out_sums, tile.head);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const i64 query = first + ty + 8 * i;
      const W all = reduce_row<Add<W>>(t.row_sum[i][threadIdx.x]);
      // A query without visible keys gives 0; one whose scores are all -inf nevertheless, NaN.
      const bool any_visible = reduce_row<Maximum<int>>(sees_any >> i & 1) != 0, is_empty = all == W(0);
      const W empty_result = any_visible ? minus_infinity - minus_infinity : W(0);
      if (query >= s.queries) continue;
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const i64 of = first_column + j / n * 16 * n + tx * n + j % n;
        if (of < s.value_width) out.put(query, of, is_empty ? empty_result : sum[i][j] / all);
      }
      if (first_column == 0 && tx == 0) {
        out_sums.put(query, 0, is_empty ? empty_result : t.row_max[ty + 8 * i]);
        out_sums.put(query, 1, is_empty ? empty_result : log_of(all));
      }
    }
  }
}

// --- Gradients ---

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
