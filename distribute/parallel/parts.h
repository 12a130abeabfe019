// Tensors that are split along an axis over ranks, and gradients that are means. Used by meshes, sequences, layers and
// sharded tensors.
#pragma once
#include "rill/distribute/collectives.h"

namespace rill::distribute {

// This rank's part of x, which is complete on all ranks. The axis is a multiple of the ranks.
Tensor own_part(const Tensor& x, size_t axis, const Group& group, const Where& where);
// The full tensor of which each rank has such a part.
Tensor joined_parts(const Tensor& part, size_t axis, const Group& group, const Where& where);
// This rank's part of the sum over ranks.
Tensor summed_part(const Tensor& x, size_t axis, const Group& group, const Where& where);
// Parts along the first axis, concatenated along `axis` of the rest.
Tensor merged_from_front(const Tensor& parts, size_t axis);

// x with its gradient divided by n: that of a mean over ranks.
Tensor with_mean_gradient(const Tensor& x, int64_t n);

}  // namespace rill::distribute
