// The vector loops of the reductions, one table for each instruction set (reduce_loops.cpp). reduce.cpp calls them and
// decides what is added to what: the loops only combine complete rows, column by column, so that the vector width
// changes no bits.
#pragma once
#include <cstdint>
#include <tuple>

namespace rill::cpu {

// A row that is passed to these loops has at least this many columns, a multiple of every vector's width.
inline constexpr int64_t min_row_width = 32;
inline constexpr int64_t rows_per_block = 32;
// A dense row of up to this many elements is one block: loops.lines() does all of its tree.
inline constexpr int64_t longest_line = rows_per_block * min_row_width;

template <class T>
struct ReduceLoops {
  // acc[c] = x[0][c] o x[1][c] o ... o x[rows-1][c], in this order, for c < width; rows >= 1 are `stride` apart.
  void (*block)(const T* x, int64_t stride, int64_t rows, int64_t width, T* acc);
  // acc[c] = acc[c] o x[c], for any width.
  void (*merge)(T* acc, const T* x, int64_t width);
  // Folds 32 lanes into one: lane i adds lane i+16, then i+8, ..., i+1.
  T (*fold)(const T* lanes);
  // out[r] = the complete tree over the dense row x[r * stride ...] of `n` elements, 1 <= n <= 1024 (one block), r <
  // rows.
  void (*lines)(const T* x, int64_t stride, int64_t rows, int64_t n, T* out);
  // acc = (b0 o b1) o (b2 o b3) of four blocks of 32 rows of 32 columns, all dense, each as by block(): interleaved,
  // because the additions of one block wait for each other. Or null.
  void (*four_blocks)(const T* x, T* acc);
  T identity;
  void (*four_of_many)(const T* x, T* acc) = nullptr;  // the same, within a far longer run
};

// The largest and the smallest of n >= 1 dense numbers, independent of the order; NaN and zeros as in max_f32.
template <class T>
struct Extremes {
  T (*largest)(const T* x, int64_t n);
  T (*smallest)(const T* x, int64_t n);
  int64_t (*find)(const T* x, int64_t n, T value);  // the index of the first such number; there is one
};

// Whether elements are true: those with any bit of `mask`.
template <class U>
struct Truths {
  bool (*run)(const U* x, int64_t n, U mask, bool all);  // all, or any, of n dense ones
  // The same for each of `width` columns, over rows that are `step` apart.
  void (*columns)(const U* x, int64_t step, int64_t rows, U mask, bool all, uint8_t* out);
  int64_t width;
};

// Sums and products of integers wrap around, so the signed type serves both. max and min give NaN if any is NaN, and
// order -0 below +0. For bools, as u8: max is `any`, min is `all`.
struct ReduceTables {
  ReduceLoops<float> sum_f32, prod_f32, max_f32, min_f32;
  ReduceLoops<double> sum_f64, prod_f64, max_f64, min_f64;
  ReduceLoops<int64_t> sum_i64, prod_i64, max_i64, min_i64;
  ReduceLoops<uint64_t> max_u64, min_u64;
  ReduceLoops<int32_t> max_i32, min_i32;
  ReduceLoops<uint32_t> max_u32, min_u32;
  ReduceLoops<int16_t> max_i16, min_i16;
  ReduceLoops<uint16_t> max_u16, min_u16;
  ReduceLoops<int8_t> max_i8, min_i8;
  ReduceLoops<uint8_t> max_u8, min_u8;
  // out[r] = the sum of x[r * stride + i]^2 for i < n, r < rows, in 32 lanes that are folded like those of `fold`.
  void (*square_rows_f32)(const float* x, int64_t stride, int64_t rows, int64_t n, double* out);
  void (*square_rows_f64)(const double* x, int64_t stride, int64_t rows, int64_t n, double* out);
  void (*square_f32)(const float* x, int64_t n, double* y);  // y[i] = x[i]^2
  // y[i] = (x[i] - from)^2
  void (*square_distances_f32)(const float* x, int64_t n, float from, float* y);
  void (*square_distances_f64)(const double* x, int64_t n, double from, double* y);
  std::tuple<Extremes<float>, Extremes<double>, Extremes<int8_t>, Extremes<int16_t>, Extremes<int32_t>,
             Extremes<int64_t>, Extremes<uint8_t>, Extremes<uint16_t>, Extremes<uint32_t>, Extremes<uint64_t>>
      extremes;
  std::tuple<Truths<uint8_t>, Truths<uint16_t>, Truths<uint32_t>, Truths<uint64_t>> truths;
  // The sum of n dense numbers, which wraps around.
  int64_t (*sum_i32)(const int32_t* x, int64_t n);
  int64_t (*sum_u32)(const uint32_t* x, int64_t n);
  int64_t (*sum_u8)(const uint8_t* x, int64_t n);
};
// For the processor this runs on.
const ReduceTables& reduce_tables();

}  // namespace rill::cpu
