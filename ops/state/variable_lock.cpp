#include "rill/ops/state/variable_lock.h"

#include <algorithm>
#include <functional>

namespace rill {

LockVariables::LockVariables(std::vector<VariableState*> variables) {
  std::sort(variables.begin(), variables.end(), std::less<>());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  locks_.reserve(variables.size());
  for (VariableState* v : variables) locks_.emplace_back(*v);
}

}  // namespace rill
