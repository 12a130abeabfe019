// Parameters of the kernels of special.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// The operands, followed by the results, all of one dtype.
struct Points {
  Space space;
  int dtype;  // of floats: 0 f16, 1 bf16, 2 f32, 3 f64
};

}  // namespace rill::cuda
