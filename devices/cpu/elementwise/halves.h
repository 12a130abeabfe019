// Converts dense runs between f32 and the halves, in vectors. Used by convert_run() and by kernels that compute halves
// in f32.
#pragma once
#include <cstddef>

#include "rill/tensor/dtype.h"

namespace rill::cpu {

void convert_halves(const Half* in, float* out, size_t n);
void convert_halves(const BFloat16* in, float* out, size_t n);
void convert_halves(const float* in, Half* out, size_t n);
void convert_halves(const float* in, BFloat16* out, size_t n);

}  // namespace rill::cpu
