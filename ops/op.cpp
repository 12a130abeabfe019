// The registry of ops: a linked list through the records, so that a record registers itself without a central table.
#include "rill/ops/op.h"

#include "rill/ops/stored_ops.h"

#include <fmt/format.h>

#include <algorithm>

namespace rill {

namespace {
constinit const Op* first_op = nullptr;
constinit const Op* first_unlisted = nullptr;
}  // namespace

Op::Op(const OpSpec& spec) : OpSpec(spec), next(spec.listed ? first_op : first_unlisted) {
  (listed ? first_op : first_unlisted) = this;
}

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> ops = [] {
    std::vector<const Op*> v;
    for (const Op* op = first_op; op; op = op->next) v.push_back(op);
    std::sort(v.begin(), v.end(), [](const Op* a, const Op* b) { return a->name < b->name; });
    return v;
  }();
  return ops;
}

const Op* find_op(std::string_view name) {
  const auto& ops = all_ops();
  auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const Op* op, std::string_view n) { return op->name < n; });
  return it != ops.end() && (*it)->name == name ? *it : nullptr;
}

const Op* find_stored_op(std::string_view name) {
  if (const Op* op = find_op(name)) return op;
  for (const Op* op = first_unlisted; op; op = op->next)
    if (op->name == name && (op->marker || ReadableAttrs::find(name))) return op;
  return nullptr;
}

std::string_view name(OpKind k) {
  constexpr std::string_view names[] = {"elementwise", "view", "reduction", "library", "creation"};
  return names[int(k)];
}

void InferArgs::reject(std::string message) const {
  std::string operands;
  for (const Spec* s : in) operands += (operands.empty() ? "" : ", ") + to_string(*s);
  std::string attributes = to_string(attrs);
  fail(op.name,
       fmt::format("{}. operands: {}{}{}", message, operands.empty() ? "none" : operands,
                   attributes.empty() ? "" : "; ", attributes),
       where);
}

void InferArgs::check_axis(int64_t axis, int64_t ndim) const {
  if (axis < 0 || axis >= ndim) reject(fmt::format("axis {} is out of bounds for array of dimension {}", axis, ndim));
}

}  // namespace rill
