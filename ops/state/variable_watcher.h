// Intercepts the reads of Variables on this thread: recompute() records the values that a function reads, and returns
// the same ones when it runs again (autodiff/recompute.cpp).
#pragma once
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

class VariableWatcher {
 public:
  // What a reading gives, where the variable holds `now`.
  virtual Tensor read(const Shared<VariableState>& v, const Tensor& now) = 0;
  // Whether what runs has run before: nothing is assigned, printed or asserted again.
  virtual bool repeats() const = 0;

 protected:
  ~VariableWatcher() = default;
};

extern thread_local constinit VariableWatcher* variable_watcher;  // null: nobody
inline bool repeating() { return variable_watcher && variable_watcher->repeats(); }

}  // namespace rill

#pragma GCC visibility pop
