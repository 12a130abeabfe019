// The small products and transpositions that attention consists of, over vector lanes. Included once for each
// instruction set, as devices/kernel/lanes.h explains. Start at add_product.

#if defined(RILL_DEVICES_CPU_ATTENTION_TILES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RILL_DEVICES_CPU_ATTENTION_TILES_H_
#undef RILL_DEVICES_CPU_ATTENTION_TILES_H_
#else
#define RILL_DEVICES_CPU_ATTENTION_TILES_H_
#endif

#include "rill/devices/cpu/product/gemm_lanes-inl.h"
#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// Queries and keys of a tile. If few keys would remain for the last tile, they are added to the one before.
constexpr int64_t block_q = 32, block_k = 64, most_keys = block_k + 16;
constexpr int64_t keys_at_once(int64_t left) { return left <= most_keys ? left : block_k; }
// How many lanes are computed for n queries: the last block may have a single one.
template <class T>
constexpr int64_t lanes_for(int64_t n) {
  constexpr int64_t kL = int64_t(lanes<Lane<T>>());
  return (n + kL - 1) / kL * kL;
}

// --- Products of small matrices --------------------------------------------------------------------------------------

// This many rows of two vectors each are summed in registers.
constexpr int tile_rows = vector_registers == 32 ? 8 : 4;

// A matrix that is read one number at a time.
template <class T>
struct Factor {
  const T* data;
  int64_t row, column;
};

template <int R, int N, class T>
HWY_NOINLINE void product_tile(int64_t depth, Factor<T> a, const T* b, int64_t b_row, T* c, int64_t c_row) {
  using V = Lane<T>;
  constexpr int64_t kL = int64_t(lanes<V>());
  V sum[R][N];
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = load<V>(c + r * c_row + n * kL);
  }
  for (int64_t i = 0; i < depth; ++i, b += b_row, a.data += a.column) {
    V row[N];
    RILL_UNROLL for (int n = 0; n < N; ++n) row[n] = load<V>(b + n * kL);
    RILL_UNROLL for (int r = 0; r < R; ++r) {
      const V x(a.data[r * a.row]);
      RILL_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = fma(x, row[n], sum[r][n]);
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int n = 0; n < N; ++n) store(sum[r][n], c + r * c_row + n * kL);
  }
}

// N vectors of columns.
template <int N, class T>
void product_columns(int64_t rows, int64_t depth, Factor<T> a, const T* b, int64_t b_row, T* c, int64_t c_row) {
  int64_t i = 0;
  auto run = [&]<int R>() HWY_ATTR {
    for (; i + R <= rows; i += R, a.data += R * a.row) product_tile<R, N>(depth, a, b, b_row, c + i * c_row, c_row);
  };
  run.template operator()<tile_rows>();
  run.template operator()<4>();
  run.template operator()<1>();
}

// C[rows, columns] += A[rows, depth] B[depth, columns]; `columns` is a multiple of a vector.
template <class T>
void add_product(int64_t rows, int64_t columns, int64_t depth, Factor<T> a, const T* b, int64_t b_row, T* c,
                 int64_t c_row) {
  constexpr int64_t kL = int64_t(lanes<Lane<T>>());
  static_assert(block_q % (2 * kL) == 0);
  int64_t j = 0;
  for (; j + 2 * kL <= columns; j += 2 * kL) product_columns<2>(rows, depth, a, b + j, b_row, c + j, c_row);
  if (j < columns) product_columns<1>(rows, depth, a, b + j, b_row, c + j, c_row);
}

// --- Transpositions and copies ---------------------------------------------------------------------------------------

constexpr int64_t padded(int64_t n) { return (n + block_q - 1) / block_q * block_q; }

#if HWY_TARGET != HWY_SCALAR
// transpose() of rows [first, ...) while there are enough for a vector of columns; returns the next row.
template <class D>
int64_t transpose_vectors(D d, const float* from, int64_t from_row, int64_t first, int64_t rows, int64_t columns,
                          float* to, int64_t to_row, const float* factor, int64_t step) {
  constexpr int64_t side = 4, lines = hn::MaxLanes(D());
  for (; first + lines <= rows; first += lines)
    for (int64_t c = 0; c + side <= columns; c += side) {
      const float *x = from + first * from_row + c, *by = factor + c * step;
      float* y = to + c * to_row + first;
      hn::Vec<D> v[side];
      RILL_UNROLL for (int i = 0; i < side; ++i) v[i] = cpu::HWY_NAMESPACE::load_lines(d, x + i * from_row, from_row);
      transpose_squares(d, v);
      RILL_UNROLL for (int i = 0; i < side; ++i) hn::StoreU(hn::Mul(v[i], hn::Set(d, by[i * step])), d, y + i * to_row);
    }
  return first;
}
#endif

// to[c][r] = from[r][c] * factor[c * step], for `rows` x `columns` numbers of `from`.
template <class T>
HWY_NOINLINE void transpose(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to, int64_t to_row,
                            const T* factor, int64_t step) {
  int64_t rows_in_squares = 0, columns_in_squares = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<T, float>) {  // transposing squares of two doubles gains nothing
    const auto some = [&](auto d) HWY_ATTR {
      rows_in_squares = transpose_vectors(d, from, from_row, rows_in_squares, rows, columns, to, to_row, factor, step);
    };
    some(hn::ScalableTag<float>());
    some(hn::Full128<float>());
    columns_in_squares = columns / 4 * 4;
  }
#endif
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < rows_in_squares ? columns_in_squares : 0; c < columns; ++c)
      to[c * to_row + r] = from[r * from_row + c] * factor[c * step];
}

// Transposes queries (or their cotangents) into lanes: to[c][i] = from[i][c] * scale for `n` rows; lanes from n on are
// 0.
template <class T>
void transpose_in(const T* from, int64_t row, int64_t n, int64_t columns, T scale, T* to) {
  if (n < block_q) std::fill(to, to + columns * block_q, T(0));
  transpose(from, row, n, columns, to, block_q, &scale, 0);
}

// The reverse: to[i][c] = from[c][i] * factor[i] for `n` rows.
template <class T>
void transpose_out(const T* from, const T* factor, int64_t n, int64_t columns, T* to, int64_t row) {
  transpose(from, block_q, columns, n, to, row, factor, 1);
}

// to[i][c] = from[i][c] * scale; columns from `columns` on are 0.
template <class T>
void copy_in(const T* from, int64_t row, int64_t n, int64_t columns, T scale, T* to) {
  using V = Lane<T>;
  constexpr int64_t kL = int64_t(lanes<V>());
  const int64_t width = padded(columns);
  for (int64_t i = 0; i < n; ++i, from += row, to += width) {
    int64_t c = 0;
    for (; c + kL <= columns; c += kL) store(load<V>(from + c) * V(scale), to + c);
    for (; c < columns; ++c) to[c] = from[c] * scale;
    std::fill(to + columns, to + width, T(0));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#endif  // include guard
