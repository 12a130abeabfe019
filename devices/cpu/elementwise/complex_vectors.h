// Products of complex numbers, and sizes of c64, in vectors; complex.cpp has their other loops.
#pragma once
#include <complex>

#include "rill/devices/cpu/elementwise/elementwise.h"

namespace rill::cpu {

// Of c64 computed in f64, where products of components are exact, and rounded once more. Of c128 in sums of two f64,
// which hold those products; what may leave their range, with wider components.
struct ComplexProducts {
  Loop multiply_c64, square_c64, multiply_c128, square_c128;
  Loop abs_c64;
  // products[c] = x[0][c] x[1][c] ... x[rows - 1][c] for c < width, rows being `step` numbers apart, one after the
  // other.
  void (*columns_c64)(const float* x, int64_t step, int64_t rows, int64_t width, float* products);
  void (*columns_c128)(const double* x, int64_t step, int64_t rows, int64_t width, double* products);
};
const ComplexProducts& complex_products();

// x y, as multiply_c128 has it.
std::complex<double> product_of_c128(std::complex<double> x, std::complex<double> y);

}  // namespace rill::cpu
