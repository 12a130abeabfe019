// Layers that change a shape, and those that join others.
#include "rill/nn/layers/shape.h"

#include "rill/nn/layers/common.h"

namespace rill::nn {

Tensor Flatten::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  return run.give(flatten(call.in(x), first, last));
}

Tensor Unflatten::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  return run.give(unflatten(call.in(x), axis, sizes));
}

Tensor Reshape::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  const Tensor in = call.in(x);
  if (in.ndim() < 1) fail("Reshape", to_string(in.spec()) + " has no axis of the batch", where);
  Shape to{in.dim(0)};
  Dim all = 1, others = 1;
  for (int64_t i = 1; i < in.ndim(); ++i) all = all * in.dim(i);
  for (Dim size : sizes)
    if (size != -1) others = others * size;
  // An empty batch does not determine -1, and the other axes do.
  for (Dim size : sizes) to.push_back(size == -1 && others > 0 && all % others == 0 ? all / others : size);
  return run.give(reshape(in, to));
}

Tensor Permute::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  return run.give(transpose(call.in(x), axes));
}

RepeatVector::RepeatVector(int64_t times, Where where) : times(checked_count("RepeatVector", "times", times, where)) {}
Tensor RepeatVector::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  const Tensor in = call.in(x);
  if (in.ndim() < 1) fail("RepeatVector", to_string(in.spec()) + " has no axis of the batch", where);
  Shape to = in.shape();
  to.insert(1, Dim(times));
  return run.give(broadcast_to(expand_dims(in, 1), to));
}

Tensor Identity::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(call.in(x));
}

Tensor Masking::mask(const Tensor& x, Where where) const {
  const CallerScope caller(where);
  return any_of(x);
}
Tensor Masking::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, "", where);
  const Tensor in = call.in(x);
  return run.give(rill::where(expand_dims(any_of(in), -1), in, 0));
}
Tensor Masking::any_of(const Tensor& x) const { return rill::any(x != full({}, value, {x.dtype(), x.device()}), {-1}); }

Concat::Concat(std::vector<AnyLayer> layers, Axis axis, std::string name, Where where)
    : layers(std::move(layers)), axis(axis), name(std::move(name)) {
  if (this->layers.empty()) fail("Concat", "there are no layers whose results could be joined", where);
}
Tensor Concat::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  std::vector<Tensor> parts;
  for (const AnyLayer& layer : layers) parts.push_back(layer(x, call, where));
  return run.give(concat(parts, axis));
}

Tensor Residual::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give((shortcut ? shortcut(x, call, where) : call.in(x)) + layer(x, call, where));
}

Tensor TimeDistributed::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  if (x.ndim() < 2) fail("TimeDistributed", to_string(x.spec()) + " is not [batch, steps, ...]", where);
  const Dim batch = x.dim(0), steps = x.dim(1);
  const Tensor y = layer(flatten(x, 0, 1), call, where);
  Shape to{batch, steps};
  for (size_t i = 1; i < y.shape().size(); ++i) to.push_back(y.shape()[i]);
  return run.give(reshape(y, to));
}

}  // namespace rill::nn
