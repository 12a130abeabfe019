// What operands that hold indices must be.
#pragma once
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)  // librill_ops checks indices, too

namespace rill {

// Throws, as an error of `op`, unless `indices` are integers.
void require_integers(std::string_view op, const Tensor& indices, const Where& where);
// Throws, as an error of `op`, where an index is not in [0, size).
void require_bounds(std::string_view op, const Tensor& indices, Dim size, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
