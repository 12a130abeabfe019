// Products, softmax, normalisation, and tests of all elements.
#include <algorithm>

#include "rill/devices/params/contraction_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/ops.h"
#include "rill/ops/product/free_axes.h"
#include "rill/serialize/tensorflow/out/rules.h"

namespace rill::tensorflow_out {

namespace {

// --- Products --------------------------------------------------------------------------------------------------------

// [batch, left, sum] times [batch, sum, right] as one of TensorFlow's operators, which can transpose the last two axes
// of their operands; any other product is ONNX's rule, an Einsum.
struct Matrices {
  bool fits = false, turn_left = false, turn_right = false;
  explicit Matrices(const Call& c) {
    const ContractionParams& p = c.attrs<ContractionParams>();
    const Dims left = free_axes(int(c.rank(0)), p.lhs_batch, p.lhs_contract),
               right = free_axes(int(c.rank(1)), p.rhs_batch, p.rhs_contract);
    const int64_t l = int64_t(c.rank(0)), r = int64_t(c.rank(1)), batch = int64_t(p.lhs_batch.size());
    if (p.lhs_contract.size() != 1 || left.size() != 1 || right.size() != 1) return;
    for (int64_t i = 0; i < batch; ++i)
      if (p.lhs_batch[size_t(i)] != i || p.rhs_batch[size_t(i)] != i) return;
    fits = l == batch + 2 && r == batch + 2;
    turn_left = p.lhs_contract[0] == l - 2;
    turn_right = p.rhs_contract[0] == r - 1;
  }
};

Values write_product(Call& c) {
  GraphWriter& w = writer(c);
  const DType out = c.out().dtype;
  for (Value& v : c.in)  // bools are counted; u64 has the bits of i64
    if (!is_floating(v.dtype)) v = c.e.cast(v, DType::i64);
  for (size_t i = 0; i < 2; ++i) c.specs[i].dtype = c.in[i].dtype;
  const Matrices m(c);
  Value y;
  if (m.fits && c.rank() == 2)
    y = w.node("MatMul", c.in, {{"transpose_a", flag_attr(m.turn_left)}, {"transpose_b", flag_attr(m.turn_right)}});
  else if (m.fits)
    y = w.node("BatchMatMulV2", c.in, {{"adj_x", flag_attr(m.turn_left)}, {"adj_y", flag_attr(m.turn_right)}});
  else y = w.node("Einsum", c.in, {{"equation", text_attr(onnx_out::einsum_of(c))}, {"N", number_attr(2)}});
  return {out == DType::boolean ? w.bools("NotEqual", {y, c.e.number(0, y.dtype)}) : y};
}

// --- Softmax and norms -----------------------------------------------------------------------------------------------

// Only along the last axis.
template <const char* name>
Values write_softmax(Call& c) {
  std::vector<int64_t> swapped(c.rank());
  for (size_t i = 0; i < swapped.size(); ++i) swapped[i] = int64_t(i);
  std::swap(swapped[size_t(c.attrs<SoftmaxParams>().axis)], swapped.back());
  return {c.e.transposed(writer(c).node(name, {c.e.transposed(c.in[0], swapped)}), swapped)};
}
constexpr char softmax_name[] = "Softmax", log_softmax_name[] = "LogSoftmax";

// (x - mean) / sqrt(variance + epsilon) * scale + offset, if nothing reads the statistics.
Values write_layer_norm(Call& c) {
  const NormParams& p = c.attrs<NormParams>();
  GraphWriter& w = writer(c);
  std::vector<int64_t> axes;
  for (int64_t i = p.axis; i < int64_t(c.rank()); ++i) axes.push_back(i);
  if (axes.empty() || c.read[1] || c.read[2]) return onnx_out::rule_of(*c.node.op)->direct(c);
  const Value over = w.i32s(axes);
  auto averaged = [&](const Value& v) { return w.node("Mean", {v, over}, {{"keep_dims", flag_attr(true)}}); };
  const Value x = c.in[0], d = w.node("Sub", {x, averaged(x)}), variance = averaged(w.node("Square", {d}));
  const Value r = w.node("Rsqrt", {w.node("AddV2", {variance, c.e.number(p.epsilon, x.dtype)})});
  const Value y = w.node("Mul", {w.node("Mul", {d, r}), c.in[1]});
  return {w.node("AddV2", {y, c.in[2]}), {}, {}};
}

// --- Tests of all elements -------------------------------------------------------------------------------------------

template <const char* name>
Values write_test(Call& c) {
  GraphWriter& w = writer(c);
  Value x = c.in[0];
  if (x.dtype != DType::boolean) x = w.bools("NotEqual", {x, c.e.number(0, x.dtype)});
  const ReduceParams& p = c.attrs<ReduceParams>();
  const Value axes = w.i32s({p.axes.begin(), p.axes.end()});
  return {w.node(name, {x, axes}, {{"keep_dims", flag_attr(p.keepdims)}})};
}
constexpr char all_name[] = "All", any_name[] = "Any";

}  // namespace

std::span<const onnx_out::Rule> reduce_rules() {
  static const onnx_out::Rule rules[] = {
      {"matmul", write_product},
      {"softmax", write_softmax<softmax_name>},
      {"log_softmax", write_softmax<log_softmax_name>},
      {"layer_norm", write_layer_norm},
      {"all", write_test<all_name>},
      {"any", write_test<any_name>},
  };
  return rules;
}

}  // namespace rill::tensorflow_out
