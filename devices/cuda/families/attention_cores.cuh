// Attention of halves on tensor cores, for GPUs from sm_80 on. A warp has 16 or 32 queries, and a block of four warps
// iterates over tiles of keys and values in shared memory (Dao: FlashAttention-2, 2023). attention.cuh, which defines the
// computation, and core_fragments.cuh precede this text. Scores, their sums and results are f32 here too. Weights are
// rounded to halves before they are multiplied by values. Factors of gradients may be too small for f16: those keep the
// exponent of f32 and 10 bits (TF32).
namespace rill::cuda {

// The block's queries of tile number q, of which a warp has groups of 16, and a lane two in each: my_row and my_row + 8
// in the first.
template <class T, int groups = 1>
struct QueryTile {
  enum { side = 64 * groups };
  i64 head, shared, first, first_of_warp, my_row;
  RILL i64 count(const Attention& s) { return s.heads * ((s.queries + side - 1) / side); }
  inline QueryTile(const Attention& s, i64 q) {
    const TileOfQueries tile(s, q, side);
    head = tile.head, first = tile.first;
    first_of_warp = first + threadIdx.x / 32 * (16 * groups);
    my_row = first_of_warp + threadIdx.x % 32 / 4;
    shared = divide_counts(head, s.group);
  }
};
// Rows `first` to first + count of two matrices, once no thread of the block reads the buffers any more.
template <class T, int D, int count>
RILL void load_two_tiles(SharedRow<D>* a, const Matrix<T>& from_a, i64 width_a, SharedRow<D>* b, const Matrix<T>& from_b,
                         i64 width_b, i64 first, i64 rows) {
  __syncthreads();
  load_rows<T, D>(a, count, from_a, first, rows, width_a);
  load_rows<T, D>(b, count, from_b, first, rows, width_b);
  __syncthreads();
}

// Copies tiles of `count` rows of a matrix to shared memory, one after another, while the block computes. A thread
// copies 16 bytes of each `lines`th row. Rows that are not aligned are loaded at once, element by element.
template <class T, int D, int count>
struct TileCopies {
  enum { lines = D <= 64 ? 16 : D <= 128 ? 8 : 4 };  // powers of 2 that the block's 128 threads suffice for
  const MatrixGrid& grid;
  i64 number, step;
  const char* from;  // of the next tile
  int bytes, width;
  bool is_aligned;
  inline TileCopies(const MatrixGrid& g, i64 b, i64 columns) : grid(g), number(b), width(int(columns)) {
    const Matrix<T> m = matrix<T>(g, b);
    const int row = threadIdx.x / (D / 8), column = threadIdx.x % (D / 8) * 8, inside = 2 * (width - column);
    is_aligned = width > 0 && m.column == 1 && m.row % 8 == 0 && i64(m.data) % 16 == 0;
    bytes = inside < 0 ? 0 : inside < 16 ? inside : 16;
    from = m.at(row, bytes > 0 ? column : 0);
    step = lines * m.row * i64(sizeof(T));
  }
  // The tile from row `first` on. Each call is for the tile after that of the call before.
  inline void start(SharedRow<D>* to, i64 first, i64 rows) {
    if (!is_aligned) return load_rows<T, D>(to, count, matrix<T>(grid, number), first, rows, width);
    const int row = threadIdx.x / (D / 8), column = threadIdx.x % (D / 8) * 8;
    const int present = rows - first < count ? int(rows - first) : count;
    if (row < lines && bytes == 16 && present == count) {
#pragma unroll
      for (int i = 0; i < count / lines; ++i) copy_later(&to[row + i * lines].v[column], from + i * step);
    } else if (row < lines) {
#pragma unroll
      for (int i = 0; i < count / lines; ++i)
        copy_later(&to[row + i * lines].v[column], from + i * step, row + i * lines < present ? bytes : 0);
    }
    from += count / lines * step;
  }
};

struct Greater { RILL f32 of(f32 a, f32 b) { return greater_of(a, b); } };
// The weights of a tile before they are divided by their sum over the row, from scores that are to be multiplied by
// `unit`. Sums are over the lane's own keys. A factor corrects earlier sums of a row whose maximum has grown.
template <int count>
RILL void weights_of_scores(ResultFragment (&x)[count / 8], f32 unit, f32 (&row_max)[2], f32 (&row_sum)[2], f32 (&factor)[2]) {
  const f32 minus_infinity = lowest(f32()), log2_of_e = 1.4426950408889634f;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    f32 greatest = greater_of(x[0].v[2 * h], x[0].v[2 * h + 1]);
#pragma unroll
    for (int n = 1; n < count / 8; ++n) greatest = greater_of(greatest, greater_of(x[n].v[2 * h], x[n].v[2 * h + 1]));
    const f32 old_max = row_max[h], new_max = greater_of(old_max, reduce_quad<Greater>(greatest) * unit);
    row_max[h] = new_max;
    factor[h] = new_max == old_max ? 1.0f : exp2_of((old_max - new_max) * log2_of_e);
    f32 by = unit * log2_of_e, offset = new_max * log2_of_e;
    if (abs_of(new_max) > 64.0f) {  // rounded, its product would be off by too much; or no key has been visible yet
      const f32 base = new_max == minus_infinity ? 0.0f : new_max;
#pragma unroll
      for (int n = 0; n < count / 8; ++n)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) x[n].v[e] = x[n].v[e] * unit - base;
      by = log2_of_e, offset = 0;
    }
    f32 sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        f32& y = x[n].v[2 * h + e];
        y = exp2_of(fma(y, by, -offset));
        sum[e] += y;
      }
    row_sum[h] = row_sum[h] * factor[h] + (sum[0] + sum[1]);
  }
}

