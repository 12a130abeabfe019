// Operators of the domain com.microsoft, which onnxruntime's own tools write: fused products, activations and norms, and
// quantised operators. Most are the standard operator on other operands; as() runs that.
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/quantised.h"

namespace rill::onnx_import {

Rule dynamic_lstm();  // rules_recurrent.cpp

namespace {

// The result of the standard operator `op` for these operands, with the node's attributes.
Values as(const Call& c, const char* op, const Values& in, int64_t opset = 13) {
  Call standard(c.program, c.node, c.scope, opset);
  standard.in = in;
  return find_rule("", op)->run(standard);
}
Value operand(const Call& c, size_t i) { return i < c.in.size() ? c.in[i] : Value(); }

// --- Products --------------------------------------------------------------------------------------------------------

Tensor activated(const Call& c, const Tensor& x) {
  const std::string name = c.text("activation", "");
  const std::vector<double> p = c.reals("activation_params");
  const auto number = [&](size_t i, double otherwise) { return i < p.size() ? p[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu") return relu(x);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "Tanh") return tanh(x);
  if (name == "LeakyRelu") return leaky_relu(x, c.real("activation_alpha", number(0, 0.01)));
  if (name == "Clip") return clip(x, number(0, 0), number(1, 6));
  if (name == "HardSigmoid")
    return clip(c.real("activation_alpha", number(0, 0.2)) * x + c.real("activation_beta", number(1, 0.5)), 0, 1);
  if (name == "Elu") return elu(x, c.real("activation_alpha", number(0, 1)));
  if (name == "Softplus") return softplus(x);
  if (name == "Softsign") return softsign(x);
  c.reject("an unknown activation, '" + name + "'");
}
Values fused_conv_rule(const Call& c) {
  Tensor y = as(c, "Conv", {operand(c, 0), operand(c, 1), operand(c, 2)})[0].tensor;
  if (c.has(3)) y = y + c.x(3);
  return {activated(c, y)};
}
Values fused_gemm_rule(const Call& c) {
  return {activated(c, as(c, "Gemm", {operand(c, 0), operand(c, 1), operand(c, 2)})[0].tensor)};
}
Values fused_matmul_rule(const Call& c) {
  if (c.flag("transBatchA") || c.flag("transBatchB")) c.reject("batches behind the rows (transBatchA) are not known");
  const auto turned = [&](size_t i, const char* flag) {
    return c.flag(flag) && c.x(i).ndim() > 1 ? matrix_transpose(c.x(i)) : c.x(i);
  };
  const Tensor y = matmul(turned(0, "transA"), turned(1, "transB"));
  const double alpha = c.real("alpha", 1);
  return {alpha == 1 ? y : (y * alpha).astype(y.dtype())};
}

// --- Activations and norms -------------------------------------------------------------------------------------------

Values bias_gelu_rule(const Call& c) { return {gelu(c.x(0) + c.x(1), false)}; }
Values fast_gelu_rule(const Call& c) { return {gelu(c.has(1) ? c.x(0) + c.x(1) : c.x(0), true)}; }
Values quick_gelu_rule(const Call& c) {
  const Tensor x = c.x();
  return {x * sigmoid(x * c.real("alpha", 1.702f))};
}
// The sum of two operands and a bias, which is the last result. The mean and the factor between are for training.
Tensor skip_sum(const Call& c, size_t bias) {
  const Tensor sum = c.x(0) + c.x(1);
  return c.has(bias) ? sum + c.x(bias) : sum;
}
double skip_epsilon(const Call& c) { return c.real("epsilon", 1e-12f); }
Values skip_layer_norm_rule(const Call& c) {
  const Tensor sum = skip_sum(c, 4), scale = c.x(2);
  return {layer_norm(sum, scale, c.x_or(3, zeros_like(scale)), {.epsilon = skip_epsilon(c)}), Value(), Value(), sum};
}
Values skip_rms_norm_rule(const Call& c) {
  const Tensor sum = skip_sum(c, 3), wide = is_half(sum.dtype()) ? sum.astype(f32) : sum;
  const Tensor y = wide * rsqrt(mean(square(wide), -1, true) + skip_epsilon(c));
  return {y.astype(sum.dtype()) * c.x(2), Value(), Value(), sum};
}

// --- Quantised -------------------------------------------------------------------------------------------------------

// Operand i with the scale and the zero point after it, as numbers.
Tensor number(const Call& c, size_t i) {
  const Tensor x = c.x(i);
  return restored(x, reshape(c.x(i + 1), {}), c.has(i + 2) ? reshape(c.x(i + 2), {}) : full({}, 0, x.dtype()));
}
// `y` quantised by the scale that is operand i and the zero point after it.
Tensor in_integers(const Call& c, const Tensor& y, size_t i, DType otherwise) {
  const Tensor zero = c.has(i + 1) ? reshape(c.x(i + 1), {}) : full({}, 0, otherwise);
  return quantised(y, reshape(c.x(i), {}), zero, zero.dtype());
}
Values q_add_rule(const Call& c) { return {in_integers(c, number(c, 0) + number(c, 3), 6, c.x(0).dtype())}; }
Values q_multiply_rule(const Call& c) { return {in_integers(c, number(c, 0) * number(c, 3), 6, c.x(0).dtype())}; }
Values q_sigmoid_rule(const Call& c) { return {in_integers(c, sigmoid(number(c, 0)), 3, c.x(0).dtype())}; }
Values q_leaky_relu_rule(const Call& c) {
  return {in_integers(c, leaky_relu(number(c, 0), c.real("alpha", 0.01f)), 3, c.x(0).dtype())};
}
Values q_softmax_rule(const Call& c) {
  const int64_t opset = c.integer("opset", 13);
  return {in_integers(c, as(c, "Softmax", {number(c, 0)}, opset)[0].tensor, 3, c.x(0).dtype())};
}
Values q_concat_rule(const Call& c) {
  Values parts;
  for (size_t i = 2; i + 2 < c.in.size(); i += 3) parts.emplace_back(number(c, i));
  if (parts.empty()) c.reject("joins nothing");
  return {in_integers(c, as(c, "Concat", parts)[0].tensor, 0, c.x(2).dtype())};
}
Values q_pool(const Call& c, const char* op) {
  const bool last = c.flag("channels_last");
  const Tensor x = last ? channels_first(number(c, 0)) : number(c, 0);
  const Tensor y = as(c, op, {x})[0].tensor;
  return {in_integers(c, last ? channels_last(y) : y, 3, c.x(0).dtype())};
}
Values q_average_pool_rule(const Call& c) { return q_pool(c, "AveragePool"); }
Values q_global_pool_rule(const Call& c) { return q_pool(c, "GlobalAveragePool"); }

// An operand with its zero point, which is operand `zero` if there is one.
Centred centred_operand(const Call& c, size_t i, size_t zero) {
  return centred(c, i, zero, [](const Tensor& z, const Tensor&) { return z.size() == 1 ? reshape(z, {}) : z; });
}
Tensor by_row(const Tensor& z, const Tensor&) { return z.size() == 1 ? reshape(z, {}) : expand_dims(z, 1); }
// A, B and C are integers, C those of the product; so is the result, or f32 if it has no scale.
Values q_gemm_rule(const Call& c) {
  Centred a = centred_operand(c, 0, 2);
  if (c.flag("transA")) a = transposed(a);
  // One scale and zero point, or one for each column of the product.
  const auto by_column = [&](const Tensor& v) { return v.size() == 1 ? reshape(v, {}) : v; };
  const bool turned = c.flag("transB");
  Centred b = turned ? transposed(centred(c, 3, 5, by_row)) : centred_operand(c, 3, 5);
  Tensor sum = exact_matmul(a, b).astype(f64);
  if (c.has(6)) sum = sum + c.x(6).astype(f64);
  const Tensor y = sum * (c.real("alpha", 1) * reshape(c.x(1), {}).astype(f64) * by_column(c.x(4)).astype(f64));
  if (!c.has(7)) return {y.astype(f32)};
  return {in_integers(c, y, 7, c.x(0).dtype())};
}
// Integers by integers with scales: operands A, B, their scales, their zero points, and a bias.
Values matmul_to_float_rule(const Call& c) {
  const Tensor y = exact_matmul(centred_operand(c, 0, 4), centred_operand(c, 1, 5)).astype(f64);
  const Tensor numbers = (y * (c.x(2).astype(f64) * c.x(3).astype(f64))).astype(c.x(2).dtype());
  return {c.has(6) ? numbers + c.x(6) : numbers};
}
Values dynamic_matmul_rule(const Call& c) {
  const Bytes a = bytes_of(c.x(0));
  const Centred left{.x = a.values, .zero = a.zero, .most = 255};
  const Tensor y = exact_matmul(left, centred_operand(c, 1, 3)).astype(f32) * (a.scale * c.x(2));
  return {c.has(4) ? y + c.x(4) : y};
}

}  // namespace

const RuleTable& microsoft_rules() {
  static const RuleTable table = {
      {"BiasGelu", {bias_gelu_rule}},
      {"DynamicQuantizeLSTM", dynamic_lstm()},
      {"DynamicQuantizeMatMul", {dynamic_matmul_rule, 0b1110}},
      {"FastGelu", {fast_gelu_rule}},
      {"FusedConv", {fused_conv_rule}},
      {"FusedGemm", {fused_gemm_rule}},
      {"FusedMatMul", {fused_matmul_rule}},
      {"Gelu", {[](const Call& c) { return Values{gelu(c.x(), false)}; }}},
      {"MatMulIntegerToFloat", {matmul_to_float_rule, 0b111110}},
      {"QGemm", {q_gemm_rule, 0b111111110}},
      {"QLinearAdd", {q_add_rule, 0b11110110}},
      {"QLinearAveragePool", {q_average_pool_rule, 0b11110}},
      {"QLinearConcat", {q_concat_rule, 0xfffffffb}},
      {"QLinearGlobalAveragePool", {q_global_pool_rule, 0b11110}},
      {"QLinearLeakyRelu", {q_leaky_relu_rule, 0b11110}},
      {"QLinearMul", {q_multiply_rule, 0b11110110}},
      {"QLinearSigmoid", {q_sigmoid_rule, 0b11110}},
      {"QLinearSoftmax", {q_softmax_rule, 0b11110}},
      {"QuickGelu", {quick_gelu_rule}},
      {"SkipLayerNormalization", {skip_layer_norm_rule}},
      {"SkipSimplifiedLayerNormalization", {skip_rms_norm_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
