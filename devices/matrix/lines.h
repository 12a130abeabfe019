// What each step of the reduction of a large matrix does with the trailing matrix: products of its rows with a vector,
// and sums of its rows. On one thread; reflections.h divides them.
//
// The bits of a sum depend only on its row or column: not on the instruction set, nor on which rows are passed in one
// call.
#pragma once
#include <cstdint>

namespace rill::cpu {

// y[i] = sum_j a[i * step + j] x[j], for i < rows, j < n: in partial sums of 128 bytes, as in gemm_dots.cpp.
void line_dots(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y);
void line_dots(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y);

// y[j] += x[i] a[i * step + j] for each i < rows in order, each rounded once.
void add_lines(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y);
void add_lines(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y);

}  // namespace rill::cpu
