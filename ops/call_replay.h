// Numbers the eager calls of ops on this thread (Listeners::calls), and may give their results when they come again:
// recompute() with a policy keeps some of them (autodiff/kept_calls.h).
#pragma once
#include <utility>

#include "rill/ops/apply.h"

#pragma GCC visibility push(default)

namespace rill {

class CallReplay {
 public:
  // A call begins: its results, or none, and then it runs, and what its kernel calls is not seen.
  virtual Tensors give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) = 0;
  virtual void ran(const Op& op, Operands in, std::span<const Tensor> out) = 0;

  // While it lives, this thread's sees nothing.
  class Pause {
   public:
    Pause() : now_(listeners()), before_(std::exchange(now_.calls, nullptr)) {}
    ~Pause() { now_.calls = before_; }
    Pause(const Pause&) = delete;

   private:
    Listeners& now_;
    CallReplay* const before_;
  };

 protected:
  ~CallReplay() = default;
};

// A tensor that is computed when it is first read. Its elements are there when this returns true.
bool compute_delayed(const Tensor& t);
// The results of a call that nobody may ever read; strides as the call would give them.
Tensors delay_call(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, std::span<const Strides> strides,
                   const Where& where);

}  // namespace rill

#pragma GCC visibility pop
