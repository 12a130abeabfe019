// Which fill values can be an attribute of an op (full, pad), so that they need not be an operand.
#pragma once
#include <string>

#include "rill/devices/params/shape_params.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// Whether `value` is a C++ scalar, or an open size; then `out` is that number, ready to be read as `dtype`.
bool constant_fill(const Tensor& value, DType dtype, FillValue& out);
// Whether `value` stands for an open size that was given where a C++ scalar may stand.
bool is_open_size(const Tensor& value, Dim& out);
// A 0-d tensor of this size, which is right for every size that an open one may have.
Tensor size_tensor(Dim size, DType dtype, Device device, bool weak, const Where& where);

// Whether `dtype` holds the number, which is cut to a whole one for integers'; only those can fail to.
bool holds(DType dtype, double number);
bool holds(DType dtype, int64_t number);
bool holds(DType dtype, uint64_t number);
[[noreturn]] void fail_unheld(std::string_view op, const std::string& number, DType dtype, const Where& where);

// Throws, as numpy does, where `value` is a C++ integer that `dtype`, an integer's, cannot hold: it would wrap.
void check_fits(std::string_view op, const Tensor& value, DType dtype, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
