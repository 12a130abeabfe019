// Finds a record's rule; and code that rules of both formats share. Start at rule_of; the rules are in the other files
// of this folder and of ../tensorflow.
#include "rill/serialize/onnx/out/export_rules.h"

#include <algorithm>
#include <unordered_map>

namespace rill::onnx_out {

namespace {

// A record whose ONNX operator has the same operands and semantics.
Values standard(Call& c) { return {c.e.op(c.node.op->exported.onnx, c.in, {}, c.in[0].dtype)}; }

const std::unordered_map<std::string_view, Rule>& all_rules() {
  static const std::unordered_map<std::string_view, Rule> rules = [] {
    std::unordered_map<std::string_view, Rule> all;
    for (auto part : {elementwise_rules(), shape_rules(), index_rules(), matrix_rules(), reduce_rules(), neural_rules(),
                      window_rules(), control_rules(), string_rules()})
      for (const Rule& r : part) all.emplace(r.op, r);
    for (const Op* op : all_ops())
      if (op->kind == OpKind::elementwise && !op->exported.onnx.empty())
        all.emplace(op->name, Rule{.op = op->name, .direct = standard});
    return all;
  }();
  return rules;
}

}  // namespace

const Rule* rule_of(const Op& op) {
  auto found = all_rules().find(op.name);
  return found == all_rules().end() ? nullptr : &found->second;
}

Order inverse(const Order& order) {
  Order back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  return back;
}
Shape permuted(const Shape& s, const Order& order) {
  Shape out;
  for (int64_t i : order) out.push_back(s[size_t(i)]);
  return out;
}

bool is_empty(const Call& c) {
  const auto has_no_elements = [](const Spec& s) {
    return std::ranges::any_of(s.shape, [](Dim d) { return !d.is_open() && d.plain() == 0; });
  };
  return std::ranges::any_of(c.specs, has_no_elements) || has_no_elements(c.out());
}
Values zeros_of(Call& c, DType dtype) { return {c.e.op("Expand", {c.e.number(0, dtype), c.e.sizes(c.out().shape)})}; }

std::vector<DType> dtypes_of(std::span<const Spec> specs) {
  std::vector<DType> out;
  for (const Spec& s : specs) out.push_back(s.dtype);
  return out;
}
namespace {
void refuse_gradients(Call& c, bool keeps) {
  if (keeps) c.e.refuse(c.node, "it keeps what a gradient of the loop needs. export the function without the gradient");
}
}  // namespace
const WhileAttrs& plain_while(Call& c) {
  const WhileAttrs& a = c.attrs<WhileAttrs>();
  refuse_gradients(c, a.saves);
  return a;
}
const ScanAttrs& plain_scan(Call& c) {
  const ScanAttrs& a = c.attrs<ScanAttrs>();
  refuse_gradients(c, a.saves || a.counted);
  return a;
}

}  // namespace rill::onnx_out
