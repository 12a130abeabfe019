// What the kernel knows of a thread's share of the cores: whether others took its core, and how long it was ready to run
// and had none. Linux tells; elsewhere nothing is known.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace rill::detail {

// How long the thread that made it has waited for a core in all. Any thread may ask.
class CoreWaits {
 public:
  CoreWaits();
  ~CoreWaits();
  CoreWaits(const CoreWaits&) = delete;
  int64_t nanoseconds() const;  // -1 where it is not known
  static bool are_known();      // to the last thread that was made

 private:
  int file_;
};

// How often the kernel took the core away from this thread while it was running. 0 where it is not known.
int64_t switches_of_core();

}  // namespace rill::detail

#pragma GCC visibility pop
