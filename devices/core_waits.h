// What the kernel reports about a thread's use of the cores: whether others took its core, and how long it was ready to
// run and had none. Only Linux reports it; elsewhere nothing is known.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::detail {

// How long, in total, the thread that constructed it has waited for a core. Any thread may ask.
class CoreWaits {
 public:
  CoreWaits();
  ~CoreWaits();
  CoreWaits(const CoreWaits&) = delete;
  int64_t nanoseconds() const;  // -1 if it is not known
  static bool are_known();      // for the last thread that constructed one

 private:
  int file_;
};

// How often the kernel took the core away from this thread while it was running. 0 if it is not known.
int64_t switches_of_core();

}  // namespace rill::detail

#pragma GCC visibility pop
