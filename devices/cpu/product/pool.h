// Pooling of f32 tensors in NHWC, a vector of channels at a time (pool_rows.cpp); pool.cpp computes the rest.
#pragma once
#include "rill/devices/params/conv_params.h"

namespace rill::cpu {

// The operands of a dense NHWC kernel. `x` and `y` have the shapes of the pooling's input and output.
struct PoolJob {
  Sliding s;
  bool count_include_pad;
  const float* x = nullptr;  // max: the values that are compared; averages: the input
  const float* y = nullptr;  // gradients: the cotangent; pick: the input-shaped values to pick from
  float* out = nullptr;
};
// How many elements of a window are summed in order, before the sums of such blocks are: a sum of ones in one float
// would stop at 2^24.
constexpr int64_t window_block = 1024;

void max_pool_rows(const PoolJob& job);
void max_pool_grad_rows(const PoolJob& job);
void max_pool_pick_rows(const PoolJob& job);
void avg_pool_rows(const PoolJob& job);
void avg_pool_grad_rows(const PoolJob& job);

}  // namespace rill::cpu
