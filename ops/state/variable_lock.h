// Locks several Variables at once, for all code that needs that (a traced call does it in steps: variable_set.h).
#pragma once
#include <mutex>
#include <vector>

#include "rill/ops/state/variable_state.h"

#pragma GCC visibility push(default)

namespace rill {

// Holds the locks of these for its lifetime, each once, acquired in the order of their addresses, so that there is no
// deadlock.
class LockVariables {
 public:
  explicit LockVariables(std::vector<VariableState*> variables);
  LockVariables(const LockVariables&) = delete;

 private:
  std::vector<std::unique_lock<VariableState>> locks_;  // released if a later one throws
};

}  // namespace rill

#pragma GCC visibility pop
