// Finding a record's rule. Start at rule_of; the rules are in the other files of this folder.
#include "rill/serialize/onnx/export_rules.h"

#include <unordered_map>

namespace rill::onnx_out {

namespace {

// A record whose ONNX operator takes the same operands and means the same.
Values standard(Call& c) { return {c.e.op(c.node.op->exported.onnx, c.in, {}, c.in[0].dtype)}; }

const std::unordered_map<std::string_view, Rule>& all_rules() {
  static const std::unordered_map<std::string_view, Rule> rules = [] {
    std::unordered_map<std::string_view, Rule> all;
    for (auto part : {elementwise_rules(), shape_rules(), index_rules(), matrix_rules(), reduce_rules(), neural_rules(),
                      window_rules(), control_rules()})
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

}  // namespace rill::onnx_out
