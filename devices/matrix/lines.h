// What reducing a large matrix step by step does with all that remains of it at each step: products of its rows with a
// vector, and sums of its rows. One thread each; blocked_reduction.h divides them.
//
// A sum's bits depend on its row or column alone: not on the instruction set, nor on which rows are given together.
#pragma once
#include <cstdint>

namespace rill::cpu {

// y[i] = sum_j a[i * step + j] x[j], for i < rows, j < n: in running sums of 128 bytes, as in gemm_dots.cpp.
void line_dots(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y);
void line_dots(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y);

// y[j] += x[i] a[i * step + j] for each i < rows in order, each rounded once.
void add_lines(const float* a, int64_t step, int64_t rows, int64_t n, const float* x, float* y);
void add_lines(const double* a, int64_t step, int64_t rows, int64_t n, const double* x, double* y);

}  // namespace rill::cpu
