#include "rill/ops/stored_ops.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "rill/ops/apply.h"
#include "rill/tensor/fork_mutex.h"

namespace rill {

// Samples say it, which are made once for each record that a file names.
const AttrsType* attributes_of(const Op& op) {
  if (const ReadableAttrs* known = ReadableAttrs::find(op.name)) return known->type;
  if (op.marker) return nullptr;
  static ForkMutex mutex;
  static auto& found = *new std::unordered_map<const Op*, const AttrsType*>;  // ops may run while a program ends
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = found.try_emplace(&op, nullptr);
  if (!is_new) return at->second;
  const char* fault = "its record has no samples, which would show its attributes";
  if (op.samples) {
    const EagerScope eager;
    const PauseTapes pause;
    const std::vector<Sample> samples = op.samples();
    const AttrsType* type = samples.empty() ? nullptr : AttrsView(samples[0].attrs).type;
    fault = type && !ReadableAttrs::find(type) ? "its attributes are no ReadableAttrs (read_attrs.h)" : nullptr;
    if (!fault) return at->second = type;
  }
  found.erase(at);
  fail(op.name, fmt::format("the op cannot be stored in a file: {}", fault), Where());
}

Attrs read_attrs(const Op& op, const AttrList& list, DType operand, const ReadDim& read_dim) {
  AttrValues values(list, operand, read_dim);
  const AttrsType* type = attributes_of(op);
  if (type) return ReadableAttrs::find(type)->read(values);
  values.finish();
  return {};
}

OutSpecs checked_infer(const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
  const InferArgs args{op, in, attrs, Where()};
  if (op.inputs >= 0 && in.size() != size_t(op.inputs)) args.reject(fmt::format("expected {} operands", op.inputs));
  if (op.inputs < 0 && in.empty() && op.kind != OpKind::creation && !op.effect) args.reject("expected operands");
  if (!in.empty() && !contains(op.dtypes, in[0]->dtype)) args.reject("the op does not take that dtype");
  const Spec* first = nullptr;  // that is no C++ number: those move by themselves
  for (const Spec* s : in) {
    if (op.call || (s->weak && s->shape.empty())) continue;
    if (!first) first = s;
    if (!(s->device == first->device)) args.reject("the operands are on different devices");
  }
  return infer(op, in, attrs, Where());
}

}  // namespace rill
