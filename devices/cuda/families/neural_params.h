// Parameters of the kernels of neural.cuh that do not fold (fold_params.h has the others). NVRTC reads this file too.
#pragma once

namespace rill::cuda {

// Numbers around one axis, [outer, channels, inner]: x, and the gradient g, by element, the others by channel.
struct Normed {
  long long count, channels, inner;
  const char *x, *mean, *factor, *offset;
  char* y;
};
struct NormedGradient {
  long long count, channels, inner;
  const char *x, *g, *mean, *r, *factor, *mean_g, *mean_gh, *slope, *constant;
  char* y;
};

// By channel: the sums for the gradient of batch_norm, of n elements each.
struct ChannelGradients {
  long long channels, n;
  const char *scale_gradient, *offset_gradient, *r, *scale, *mean_gradient, *variance_gradient;
  char *factor, *mean_g, *mean_gh, *slope, *constant;
};

}  // namespace rill::cuda
