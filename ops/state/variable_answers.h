// Reading and assigning Variables if a listener answers for them (Listeners::variables), and notifying observers.
#pragma once
#include "rill/ops/listeners.h"

#pragma GCC visibility push(default)

namespace rill {

// Answers with values that the program has computed, whose derivatives are those of their computation: tapes do not
// treat them as reads of the Variable.
class ComputedAnswers : public VariableAnswers {
 protected:
  ~ComputedAnswers() = default;
};

inline Tensor read_answer(const Listeners& now, const Shared<VariableState>& v) {
  const Tensor value = now.variables->read(v);
  if (now.notes) [[unlikely]]
    now.notes->was_read(v, value);
  return value;
}

inline void assign_answer(const Listeners& now, const Shared<VariableState>& v, const Tensor& t) {
  const Tensor value = now.run_ops() ? t.contiguous() : t;
  now.variables->assign(v, value);
  if (now.notes) [[unlikely]]
    now.notes->was_assigned(v, value);
}

}  // namespace rill

#pragma GCC visibility pop
