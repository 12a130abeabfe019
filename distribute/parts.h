// Tensors of which each rank has a part along an axis, and gradients that are means. Meshes, sequences, layers and sharded
// tensors are made of these.
#pragma once
#include "rill/distribute/collectives.h"

namespace rill::distribute {

// This rank's part of x, which all have whole. The axis is a multiple of the ranks.
Tensor own_part(const Tensor& x, size_t axis, const Group& group, const Where& where);
// The whole of which each rank has such a part.
Tensor joined_parts(const Tensor& part, size_t axis, const Group& group, const Where& where);
// This rank's part of the sum over ranks.
Tensor summed_part(const Tensor& x, size_t axis, const Group& group, const Where& where);
// Parts that stand along the first axis, one behind the other along `axis` of the rest.
Tensor merged_from_front(const Tensor& parts, size_t axis);

// x, whose gradient is divided by n: that of a mean over ranks.
Tensor with_mean_gradient(const Tensor& x, int64_t n);

}  // namespace rill::distribute