// The scores of the keys that a lane's two queries do not see become -inf, the others are scaled and the mask added. It is
// for the tiles that have such keys, or a mask.
template <class T, int count>
RILL void mask_scores(const Attention& s, i64 head, f32 scale, i64 my_row, i64 key, ResultFragment (&x)[count / 8],
                      int (&sees_any)[2]) {
  const int first = threadIdx.x % 4 * 2;
  const f32 minus_infinity = lowest(f32());
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const i64 row = my_row + 8 * h;
    const int visible_keys = visible_in_tile(s, row, key) - first;
    if (s.mask_kind == 0) {
#pragma unroll
      for (int n = 0; n < count / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          f32& y = x[n].v[2 * h + e];
          y = n * 8 + e < visible_keys ? y * scale : minus_infinity;
        }
      sees_any[h] |= visible_keys > 0;
      continue;
    }
    const Masked<T> mask(Scores<T>(s, head), row, key + first, true);
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        f32& y = x[n].v[2 * h + e];
        bool visible = n * 8 + e < visible_keys;
        y = mask.of(y * scale, n * 8 + e, visible);
        sees_any[h] |= visible;
      }
  }
}

// D: no row of queries or values is longer. While a tile is computed, the next one is copied.
template <class T, int D, int groups = 1>
RILL void attention_by_cores(const Attention& s) {
  enum { keys_of_tile = D <= 64 ? 64 : D <= 96 ? 48 : D <= 128 ? 32 : 16 };
  typedef QueryTile<T, groups> Queries;
  __shared__ SharedRow<D> buffers[4][keys_of_tile];
  static_assert(4 * keys_of_tile >= Queries::side, "queries are staged in the buffers");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const f32 minus_infinity = lowest(f32()), scale = f32(s.scale);
  // A positive factor may wait until the maximum is known.
  const bool scales_late = s.mask_kind == 0 && scale > 1e-30f && scale < 1e30f;
  for (i64 q = blockIdx.x; q < Queries::count(s); q += gridDim.x) {
    const Queries tile(s, q);
    OperandFragment queries[groups][D / 16];
    __syncthreads();
    load_rows<T, D>(buffers[0], Queries::side, matrix<T>(s.q, tile.head), tile.first, s.queries, s.width);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < groups; ++m)
#pragma unroll
      for (int k = 0; k < D / 16; ++k)
        queries[m][k] = load_matrices<false>(&buffers[0][(warp * groups + m) * 16 + lane % 16].v[k * 16 + lane / 16 * 8]);
    TileCopies<T, D, keys_of_tile> keys(s.k, tile.shared, s.width), values(s.v, tile.shared, s.value_width);
    ResultFragment sum[groups][D / 8];
    f32 row_max[groups][2], row_sum[groups][2];
    int sees_any[groups][2];
#pragma unroll
    for (int m = 0; m < groups; ++m) {
      set_to_zero(sum[m]);
#pragma unroll
      for (int h = 0; h < 2; ++h) row_max[m][h] = minus_infinity, row_sum[m][h] = 0, sees_any[m][h] = 0;
    }
    const i64 end = visible_keys_before(s, tile.first + Queries::side);
    // Of 32 queries, however many the warp has: a weight of 0 times an infinite value is NaN, which must not depend on it.
    const i64 end_of_warp = visible_keys_before(s, (tile.first_of_warp | 31) + 1);
    // All of the warp's queries see the keys before this one.
    const i64 seen_by_all = scales_late ? visible_keys_before(s, tile.first_of_warp + 1) : 0;
    // Two pairs of buffers, of keys and of values: buffers[now] and the next are read while the others are filled. The loop
    // begins a tile early, to start the first copies.
    int now = 2;
    for (i64 key = -keys_of_tile; key < end; key += keys_of_tile, now ^= 2) {
      wait_for_copies();
      __syncthreads();
      const i64 next = key + keys_of_tile;
      if (next < end) keys.start(buffers[now ^ 2], next, s.keys), values.start(buffers[(now ^ 2) + 1], next, s.keys);
      if (key < 0 || key >= end_of_warp) continue;
      ResultFragment x[groups][keys_of_tile / 8];
#pragma unroll
      for (int m = 0; m < groups; ++m) set_to_zero(x[m]);
      times_rows<T, D, keys_of_tile>(queries, buffers[now], x);
      const bool sees_all = next <= seen_by_all;
#pragma unroll
      for (int m = 0; m < groups; ++m) {
        if (!sees_all)
          mask_scores<T, keys_of_tile>(s, tile.head, scales_late ? 1.0f : scale, tile.my_row + 16 * m, key, x[m], sees_any[m]);
        else
          sees_any[m][0] = sees_any[m][1] = 1;
        f32 factor[2];
        weights_of_scores<keys_of_tile>(x[m], scales_late ? scale : 1.0f, row_max[m], row_sum[m], factor);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[m][n].v[e] *= factor[e / 2];
      }
      times_matrix<T, D, keys_of_tile>(x, buffers[now + 1], sum);
    }
    const Matrix<T> out = matrix<T>(s.out, tile.head);
    const Matrix<f32> out_sums = matrix<f32>(s.out_sums, tile.head);
#pragma unroll
    for (int m = 0; m < groups; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = tile.my_row + 16 * m + 8 * h;
        const f32 all = reduce_quad<Add<f32>>(row_sum[m][h]);
        // A query without visible keys gives 0; one whose visible scores are all -inf gives NaN.
        const bool any_visible = reduce_quad<Maximum<int>>(sees_any[m][h]) != 0, is_empty = all == 0;
        const f32 empty_result = any_visible ? minus_infinity - minus_infinity : 0.0f, part = 1.0f / all;
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) sum[m][n].v[e] = is_empty ? empty_result : sum[m][n].v[e] * part;
        if (row < s.queries && lane % 4 == 0) {
          out_sums.put(row, 0, is_empty ? empty_result : row_max[m][h]);
          out_sums.put(row, 1, is_empty ? empty_result : log_of(all));
        }
      }
      put_rows<T, D>(out, sum[m], tile.my_row + 16 * m, s.queries, s.value_width);
    }
  }
}

