// See variable_set.h. Start at VariableCall::read.
#include "rill/trace/call/variable_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "rill/ops/apply.h"
#include "rill/ops/state/variable_answers.h"
#include "rill/ops/state/variable_lock.h"
#include "rill/ops/values/next_key.h"

namespace rill {

// --- The set ---------------------------------------------------------------------------------------------------------

VariableSet::VariableSet(const Graph& g) {
  auto member = [&](const Shared<VariableState>& v) -> Member& {
    for (Member& m : members_)
      if (m.state == v) return m;
    return members_.emplace_back(Member{v});
  };
  for (size_t k = 0; k < g.inputs.size(); ++k)
    if (g.inputs[k].variable) {
      Member& m = member(g.inputs[k].variable);
      m.input = int(k);
      m.device = g.nodes()[size_t(g.inputs[k].node)].outputs[0].device;
    }
  for (size_t k = 0; k < g.assigns.size(); ++k) {
    Member& m = member(g.assigns[k].variable);
    m.assign = int(k);
    m.device = g.spec(g.assigns[k].value).device;
  }
  assigns_ = !g.assigns.empty();
  std::sort(members_.begin(), members_.end(),
            [](const Member& a, const Member& b) { return std::less<>()(a.state.get(), b.state.get()); });
}

std::vector<VariableState*> VariableSet::states() const {
  std::vector<VariableState*> all;
  for (const Member& m : members_) all.push_back(m.state.get());
  return all;
}

std::vector<Tensor> VariableSet::values() const {
  std::vector<Tensor> all(members_.size());
  const LockVariables lock(states());
  for (size_t i = 0; i < all.size(); ++i) all[i] = members_[i].state->value;
  return all;
}

void VariableSet::set(std::span<const Tensor> values) const {
  std::vector<Tensor> old(values.begin(), values.end());  // destroyed after the locks are released
  const LockVariables lock(states());
  for (size_t i = 0; i < old.size(); ++i) std::swap(members_[i].state->value, old[i]);
}

// --- A call ----------------------------------------------------------------------------------------------------------

void VariableCall::read() {
  const auto& members = set_.members();
  if (members.empty()) return;
  const Listeners& now = listeners();
  if (now.variables) {
    for (const VariableSet::Member& m : members)
      if (m.input >= 0) inputs_[size_t(m.input)] = read_answer(now, m.state);
    return show_tapes();
  }
  own_generator_ = random::own_generator();
  for (; locked_ < members.size(); ++locked_) state_of(members[locked_]).lock();
  for (const VariableSet::Member& m : members)
    if (!(m.state->spec.device == m.device)) [[unlikely]]  // of a graph from a file: others are traced again
      fail(
          "move",
          fmt::format("variable '{}' is on {} now, and a function that was read from a file runs where it was when the "
                      "file was written, on {}. move it back",
                      m.state->name, to_string(m.state->spec.device), to_string(m.device)),
          Where());
  moved_ = now.tapes.empty() && !now.notes;
  for (const VariableSet::Member& m : members) {
    if (m.input < 0) continue;
    Tensor& in = inputs_[size_t(m.input)];
    if (moved_ && m.assign >= 0) in = std::move(state_of(m).value);
    else in = state_of(m).value;
  }
  unlock(false);
  if (now.notes)
    for (const VariableSet::Member& m : members)
      if (m.input >= 0) now.notes->was_read(m.state, inputs_[size_t(m.input)]);
  show_tapes();
}

VariableState& VariableCall::state_of(const VariableSet::Member& m) const {
  return own_generator_ && is_generator(*m.state) ? *own_generator_ : *m.state;
}

void VariableCall::show_tapes() {
  const auto& tapes = listeners().tapes;
  if (tapes.empty()) return;
  for (const VariableSet::Member& m : set_.members()) {
    if (m.input < 0) continue;
    Tensor& in = inputs_[size_t(m.input)];
    in = make_alias(in);
    for (TapeListener* tape : tapes) tape->watch_variable(m.state, in);
  }
}

void VariableCall::assign(std::span<Tensor> values) {
  if (values.empty()) return;
  const Listeners& now = listeners();
  if (now.variables) {
    for (const VariableSet::Member& m : set_.members())
      if (m.assign >= 0) assign_answer(now, m.state, values[size_t(m.assign)]);
    return;
  }
  // A tape may hold the result, and the caller may, so the variable gets an alias.
  for (Tensor& t : values)
    if (!moved_ || !t.ref().unique() || !t.is_contiguous()) t = make_alias(t.contiguous());
  if (now.notes)
    for (const VariableSet::Member& m : set_.members())
      if (m.assign >= 0) now.notes->was_assigned(m.state, values[size_t(m.assign)]);
  // Nothing below throws.
  moved_ = false;
  inputs_.clear();  // the new values may share the inputs' memory: leave no other owner
  for (const VariableSet::Member& m : set_.members())
    if (m.assign >= 0) std::swap(state_of(m).value, values[size_t(m.assign)]);
  unlock(true);
}

VariableCall::~VariableCall() {
  if (moved_)
    for (const VariableSet::Member& m : set_.members())
      if (m.assign >= 0 && m.input >= 0) state_of(m).value = std::move(inputs_[size_t(m.input)]);
  unlock(true);
}

void VariableCall::unlock(bool assigned_too) {
  for (size_t i = 0; i < locked_; ++i) {
    const bool assigned = set_.members()[i].assign >= 0;
    if (assigned ? assigned_too : !only_assigned_) state_of(set_.members()[i]).unlock();
  }
  only_assigned_ = true;
  if (assigned_too) locked_ = 0;
}

}  // namespace rill
