// The bilinear layer.
#include "rill/nn/layers/common.h"
#include "rill/nn/layers/dense.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

Bilinear::Bilinear(int64_t out, const BilinearOptions& o, Where where)
    : name(o.name),
      out(checked_count("Bilinear", "out", out, where)),
      kernel(param(name, "kernel", o.kernel_initializer, where)),
      bias(param(name, "bias", o.bias_initializer, where, Kind::weight, o.use_bias)),
      activation(o.activation) {}

Tensor Bilinear::operator()(const Tensor& x, const Tensor& y, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  const Tensor a = call.in(x), b = call.in(y);
  const int64_t in1 = size_for(kernel, 0, 1, a, -1, "Bilinear", where);
  const int64_t in2 = size_for(kernel, 1, 1, b, -1, "Bilinear", where);
  const Tensor w = kernel({in1, in2, out}, call, Fans{double(in1) * double(in2), double(out)});
  return run.give(finish(bilinear(a, b, w), bias, activation, call, where));
}

}  // namespace rill::nn
