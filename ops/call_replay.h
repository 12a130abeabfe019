// Numbers the eager calls of ops on this thread, and may give their results when they come again: recompute() with a
// policy keeps some of them (autodiff/kept_calls.h).
#pragma once
#include <atomic>

#include "rill/ops/apply.h"

#pragma GCC visibility push(default)

namespace rill {

class CallReplay {
 public:
  // A call begins: its results, or none, and then it runs, and what its kernel calls is not seen.
  virtual Tensors give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) = 0;
  virtual void ran(const Op& op, Operands in, std::span<const Tensor> out) = 0;

  // This thread's, where it is one that sees what runs now; or null.
  static CallReplay* now();
  // While it lives, this thread's sees nothing.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    CallReplay* const before_;
  };

 protected:
  // Sees the calls that `listener`, the outermost of this thread's tapes, records, for its own lifetime.
  explicit CallReplay(const TapeListener* listener);
  ~CallReplay();
  CallReplay(const CallReplay&) = delete;

 private:
  const TapeListener* const listener_;
  CallReplay* const outer_;
};

// How many there are in the process: no thread looks for its own while there is none.
extern std::atomic<int> call_replays;

// A tensor that is computed when it is first read. Its elements are there when this returns true.
bool compute_delayed(const Tensor& t);
// The results of a call that nobody may ever read; strides as the call would give them.
Tensors delay_call(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, std::span<const Strides> strides,
                   const Where& where);

}  // namespace rill

#pragma GCC visibility pop
