// Windows that slide over space, as ONNX describes them: shared by convolutions and poolings.
#pragma once
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {

// One entry an axis of space.
struct Windows {
  Dims kernel, strides, dilation, lo, hi;
  Dims out;  // how many
  SpacePadding padding() const;
};
// From the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, over the sizes of `x` from its
// third axis on. `kernel`: if it is not an attribute.
Windows windows_of(const Call& c, const Shape& x, Dims kernel = {});
// Throws if the attribute kernel_shape differs from the shape of the weights.
void check_kernel_shape(const Call& c, const Dims& kernel);
// The elements in each window, one tensor for each element of the kernel, shaped as the result; `outside` is the value
// beyond the edges.
std::vector<Tensor> window_elements(const Windows& w, const Tensor& x, const Tensor& outside);

}  // namespace rill::onnx_import
