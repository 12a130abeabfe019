#include "rill/autodiff/kept_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "rill/autodiff/recompute.h"
#include "rill/devices/params/elementwise_params.h"

namespace rill {

// --- Policies --------------------------------------------------------------------------------------------------------

extern const Op named_op;

bool RecomputePolicy::keeps(const Op& op, AttrsView attrs) const {
  if (&op == &named_op) return std::find(names.begin(), names.end(), attrs.as<NameAttrs>().name) != names.end();
  return kept == Kept::products && op.flops;
}

RecomputePolicy save_only(std::vector<std::string> names) {
  RecomputePolicy p;
  p.names = std::move(names);
  return p;
}

Tensor named(const Tensor& x, std::string_view name, Where where) {
  if (name.empty()) fail("named", "the name is empty. give one that save_only() can ask for", where);
  return apply1(named_op, {&x}, NameAttrs{std::string(name)}, where);
}

namespace detail {

// --- The first run ---------------------------------------------------------------------------------------------------

Tensors NoteCalls::give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where&) {
  Call& c = calls_.emplace_back();
  c.known.op = &op;
  c.is_kept = policy_.keeps(op, attrs);
  // A mask determines a size, and the values of C++ scalars are read: these are always computed.
  c.may_wait = !in.empty() && !op.call;
  for (const Spec& s : specs) c.may_wait &= is_differentiable(s.dtype) && !s.weak;
  for (const Tensor* t : in) c.in.push_back(t->rep()->id);
  return {};
}

void NoteCalls::ran(const Op&, Operands, std::span<const Tensor> out) {
  Call& c = calls_.back();
  for (const Tensor& t : out) {
    c.out.push_back(t.rep()->id);
    if (c.is_kept) c.known.kept.push_back(make_alias(t));
    else if (c.may_wait) c.known.strides.push_back(t.rep()->strides);
  }
}

void NoteCalls::read(Operands in) {
  for (const Tensor* t : in) read_.push_back(t->rep()->id);
}

std::vector<KnownCall> NoteCalls::finish() {
  std::unordered_set<uint64_t> needed(read_.begin(), read_.end());
  for (size_t i = calls_.size(); i-- > 0;) {
    Call& c = calls_[i];
    const bool is_read = std::any_of(c.out.begin(), c.out.end(), [&](uint64_t id) { return needed.count(id) != 0; });
    const bool waits = c.may_wait && !c.is_kept && !is_read;
    if (!waits) c.known.strides.clear();
    if (!waits && !c.is_kept) needed.insert(c.in.begin(), c.in.end());
  }
  std::vector<KnownCall> known;
  for (Call& c : calls_) known.push_back(std::move(c.known));
  return known;
}

// --- The second run --------------------------------------------------------------------------------------------------

Tensors GiveCalls::give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) {
  const size_t number = next_++;
  const KnownCall* known = number < calls_.size() ? &calls_[number] : nullptr;
  bool is_same = known && known->op == &op;
  for (size_t k = 0; is_same && k < known->kept.size(); ++k) is_same = known->kept[k].shape() == specs[k].shape;
  if (!is_same)
    fail("recompute",
         fmt::format("the function calls {} where it called {} when it ran first. it must do the same each time",
                     op.name, known ? known->op->name : "nothing more"),
         where);
  if (!known->strides.empty()) return delay_call(op, in, attrs, specs, known->strides, where);
  Tensors out;
  for (const Tensor& t : known->kept) out.push_back(make_alias(t));
  return out;
}

}  // namespace detail
}  // namespace rill
