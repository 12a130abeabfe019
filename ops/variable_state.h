// What a Variable points to: apart from variable.h because it needs <mutex>, which no user of a Variable does.
#pragma once
#include <mutex>
#include <string>

#include "rill/ops/variable.h"

namespace rill {

struct VariableState {
  std::string name;
  bool trainable = true;
  mutable std::mutex mutex;  // guards `value`
  Tensor value;
};

}  // namespace rill
