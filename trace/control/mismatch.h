// The error of control flow whose graphs do not fit together: branches that give different things, a loop's step that
// does not give back what it took. Who runs other programs' graphs has another way then.
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
