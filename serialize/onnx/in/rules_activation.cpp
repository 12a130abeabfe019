// Activations: functions of one element that networks end their layers with, and softmax.
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

Values elu_rule(const Call& c) { return {elu(c.x(), c.real("alpha", 1))}; }
Values celu_rule(const Call& c) { return {celu(c.x(), c.real("alpha", 1))}; }

Values selu_rule(const Call& c) {
  const double alpha = c.real("alpha", 1.67326319217681884765625), gamma = c.real("gamma", 1.05070102214813232421875);
  return {gamma * elu(c.x(), alpha)};
}

Values hard_sigmoid_rule(const Call& c) { return {clip(c.x() * c.real("alpha", 0.2f) + c.real("beta", 0.5), 0, 1)}; }
Values hard_swish_rule(const Call& c) {
  const Tensor x = c.x();
  return {x * clip(x * (1.0 / 6) + 0.5, 0, 1)};
}

Values shrink_rule(const Call& c) {
  const Tensor x = c.x();
  const double bias = c.real("bias", 0), lambd = c.real("lambd", 0.5);
  return {where(less(x, -lambd), x + bias, where(greater(x, lambd), x - bias, zeros_like(x))).astype(x.dtype())};
}

Values thresholded_relu_rule(const Call& c) {
  const Tensor x = c.x();
  return {where(greater(x, c.real("alpha", 1)), x, zeros_like(x))};
}

Values prelu_rule(const Call& c) {
  const Tensor x = c.x(0);
  Tensor slope = c.x(1);
  if (c.opset < 7 && slope.ndim() == 1 && slope.dim(0) != 1) slope = along_channels(slope, x.ndim());
  return {where(less(x, 0), x * slope, x)};
}

Values swish_rule(const Call& c) {
  const Tensor x = c.x();
  const double alpha = c.real("alpha", 1);
  return {alpha == 1 ? silu(x) : x * sigmoid(x * alpha)};
}

Values swiglu_rule(const Call& c) {
  const Tensor x = c.x(0);
  return {x * sigmoid(x * c.real("alpha", 1)) * c.x(1)};
}

// Before opset 13 all axes from `axis` on are flattened to one.
template <class F>
Tensor along_axis(const Call& c, F f) {
  const Tensor x = c.x();
  const int64_t axis = axis_of(c, c.integer("axis", c.opset < 13 ? 1 : -1), std::max(x.ndim(), 1));
  if (c.opset >= 13) return f(x, axis);
  Dim rows = 1, columns = 1;  // both explicitly: -1 would be ambiguous if the other is 0
  for (int64_t i = 0; i < x.ndim(); ++i) (i < axis ? rows : columns) *= x.shape()[size_t(i)];
  return reshape(f(reshape(x, {rows, columns}), 1), x.shape());
}
Values softmax_rule(const Call& c) {
  return {along_axis(c, [](const Tensor& x, int64_t axis) { return softmax(x, axis); })};
}
Values log_softmax_rule(const Call& c) {
  return {along_axis(c, [](const Tensor& x, int64_t axis) { return log_softmax(x, axis); })};
}
Values hardmax_rule(const Call& c) {
  return {along_axis(c, [](const Tensor& x, int64_t axis) {
    return one_hot(argmax(x, axis), x.dim(axis), {.axis = axis, .dtype = x.dtype()});
  })};
}

}  // namespace

const RuleTable& activation_rules() {
  static const RuleTable table = {
      {"Celu", {celu_rule}},
      {"Elu", {elu_rule}},
      {"Gelu", {[](const Call& c) { return Values{gelu(c.x(), c.text("approximate", "none") == "tanh")}; }}},
      {"HardSigmoid", {hard_sigmoid_rule}},
      {"HardSwish", {hard_swish_rule}},
      {"Hardmax", {hardmax_rule}},
      {"LeakyRelu", {[](const Call& c) { return Values{leaky_relu(c.x(), c.real("alpha", 0.01f))}; }}},
      {"LogSoftmax", {log_softmax_rule}},
      {"Mish", {[](const Call& c) { return Values{mish(c.x())}; }}},
      {"PRelu", {prelu_rule}},
      {"Relu", {[](const Call& c) { return Values{relu(c.x())}; }}},
      {"Selu", {selu_rule}},
      {"Shrink", {shrink_rule}},
      {"Sigmoid", {[](const Call& c) { return Values{sigmoid(c.x())}; }}},
      {"Softmax", {softmax_rule}},
      {"Softplus", {[](const Call& c) { return Values{softplus(c.x())}; }}},
      {"Softsign", {[](const Call& c) { return Values{softsign(c.x())}; }}},
      {"SwiGLU", {swiglu_rule}},
      {"Swish", {swish_rule}},
      {"Tanh", {[](const Call& c) { return Values{tanh(c.x())}; }}},
      {"ThresholdedRelu", {thresholded_relu_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
