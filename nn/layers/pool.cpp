// Pooling.
#include "rill/nn/layers/pool.h"

#include "rill/nn/layers/windows.h"

namespace rill::nn {

MaxPool2D::MaxPool2D(const Dims& window, const Pool2DOptions& options, Where where)
    : window(checked_window(window, 2, "MaxPool2D", where)), options(options) {
  checked_steps(options.strides, "MaxPool2D", "a stride", where);
}

Tensor MaxPool2D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  return run.give(max_pool(call.in(x), window, {.strides = options.strides, .padding = options.padding}));
}

AvgPool2D::AvgPool2D(const Dims& window, const Pool2DOptions& options, Where where)
    : window(checked_window(window, 2, "AvgPool2D", where)), options(options) {
  checked_steps(options.strides, "AvgPool2D", "a stride", where);
}

Tensor AvgPool2D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  return run.give(avg_pool(call.in(x), window, {.strides = options.strides, .padding = options.padding}));
}

}  // namespace rill::nn
