// The words of CUDA C++ for the host's compiler, so that tests run the text of kernels without a GPU. A function
// is called for each thread of a grid.
#pragma once
#include <cmath>
#include <cstring>

#define __global__

struct Dim3 {
  unsigned x, y, z;
};
inline thread_local Dim3 gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};
