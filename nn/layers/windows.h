// Sizes of windows, strides and dilations, checked when a layer is made.
#pragma once
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// A window of `axes` axes of space, given as one number for all or one each. Throws unless each is 1 or more.
Dims checked_window(const Dims& window, size_t axes, std::string_view op, const Where& where);
// Steps, one for all axes of space or one each.
Dims checked_steps(const Dims& steps, std::string_view op, std::string_view option, const Where& where);

}  // namespace rill::nn

#pragma GCC visibility pop
