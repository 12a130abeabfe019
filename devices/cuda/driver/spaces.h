// How tensors of any strides become the Space of a kernel.
#pragma once
#include <vector>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/shape.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// One operand of a kernel: its first element, and the bytes from one element to the next along each axis of the index
// space; 0 where it does not move.
struct Placed {
  char* base = nullptr;
  Ints stride;
};

// The strides in bytes of `t`, whose axes are the last ones of an index space of so many.
Placed placed(const Tensor& t, size_t axes);

// The same elements, dense, where `t` is.
Tensor dense_copy(const Tensor& t);

// Whether the last `row_axes` axes are one run for every operand, as kernels that reduce rows need.
bool has_plain_rows(const Ints& sizes, const std::vector<Placed>& operands, size_t row_axes);

// Calls `start` with the Spaces that cover the index space; one but where it has more axes than a Space holds, after
// neighbours that every operand walks as one are joined, or more points (of maps) or rows than 2^30. The last `row_axes` axes make a row, which a kernel reduces;
// no_rows: of maps, where it does not matter. Throws where there are more operands than a Space holds, or no plain
// rows.
inline constexpr int no_rows = -1;
void for_each_space(const Ints& sizes, const std::vector<Placed>& operands, int row_axes,
                    const Callback<void(const Space&)>& start);

// For kernels that only move the first `operands` of a Space, elements of `size` bytes: where their rows are dense,
// makes its points words of up to 16 bytes. Returns the bytes of a point. `steps`: the bits of all distances, in bytes,
// that a kernel adds to the Space's places, which words must divide too.
size_t widen_points(Space& s, int operands, size_t size, uintptr_t steps = 0);

}  // namespace rill::cuda
