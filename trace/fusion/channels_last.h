// Convolutions whose activations are [batch, channels, space...] run as fast as those of [batch, space..., channels],
// but for two things: each reorders its input and its result, and steps on the result cannot be its epilogue. So where
// one is traced, what is between such convolutions is computed with the channels last:
//
//   conv(x, w) + b  (NCHW)  ->  copy of transpose(conv(transpose(x), transpose(w)) + b')  (NHWC)
//
// and the copy is made only where something else reads the value. Bits are the same: the kernels of a convolution read
// either order through the same primitive, and elementwise ops and poolings compute each element by itself.
#pragma once
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

Graph channels_last(const Graph& g);

}  // namespace rill

#pragma GCC visibility pop
