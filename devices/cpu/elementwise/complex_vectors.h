// Products of complex numbers, and magnitudes of c64, in vectors; complex.cpp has their other loops.
#pragma once
#include <complex>

#include "rill/devices/cpu/elementwise/elementwise.h"

namespace rill::cpu {

// c64 is computed in f64, where products of components are exact, and rounded once. c128 is computed in sums of two
// f64, which represent those products; what may leave their range is computed with wider components.
struct ComplexProducts {
  Loop multiply_c64, square_c64, multiply_c128, square_c128;
  Loop abs_c64;
  // products[c] = x[0][c] x[1][c] ... x[rows - 1][c] for c < width, in this order; rows are `step` numbers apart.
  void (*columns_c64)(const float* x, int64_t step, int64_t rows, int64_t width, float* products);
  void (*columns_c128)(const double* x, int64_t step, int64_t rows, int64_t width, double* products);
};
const ComplexProducts& complex_products();

// x y, with the bits of multiply_c128.
std::complex<double> product_of_c128(std::complex<double> x, std::complex<double> y);

}  // namespace rill::cpu
