// Convolutions whose activations are [batch, channels, space...] run as fast as those of [batch, space..., channels],
// except that each reorders its input and its result, and that steps on the result cannot be its epilogue. So in traced
// graphs the values between such convolutions are computed with the channels last:
//
//   conv(x, w) + b  (NCHW)  ->  copy of transpose(conv(transpose(x), transpose(w)) + b')  (NHWC)
//
// and the copy is only made if something else reads the value. The bits are the same: the kernels of a convolution read
// either order through the same primitive, and elementwise ops and poolings compute each element by itself.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

Graph channels_last(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
