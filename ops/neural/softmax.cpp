// softmax and log_softmax. Each has a record for its gradient, so that the backward pass reads and writes
// memory once; the gradients' own rules are composed of public functions.
#include "rill/devices/params/nn_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/record_row.h"
#include "rill/ops/jvp_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/samples.h"

namespace rill {

namespace {

OutSpecs infer_softmax(const InferArgs& args) {
  args.check_axis(args.attrs.as<SoftmaxParams>().axis);
  Spec out = args[0];
  out.weak = false;
  return {out};
}

// The operands of a gradient: the op's result, and the cotangent.
OutSpecs infer_softmax_grad(const InferArgs& args) {
  OutSpecs out = infer_softmax(args);
  if (args[1].shape != args[0].shape || args[1].dtype != args[0].dtype)
    args.reject("the cotangent is not of the result's shape and dtype");
  return out;
}

std::vector<Sample> softmax_samples() {
  return {{{samples::uniform({3, 7})}, SoftmaxParams{1}},          {{samples::uniform({3, 7})}, SoftmaxParams{0}},
          {{samples::uniform({2, 5, 3})}, SoftmaxParams{1}},       {{samples::uniform({40}, -6, 6)}, SoftmaxParams{0}},
          {{samples::uniform({2, 131}, -9, 9)}, SoftmaxParams{1}}, {{samples::uniform({4, 1})}, SoftmaxParams{1}},
          {{samples::uniform({0, 3})}, SoftmaxParams{1}},          {{samples::uniform({3, 0})}, SoftmaxParams{1}}};
}

std::vector<Sample> grad_samples(double lo, double hi) {
  auto sample = [&](const Shape& shape, int64_t axis) {
    return Sample{{samples::uniform(shape, lo, hi), samples::uniform(shape, -2, 2, 2)}, SoftmaxParams{axis}};
  };
  return {sample({3, 7}, 1), sample({3, 7}, 0), sample({2, 5, 3}, 1), sample({2, 131}, 1), sample({0, 3}, 1)};
}

int last_axis_row(const Spec& x, AttrsView attrs) {
  return attrs.as<SoftmaxParams>().axis + 1 == x.shape.ndim() ? 1 : 0;
}

extern const Op softmax_grad_op, log_softmax_grad_op;

// dx = y (g - sum(g y)). A symmetric matrix maps g to dx, so it maps the second cotangent back as well.
const Op softmax_op({
    .name = "softmax",
    .doc = "softmax(x)_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x)), along one axis",
    .infer = infer_softmax,
    .vjp =
        [](const VjpArgs& a) {
          return Tensors{apply1(softmax_grad_op, {&a.out[0], &a.cotangent[0]}, a.attrs, Where::current())};
        },
    .saves_out = save(0),
    .jvp = self_adjoint,
    .batch = batch_axes<&SoftmaxParams::axis>,
    .cpu = cpu::softmax,
    .ref = ref::softmax,
    .wants_contiguous = true,
    .row_rank = last_axis_row,
    .record_row = record_row<HWY_NAMESPACE::SoftmaxRow>,
    .samples = softmax_samples,
    .max_ulp = 16,  // far below the largest: the rounding error of x - max(x) counts in full
    .exported = {"Softmax", "Softmax"},
});

const Op softmax_grad_op({
    .name = "softmax_grad",
    .doc = "y_i (g_i - sum_j g_j y_j), the gradient of softmax from its result y and the cotangent g",
    .inputs = 2,
    .infer = infer_softmax_grad,
    .vjp =
        [](const VjpArgs& a) {
          const Tensor &y = a.in[0], &g = a.in[1], &c = a.cotangent[0];
          const Axes axis(a.attrs.as<SoftmaxParams>().axis);
          Tensor dy;
          const auto mean = [&](const Tensor& t) { return sum(multiply_no_nan(y, t), axis, true); };
          if (a.needs(0)) dy = c * (g - mean(g)) - multiply_no_nan(mean(c), g);
          return Tensors{dy, apply1(softmax_grad_op, {&y, &c}, a.attrs, Where::current())};
        },
    .saves_in = save(0) | save(1),
    .linear_in = save(1),
    .batch = batch_axes<&SoftmaxParams::axis>,
    .cpu = cpu::softmax_grad,
    .ref = ref::softmax_grad,
    .wants_contiguous = true,
    .row_rank = last_axis_row,
    .record_row = record_row<HWY_NAMESPACE::SoftmaxGradRow>,
    .samples = [] { return grad_samples(0.05, 0.4); },
    .norm_tolerance = 2,
});

const Op log_softmax_op({
    .name = "log_softmax",
    .doc = "log_softmax(x)_i = x_i - max(x) - log(sum_j exp(x_j - max(x))), along one axis",
    .infer = infer_softmax,
    .vjp =
        [](const VjpArgs& a) {
          return Tensors{apply1(log_softmax_grad_op, {&a.out[0], &a.cotangent[0]}, a.attrs, Where::current())};
        },
    .saves_out = save(0),
    .jvp =
        [](const JvpArgs& a) {
          const Axes axis(a.attrs.as<SoftmaxParams>().axis);
          return Tensors{a.tangent[0] - sum(multiply_no_nan(exp(a.out[0]), a.tangent[0]), axis, true)};
        },
    .batch = batch_axes<&SoftmaxParams::axis>,
    .cpu = cpu::log_softmax,
    .ref = ref::log_softmax,
    .wants_contiguous = true,
    .row_rank = last_axis_row,
    .record_row = record_row<HWY_NAMESPACE::LogSoftmaxRow>,
    .samples = softmax_samples,
    .max_ulp = 4,
    .exported = {"LogSoftmax", "LogSoftmax"},
});

const Op log_softmax_grad_op({
    .name = "log_softmax_grad",
    .doc = "g_i - exp(y_i) sum_j g_j, the gradient of log_softmax from its result y and the cotangent g",
    .inputs = 2,
    .infer = infer_softmax_grad,
    .vjp =
        [](const VjpArgs& a) {
          const Tensor &y = a.in[0], &g = a.in[1], &c = a.cotangent[0];
          const Axes axis(a.attrs.as<SoftmaxParams>().axis);
          const Tensor cp = multiply_no_nan(exp(y), c);
          return Tensors{-multiply_no_nan(cp, sum(g, axis, true)), c - sum(cp, axis, true)};
        },
    .saves_in = save(0) | save(1),
    .linear_in = save(1),
    .batch = batch_axes<&SoftmaxParams::axis>,
    .cpu = cpu::log_softmax_grad,
    .ref = ref::log_softmax_grad,
    .wants_contiguous = true,
    .row_rank = last_axis_row,
    .record_row = record_row<HWY_NAMESPACE::LogSoftmaxGradRow>,
    .samples = [] { return grad_samples(-4, -1); },
    .norm_tolerance = 2,
});

Tensor along_axis(const Op& op, const Tensor& x, int64_t axis, const Where& where) {
  CallerScope caller(where, op.name.data());
  const Tensor floating = astype(x, to_floating(x.dtype()), where);
  return apply1(op, {&floating}, SoftmaxParams{normal_axis(axis, x, op.name, where)}, where);
}

}  // namespace

Tensor softmax(const Tensor& x, Axis axis, Where where) { return along_axis(softmax_op, x, axis, where); }
Tensor log_softmax(const Tensor& x, Axis axis, Where where) { return along_axis(log_softmax_op, x, axis, where); }

}  // namespace rill
