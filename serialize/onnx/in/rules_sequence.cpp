// Sequences and optionals. The number of tensors in a sequence is known when the model is traced.
#include "rill/ops/apply.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// Operand i as an index among `count` tensors, from the back if it is negative; `count` itself is valid if `end`.
size_t index_in(const Call& c, size_t operand, size_t count, bool end = false) {
  const int64_t at = c.dim(operand), n = int64_t(count);
  if (at < -n || at >= n + end) c.reject("the index lies outside of the sequence");
  return size_t(at < 0 ? at + n : at);
}

Values construct_rule(const Call& c) { return {Value::list(c.tensors())}; }
Values empty_rule(const Call& c) {
  Value v = Value::list({});
  v.item_dtype = c.dtype("dtype", f32);
  return {v};
}
Values at_rule(const Call& c) { return {c.list(0)[index_in(c, 1, c.list(0).size())]}; }
Values insert_rule(const Call& c) {
  std::vector<Tensor> items = c.list(0);
  const size_t at = c.has(2) ? index_in(c, 2, items.size(), true) : items.size();
  items.insert(items.begin() + std::ptrdiff_t(at), c.x(1));
  return {Value::list(std::move(items))};
}
Values erase_rule(const Call& c) {
  std::vector<Tensor> items = c.list(0);
  if (items.empty()) c.reject("the sequence is empty");
  items.erase(items.begin() + std::ptrdiff_t(c.has(1) ? index_in(c, 1, items.size()) : items.size() - 1));
  return {Value::list(std::move(items))};
}
Values length_rule(const Call& c) {
  const EagerScope eager;
  return {Value(tensor(int64_t(c.list(0).size())), true)};
}

Values sequence_concat_rule(const Call& c) {
  const std::vector<Tensor>& items = c.list(0);
  if (items.empty()) c.reject("the sequence is empty");
  const int64_t axis = c.integer("axis", 0);
  return {c.flag("new_axis") ? stack(items, axis) : concat(items, axis)};
}
Values sequence_split_rule(const Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.ndim()), size = x.dim(axis);
  Dims parts;
  if (c.has(1) && c.x(1).ndim() == 1) {
    parts = c.dims(1);
  } else {
    const int64_t each = c.has(1) ? int64_t(c.dim(1)) : 1;
    if (each < 1) c.reject("parts of no size");
    for (int64_t at = 0; at < size; at += each) parts.push_back(std::min(each, size - at));
  }
  std::vector<Tensor> items;
  int64_t at = 0;
  for (Dim n : parts) {
    if (n < 0 || at + n > size) c.reject("the parts do not add up to the size of the axis");
    const Tensor part = slice_axis(x, axis, at, at + n);
    items.push_back(!c.has(1) && !c.flag("keepdims", true) ? squeeze(part, axis) : part);
    at += n;
  }
  return {Value::list(std::move(items))};
}

// The body, once for each tensor of the first sequence.
Values map_rule(const Call& c) {
  const onnx::GraphProto& body = c.graph("body");
  const size_t count = c.list(0).size();
  std::vector<std::vector<Tensor>> rows(size_t(body.output_size()));
  for (size_t i = 0; i < count; ++i) {
    Values in;
    for (size_t k = 0; k < c.count(); ++k) {
      if (c.in[k].kind != Value::Kind::list) {
        in.push_back(c.in[k]);
        continue;
      }
      if (c.list(k).size() != count) c.reject("its sequences differ in length");
      in.emplace_back(c.list(k)[i]);
    }
    const Values out = run_inner(c, body, in);
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(as_tensor(out[k], "a result"));
  }
  Values out;
  for (auto& items : rows) out.push_back(Value::list(std::move(items)));
  return out;
}

Values has_element_rule(const Call& c) {
  const EagerScope eager;
  return {Value(tensor(c.has(0)), true)};
}
Values get_element_rule(const Call& c) {
  if (!c.has(0)) c.reject("the optional is empty");
  return {c.in[0]};
}

}  // namespace

const RuleTable& sequence_rules() {
  static const RuleTable table = {
      {"ConcatFromSequence", {sequence_concat_rule}},
      {"Optional", {[](const Call& c) { return Values{c.in.empty() ? Value() : c.in[0]}; }}},
      {"OptionalGetElement", {get_element_rule}},
      {"OptionalHasElement", {has_element_rule}},
      {"SequenceAt", {at_rule, 0b10}},
      {"SequenceConstruct", {construct_rule}},
      {"SequenceEmpty", {empty_rule}},
      {"SequenceErase", {erase_rule, 0b10}},
      {"SequenceInsert", {insert_rule, 0b100}},
      {"SequenceLength", {length_rule}},
      {"SequenceMap", {map_rule}},
      {"SplitToSequence", {sequence_split_rule, 0b10}},
  };
  return table;
}

}  // namespace rill::onnx_import
