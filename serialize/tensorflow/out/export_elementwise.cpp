// Elementwise records that are an operator of TensorFlow, where ONNX needs several.
#include <unordered_map>

#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/idioms.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

namespace {

// The operator that the record names, of f32 or f64 by now; the result has their dtype.
Values write_named(Call& c) { return {writer(c).node(c.node.op->exported.tensorflow, c.in)}; }
Values write_test(Call& c) { return {writer(c).bools(c.node.op->exported.tensorflow, c.in)}; }
// Betainc takes operands of one shape, to which SelectV2 broadcasts each.
Values write_betainc(Call& c) {
  GraphWriter& w = writer(c);
  const Value yes = w.constant(Tensor(true));
  const auto beside = [&](size_t i) {
    return w.select(yes, c.in[i], w.select(yes, c.in[(i + 1) % 3], c.in[(i + 2) % 3]));
  };
  return {w.node("Betainc", {beside(0), beside(1), beside(2)})};
}
Value slope_of_igamma(Call& c) { return writer(c).node("IgammaGradA", c.in); }

}  // namespace

std::span<const onnx_out::Rule> elementwise_rules() {
  static const onnx_out::Rule rules[] = {
      {"nextafter", [](Call& c) -> Values { return {writer(c).node("NextAfter", c.in)}; }},
      {"expm1", write_named},
      {"log1p", write_named},
      {"rsqrt", write_named},
      {"tan", write_named},
      {"asin", write_named},
      {"acos", write_named},
      {"atan", write_named},
      {"sinh", write_named},
      {"cosh", write_named},
      {"asinh", write_named},
      {"acosh", write_named},
      {"atanh", write_named},
      {"erf", write_named},
      {"erfc", write_named},
      {"lgamma", write_named},
      {"digamma", write_named},
      {"square", write_named},
      {"softplus", write_named},
      {"atan2", write_named},
      {"xlogy", write_named},
      {"isfinite", write_test},
      {"not_equal", write_test},
      {"multiply_no_nan", write_named},
      {"i0", write_named},
      {"i1", write_named},
      {"i0e", write_named},
      {"i1e", write_named},
      {"j0", write_named},
      {"j1", write_named},
      {"y0", write_named},
      {"y1", write_named},
      {"k0", write_named},
      {"k1", write_named},
      {"k0e", write_named},
      {"k1e", write_named},
      {"dawsn", write_named},
      {"expi", write_named},
      {"fresnel_sine", write_named},
      {"fresnel_cosine", write_named},
      {"igamma", write_named},
      {"igammac", write_named},
      {"zeta", write_named},
      {"polygamma", write_named},
      {"betainc", write_betainc},
      {"igamma_by_a", [](Call& c) -> Values { return {slope_of_igamma(c)}; }},
      {"igammac_by_a", [](Call& c) -> Values { return {writer(c).node("Neg", {slope_of_igamma(c)})}; }},
  };
  return rules;
}

namespace {
Value write_leaky_relu(onnx_out::Exporter& e, const Value& x, double slope) {
  proto::AttrValue alpha;
  alpha.set_f(float(slope));
  return static_cast<GraphWriter&>(e).node("LeakyRelu", {x}, {{"alpha", alpha}});
}
template <const char* name>
Value write_idiom(onnx_out::Exporter& e, const Value& x, double) {
  return static_cast<GraphWriter&>(e).node(name, {x});
}
constexpr char elu_name[] = "Elu", selu_name[] = "Selu", relu6_name[] = "Relu6", softsign_name[] = "Softsign";
}  // namespace

std::span<const onnx_out::Idiom> GraphWriter::idioms() const {
  static const onnx_out::Idiom all[] = {
      {"silu", [](const Tensor& x, double) { return silu(x); }, onnx_out::write_silu},
      {"elu", [](const Tensor& x, double) { return elu(x); }, write_idiom<elu_name>},
      {"selu", [](const Tensor& x, double) { return selu(x); }, write_idiom<selu_name>},
      {"relu6", [](const Tensor& x, double) { return relu6(x); }, write_idiom<relu6_name>},
      {"softsign", [](const Tensor& x, double) { return softsign(x); }, write_idiom<softsign_name>},
      {"leaky_relu", [](const Tensor& x, double slope) { return leaky_relu(x, slope); }, write_leaky_relu},
  };
  return all;
}

const onnx_out::Rule* rule_of(const Op& op) {
  static const auto all = [] {
    std::unordered_map<std::string_view, onnx_out::Rule> table;
    for (auto part : {elementwise_rules(), matrix_rules(), moving_rules(), reduce_rules(), window_rules(),
                      control_rules(), string_rules()})
      for (const onnx_out::Rule& r : part) table.emplace(r.op, r);
    return table;
  }();
  auto found = all.find(op.name);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace rill::tensorflow_out