// --- Gradients, as in attention_grad_q and attention_grad_kv ---

// The statistics of the two queries that a lane has.
template <class T>
struct TwoRowStatistics {
  RowStatistics<T> first, second;
  inline TwoRowStatistics(const Attention& s, i64 head, i64 row)
      : first(s, head, row < s.queries ? row : 0), second(s, head, row + 8 < s.queries ? row + 8 : 0) {}
};
RILL f32 weight_of_score(f32 score, f32 row_max, f32 log_row_sum) {
  return exp2_of(((score - row_max) - log_row_sum) * 1.4426950408889634f);
}
// D of a tile's queries and keys, from `key` on. x: q k^T before and D after; y: g v^T. sees_all: there is no mask, and the
// warp's queries see all of the tile's keys.
template <class T, int count>
RILL void gradients_of_scores(const Attention& s, const Scores<T>& scores, const TwoRowStatistics<T>& rows, i64 my_row,
                              i64 key, bool sees_all, ResultFragment (&x)[count / 8], const ResultFragment (&y)[count / 8]) {
  const int lane = threadIdx.x % 32;
  const f32 scale = f32(s.scale);
  if (sees_all) {
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const RowStatistics<T>& of_row = e < 2 ? rows.first : rows.second;
        const f32 p = weight_of_score(x[n].v[e] * scale, of_row.row_max, of_row.log_row_sum);
        x[n].v[e] = p * (y[n].v[e] - of_row.delta) * scale;
      }
    return;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const i64 row = my_row + 8 * h;
    const int present = keys_in_tile(s, row, key), visible_keys = visible_in_tile(s, row, key);
    const Masked<T> mask(scores, row, key, true);
    const RowStatistics<T>& of_row = h == 0 ? rows.first : rows.second;
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) {
        const int index = n * 8 + lane % 4 * 2 + e % 2;
        bool visible = index < visible_keys;
        const f32 score = mask.of(x[n].v[e] * scale, index, visible);
        const f32 d = weight_of_score(score, of_row.row_max, of_row.log_row_sum) * (y[n].v[e] - of_row.delta) * scale;
        x[n].v[e] = index < present ? d : 0.0f;
      }
  }
}
template <class T, int D>
RILL void attention_grad_q_by_cores(const Attention& s) {
  enum { keys_of_tile = 32 };
  __shared__ SharedRow<D> buffers[4][keys_of_tile];
  for (i64 q = blockIdx.x; q < QueryTile<T>::count(s); q += gridDim.x) {
    const QueryTile<T> tile(s, q);
    const Scores<T> scores(s, tile.head);
    OperandFragment queries[1][D / 16], gradient[1][D / 16];
    load_operand_rows<T, D, keys_of_tile>(queries[0], buffers[0], matrix<T>(s.q, tile.head), tile.first, s.queries, s.width);
    load_operand_rows<T, D, keys_of_tile>(gradient[0], buffers[0], matrix<T>(s.g, tile.head), tile.first, s.queries,
                                          s.value_width);
    const TwoRowStatistics<T> rows(s, tile.head, tile.my_row);
    TileCopies<T, D, keys_of_tile> keys(s.k, tile.shared, s.width), values(s.v, tile.shared, s.value_width);
    ResultFragment sum[D / 8];
    set_to_zero(sum);
    const i64 end = visible_keys_before(s, tile.first + QueryTile<T>::side);
    const i64 end_of_warp = visible_keys_before(s, tile.first_of_warp + 16);
    const i64 seen_by_all = s.mask_kind == 0 ? visible_keys_before(s, tile.first_of_warp + 1) : 0;
    // Two pairs of buffers, of keys and of values: buffers[now] and the next are read while the others are filled. The loop
    // begins a tile early, to start the first copies.
    int now = 2;
    for (i64 key = -keys_of_tile; key < end; key += keys_of_tile, now ^= 2) {
      wait_for_copies();
      __syncthreads();
      const i64 next = key + keys_of_tile;
      if (next < end) keys.start(buffers[now ^ 2], next, s.keys), values.start(buffers[(now ^ 2) + 1], next, s.keys);
      if (key < 0 || key >= end_of_warp) continue;
      ResultFragment x[1][keys_of_tile / 8], y[1][keys_of_tile / 8];
      set_to_zero(x[0]), set_to_zero(y[0]);
      times_rows<T, D, keys_of_tile>(queries, buffers[now], x);
      times_rows<T, D, keys_of_tile>(gradient, buffers[now + 1], y);
      gradients_of_scores<T, keys_of_tile>(s, scores, rows, tile.my_row, key, next <= seen_by_all, x[0], y[0]);
      times_matrix_wide<T, D, keys_of_tile>(x[0], buffers[now], sum);
    }
    put_rows<T, D>(matrix<T>(s.dq, tile.head), sum, tile.my_row, s.queries, s.width);
  }
}

