// Which values can be an attribute of an op (full, pad) and need not be an operand.
#pragma once
#include "rill/devices/shape_params.h"
#include "rill/tensor/tensor.h"

namespace rill {

// Whether `value` is a C++ scalar; then `out` is that number, ready to be read as `dtype`.
bool constant_fill(const Tensor& value, DType dtype, FillValue& out);

// Throws, as numpy does, where `value` is a C++ integer that `dtype`, an integer's, cannot hold: it would wrap.
void check_fits(std::string_view op, const Tensor& value, DType dtype, const Where& where);

}  // namespace rill
