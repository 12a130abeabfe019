// Packed: a cache for an operand whose elements never change, such as weights, in the layout that a kernel prefers. An
// executable keeps one for each instruction that has such an operand, and a loop as long as it lasts for operands that
// are the same in every step; instructions that read the same elements share the repacked copy.
#pragma once
#include <memory>
#include <mutex>

#include "rill/tensor/fork_mutex.h"

#pragma GCC visibility push(default)

namespace rill {

struct Packed {
  ForkMutex mutex;
  std::shared_ptr<const void> made;  // only the kernel knows what; null until its first run

  // What is there, or else what make() gives. Any number of threads may ask.
  template <class Make>
  std::shared_ptr<const void> get(Make&& make) {
    std::lock_guard lock(mutex);
    if (!made) made = make();
    return made;
  }
  void clear() {
    std::lock_guard lock(mutex);
    made = nullptr;
  }
};

}  // namespace rill

#pragma GCC visibility pop
