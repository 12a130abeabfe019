// Parameters of the kernels of pools.cuh. NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Windows over dense tensors: [batch, space, channels] or [batch, channels, space].
struct Windows {
  const char *x, *other;  // other: a cotangent, or the tensor that max_pool_pick picks from
  char *out, *chosen;     // chosen: of each window, the index in space of its largest element
  long long batch, channels;
  long long in[3], out_size[3], window[3], stride[3], lo[3];
  long long inside_all;  // averages: what to divide by; 0: by the window's elements that are no padding
  int channels_last;
};

}  // namespace rill::cuda
