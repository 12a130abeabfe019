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
// Of the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, over the sizes of `x` from its
// third axis on. `kernel`: where it is not an attribute.
Windows windows_of(const Call& c, const Shape& x, Dims kernel = {});
// Throws where the attribute kernel_shape is there and says something else than the weights.
void check_kernel_shape(const Call& c, const Dims& kernel);
// The elements that each window sees, one tensor for each place in the kernel, shaped as the result; `outside` is what
// lies beyond the edges.
std::vector<Tensor> seen_by(const Windows& w, const Tensor& x, const Tensor& outside);

}  // namespace rill::onnx_import
