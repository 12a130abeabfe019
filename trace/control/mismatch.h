// Thrown where the graphs of a control-flow node do not fit together: branches with different results, or a step whose
// results do not match its carried arguments. Importers catch it, and run such a node op by op.
#pragma once
#include "rill/tensor/error_kinds.h"

namespace rill {

#pragma GCC visibility push(default)
class ControlMismatch : public Error {
 public:
  using Error::Error;
};
#pragma GCC visibility pop

}  // namespace rill
