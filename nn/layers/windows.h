// Sizes of windows, strides and dilations, checked when a layer is made; padding with other than zeros.
#pragma once
#include "rill/nn/initializers.h"
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// The argument for a window: {3, 3}, {3}, or Dims. A list of options does not convert to it (tensor/shape.h says why).
class Window : public Axes {
 public:
  using Axes::Axes;
};
// Layers whose first argument is a window also accept an array, which braces prefer to anything else: {2} alone could
// be a Window or a layer of one.
template <is_axis I, size_t n>
Window window_of(const I (&sizes)[n]) {
  return Dims(sizes, sizes + n);
}

// A window of `axes` axes of space, given as one number for all or one each. Throws unless each is 1 or more.
Dims checked_window(const Dims& window, size_t axes, std::string_view op, const Where& where);
// Steps, one for all axes of space or one each.
Dims checked_steps(const Dims& steps, std::string_view op, std::string_view option, const Where& where);

// The number of inputs of each output of a convolution, and of outputs of each input.
Fans window_fans(const Dims& window, int64_t in, int64_t out, int64_t groups);

// x, [batch, space..., channels], with the padding of a convolution filled with its own elements.
Tensor padded_space(const Tensor& x, PadMode mode, const SpacePadding& padding, const Dims& window, const Dims& strides,
                    const Dims& dilation, const Where& where);

}  // namespace rill::nn

#pragma GCC visibility pop
