// Convolutions.
#include "rill/nn/layers/conv.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/nn/layers/windows.h"

namespace rill::nn {

Conv2D::Conv2D(int64_t out, const Dims& window, const Conv2DOptions& o, Where where)
    : name(o.name),
      out(checked_count("Conv2D", "out", out, where)),
      window(checked_window(window, 2, "Conv2D", where)),
      options{.strides = checked_steps(o.strides, "Conv2D", "a stride", where),
              .padding = o.padding,
              .dilation = checked_steps(o.dilation, "Conv2D", "a dilation", where),
              .groups = checked_count("Conv2D", "groups", o.groups, where)},
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation) {}

Conv2D::Conv2D(int64_t in, int64_t out, const Dims& window, const Conv2DOptions& o, Where where)
    : Conv2D(out, window, o, where) {
  CallerScope caller(where);
  kernel.make(kernel_shape(in, where));
  if (bias) bias.make({out});
}

Shape Conv2D::kernel_shape(int64_t in, const Where& where) const {
  if (in % options.groups != 0 || out % options.groups != 0)
    fail("Conv2D", fmt::format("{} channels in and {} out do not both divide into {} groups", in, out, options.groups),
         where);
  Shape shape(window);
  shape.push_back(in / options.groups);
  shape.push_back(out);
  return shape;
}

Tensor Conv2D::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  const Tensor in = call.in(x);
  const Tensor y = conv2d(in, kernel(kernel_shape(known_size(in, -1, "Conv2D", where), where), call), options);
  return run.give(finish(y, bias, activation, call, where));
}

}  // namespace rill::nn
