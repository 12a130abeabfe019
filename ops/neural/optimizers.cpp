// The step of an optimizer as one op: composed functions would read and write large parameters several times.
#include "rill/devices/params/nn_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"

namespace rill {

namespace {

OutSpecs infer_adam(const InferArgs& args) {
  const auto& p = args.attrs.as<AdamParams>();
  require_fraction("adam_update", "beta1", p.beta1, args.where);
  require_fraction("adam_update", "beta2", p.beta2, args.where);
  require_not_negative("adam_update", "epsilon", p.epsilon, args.where);
  static constexpr std::string_view names[] = {"value", "m", "v", "gradient", "rate", "correction", "decay"};
  for (int i = 1; i < 7; ++i) {
    const Shape expected = i < 4 ? args[0].shape : Shape();
    if (args[i].shape != expected || args[i].dtype != args[0].dtype)
      args.reject(std::string(names[i]) + " must be " + std::string(name(args[0].dtype)) + to_string(expected));
  }
  Spec out = args[0];
  out.weak = false;
  return {out, out, out};
}

// Rows with their own rates are computed by the formula.
Tensors batch_adam(const BatchArgs& a) {
  const auto& p = a.attrs.as<AdamParams>();
  Tensors in;
  for (size_t i = 0; i < 4; ++i) in.push_back(with_batch(a, i));
  if (!a.batched[4] && !a.batched[5] && !a.batched[6])
    return apply(a.op, {&in[0], &in[1], &in[2], &in[3], &a.in[4], &a.in[5], &a.in[6]}, p, a.where);
  Shape column(in[0].shape().size(), 1);
  column[0] = a.size;
  const auto number = [&](size_t i) { return a.batched[i] ? reshape(a.in[i], column) : a.in[i]; };
  const Tensor m = p.beta1 * in[1] + (1 - p.beta1) * in[3], v = p.beta2 * in[2] + (1 - p.beta2) * square(in[3]);
  return {(1 - number(6)) * in[0] - number(4) * m / (sqrt(v) * number(5) + p.epsilon), m, v};
}

std::vector<Sample> adam_samples() {
  auto sample = [](const Shape& shape, AdamParams params) {
    return Sample{{samples::uniform(shape), samples::uniform(shape, -1, 1, 2), samples::uniform(shape, 0, 1, 3),
                   samples::uniform(shape, -1, 1, 4), samples::values({0.01}, {}), samples::values({1.5}, {}),
                   samples::values({0.001}, {})},
                  params};
  };
  return {sample({5}, {}), sample({3, 37}, {0.5, 0.9, 1e-3}), sample({}, {}), sample({0, 4}, {})};
}

// As Algorithm 1 of Kingma and Ba ("Adam: A Method for Stochastic Optimization", 2015), with rate = lr / (1 - beta1^t)
// and correction = 1 / sqrt(1 - beta2^t); decay is that of Loshchilov and Hutter ("Decoupled Weight Decay", 2019).
const Op adam_op({
    .name = "adam_update",
    .doc = "m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2; "
           "value' = (1 - decay) value - rate m' / (sqrt(v') correction + epsilon)",
    .dtypes = one_of({DType::f32, DType::f64}),
    .inputs = 7,
    .outputs = 3,
    .infer = infer_adam,
    .no_gradient = "an update of parameters is the end of a step",
    .batch = batch_adam,
    .cpu = cpu::adam_update,
    .ref = ref::adam_update,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .may_overwrite = [](AttrsView, size_t i, const Spec&) { return i < 4; },
    .samples = adam_samples,
    .max_ulp = 2,
});

}  // namespace

AdamUpdate adam_update(const Tensor& value, const Tensor& m, const Tensor& v, const Tensor& gradient,
                       const Tensor& rate, const Tensor& correction, const Tensor& decay, const AdamParams& params,
                       Where where) {
  Tensors out = apply(adam_op, {&value, &m, &v, &gradient, &rate, &correction, &decay}, params, where);
  return {out[0], out[1], out[2]};
}

}  // namespace rill