// P^T and D^T of a tile's keys and queries, from `query` on. x: k q^T before and P^T after; y: v g^T and D^T.
template <class T, int count>
RILL void transposed_gradients(const Attention& s, const Scores<T>& scores, i64 head, i64 my_row, i64 query,
                               ResultFragment (&x)[count / 8], ResultFragment (&y)[count / 8]) {
  const Matrix<f32> sums = matrix<f32>(s.log_sums, head), deltas = matrix<f32>(s.delta, head);
  const int lane = threadIdx.x % 32, present = index_in_tile(s.queries - query);
  const f32 scale = f32(s.scale);
  const i64 last_of_warp = my_row - lane / 4 + 15;
  if (s.mask_kind == 0 && present >= count && first_query_that_sees(s, last_of_warp) <= query) {  // no key is invisible
#pragma unroll
    for (int n = 0; n < count / 8; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const i64 column = query + n * 8 + lane % 4 * 2 + j;
        const f32 row_max = sums.load(column, 0), log_row_sum = sums.load(column, 1), delta = deltas.load(column, 0);
#pragma unroll
        for (int e = j; e < 4; e += 2) {
          const f32 p = weight_of_score(x[n].v[e] * scale, row_max, log_row_sum);
          x[n].v[e] = p;
          y[n].v[e] = p * (y[n].v[e] - delta) * scale;
        }
      }
    return;
  }
#pragma unroll
  for (int n = 0; n < count / 8; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int index = n * 8 + lane % 4 * 2 + j;
      const i64 column = query + (index < present ? index : 0);
      const f32 row_max = sums.load(column, 0), log_row_sum = sums.load(column, 1), delta = deltas.load(column, 0);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = my_row + 8 * h;
        const bool inside = row < s.keys && index < present;
        bool visible = inside && (!s.causal || row <= column + s.keys - s.queries);
        const f32 score = Masked<T>(scores, query, row, false).of(x[n].v[2 * h + j] * scale, index, visible);
        const f32 p = weight_of_score(score, row_max, log_row_sum);
        x[n].v[2 * h + j] = inside ? p : 0.0f;
        y[n].v[2 * h + j] = inside ? p * (y[n].v[2 * h + j] - delta) * scale : 0.0f;
      }
    }
}
// A warp has 16 keys, and a block iterates over tiles of queries.
template <class T, int D>
RILL void attention_grad_kv_by_cores(const Attention& s) {
  enum { side = 64, queries_of_tile = D > 64 ? 16 : 32 };
  __shared__ SharedRow<D> key_rows[side], value_rows[side], query_rows[queries_of_tile], gradient_rows[queries_of_tile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 tiles = (s.keys + side - 1) / side;
  for (i64 q = blockIdx.x; q < s.shared * tiles; q += gridDim.x) {
    const i64 shared = divide_counts(q, tiles), first = (q - shared * tiles) * side, my_row = first + warp * 16 + lane / 4;
    const i64 first_query_of_warp = first_query_that_sees(s, first + warp * 16);
    __syncthreads();
    load_rows<T, D>(key_rows, side, matrix<T>(s.k, shared), first, s.keys, s.width);
    load_rows<T, D>(value_rows, side, matrix<T>(s.v, shared), first, s.keys, s.value_width);
    ResultFragment to_keys[D / 8], to_values[D / 8];
    set_to_zero(to_keys), set_to_zero(to_values);
    for (i64 head = shared * s.group; head < (shared + 1) * s.group; ++head) {
      const Matrix<T> queries = matrix<T>(s.q, head), g = matrix<T>(s.g, head);
      const Scores<T> scores(s, head);
      for (i64 query = first_query_that_sees(s, first) / queries_of_tile * queries_of_tile; query < s.queries;
           query += queries_of_tile) {
        load_two_tiles<T, D, queries_of_tile>(query_rows, queries, s.width, gradient_rows, g, s.value_width, query, s.queries);
        if (query + queries_of_tile <= first_query_of_warp) continue;
        ResultFragment x[queries_of_tile / 8], y[queries_of_tile / 8];
        set_to_zero(x), set_to_zero(y);
        times_rows<T, D, queries_of_tile>(key_rows + warp * 16, query_rows, x);
        times_rows<T, D, queries_of_tile>(value_rows + warp * 16, gradient_rows, y);
        transposed_gradients<T, queries_of_tile>(s, scores, head, my_row, query, x, y);
        times_matrix_wide<T, D, queries_of_tile>(x, gradient_rows, to_values);
        times_matrix_wide<T, D, queries_of_tile>(y, query_rows, to_keys);
      }
    }
    put_rows<T, D>(matrix<T>(s.dk, shared), to_keys, my_row, s.keys, s.width);
    put_rows<T, D>(matrix<T>(s.dv, shared), to_values, my_row, s.keys, s.value_width);
  }
}

// --- Gradients of heads of up to 256 numbers ---
//
// The sums of a warp's rows fill half of its registers, so its operands stay in shared memory, where a block of two warps
// has one buffer for tiles: those that scores are computed from and those that scores multiply use it one after
// another. The gradients of keys and of values take a launch each, which computes the weights again.
enum { wide_side = 32, wide_tile = 16 };

// x = the warp's rows times the rows of a tile, which stays in `buffer`.
template <class T, int D>
RILL void times_tile(const SharedRow<D>* rows, SharedRow<D>* buffer, const Matrix<T>& m, i64 first, i64 count, i64 width,
                     ResultFragment (&x)[wide_tile / 8]) {
  __syncthreads();
  load_rows<T, D>(buffer, wide_tile, m, first, count, width);
  __syncthreads();
  set_to_zero(x);
  times_rows<T, D, wide_tile>(rows + threadIdx.x / 32 * 16, buffer, x);
}
template <class T, int D>
RILL void attention_grad_q_of_wide_heads(const Attention& s) {
  __shared__ SharedRow<D> queries[wide_side], gradients[wide_side], buffer[wide_tile];
  const i64 tiles = (s.queries + wide_side - 1) / wide_side;
  for (i64 q = blockIdx.x; q < s.heads * tiles; q += gridDim.x) {
    const i64 first = q % tiles * wide_side, head = q / tiles;
    const i64 my_row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const Matrix<T> keys = matrix<T>(s.k, head / s.group), values = matrix<T>(s.v, head / s.group);
    const Scores<T> scores(s, head);
    const TwoRowStatistics<T> rows(s, head, my_row);
    load_two_tiles<T, D, wide_side>(queries, matrix<T>(s.q, head), s.width, gradients, matrix<T>(s.g, head), s.value_width,
                                    first, s.queries);
    ResultFragment sum[D / 8];
    set_to_zero(sum);
    const i64 end = visible_keys_before(s, first + wide_side);
    const i64 seen_by_all = s.mask_kind == 0 ? visible_keys_before(s, first + 1) : 0;
    for (i64 key = 0; key < end; key += wide_tile) {
      ResultFragment x[wide_tile / 8], y[wide_tile / 8];
      times_tile<T, D>(gradients, buffer, values, key, s.keys, s.value_width, y);
      times_tile<T, D>(queries, buffer, keys, key, s.keys, s.width, x);
      gradients_of_scores<T, wide_tile>(s, scores, rows, my_row, key, key + wide_tile <= seen_by_all, x, y);
      times_matrix_wide<T, D, wide_tile>(x, buffer, sum);
    }
    put_rows<T, D>(matrix<T>(s.dq, head), sum, my_row, s.queries, s.width);
  }
}
// The gradient of values (`of_values`) or of keys.
template <class T, int D, bool of_values>
RILL void attention_grad_kv_of_wide_heads(const Attention& s) {
  __shared__ SharedRow<D> keys[wide_side], values[of_values ? 1 : wide_side], buffer[wide_tile];
  const i64 tiles = (s.keys + wide_side - 1) / wide_side;
  for (i64 q = blockIdx.x; q < s.shared * tiles; q += gridDim.x) {
    const i64 first = q % tiles * wide_side, shared = q / tiles;
    const i64 my_row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    __syncthreads();
    load_rows<T, D>(keys, wide_side, matrix<T>(s.k, shared), first, s.keys, s.width);
    if (!of_values) load_rows<T, D>(values, wide_side, matrix<T>(s.v, shared), first, s.keys, s.value_width);
    ResultFragment sum[D / 8];
    set_to_zero(sum);
    for (i64 head = shared * s.group; head < (shared + 1) * s.group; ++head) {
      const Matrix<T> queries = matrix<T>(s.q, head), g = matrix<T>(s.g, head);
      const Scores<T> scores(s, head);
      for (i64 query = first_query_that_sees(s, first) / wide_tile * wide_tile; query < s.queries; query += wide_tile) {
        ResultFragment x[wide_tile / 8], y[wide_tile / 8];
        set_to_zero(y);
        if (!of_values) times_tile<T, D>(values, buffer, g, query, s.queries, s.value_width, y);
        times_tile<T, D>(keys, buffer, queries, query, s.queries, s.width, x);
        transposed_gradients<T, wide_tile>(s, scores, head, my_row, query, x, y);
        if (of_values) {
          __syncthreads();
          load_rows<T, D>(buffer, wide_tile, g, query, s.queries, s.value_width);
          __syncthreads();
        }
        times_matrix_wide<T, D, wide_tile>(of_values ? x : y, buffer, sum);
      }
    }
    put_rows<T, D>(matrix<T>(of_values ? s.dv : s.dk, shared), sum, my_row, s.keys, of_values ? s.value_width : s.width);
  }
}

}  // namespace rill::cuda
