// What the initializers of matrices share.
#pragma once
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)  // librill has some of the initializers, librill_nn the others

namespace rill::nn {

// A kernel of this shape, [space..., in, out], that is `matrix` at its centre and 0 elsewhere.
Tensor at_centre(const Shape& kernel, const Tensor& matrix);
// Throws, as an error of `op`, for a shape of fewer than two axes.
void require_matrix(std::string_view op, const Shape& shape);

}  // namespace rill::nn

#pragma GCC visibility pop
