// Tensors of any strides as the Space of a kernel. Start at for_each_space.
#pragma once
#include <vector>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/shape.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// One operand of a kernel: its first element, and the bytes from one element to the next along each axis of the index
// space; 0 if it is broadcast along it.
struct StridedOperand {
  char* base = nullptr;
  Ints stride;
};

// The strides in bytes of `t`, whose axes are the last ones of an index space of this many.
StridedOperand strided_operand(const Tensor& t, size_t axes);

// A dense copy of `t`, or `t` itself if it is dense.
Tensor dense_copy(const Tensor& t);

// Whether the last `row_axes` axes are one run for every operand, as kernels that reduce rows need.
bool has_plain_rows(const Ints& sizes, const std::vector<StridedOperand>& operands, size_t row_axes);

// Calls `start` with the Spaces that cover the index space. It is one Space, unless there are more axes than a Space
// holds (after neighbours with one stride for every operand are joined), or more than 2^30 points (of maps) or rows.
// The last `row_axes` axes make a row, which a kernel reduces; maps have no_rows. Throws if there are more operands
// than a Space holds, or no plain rows.
inline constexpr int no_rows = -1;
void for_each_space(const Ints& sizes, const std::vector<StridedOperand>& operands, int row_axes,
                    const Callback<void(const Space&)>& start);

// For kernels that only copy elements of `size` bytes among the first `operands` of a Space: if rows are dense,
// joins several elements into points of up to 16 bytes. Returns the bytes of a point. `steps`: the bitwise or of all
// offsets, in bytes, that a kernel adds to the Space's addresses; points must be aligned there too.
size_t widen_points(Space& s, int operands, size_t size, uintptr_t steps = 0);

}  // namespace rill::cuda
