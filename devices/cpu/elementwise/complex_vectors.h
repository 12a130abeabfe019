// Products of c64 in vectors; complex.cpp has all other loops of complex numbers.
#pragma once
#include "rill/devices/cpu/elementwise/elementwise.h"

namespace rill::cpu {

// Computed in f64, where products of components are exact, and rounded once more.
struct ComplexProducts {
  Loop multiply, square;
};
const ComplexProducts& complex_products();

}  // namespace rill::cpu
